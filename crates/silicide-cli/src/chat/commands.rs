//! The commands of a chat, and how Tab completes them.

use super::files;
use super::settings::SETTINGS;
use std::fs;
use std::path::Path;

/// What follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    /// Nothing, or text.
    Text,
    /// A file.
    File,
    /// A setting.
    Setting,
}

/// The commands: name, argument, effect.
const COMMANDS: [(&str, &str, Argument, &str); 12] = [
    ("help", "", Argument::Text, "show this list"),
    ("clear", "", Argument::Text, "forget the conversation"),
    ("system", "TEXT", Argument::Text, "set the system message and begin again; without TEXT, show it"),
    ("set", "NAME VALUE", Argument::Setting, "change a setting; without NAME, show all"),
    ("file", "PATH", Argument::File, "add the text of a file to the next message; without PATH, remove it"),
    ("regen", "", Argument::Text, "answer the last message again"),
    ("stats", "", Argument::Text, "show times, speeds and memory"),
    ("save", "PATH", Argument::File, "save the conversation as JSON in a new file"),
    ("save!", "PATH", Argument::File, "save, and replace the file if it exists"),
    ("load", "PATH", Argument::File, "continue a saved conversation"),
    ("exit", "", Argument::Text, "end the chat; /quit, /bye and Ctrl-D do the same"),
    ("quit", "", Argument::Text, ""),
];

/// Returns the text of `/help`.
pub(super) fn help() -> String {
    let mut text = String::new();
    for (name, argument, _, what) in COMMANDS.iter().filter(|command| !command.3.is_empty()) {
        text += &format!("{:<18}{what}\n", format!("/{name} {argument}"));
    }
    text + "
A \\ at the end of a line continues it on the next. \"\"\" begins and ends text of several lines.
Tab completes commands, settings and files. Ctrl-C stops an answer and keeps what came so far."
}

/// Returns where the word at the end of `line` begins, and its completions.
pub(super) fn complete(line: &str) -> (usize, Vec<String>) {
    let Some(command) = line.strip_prefix('/') else { return (line.len(), Vec::new()) };
    let Some((name, rest)) = command.split_once(' ') else {
        let names = COMMANDS.iter().filter(|(name, ..)| name.starts_with(command));
        return (0, names.map(|(name, ..)| format!("/{name} ")).collect());
    };
    let argument = COMMANDS.iter().find(|(known, ..)| *known == name).map(|command| command.2);
    let begin = line.len() - rest.len();
    match argument {
        Some(Argument::File) => complete_file(rest, begin),
        Some(Argument::Setting) if !rest.contains(' ') => {
            let names = SETTINGS.iter().filter(|(name, _)| name.starts_with(rest));
            (begin, names.map(|(name, _)| format!("{name} ")).collect())
        }
        _ => (line.len(), Vec::new()),
    }
}

/// Completes the last part of a path; folders get a slash.
fn complete_file(text: &str, begin: usize) -> (usize, Vec<String>) {
    let split = text.rfind('/').map_or(0, |slash| slash + 1);
    let (folder, start) = text.split_at(split);
    let folder = if folder.is_empty() { files::path(".") } else { files::path(folder) };
    let Ok(entries) = fs::read_dir(folder) else { return (begin, Vec::new()) };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, _)| name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.')))
        .map(|(name, path)| if Path::is_dir(&path) { name + "/" } else { name })
        .collect();
    names.sort();
    (begin + split, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_settings_are_completed() {
        assert_eq!(complete("/he"), (0, vec!["/help ".to_owned()]));
        assert_eq!(complete("/s").1, ["/system ", "/set ", "/stats ", "/save ", "/save! "]);
        assert_eq!(complete("/set te"), (5, vec!["temp ".to_owned()]));
        assert_eq!(complete("/set top"), (5, vec!["top-k ".to_owned(), "top-p ".to_owned()]));
        assert_eq!(complete("hello /he").1, Vec::<String>::new());
        assert_eq!(complete("/set temp 0").1, Vec::<String>::new());
    }

    #[test]
    fn files_are_completed_and_folders_get_a_slash() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("notes")).unwrap();
        for name in ["notes/a b.txt", "notes.txt", ".hidden"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let folder = format!("{}/", directory.path().display());
        let line = format!("/file {folder}no");
        assert_eq!(complete(&line), (line.len() - 2, vec!["notes.txt".to_owned(), "notes/".to_owned()]));
        assert_eq!(complete(&format!("/load {folder}notes/")).1, ["a b.txt"]);
        assert_eq!(complete(&format!("/file {folder}")).1.len(), 2);
        assert_eq!(complete(&format!("/file {folder}none/")).1, Vec::<String>::new());
    }

    #[test]
    fn help_lists_every_command() {
        let help = help();
        for (name, ..) in COMMANDS {
            assert!(help.contains(&format!("/{name}")), "{name}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
