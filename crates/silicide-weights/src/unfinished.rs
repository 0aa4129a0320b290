//! Output files that appear under their name when they are complete, and never before.
//!
//! An unfinished file lies beside its final path and is locked while a process writes it. A process that is killed
//! cannot delete its file, but the system releases the lock. The next writer in the same directory deletes every
//! unfinished file that no process has locked.
//!
//! ```text
//! writer   create -> lock -> still there? -> write -> rename to the final name
//!                     no: held by a sweep      no: swept -> both create another file
//! sweep    lock -> delete -> release
//! ```

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;
use tempfile::NamedTempFile;

/// How the names of unfinished files begin.
const PREFIX: &str = ".unfinished-";
/// Characters that follow the prefix.
const RANDOM: usize = 8;
/// Attempts to create a file that no sweep takes away before it is locked.
const ATTEMPTS: usize = 16;
/// How long a file on a network file system must be untouched before a sweep deletes it. Its locks may not reach other
/// machines.
const REMOTE_AGE: Duration = Duration::from_secs(3600);

/// Creates a locked file beside `path` that is deleted on drop unless [`NamedTempFile::persist`] renames it to `path`.
/// A file that was at `path` before stays if something fails on the way.
///
/// Deletes unfinished files of dead processes in the same directory first.
pub fn unfinished(path: impl AsRef<Path>) -> std::io::Result<NamedTempFile> {
    let path = path.as_ref();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sweep(directory);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).rand_bytes(RANDOM);
    // Temporary files are private; this one becomes an ordinary file, with the permissions of the user's mask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    for _ in 1..ATTEMPTS {
        let file = builder.tempfile_in(directory)?;
        match file.as_file().try_lock() {
            Ok(()) if !file.path().exists() => {}
            Err(TryLockError::WouldBlock) => {}
            // A file system without locks: a sweep cannot lock the file either, so it leaves it alone.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    builder.tempfile_in(directory)
}

/// Deletes unfinished files that no process has locked. What cannot be read, locked or deleted stays.
fn sweep(directory: &Path) {
    let remote = crate::network::is_remote(directory);
    for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(std::result::Result::ok) {
        let name = entry.file_name();
        let ours = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(is_random);
        let plain = entry.file_type().is_ok_and(|kind| kind.is_file());
        if ours && plain && (!remote || age(&entry).is_some_and(|age| age > REMOTE_AGE)) {
            let path = entry.path();
            if let Ok(file) = File::options().read(true).write(true).open(&path)
                && file.try_lock().is_ok()
            {
                let _ = std::fs::remove_file(&path);
            }
        }
    }
}

/// Returns whether `suffix` looks like what [`unfinished`] puts behind the prefix. Earlier versions put six characters.
fn is_random(suffix: &str) -> bool {
    (6..=RANDOM).contains(&suffix.len()) && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn age(entry: &std::fs::DirEntry) -> Option<Duration> {
    entry.metadata().ok()?.modified().ok()?.elapsed().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_that_no_process_holds_are_deleted_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let inside = |name: &str| directory.path().join(name);
        // As a killed process leaves it, as an earlier version left it, and files of someone else.
        for name in
            [".unfinished-Ab3dEf9h", ".unfinished-zTT58p", ".unfinished-notes.txt", "unfinished-Ab3dEf9h"]
        {
            std::fs::write(inside(name), "left").unwrap();
        }
        std::fs::create_dir(inside(".unfinished-Directory")).unwrap();
        let held = unfinished(inside("first.gguf")).unwrap();
        let own = held.path().file_name().unwrap().to_str().unwrap().to_owned();
        let second = unfinished(inside("second.gguf")).unwrap();
        let left = names(directory.path());
        assert!(left.contains(&own), "the first file is being written: {left:?}");
        assert_eq!(left.len(), 5, "{left:?}");
        assert!(
            !left.contains(&".unfinished-Ab3dEf9h".to_owned())
                && !left.contains(&".unfinished-zTT58p".to_owned())
        );
        held.persist(inside("first.gguf")).unwrap();
        drop(second);
        assert_eq!(
            names(directory.path()),
            [".unfinished-Directory", ".unfinished-notes.txt", "first.gguf", "unfinished-Ab3dEf9h"]
        );
    }

    #[test]
    fn writers_in_one_directory_never_lose_their_files() {
        let directory = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let directory = directory.path();
                scope.spawn(move || {
                    for round in 0..50 {
                        let path = directory.join(format!("{thread}-{round}"));
                        unfinished(&path).unwrap().persist(&path).unwrap();
                    }
                });
            }
        });
        assert_eq!(names(directory.path()).len(), 200);
    }
}
