//! Arguments as llama.cpp's users write them, into those that clap parses.
//!
//! clap reads `-hello` as `-h -e -l -l -o` and `-ngl` as `-n gl`. So names of one dash and several letters are handled here, before
//! clap: they are known flags (`llama.rs`), short flags with a number (`-n5`), bundles of switches (`-vq`), or errors.

use super::llama::{self, ForeignFlag, Treatment, Values};
use crate::error::Error;
use std::collections::BTreeSet;
use std::ffi::OsString;

/// Arguments for clap.
#[derive(Debug, Default)]
pub(crate) struct Translated {
    /// The arguments, the program's name first.
    pub(crate) arguments: Vec<OsString>,
    /// Notes on flags that were dropped without effect.
    pub(crate) notes: Vec<String>,
}

/// A flag as it was written: `--name`, or `--name=inline`.
#[derive(Clone, Copy, Debug)]
struct GivenFlag<'a> {
    name: &'a str,
    inline: Option<&'a str>,
}

/// Translates the arguments of a command line. What follows a flag that takes a value is that value and stays as it is, as does
/// everything after `--`.
pub(crate) fn translate(
    program: &clap::Command,
    given: impl Iterator<Item = OsString>,
) -> Result<Translated, Error> {
    let mut given = given.peekable();
    let mut done = Translated::default();
    done.arguments.extend(given.next());
    let top = OwnFlags::of(program, program);
    while let Some(argument) = given.next_if(|argument| dashed(argument).is_some()) {
        let name = dashed(&argument).unwrap_or_default();
        if name.starts_with('-') && !top.has(&name) && name != "--" {
            return Err(Error::Usage(format!(
                "{name} belongs to a command, such as: silicide run {name} ...; `silicide --help` lists the commands"
            )));
        }
        done.arguments.push(argument);
    }
    let Some(command) = given.peek().and_then(|name| program.find_subcommand(name)) else {
        done.arguments.extend(given);
        return Ok(done);
    };
    let own = OwnFlags::of(program, command);
    done.arguments.extend(given.next());
    while let Some(argument) = given.next() {
        if argument == "--" {
            done.arguments.push(argument);
            done.arguments.extend(given.by_ref());
            break;
        }
        let Some(text) = dashed(&argument) else {
            done.arguments.push(argument);
            continue;
        };
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.as_str(), None),
        };
        if name.contains(char::is_whitespace) {
            // An argument with blanks is a prompt, not a flag.
            done.arguments.push(if own.has("--prompt") {
                format!("--prompt={text}").into()
            } else {
                argument
            });
            continue;
        }
        // llama.cpp takes --n_predict for --n-predict.
        let name = if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
        if ["-co", "--color"].contains(&name.as_str()) && own.has("--no-color") {
            done.push_color(&name, inline, &mut given);
        } else if own.has(&name) {
            done.push(&own, &name, inline, &mut given);
        } else if let Some(foreign) = llama::find(&name) {
            done.apply(&own, foreign, GivenFlag { name: &name, inline }, &mut given)?;
        } else if name.starts_with("--") || own.is_short_form(&name) {
            done.arguments.push(argument);
        } else {
            return Err(Error::Usage(own.unknown(&text)));
        }
    }
    Ok(done)
}

/// Returns the argument as text if it begins with a dash and is more than one.
fn dashed(argument: &OsString) -> Option<String> {
    argument.to_str().filter(|text| text.starts_with('-') && text.len() > 1).map(str::to_owned)
}

impl Translated {
    /// Adds a flag of the command, with its value.
    fn push(
        &mut self,
        own: &OwnFlags,
        name: &str,
        inline: Option<&str>,
        given: &mut impl Iterator<Item = OsString>,
    ) {
        match inline {
            Some(value) => self.arguments.push(format!("{name}={value}").into()),
            None => {
                self.arguments.push(name.into());
                if own.valued.contains(name) {
                    self.arguments.extend(given.next());
                }
            }
        }
    }

    /// Adds `--color WHEN`. llama.cpp's values are `on`, `off` and none, which is `auto` here.
    fn push_color(
        &mut self,
        name: &str,
        inline: Option<&str>,
        given: &mut std::iter::Peekable<impl Iterator<Item = OsString>>,
    ) {
        let is_own = |value: &OsString| name == "--color" && (value == "always" || value == "never");
        let next = match inline {
            Some(value) => Some(OsString::from(value)),
            None => given.next_if(|value| is_own(value) || is_switch(value)),
        };
        match next.as_ref().and_then(|value| value.to_str()) {
            Some("off" | "0" | "false" | "disabled" | "never") => self.arguments.push("--no-color".into()),
            Some("always") => self.arguments.extend(["--color", "always"].map(OsString::from)),
            Some("on" | "auto" | "1" | "true" | "enabled" | "-1") | None => {}
            Some(unknown) => self.arguments.push(format!("--color={unknown}").into()),
        }
    }

