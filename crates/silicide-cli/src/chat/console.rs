//! The conversation and its /commands.

use super::files::{self, content, role};
use super::input::{self, Input};
use super::settings::{self, SETTINGS};
use super::{Lines, Reply, Talk, commands};
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
        partner: &mut dyn Talk,
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

    fn command(&mut self, name: &str, rest: &str, partner: &mut dyn Talk) -> Result<(), Error> {
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

    fn regenerate(&mut self, partner: &mut dyn Talk) -> Result<(), Error> {
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
    fn answer(&mut self, partner: &mut dyn Talk) -> Result<bool, Error> {
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
    fn attach(&mut self, name: &str, partner: &dyn Talk) -> Result<String, Error> {
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

    fn set(&mut self, rest: &str, partner: &mut dyn Talk) -> Result<String, Error> {
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

#[cfg(test)]
mod tests {
    use super::super::Line;
    use super::*;
    use crate::display::ColorChoice;
    use std::fs;

    struct Script(Vec<Line>);

    impl Lines for Script {
        fn read(&mut self, _: &str) -> Result<Line, Error> {
            Ok(if self.0.is_empty() { Line::End } else { self.0.remove(0) })
        }
    }

    /// Answers with how many messages it was given, and the first one's words.
    #[derive(Default)]
    struct Counter(GenerateOptions);

    impl Talk for Counter {
        fn say(&mut self, messages: &[Value], sink: &mut dyn FnMut(&str)) -> Result<Reply, Error> {
            let first = content(&messages[0]).unwrap_or_default();
            if first == "fail" {
                return Err(Error::Usage("too long".to_owned()));
            }
            let text = format!("{} since {first}", messages.len());
            text.split_inclusive(' ').for_each(sink);
            Ok(Reply { text, note: None, figures: "9 tokens/s".to_owned() })
        }

        fn options(&mut self) -> &mut GenerateOptions {
            &mut self.0
        }

        fn count_tokens(&self, text: &str) -> usize {
            text.len()
        }

        fn context(&self) -> usize {
            100
        }
    }

    fn chat(lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| match *line {
            "^C" => Line::Interrupted,
            line => Line::Text(line.to_owned()),
        });
        let mut output = Vec::new();
        let options = DisplayOptions::stdout(ColorChoice::Never, true);
        let mut console = Console::new(&mut output, options, None);
        console.run("Hello.", &mut Script(lines.collect()), &mut Counter::default()).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn conversations_grow_and_begin_again() {
        let said = chat(&["hello", "and?", "/clear", "new", "/system kind", "who?", "/exit", "never"]);
        for line in ["1 since hello", "3 since hello", "1 since new", "2 since kind"] {
            assert!(said.contains(line), "{said}");
        }
        assert!(!said.contains("never"));
    }

    #[test]
    fn answers_can_be_had_again() {
        let said = chat(&["/regen", "/stats", "a", "b", "/regen", "/stats"]);
        assert_eq!(said.matches("3 since a").count(), 2, "{said}");
        assert!(said.contains("nothing to answer") && said.contains("no answer yet"));
        assert!(said.contains("9 tokens/s"));
    }

    #[test]
    fn failures_do_not_end_the_chat() {
        let said = chat(&["fail", "ok", "/nonsense", "/save", "/load /nowhere/at/all", "more"]);
        assert!(said.contains("error: too long") && said.contains("1 since ok"), "{said}");
        assert!(said.contains("no command /nonsense") && said.contains("/save needs"));
        assert!(said.contains("/nowhere/at/all") && said.contains("3 since ok"));
    }

    #[test]
    fn interrupting_twice_ends_it() {
        let said = chat(&["^C", "a", "^C", "^C", "b"]);
        assert!(
            said.contains("1 since a") && !said.contains("since b") && !said.contains("3 since"),
            "{said}"
        );
    }

    #[test]
    fn conversations_are_saved_and_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chat.json");
        let path = path.to_str().unwrap();
        let (save, load) = (format!("/save {path}"), format!("/load {path}"));
        chat(&["/system kind", "a", &save]);
        let said = chat(&[&load, "b", "/system"]);
        assert!(said.contains("4 since kind") && said.ends_with("kind\n\n"), "{said}");
        fs::write(path, "{\"messages\": [{\"role\": 1}]}").unwrap();
        assert!(chat(&[&load]).contains("message 0"));
        fs::write(path, "{").unwrap();
        assert!(chat(&[&load]).contains("error:"));
    }

    #[test]
    fn settings_are_shown_and_changed() {
        let said = chat(&[
            "/set",
            "/set temp 0.5",
            "/set temp",
            "/set temp hot",
            "/set mood",
            "/set system kind",
            "a",
        ]);
        for line in
            ["top-p ", "temp is 0.5.", "error: temp: expected a number", "no setting mood", "2 since kind"]
        {
            assert!(said.contains(line), "{line}: {said}");
        }
    }

    #[test]
    fn files_go_with_the_next_message_only() {
        let directory = tempfile::tempdir().unwrap();
        let (path, long) = (directory.path().join("notes.txt"), directory.path().join("long"));
        fs::write(&path, "a list").unwrap();
        fs::write(&long, "x".repeat(200)).unwrap();
        let (add, add_long) = (format!("/file {}", path.display()), format!("/file {}", long.display()));
        let said = chat(&[&add, "read", &add_long, "more", "/clear", &add, "/file", "plain", "/file"]);
        assert!(
            said.contains("6 of 100 tokens") && said.contains("1 since read\n\nnotes.txt:\na list"),
            "{said}"
        );
        assert!(said.contains("has 200 tokens") && said.contains("larger -c"), "{said}");
        assert!(
            said.contains("1 since plain\n") && said.ends_with("/file needs the name of a file.\n\n"),
            "{said}"
        );
    }

    #[test]
    fn a_file_that_exists_is_replaced_on_demand_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chat.json");
        fs::write(&path, "precious").unwrap();
        let path = path.to_str().unwrap();
        let said = chat(&["a", &format!("/save {path}")]);
        assert!(said.contains("exists; /save!") && fs::read_to_string(path).unwrap() == "precious", "{said}");
        assert!(chat(&["a", &format!("/save! {path}")]).contains("Saved to"));
        assert!(fs::read_to_string(path).unwrap().contains("1 since a"));
    }
}
