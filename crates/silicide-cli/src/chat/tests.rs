//! Conversations with a partner that counts messages.

use super::files::content;
use super::{ChatPartner, Console, Line, Lines, Reply};
use crate::display::{ColorChoice, DisplayOptions};
use crate::error::Error;
use serde_json::Value;
use silicide_llm::engine::GenerateOptions;
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

impl ChatPartner for Counter {
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
fn interrupting_twice_ends_the_chat() {
    let said = chat(&["^C", "a", "^C", "^C", "b"]);
    assert!(said.contains("1 since a") && !said.contains("since b") && !said.contains("3 since"), "{said}");
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
    let said =
        chat(&["/set", "/set temp 0.5", "/set temp", "/set temp hot", "/set mood", "/set system kind", "a"]);
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
