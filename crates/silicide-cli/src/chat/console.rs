//! The conversation and its /commands.

use super::files::{self, content, role};
use super::input::{self, Input};
use super::settings::{self, SETTINGS};
use super::{ChatPartner, Lines, Reply, commands};
use crate::display::{DisplayOptions, Style, TextDisplay, styled, wrapped};
use crate::error::Error;
use crate::run::join;
use crate::terminal::printable;
use serde_json::Value;
use silicide_llm::chat::message;
use silicide_llm::engine::GenerateOptions;
use std::borrow::Cow;
use std::io::Write;

/// A conversation at a terminal.
#[derive(Debug)]
pub(crate) struct Console<W> {
    output: W,
    display: DisplayOptions,
    system: Option<String>,
    /// Questions and answers, without the system message.
    messages: Vec<Value>,
    /// Texts of files that go with the next message.
    attached: Vec<String>,
    figures: String,
}

impl<W: Write> Console<W> {
    /// A conversation that is written to `output`.
    pub(crate) fn new(output: W, display: DisplayOptions, system: Option<String>) -> Console<W> {
        let (messages, attached, figures) = (Vec::new(), Vec::new(), String::new());
        Console { output, display, system, messages, attached, figures }
    }

    /// Greets, then answers messages and runs commands until the user ends the chat.
    pub(crate) fn run(
        &mut self,
        greeting: &str,
        lines: &mut dyn Lines,
        partner: &mut dyn ChatPartner,
    ) -> Result<(), Error> {
        self.note(&format!("{greeting}\n/help lists commands, Tab completes them, Ctrl-D ends the chat."))?;
        let mut interrupted = false;
        loop {
            let input = input::read(lines)?;
            let again = std::mem::replace(&mut interrupted, input == Input::Interrupted);
            match input {
                Input::End => return Ok(()),
                Input::Interrupted if again => return Ok(()),
                Input::Interrupted => self.say("Ctrl-C again, Ctrl-D or /exit ends the chat.")?,
                Input::Nothing => {}
                Input::Say(text) => {
                    let pieces: Vec<&str> =
                        [&text].into_iter().chain(&self.attached).map(String::as_str).collect();
                    self.messages.push(message("user", &join(&pieces)));
                    if self.answer(partner)? {
                        self.attached.clear();
                    }
                }
                Input::Command(name, _) if matches!(name.as_str(), "exit" | "quit" | "bye") => return Ok(()),
                Input::Command(name, rest) => self.command(&name, &rest, partner)?,
            }
        }
    }

    fn command(&mut self, name: &str, rest: &str, partner: &mut dyn ChatPartner) -> Result<(), Error> {
        match name {
            "help" | "?" => self.say(&commands::help()),
            "clear" => {
                self.messages.clear();
                self.attached.clear();
                self.say("The conversation is forgotten.")
            }
            "system" if rest.is_empty() => {
                let shown = self.system.clone().unwrap_or_else(|| "There is no system message.".to_owned());
                self.say(&shown)
            }
            "system" => {
                self.begin_again(rest);
                self.say("A new conversation begins.")
            }
            "set" => {
                let outcome = self.set(rest, partner);
                self.report(outcome)
            }
            "regen" => self.regenerate(partner),
            "stats" if self.figures.is_empty() => self.say("There is no answer yet."),
            "stats" => self.say(&self.figures.clone()),
            "file" if rest.is_empty() && self.attached.is_empty() => self.say("/file needs the name of a file."),
            "file" if rest.is_empty() => {
                self.attached.clear();
                self.say("The next message has no file.")
            }
            "file" => {
                let outcome = self.attach(rest, partner);
                self.report(outcome)
            }
            "save" | "save!" | "load" if rest.is_empty() => {
                self.say(&format!("/{name} needs the name of a file."))
            }
            "save" | "save!" => {
                let saved = files::save(&files::path(rest), self.all(), name == "save!");
                self.report(saved.map(|()| format!("Saved to {rest}.")))
            }
            "load" => {
                let outcome = self.load(rest);
                self.report(outcome)
            }
            _ => self.say(&format!(
                "There is no command /{name}; /help lists them. A message that begins with / can be put in \"\"\"."
            )),
        }
    }

    /// Says something of the program's own.
    fn say(&mut self, text: &str) -> Result<(), Error> {
        self.write(text, Style::PLAIN)
    }

    /// Says something in passing.
    fn note(&mut self, text: &str) -> Result<(), Error> {
        self.write(text, Style::DIM)
    }

