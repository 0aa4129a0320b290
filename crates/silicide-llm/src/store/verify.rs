//! Checks stored models by their hash.
//!
//! Hashing reads the whole file, so it is not done for every run. A stamp beside the model has the hash of a file with this
//! length, times and inode. The file is hashed again when any of them differs.
//!
//! A stamp finds accidents (a bad disk, a copy that was cut, a program that wrote to the file), not attackers: a program that can write
//! to the store can write stamps.

use super::catalog::KnownModel;
use super::error::{Result, StoreError};
use super::{Store, StoredModel};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Bytes that are read and hashed at a time.
const PIECE: usize = 1 << 20;

/// The result of a check of a stored model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// The hash is right.
    Right,
    /// The hash or the size is wrong.
    Damaged {
        /// The known hash, in lower-case hexadecimal.
        expected: String,
        /// The hash of the file.
        got: String,
    },
    /// The model is not a known one, so it has no known hash.
    Unknown,
}

impl Store {
    /// Hashes a stored model, ignoring its stamp. Calls `watch` with the bytes done, and stops at its error.
    pub fn verify(&self, stored: &StoredModel, watch: &mut dyn FnMut(u64) -> Result<()>) -> Result<Verified> {
        let Some(model) = KnownModel::find(&stored.name) else { return Ok(Verified::Unknown) };
        self.verify_as(model, stored, watch)
    }

    /// [`Store::verify`] against the hash of `model`. Writes a stamp if the hash is right.
    pub(super) fn verify_as(
        &self,
        model: &KnownModel,
        stored: &StoredModel,
        watch: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Verified> {
        let (got, facts) = hash(&stored.path, watch)?;
        if got != model.sha256 {
            let _ = std::fs::remove_file(stamp_path(&stored.path));
            return Ok(Verified::Damaged { expected: model.sha256.to_owned(), got });
        }
        write_stamp(&stored.path, &got, &facts);
        Ok(Verified::Right)
    }

    /// Returns whether the stamp says that the file has the hash of `model`.
    pub(super) fn has_stamp(&self, model: &KnownModel, stored: &StoredModel) -> bool {
        let facts = std::fs::metadata(&stored.path).map(|data| facts(&data)).ok();
        let stamp = std::fs::read_to_string(stamp_path(&stored.path)).ok();
        facts.is_some_and(|facts| stamp == Some(stamp_text(model.sha256, &facts)))
    }

    /// Writes the stamp of a model that has just been hashed.
    pub(super) fn stamp(&self, model: &KnownModel, path: &Path) {
        if let Ok(data) = std::fs::metadata(path) {
            write_stamp(path, model.sha256, &facts(&data));
        }
    }

    /// Removes the stamp of a model.
    pub(super) fn remove_stamp(&self, path: &Path) {
        let _ = std::fs::remove_file(stamp_path(path));
    }
}

/// Returns the path of a model's stamp.
fn stamp_path(model: &Path) -> PathBuf {
    let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    model.with_file_name(format!(".{name}.verified"))
}

/// Writes a stamp. In a read-only store this fails, and the file is hashed each time.
fn write_stamp(model: &Path, hash: &str, facts: &str) {
    let _ = std::fs::write(stamp_path(model), stamp_text(hash, facts));
}

fn stamp_text(hash: &str, facts: &str) -> String {
    format!("sha256 {hash} {facts}\n")
}

/// Returns the metadata that changes when a file is written to or replaced.
fn facts(data: &Metadata) -> String {
    let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.map_or(0, |since| since.as_nanos());
    #[cfg(unix)]
    let (inode, changed) = {
        use std::os::unix::fs::MetadataExt;
        (data.ino(), i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec()))
    };
    #[cfg(not(unix))]
    let (inode, changed) = (0, 0);
    format!("bytes {} modified {modified} changed {changed} inode {inode}", data.len())
}

/// Returns the SHA-256 of a file in lower-case hexadecimal, and its facts from before it was read.
fn hash(path: &Path, watch: &mut dyn FnMut(u64) -> Result<()>) -> Result<(String, String)> {
    let failed = |error: std::io::Error| StoreError::io("read", path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let facts = facts(&file.metadata().map_err(failed)?);
    let (mut hash, mut piece, mut done) = (Sha256::new(), vec![0; PIECE], 0u64);
    loop {
        watch(done)?;
        let count = file.read(&mut piece).map_err(failed)?;
        let Some(part) = piece.get(..count).filter(|part| !part.is_empty()) else { break };
        hash.update(part);
        done += count as u64;
    }
    Ok((hexadecimal(&hash.finalize()), facts))
}

/// Returns the bytes in lower-case hexadecimal.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
