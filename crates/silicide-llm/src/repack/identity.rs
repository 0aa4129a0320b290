//! What repacked weights are bound to: the bytes of the model's files.
//!
//! Hashing a large model takes as long as repacking it, so the files that are mapped are identified by what the system keeps of them:
//! device, inode, size, and the times of the last write and of the last change (`mtime`, `ctime`), with a checksum of the beginning and of samples.
//! Programs cannot set `ctime`: each write to a file, and each replacement, changes it, also where `mtime` is set back. The numbers are those of the
//! open file that is mapped, not of what has its name since. Its clock is coarse, so a file that changed a moment ago has no identity yet:
//! a second write could leave the same time.
//!
//! Files that were read into memory, and files of systems without these numbers, are hashed as a whole.

use sha2::{Digest, Sha256};
use silicide_weights::{Bytes, Source};
use std::fmt::Write as _;

/// The beginning of the identity of a file that is hashed as a whole.
pub(super) const HASHED: &str = "sha256:";

/// Returns the identity of the model of `source`, or why there is none.
pub(super) fn of(source: &Source) -> Result<String, String> {
    let files: Result<Vec<String>, String> = source.files().into_iter().map(of_file).collect();
    Ok(files?.join(" "))
}

fn of_file(bytes: &Bytes) -> Result<String, String> {
    #[cfg(unix)]
    if let Bytes::Mapped(file) = bytes {
        return unix::of_mapped(file);
    }
    Ok(format!("{HASHED}{}", hash(bytes.as_slice())))
}

fn hash(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(unix)]
mod unix {
    use super::super::checksum;
    use silicide_weights::MappedFile;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    /// A file whose times are younger than this may have changed since without a new time. FAT counts two seconds, others milliseconds.
    const YOUNG: Duration = Duration::from_secs(2);
    /// The bytes at the beginning, and of each sample.
    const HEADER: usize = 256 << 10;
    const SAMPLE: usize = 4096;
    const SAMPLES: usize = 64;

    pub(super) fn of_mapped(file: &MappedFile) -> Result<String, String> {
        let facts = file.metadata();
        let since = |seconds: i64, nanoseconds: i64| {
            let time =
                UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, nanoseconds as u32))?;
            SystemTime::now().duration_since(time).ok()
        };
        let ages = [since(facts.mtime(), facts.mtime_nsec()), since(facts.ctime(), facts.ctime_nsec())];
        let path = file.path().display();
        if ages.iter().any(Option::is_none) {
            return Err(format!("{path} was changed at a time in the future, or before 1970; `touch` it"));
        }
        if ages.iter().flatten().any(|age| *age < YOUNG) {
            return Err(format!("{path} changed less than {} seconds ago", YOUNG.as_secs()));
        }
        let bytes = file.bytes();
        let sample = |i: usize| {
            let start = bytes.len().saturating_sub(SAMPLE) / SAMPLES * (i + 1);
            checksum::of(bytes.get(start..).and_then(|rest| rest.get(..SAMPLE)).unwrap_or_default())
        };
        let mut sums = vec![checksum::of(bytes.get(..HEADER).unwrap_or(bytes))];
        sums.extend((0..SAMPLES).map(sample));
        Ok(format!(
            "{}:{}:{}:{}.{:09}:{}.{:09}:{:016x}",
            facts.dev(),
            facts.ino(),
            facts.len(),
            facts.mtime(),
            facts.mtime_nsec(),
            facts.ctime(),
            facts.ctime_nsec(),
            checksum::combine(&sums, bytes.len() as u64),
        ))
    }
}
