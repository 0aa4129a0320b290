//! `silicide run` at a terminal: a pseudo-terminal whose screen the tests read. `setsid` makes it the program's controlling
//! terminal, so that Ctrl-C sends a signal.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{parrot, tiny};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program at a terminal.
struct Terminal {
    keyboard: File,
    seen: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Terminal {
    /// Runs `silicide run` with a model at a terminal of `columns` columns.
    fn run(columns: u16, model: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        let size = Winsize { ws_row: 30, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let stream = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_silicide"), "run", "-m", model]);
        command.args(["--device", "cpu", "--temp", "0"]).args(arguments);
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").envs(environment.iter().copied());
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        drop(command);
        drop(pty.slave);
        let keyboard = File::from(pty.master);
        let (mut screen, seen) = (keyboard.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let written = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal ends with an error when the program does.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                written.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { keyboard, seen, child }
    }

    fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).replace('\r', "")
    }

    /// Waits until `wanted` was written.
    #[track_caller]
    fn wait_for(&self, wanted: &str) -> String {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            let text = self.text();
            if text.contains(wanted) {
                return text;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no {wanted:?} in {:?}", self.text());
    }

    /// Waits for the end of the program.
    fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        // The reader thread may still have to read the last output.
        std::thread::sleep(Duration::from_millis(100));
        (status, self.text())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless a test failed.
        let _ = self.child.kill();
    }
}

/// Returns the visible text, without control sequences.
fn visible(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |all, piece| {
        all + piece.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest)
    })
}

#[test]
fn words_are_wrapped_at_the_width_of_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "someN words ");
    for columns in [20, 47] {
        let terminal = Terminal::run(columns, &model, &["hi", "-n", "30", "--ignore-eos"], &[]);
        let (status, text) = terminal.wait();
        assert!(status.success(), "{text}");
        let visible = visible(&text);
        // The progress of loading comes before it.
        let answer = &visible[visible.find("some").unwrap()..];
        let answer: Vec<&str> = answer.lines().take_while(|line| !line.is_empty()).collect();
        assert!(answer.len() > 6, "{visible}");
        for line in answer {
            assert!(line.len() <= usize::from(columns), "{line}");
            assert!(line.split(' ').all(|word| word == "words" || word.starts_with("some")), "{line}");
        }
    }
}

#[test]
fn markdown_has_colours_unless_they_are_switched_off() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "**boldN** ");
    let arguments = ["hi", "-n", "3", "--ignore-eos"];
    let shown = |flags: &[&str], environment: &[(&str, &str)]| {
        let (status, text) = Terminal::run(60, &model, &[&arguments[..], flags].concat(), environment).wait();
        assert!(status.success(), "{text}");
        text
    };
    let text = shown(&[], &[]);
    assert!(text.contains("\u{1b}[0;1mbold") && !text.contains("**"), "{text:?}");
    for (flags, environment) in
        [(&["--no-color"][..], &[][..]), (&["--color", "never"], &[]), (&[], &[("NO_COLOR", "1")])]
    {
        let text = shown(flags, environment);
        assert!(text.contains("**bold") && !text.contains("\u{1b}[0;1m"), "{flags:?}: {text:?}");
    }
    assert!(shown(&["--plain"], &[]).contains("**bold"));
}

#[test]
fn generated_control_sequences_are_escaped() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "\u{1b}]0;titleN\u{7}\u{9b}31m ");
    for flags in [&[][..], &["--plain"]] {
        let arguments = [&["hi", "-n", "3", "--ignore-eos"], flags].concat();
        let (_, text) = Terminal::run(80, &model, &arguments, &[]).wait();
        assert!(text.contains(r"\u{1b}]0;title") && text.contains(r"\u{7}\u{9b}31m"), "{text:?}");
        assert!(!text.contains("\u{1b}]") && !text.contains('\u{7}') && !text.contains('\u{9b}'), "{text:?}");
    }
}

