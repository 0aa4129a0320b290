//! Repacked weights on disk: a folder with one file for each model and instruction set, which later runs map.
//!
//! Repacked weights in memory are anonymous pages, which a system short of memory can only swap. Those of a mapped file can be dropped and read
//! again, so a model nearly as large as the memory runs repacked too, and a new process repacks nothing.
//!
//! | file | what |
//! |---|---|
//! | `identity` | what a file is bound to: the model's files as they are now |
//! | `file` | the format; reading, which refuses all but a whole file for this model, and writing |
//! | `checksum` | a checksum at the speed of memory |
//!
//! A file is never trusted: it is used if its checksum is right and it was written for the same files of the model, the same layout
//! and the same instruction set. Otherwise it is written again. Files appear by renaming, so that no process maps half of one.
//! Two processes may write at the same time: the last one's file stays, and both map a whole one.

mod checksum;
mod file;
mod identity;

pub(crate) use file::{RepackKey, RepackWriter, RepackedTensor, RepackedWeights};

use file::{EXTENSION, UNFINISHED};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A folder of repacked weights.
#[derive(Clone, Debug)]
pub struct RepackCache {
    directory: PathBuf,
}

/// The repacked weights of a model for one instruction set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepackedFile {
    /// Its name: of the model, of the instruction set, and a hash of both.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The size of the file.
    pub bytes: u64,
    /// The file or folder of the model; `None` if the file is damaged, or of another version.
    pub model: Option<PathBuf>,
    /// When it was written, if the system has the time.
    pub modified: Option<SystemTime>,
}

impl RepackCache {
    /// Returns the user's folder: `repacked` in the [cache folder](crate::store::cache_dir). `None` for a user without a home folder.
    pub fn open() -> Option<RepackCache> {
        Some(RepackCache::at(crate::store::cache_dir()?.join("repacked")))
    }

    /// Returns the folder at a path. The first model that is stored creates it.
    pub fn at(directory: impl Into<PathBuf>) -> RepackCache {
        RepackCache { directory: directory.into() }
    }

    /// Returns the path of the folder.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the stored files, sorted by name.
    pub fn list(&self) -> io::Result<Vec<RepackedFile>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION);
            let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_ours).map(str::to_owned);
            let (Some(name), Ok(metadata)) = (name, std::fs::metadata(&path)) else { continue };
            if metadata.is_file() {
                let model = file::model_of(&path);
                let modified = metadata.modified().ok();
                files.push(RepackedFile { name, path, bytes: metadata.len(), model, modified });
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// Deletes a stored file, which [`RepackCache::list`] has returned. Processes that map it keep it until they end.
    pub fn remove(&self, file: &RepackedFile) -> io::Result<()> {
        std::fs::remove_file(&file.path)
    }

    /// Returns the path of the weights of a key: one for each model, instruction set and kind of identity, so that a model that has
    /// changed replaces its file, and a model that is read into memory does not replace that of one that is mapped.
    fn path_of(&self, key: &RepackKey) -> PathBuf {
        let model = key.model.file_stem().unwrap_or_default().to_string_lossy();
        let readable: String = model
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .take(60)
            .collect();
        let kind = if key.is_hashed() { "\0hashed" } else { "" };
        let hash = checksum::of(format!("{}\0{}{kind}", key.model.display(), key.isa).as_bytes());
        self.directory.join(format!("{readable}-{}-{hash:016x}.{EXTENSION}", key.isa))
    }

    /// Deletes unfinished files of `path` whose writers have ended.
    fn remove_abandoned(&self, path: &Path) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with(&stem) || !name.ends_with(UNFINISHED) {
                continue;
            }
            // A writer holds the lock for as long as it lives.
            let is_abandoned = std::fs::File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if is_abandoned {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns whether the file at `path` must not be mapped: another machine could shorten it.
fn is_remote(path: &Path) -> bool {
    silicide_weights::Load::preferred(path) == silicide_weights::Load::Copy
}
