//! The conversation and its /commands.

use super::input::{self, Input};
use super::{Lines, Reply, Talk};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use silicide_llm::chat::message;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

const HELP: &str = "\
/help           this
/clear          forget the conversation
/system TEXT    tell the model who it is and how to answer, and begin again; without TEXT, show it
/regen          answer the last message again
/stats          figures of the last answer
/save FILE      save the conversation as JSON
/load FILE      go on with a saved conversation
/exit           end; so does Ctrl-D

A \\ at the end of a line continues on the next. \"\"\" begins and ends text of several lines.
Ctrl-C stops an answer; what came so far is kept.
";
/// Longest conversation that is loaded, in bytes.
const LIMIT: u64 = 64 << 20;

/// A conversation at a terminal.
#[derive(Debug)]
pub(crate) struct Console<W> {
    output: W,
    system: Option<String>,
    /// Questions and answers, without the system message.
    messages: Vec<Value>,
    figures: String,
}

/// A saved conversation.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    messages: Vec<Value>,
}

impl<W: Write> Console<W> {
    /// A conversation that is written to `output`.
    pub(crate) fn new(output: W, system: Option<String>) -> Console<W> {
        Console { output, system, messages: Vec::new(), figures: String::new() }
    }

    /// Talks until there is nothing more to say.
    pub(crate) fn run(&mut self, lines: &mut dyn Lines, partner: &mut dyn Talk) -> Result<(), Error> {
        writeln!(self.output, "/help shows what can be typed besides messages; Ctrl-D ends the chat.")?;
        let mut interrupted = false;
        loop {
            let input = input::read(lines)?;
            let again = std::mem::replace(&mut interrupted, input == Input::Interrupted);
            match input {
                Input::End => return Ok(()),
                Input::Interrupted if again => return Ok(()),
                Input::Interrupted => writeln!(self.output, "Ctrl-C again, Ctrl-D or /exit ends the chat.")?,
                Input::Nothing => {}
                Input::Say(text) => {
                    self.messages.push(message("user", &text));
                    self.answer(partner)?;
                }
                Input::Command(name, _) if matches!(name.as_str(), "exit" | "quit" | "bye") => return Ok(()),
                Input::Command(name, rest) => self.command(&name, &rest, partner)?,
            }
        }
    }

    fn command(&mut self, name: &str, rest: &str, partner: &mut dyn Talk) -> Result<(), Error> {
        match name {
            "help" | "?" => self.say(HELP.trim_end()),
            "clear" => {
                self.messages.clear();
                self.say("The conversation is forgotten.")
            }
            "system" if rest.is_empty() => {
                let shown = self.system.clone().unwrap_or_else(|| "There is no system message.".to_owned());
                self.say(&shown)
            }
            "system" => {
                self.system = Some(rest.to_owned());
                self.messages.clear();
                self.say("A new conversation begins.")
            }
            "regen" => self.regenerate(partner),
            "stats" if self.figures.is_empty() => self.say("There is no answer yet."),
            "stats" => self.say(&self.figures.clone()),
            "save" | "load" if rest.is_empty() => self.say(&format!("/{name} needs the name of a file.")),
            "save" => {
                let outcome = self.save(Path::new(rest));
                self.report(outcome, &format!("Saved to {rest}."))
            }
            "load" => {
                let outcome = self.load(Path::new(rest));
                self.report(outcome, &format!("Loaded {rest}."))
            }
            _ => self.say(&format!("There is no command /{name}; /help lists them.")),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Error> {
        Ok(writeln!(self.output, "{text}")?)
    }

    /// Trouble with a file does not end a chat.
    fn report(&mut self, outcome: Result<(), Error>, done: &str) -> Result<(), Error> {
        match outcome {
            Ok(()) => self.say(done),
            Err(error) => self.say(&format!("error: {error}")),
        }
    }

    fn regenerate(&mut self, partner: &mut dyn Talk) -> Result<(), Error> {
        let question = self.messages.iter().rposition(|message| role(message) == Some("user"));
        let Some(question) = question else { return self.say("There is nothing to answer yet.") };
        let before = self.messages.clone();
        self.messages.truncate(question + 1);
        let answered = self.answer(partner);
        if self.messages.len() <= question {
            // It failed: the old answer is better than none.
            self.messages = before;
        }
        answered
    }

    /// Lets the partner answer the last message. If it can't, the message is taken back, so that it can be said again.
    fn answer(&mut self, partner: &mut dyn Talk) -> Result<(), Error> {
        let messages = self.all();
        let (output, mut failed) = (&mut self.output, None);
        let reply = partner.say(&messages, &mut |text| {
            if failed.is_none() {
                failed = output.write_all(text.as_bytes()).and_then(|()| output.flush()).err();
            }
        });
        if let Some(error) = failed {
            return Err(Error::Output(error));
        }
        match reply {
            Ok(Reply { text, note, figures }) => {
                writeln!(self.output)?;
                if let Some(note) = note {
                    writeln!(self.output, "[{note}]")?;
                }
                self.messages.push(message("assistant", &text));
                self.figures = figures;
                Ok(())
            }
            Err(error) => {
                self.messages.pop();
                self.say(&format!("error: {error}"))
            }
        }
    }

    /// The whole conversation, as templates expect it.
    fn all(&self) -> Vec<Value> {
        let system = self.system.iter().map(|text| message("system", text));
        system.chain(self.messages.iter().cloned()).collect()
    }

    fn save(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(&Saved { messages: self.all() })? + "\n";
        fs::write(path, text).map_err(|error| Error::output(path, error))
    }

    fn load(&mut self, path: &Path) -> Result<(), Error> {
        let failed = |error| Error::input(&path.display().to_string(), error);
        let mut text = String::new();
        let file = fs::File::open(path).map_err(failed)?;
        file.take(LIMIT).read_to_string(&mut text).map_err(failed)?;
        let wrong = |detail: String| failed(std::io::Error::other(detail));
        let saved: Saved = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let odd = |message: &Value| role(message).is_none() || content(message).is_none();
        if let Some(number) = saved.messages.iter().position(odd) {
            return Err(wrong(format!("message {number} has no role and content")));
        }
        let mut messages = saved.messages;
        let system = messages.first().filter(|message| role(message) == Some("system")).and_then(content);
        self.system = system.map(str::to_owned);
        if self.system.is_some() {
            messages.remove(0);
        }
        self.messages = messages;
        Ok(())
    }
}

fn role(message: &Value) -> Option<&str> {
    message.get("role")?.as_str()
}

fn content(message: &Value) -> Option<&str> {
    message.get("content")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::super::Line;
    use super::*;

    struct Script(Vec<Line>);

    impl Lines for Script {
        fn read(&mut self, _: &str) -> Result<Line, Error> {
            Ok(if self.0.is_empty() { Line::End } else { self.0.remove(0) })
        }
    }

    /// Answers with how many messages it was given, and the first one's words.
    struct Counter;

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
    }

    fn chat(lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| match *line {
            "^C" => Line::Interrupted,
            line => Line::Text(line.to_owned()),
        });
        let mut output = Vec::new();
        Console::new(&mut output, None).run(&mut Script(lines.collect()), &mut Counter).unwrap();
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
        assert!(said.contains("4 since kind") && said.ends_with("kind\n"), "{said}");
        fs::write(path, "{\"messages\": [{\"role\": 1}]}").unwrap();
        assert!(chat(&[&load]).contains("message 0"));
        fs::write(path, "{").unwrap();
        assert!(chat(&[&load]).contains("error:"));
    }
}