#[test]
fn a_chat_greets_completes_commands_and_says_when_the_limit_cuts() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "wordN ");
    let mut terminal = Terminal::run(80, &model, &["-n", "4", "--ignore-eos", "-c", "512"], &[]);
    let greeting = terminal.wait_for("Ctrl-D ends the chat.");
    assert!(greeting.contains("tiny · llama · ") && greeting.contains("cpu"), "{greeting}");
    assert!(greeting.contains("context 512 tokens"), "{greeting}");
    terminal.type_keys("/sta\t\r");
    terminal.wait_for("There is no answer yet.");
    terminal.type_keys("hello\r");
    terminal.wait_for("[stopped after 4 tokens; more: /set n 8, no limit: /set n -1]");
    terminal.type_keys("/set n 6\r");
    terminal.wait_for("n is 6.");
    terminal.type_keys("again\r");
    terminal.wait_for("[stopped after 6 tokens");
    terminal.type_keys("/exit\r");
    let (status, text) = terminal.wait();
    assert!(status.success(), "{text}");
}

#[test]
fn ctrl_c_stops_an_answer_without_a_trace_in_the_text() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "wordN ");
    let mut terminal = Terminal::run(80, &model, &["--ignore-eos", "-c", "1000000"], &[]);
    terminal.wait_for("Ctrl-D ends the chat.");
    terminal.type_keys("hello\r");
    terminal.wait_for("word");
    terminal.type_keys("typed");
    terminal.type_keys("\u{3}");
    let text = terminal.wait_for("[stopped]");
    let (answer, _) = text.split_once("[stopped]").unwrap();
    assert!(!answer.contains("^C") && !answer.contains("typed"), "{answer}");
    // The conversation goes on.
    terminal.type_keys("/stats\r");
    terminal.wait_for("tokens/s");
    terminal.type_keys("/exit\r");
    let (status, text) = terminal.wait();
    assert!(status.success(), "{text}");
}

#[test]
fn lines_typed_during_an_answer_are_read_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "wordN ");
    let mut terminal = Terminal::run(80, &model, &["--ignore-eos", "-n", "3000", "-c", "4000"], &[]);
    terminal.wait_for("Ctrl-D ends the chat.");
    terminal.type_keys("hello\r");
    terminal.wait_for("word");
    terminal.type_keys("/set n 6\r/set temp 0.5\r/exit\r");
    let (status, text) = terminal.wait();
    assert!(status.success(), "{text}");
    let (_, after) = text.split_once("[stopped after 3000 tokens").unwrap();
    assert!(after.contains("n is 6.") && after.contains("temp is 0.5."), "{after}");
}

#[test]
fn long_prompts_show_their_progress_until_they_are_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny(directory.path(), "{{ messages[0].content }}");
    let path = directory.path().join("long");
    std::fs::write(&path, "x".repeat(30_000)).unwrap();
    let arguments = ["-f", path.to_str().unwrap(), "-c", "40000", "-ub", "16", "-t", "1"];
    let mut terminal = Terminal::run(100, &model, &arguments, &[]);
    terminal.wait_for("reading the prompt [");
    terminal.wait_for("/30000 tokens");
    terminal.type_keys("\u{3}");
    let (status, text) = terminal.wait();
    assert_eq!(status.code(), Some(130), "{text}");
    // The line is erased before anything else is written.
    let last = text.rfind("/30000 tokens").unwrap();
    let (after, _) = text[last..].split_once("[stopped]").unwrap();
    assert!(after.contains("\u{1b}[2K"), "{after:?}");
}

#[test]
fn reading_files_into_memory_shows_progress() {
    let directory = tempfile::tempdir().unwrap();
    let model = parrot(directory.path(), "wordN ");
    for (mode, expected) in [("copy", true), ("map", false)] {
        let arguments = ["hi", "-n", "2", "--ignore-eos", "--load", mode];
        let (status, text) = Terminal::run(80, &model, &arguments, &[]).wait();
        assert!(status.success(), "{text}");
        assert_eq!(visible(&text).contains("reading ["), expected, "{mode}: {text}");
    }
}
