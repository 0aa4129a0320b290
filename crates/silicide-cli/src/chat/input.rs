//! Lines into messages and commands. A backslash at the end of a line continues on the next; `"""` begins and ends
//! text of several lines.

use super::{Line, Lines};
use crate::error::Error;

const PROMPT: &str = "> ";
const CONTINUED: &str = ". ";
const QUOTES: &str = "\"\"\"";

/// The typed input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Something to say.
    Say(String),
    /// A command and its argument.
    Command(String, String),
    /// Nothing.
    Nothing,
    /// Ctrl-C on an empty line.
    Interrupted,
    /// The end.
    End,
}

/// Reads a message or a command.
pub(super) fn read(lines: &mut dyn Lines) -> Result<Input, Error> {
    let first = match lines.read(PROMPT)? {
        Line::Text(line) => line,
        Line::Interrupted => return Ok(Input::Interrupted),
        Line::End => return Ok(Input::End),
    };
    if let Some(rest) = first.trim_start().strip_prefix(QUOTES) {
        return quoted(rest, lines);
    }
    if let Some(command) = first.trim_start().strip_prefix('/') {
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        return Ok(Input::Command(name.to_owned(), rest.trim().to_owned()));
    }
    let mut text = first;
    while let Some(whole) = text.strip_suffix('\\') {
        let mut joined = format!("{whole}\n");
        match lines.read(CONTINUED)? {
            Line::Text(line) => joined.push_str(&line),
            Line::Interrupted => return Ok(Input::Nothing),
            Line::End => return Ok(said(joined)),
        }
        text = joined;
    }
    Ok(said(text))
}

fn quoted(first: &str, lines: &mut dyn Lines) -> Result<Input, Error> {
    let mut text = first.to_owned();
    loop {
        if let Some(whole) = text.trim_end().strip_suffix(QUOTES) {
            return Ok(said(whole.trim_matches('\n').to_owned()));
        }
        text.push('\n');
        match lines.read(CONTINUED)? {
            Line::Text(line) => text.push_str(&line),
            Line::Interrupted => return Ok(Input::Nothing),
            Line::End => return Ok(said(text.trim_matches('\n').to_owned())),
        }
    }
}

fn said(text: String) -> Input {
    if text.trim().is_empty() { Input::Nothing } else { Input::Say(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Script(Vec<&'static str>);

    impl Lines for Script {
        fn read(&mut self, _: &str) -> Result<Line, Error> {
            Ok(self.0.pop().map_or(Line::End, |line| Line::Text(line.to_owned())))
        }
    }

    fn inputs(lines: &[&'static str]) -> Vec<Input> {
        let mut script = Script(lines.iter().rev().copied().collect());
        std::iter::from_fn(|| Some(read(&mut script).unwrap()).filter(|input| *input != Input::End)).collect()
    }

    #[test]
    fn lines_become_messages() {
        let say = |text: &str| Input::Say(text.to_owned());
        assert_eq!(
            inputs(&["hi", " ", "a\\", "b\\", "", "c"]),
            [say("hi"), Input::Nothing, say("a\nb\n"), say("c")]
        );
        assert_eq!(inputs(&["\"\"\"", "x", "", "/y", "\"\"\"", "z"]), [say("x\n\n/y"), say("z")]);
        assert_eq!(inputs(&["\"\"\"one\"\"\"", "\"\"\"open"]), [say("one"), say("open")]);
        let command = |name: &str, rest: &str| Input::Command(name.to_owned(), rest.to_owned());
        assert_eq!(
            inputs(&["/help", "/system  be kind "]),
            [command("help", ""), command("system", "be kind")]
        );
    }
}