    /// Applies the treatment of a flag of llama.cpp.
    fn apply(
        &mut self,
        own: &OwnFlags,
        foreign: &ForeignFlag,
        flag: GivenFlag<'_>,
        given: &mut std::iter::Peekable<impl Iterator<Item = OsString>>,
    ) -> Result<(), Error> {
        let GivenFlag { name, inline } = flag;
        if let Treatment::Same(other) = foreign.treatment {
            self.push(own, other, inline, given);
            return Ok(());
        }
        let mut values: Vec<String> = inline.map(str::to_owned).into_iter().collect();
        let wanted = match foreign.values {
            Values::None => 0,
            Values::One => 1,
            Values::Two => 2,
            Values::Switch => usize::from(given.peek().is_some_and(is_switch)),
        };
        while values.len() < wanted {
            let value = given.next().ok_or_else(|| Error::Usage(format!("{name} needs a value")))?;
            values.push(value.to_string_lossy().into_owned());
        }
        let shown = [&[name.to_owned()], &values[..]].concat().join(" ");
        let refused = |advice: &str| Err(Error::Usage(format!("{shown} is not supported: {advice}")));
        match foreign.treatment {
            Treatment::Same(_) | Treatment::Unneeded => {}
            Treatment::SameValue(other, known) => {
                let given = values.first().map(String::as_str).unwrap_or_default();
                let Some(found) = known.iter().find(|value| value.theirs == given) else {
                    let names: Vec<&str> = known.iter().map(|value| value.theirs).collect();
                    return refused(&format!("the values are {}", names.join(", ")));
                };
                self.arguments.extend(found.ours.map(|ours| format!("{other}={ours}").into()));
                self.notes.extend(found.note.map(|note| format!("{shown}: {note}")));
            }
            Treatment::Ignored(why) => self.notes.push(format!("{shown} has no effect: {why}")),
            Treatment::Neutral(off, advice) => {
                let number = |text: &str| text.parse::<f64>().ok();
                if values.first().and_then(|value| number(value)) != number(off) {
                    return refused(advice);
                }
            }
            Treatment::Refused(advice) => return refused(advice),
        }
        Ok(())
    }
}

fn is_switch(value: &OsString) -> bool {
    let words = ["on", "off", "auto", "true", "false", "enabled", "disabled", "1", "0", "-1"];
    value.to_str().is_some_and(|value| words.contains(&value))
}

/// The flags that a command has itself.
struct OwnFlags {
    command: String,
    valued: BTreeSet<String>,
    switches: BTreeSet<String>,
    takes_prompt: bool,
}

impl OwnFlags {
    fn of(program: &clap::Command, command: &clap::Command) -> OwnFlags {
        let mut flags = OwnFlags {
            command: command.get_name().to_owned(),
            valued: BTreeSet::new(),
            switches: ["-h", "--help"].map(str::to_owned).into(),
            takes_prompt: false,
        };
        if program.get_name() == command.get_name() {
            flags.switches.extend(["-V", "--version"].map(str::to_owned));
        }
        let global = program.get_arguments().filter(|argument| argument.is_global_set());
        for argument in command.get_arguments().chain(global) {
            let shorts = argument
                .get_short()
                .into_iter()
                .chain(argument.get_all_short_aliases().into_iter().flatten());
            let longs =
                argument.get_long().into_iter().chain(argument.get_all_aliases().into_iter().flatten());
            let names = shorts.map(|short| format!("-{short}")).chain(longs.map(|long| format!("--{long}")));
            let set =
                if argument.get_action().takes_values() { &mut flags.valued } else { &mut flags.switches };
            set.extend(names);
        }
        flags.takes_prompt = flags.has("--prompt");
        flags
    }

    fn has(&self, name: &str) -> bool {
        self.valued.contains(name) || self.switches.contains(name)
    }

    /// Whether `name`, of one dash, is a negative number, a short flag with a number after it, or a bundle of switches.
    fn is_short_form(&self, name: &str) -> bool {
        let mut letters = name.chars().skip(1);
        let rest = name.get(2..).unwrap_or_default();
        let is_number =
            |text: &str| text.parse::<f64>().is_ok() && text.contains(|c: char| c.is_ascii_digit());
        let numbered = name.get(..2).is_some_and(|short| self.valued.contains(short)) && is_number(rest);
        let bundled = letters.all(|letter| self.switches.contains(&format!("-{letter}")));
        // clap has the better message for one letter.
        name.chars().count() == 2 || is_number(name) || numbered || bundled
    }

    fn unknown(&self, text: &str) -> String {
        let advice = match self.takes_prompt {
            true => format!(". If it is the prompt, write -p {text:?}"),
            false => String::new(),
        };
        let command = &self.command;
        format!(
            "`silicide {command}` has no flag {text}; `silicide {command} --help` lists the flags{advice}"
        )
    }
}

#[cfg(test)]
mod tests;