    /// Writes a paragraph, which may quote names of files and words of models.
    fn write(&mut self, text: &str, style: Style) -> Result<(), Error> {
        let text = if self.display.terminal { printable(text) } else { Cow::Borrowed(text) };
        let text = wrapped(&text, &self.display);
        let colour = self.display.colour && style != Style::PLAIN;
        Ok(writeln!(self.output, "{}\n", styled(&text, style, colour))?)
    }

    /// Says the outcome of a command. A failure does not end the chat.
    fn report(&mut self, outcome: Result<String, Error>) -> Result<(), Error> {
        match outcome {
            Ok(done) => self.say(&done),
            Err(error) => self.say(&format!("error: {error}")),
        }
    }

    fn regenerate(&mut self, partner: &mut dyn ChatPartner) -> Result<(), Error> {
        let question = self.messages.iter().rposition(|message| role(message) == Some("user"));
        let Some(question) = question else { return self.say("There is nothing to answer yet.") };
        let before = self.messages.clone();
        self.messages.truncate(question + 1);
        if !self.answer(partner)? {
            // The old answer is better than none.
            self.messages = before;
        }
        Ok(())
    }

    /// Lets the partner answer the last message, and returns whether it did. If not, the message is taken back, so that it
    /// can be said again.
    fn answer(&mut self, partner: &mut dyn ChatPartner) -> Result<bool, Error> {
        let messages = self.all();
        let mut display = TextDisplay::new(&mut self.output, self.display);
        let mut failed = None;
        let reply = partner.say(&messages, &mut |text| {
            if failed.is_none() {
                failed = display.print(text).err();
            }
        });
        let ended_line = display.finish()?;
        if let Some(error) = failed {
            return Err(Error::Output(error));
        }
        match reply {
            Ok(Reply { text, note, figures }) => {
                if !ended_line || text.is_empty() {
                    writeln!(self.output)?;
                }
                match note {
                    Some(note) => self.note(&format!("[{note}]"))?,
                    None => writeln!(self.output)?,
                }
                self.messages.push(message("assistant", &text));
                self.figures = figures;
                Ok(true)
            }
            Err(error) => {
                self.messages.pop();
                self.say(&format!("error: {error}"))?;
                Ok(false)
            }
        }
    }

    /// The whole conversation, as templates expect it.
    fn all(&self) -> Vec<Value> {
        let system = self.system.iter().map(|text| message("system", text));
        system.chain(self.messages.iter().cloned()).collect()
    }

    /// Adds the text of a file to the next message.
    fn attach(&mut self, name: &str, partner: &dyn ChatPartner) -> Result<String, Error> {
        let path = files::path(name);
        let text = files::read(&path)?;
        let (tokens, context) = (partner.count_tokens(&text), partner.context());
        if tokens >= context {
            return Err(Error::Usage(format!(
                "{name} has {tokens} tokens, and the context holds {context}; begin the chat with a larger -c"
            )));
        }
        let label = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        self.attached.push(format!("{label}:\n{text}"));
        Ok(format!("{name}: {tokens} of {context} tokens, added to the next message."))
    }

    fn load(&mut self, name: &str) -> Result<String, Error> {
        let mut messages = files::load(&files::path(name))?;
        let system = messages.first().filter(|message| role(message) == Some("system")).and_then(content);
        self.system = system.map(str::to_owned);
        if self.system.is_some() {
            messages.remove(0);
        }
        self.messages = messages;
        Ok(format!("Loaded {name}."))
    }

    fn set(&mut self, rest: &str, partner: &mut dyn ChatPartner) -> Result<String, Error> {
        let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let value = value.trim();
        let shown = |name: &str, options: &GenerateOptions, console: &Console<W>| match name {
            "system" => Some(console.system.clone().unwrap_or_else(|| "none".to_owned())),
            name => settings::get(name, options, &console.display),
        };
        if name.is_empty() {
            let line = |(name, what): &(&str, &str)| {
                let value = shown(name, partner.options(), self).unwrap_or_default();
                format!("{name:<18} {value:<9}  {what}")
            };
            return Ok(SETTINGS.iter().map(line).collect::<Vec<_>>().join("\n"));
        }
        match (name, value) {
            (_, "") => {}
            ("system", text) => {
                self.begin_again(text);
                return Ok("A new conversation begins.".to_owned());
            }
            _ => settings::set(name, value, partner.options(), &mut self.display)?,
        }
        let value = shown(name, partner.options(), self).ok_or_else(|| settings::unknown(name))?;
        Ok(format!("{name} is {value}."))
    }

    /// Begins a new conversation with a system message.
    fn begin_again(&mut self, system: &str) {
        self.system = Some(system.to_owned());
        self.messages.clear();
        self.attached.clear();
    }
}
