//! The prompt: texts from the command line, a file and standard input, joined.

use super::{empty_prompt, no_prompt};
use crate::error::Error;
use std::io::{IsTerminal, Read, stdin};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How long standard input is read before a note says so.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the prompt: `text`, the contents of `file`, and standard input unless that is a terminal, joined in this order.
/// Returns none if nothing was given and there is a terminal to chat at. Blank texts are no prompt.
pub(super) fn read(text: Option<&str>, file: Option<&Path>) -> Result<Option<String>, Error> {
    let is_stdin = |path: &Path| path.as_os_str() == "-";
    let contents = match file.filter(|path| !is_stdin(path)) {
        None => None,
        Some(path) => {
            let read = std::fs::read_to_string(path);
            Some(read.map_err(|error| Error::input(&path.display().to_string(), error))?)
        }
    };
    let is_piped = !stdin().is_terminal();
    let piped = if is_piped || file.is_some_and(is_stdin) { Some(read_stdin(is_piped)?) } else { None };
    if text.is_none() && file.is_none() {
        let Some(piped) = piped else { return Ok(None) };
        return if piped.trim().is_empty() { Err(no_prompt()) } else { Ok(Some(piped)) };
    }
    let pieces = [text, contents.as_deref(), piped.as_deref()];
    let joined = join(&pieces.into_iter().flatten().collect::<Vec<_>>());
    if joined.is_empty() { Err(empty_prompt()) } else { Ok(Some(joined)) }
}

/// Joins texts with blank lines between them. Blank texts are left out; a single text is not changed.
pub(crate) fn join(pieces: &[&str]) -> String {
    let mut joined = String::new();
    for piece in pieces.iter().filter(|piece| !piece.trim().is_empty()) {
        if !joined.is_empty() {
            joined.truncate(joined.trim_end_matches(['\r', '\n']).len());
            joined.push_str("\n\n");
        }
        joined.push_str(piece);
    }
    joined
}

/// Reads standard input to its end. Waits for an open pipe without data; `remind` prints a note meanwhile.
fn read_stdin(remind: bool) -> Result<String, Error> {
    let (ended, end) = channel::<()>();
    std::thread::spawn(move || {
        if remind && end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("reading standard input; if there is none, add < /dev/null");
        }
    });
    let mut text = String::new();
    let read = stdin().lock().read_to_string(&mut text);
    drop(ended);
    read.map(|_| text).map_err(|error| Error::input("standard input", error))
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn texts_are_joined_by_blank_lines() {
        assert_eq!(join(&["Summarise:", "text\n"]), "Summarise:\n\ntext\n");
        assert_eq!(join(&["a\n", "b\r\n", "c"]), "a\n\nb\n\nc");
        assert_eq!(join(&["", " only \n", "\n"]), " only \n");
        assert_eq!(join(&["  code\n", "  more"]), "  code\n\n  more");
        assert_eq!(join(&[]), "");
    }
}
