//! Prompts from arguments, files and standard input, and the ways in which an answer is printed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{parrot, tiny};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Starts `silicide run` with what is to come on standard input.
fn start(model: &str, arguments: &[&str], stdin: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
    command.args(["run", "-m", model, "--device", "cpu", "--temp", "0"]).args(arguments);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(model: &str, arguments: &[&str], piped: Option<&str>) -> Output {
    let Some(piped) = piped else {
        return start(model, arguments, Stdio::null()).wait_with_output().unwrap();
    };
    let mut child = start(model, arguments, Stdio::piped());
    // A program that ends early does not read it.
    let _ = child.stdin.take().unwrap().write_all(piped.as_bytes());
    child.wait_with_output().unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The prompt that a model got, whose tokens are bytes.
fn prompt(output: &Output) -> String {
    let report: Value = serde_json::from_str(&succeeded(output)).unwrap();
    let tokens = report["prompt_tokens"].as_array().unwrap().iter();
    let bytes = tokens.map(|token| u8::try_from(token.as_u64().unwrap() - 2).unwrap()).collect();
    String::from_utf8(bytes).unwrap()
}

fn file(directory: &Path, text: &str) -> String {
    let path = directory.join("file.txt");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn prompt_file_and_standard_input_are_joined_in_this_order() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let path = file(directory.path(), "from file\n");
    let json = ["-n", "1", "--json"];
    for (arguments, piped, expected) in [
        (&["-p", "Read:"][..], Some("piped\n"), "Read:\n\npiped\n"),
        (&["-p", "Read:"], Some(""), "Read:"),
        (&["-p", "Read:"], None, "Read:"),
        (&["Read:"], Some("piped"), "Read:\n\npiped"),
        (&["Read:", "-f", &path], None, "Read:\n\nfrom file\n"),
        (&["-p", "Read:", "-f", &path], Some("piped"), "Read:\n\nfrom file\n\npiped"),
        (&["-f", &path], Some("piped"), "from file\n\npiped"),
        (&["-f", &path], None, "from file\n"),
        (&["Read:", "-f", "-"], Some("piped"), "Read:\n\npiped"),
        (&[], Some("piped\n"), "piped\n"),
    ] {
        let output = run(&model, &[arguments, &json].concat(), piped);
        assert_eq!(prompt(&output), expected, "{arguments:?} {piped:?}");
    }
    let nothing = run(&model, &json, Some(" \n"));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("Give a prompt"));
    let empty = run(&model, &["-p", "", "--raw", "-n", "1"], None);
    assert!(String::from_utf8_lossy(&empty.stderr).contains("the prompt is empty"));
}

#[cfg(unix)]
#[test]
fn a_closed_standard_input_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" <&-", env!("CARGO_BIN_EXE_silicide"), "run", "-m", &model]);
    let output = command.args(["-p", "hi", "-n", "1", "--json", "--device", "cpu"]).output().unwrap();
    assert_eq!(prompt(&output), "hi");
}

#[test]
fn an_open_pipe_is_waited_for_with_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let mut child = start(&model, &["-p", "Read:", "-n", "1", "--json"], Stdio::piped());
    let mut note = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut note).unwrap();
    assert!(note.contains("reading standard input") && note.contains("/dev/null"), "{note}");
    child.stdin.take().unwrap().write_all(b"late").unwrap();
    assert_eq!(prompt(&child.wait_with_output().unwrap()), "Read:\n\nlate");
}

#[test]
fn an_answer_that_the_limit_cuts_says_so_on_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "wordN ");
    let output = run(&model, &["hi", "-n", "5", "--ignore-eos"], None);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("[stopped after 5 tokens; more: -n 10, no limit: -n -1]"), "{said}");
    assert_eq!(succeeded(&output).matches("word").count(), 5);
}

#[test]
fn json_lines_have_the_text_in_pieces_and_end_with_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "wordN ");
    let lines = run(&model, &["hi", "-n", "5", "--ignore-eos", "--json-stream"], None);
    let lines = succeeded(&lines);
    let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = lines.pop().unwrap();
    let pieces: String = lines.iter().map(|line| line["piece"].as_str().unwrap()).collect();
    assert!(lines.len() >= 4, "{lines:?}");
    assert_eq!(report["text"].as_str(), Some(pieces.as_str()));
    assert_eq!(report["finish"], "length");
}

#[test]
fn pipes_get_the_text_unchanged_unless_colours_are_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "**boldN**\u{1b}[31m ");
    let arguments = ["hi", "-n", "40", "--ignore-eos"];
    let text = succeeded(&run(&model, &arguments, None));
    assert_eq!((text.matches("**").count(), text.matches("\u{1b}[31m").count()), (80, 40));
    assert_eq!(text.lines().count(), 1);
    let text = succeeded(&run(&model, &[&arguments[..], &["--color", "always"]].concat(), None));
    assert!(text.contains("\u{1b}[0;1mbold") && !text.contains("**"), "{text}");
}
