//! No source file is too long: around 250 lines is a good file, 400 is a long one, 600 is the end.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Files over this are listed.
const LONG: usize = 400;
/// Files over this are refused.
const TOO_LONG: usize = 600;

/// Lists long files of the workspace; fails where one is too long.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut long = Vec::new();
    for folder in ["crates", "dev", "examples"] {
        let folder = root.join(folder);
        if folder.is_dir() {
            long_files(&folder, &mut long).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
    }
    long.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    for (path, lines) in &long {
        println!("{lines:5} {}", path.strip_prefix(&root).unwrap_or(path).display());
    }
    match long.iter().filter(|(_, lines)| *lines > TOO_LONG).count() {
        0 => Ok(()),
        count => Err(format!("{count} files are over {TOO_LONG} lines")),
    }
}

/// Adds source files over [`LONG`] lines.
fn long_files(folder: &Path, long: &mut Vec<(PathBuf, usize)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let source = path.extension().is_some_and(|extension| extension == "rs" || extension == "wgsl");
        if entry.file_type()?.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                long_files(&path, long)?;
            }
        } else if source {
            let lines = fs::read_to_string(&path)?.lines().count();
            if lines > LONG {
                long.push((path, lines));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(folder.join("deep/long.rs"), "\n".repeat(401)).unwrap();
        fs::write(folder.join("short.rs"), "\n".repeat(400)).unwrap();
        fs::write(folder.join("data.txt"), "\n".repeat(1000)).unwrap();
        let mut long = Vec::new();
        long_files(folder, &mut long).unwrap();
        assert_eq!(long.len(), 1);
        assert_eq!((long[0].0.file_name().unwrap().to_str(), long[0].1), (Some("long.rs"), 401));
    }
}
