//! Files of a chat: `/save`, `/load` and `/file`.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The longest file that is read, in bytes.
const LIMIT: u64 = 64 << 20;

/// A saved conversation.
#[derive(Debug, Serialize, Deserialize)]
struct SavedChat {
    messages: Vec<Value>,
}

/// Returns the path that a user wrote, with `~/` replaced by the home folder.
pub(super) fn path(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(text),
    }
}

/// Saves messages. The file appears complete or not at all. Without `replace`, a file that exists is an error.
pub(super) fn save(path: &Path, messages: Vec<Value>, replace: bool) -> Result<(), Error> {
    let failed = |error| Error::output(path, error);
    // Without this, only the end of the work would find it.
    if !replace && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    let text = serde_json::to_string_pretty(&SavedChat { messages })? + "\n";
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".chat-").tempfile_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    if replace {
        file.persist(path).map_err(|error| failed(error.error))?;
    } else {
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => failed(error.error),
        })?;
    }
    Ok(())
}

fn exists(path: &Path) -> Error {
    Error::Usage(format!("{0} exists; /save! {0} replaces it", path.display()))
}

/// Returns the messages of a saved conversation, each of which has a role and a content.
pub(super) fn load(path: &Path) -> Result<Vec<Value>, Error> {
    let wrong = |detail: String| Error::input(&path.display().to_string(), io::Error::other(detail));
    let saved: SavedChat = serde_json::from_str(&read(path)?).map_err(|error| wrong(error.to_string()))?;
    let is_odd = |message: &Value| role(message).is_none() || content(message).is_none();
    match saved.messages.iter().position(is_odd) {
        Some(number) => Err(wrong(format!("message {number} has no role and content"))),
        None => Ok(saved.messages),
    }
}

/// Returns the text of a file. One that is no text is an error.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    let failed = |error| Error::input(&path.display().to_string(), error);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LIMIT {
        return Err(failed(io::Error::other(format!("more than {} MiB", LIMIT >> 20))));
    }
    let is_text = |text: &String| !text.contains('\0');
    String::from_utf8(bytes)
        .ok()
        .filter(is_text)
        .ok_or_else(|| failed(io::Error::other("this is a binary file, not UTF-8 text")))
}

/// Returns the role of a message.
pub(super) fn role(message: &Value) -> Option<&str> {
    message.get("role")?.as_str()
}

/// Returns the text of a message.
pub(super) fn content(message: &Value) -> Option<&str> {
    message.get("content")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn saving_replaces_a_file_only_on_demand_and_leaves_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chat.json");
        fs::write(&path, "precious").unwrap();
        let error = save(&path, Vec::new(), false).unwrap_err().to_string();
        assert!(error.contains("exists") && error.contains("/save!"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        save(&path, Vec::new(), true).unwrap();
        assert!(load(&path).unwrap().is_empty());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(save(&directory.path().join("no/where"), Vec::new(), false).is_err());
    }

    #[test]
    fn only_text_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        for bytes in [&b"a\0b"[..], b"\xff\xfe"] {
            fs::write(&path, bytes).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("binary"));
        }
        fs::write(&path, "ä").unwrap();
        assert_eq!(read(&path).unwrap(), "ä");
        assert!(read(directory.path()).is_err());
    }
}
