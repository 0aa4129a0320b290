//! Models on this machine: a folder of files that were pulled by name and checked.
//!
//! A [`Store`] is a folder of models. [`Store::pull`] downloads one by name, [`Store::list`] lists them, [`Store::resolve`]
//! turns a path or a name into a file. A [`KnownModel`] is a name that can be pulled.
//!
//! A file appears under its name only when it is complete and its hash is right. An interrupted pull leaves a folder, which
//! the next pull deletes. A stored model that has changed is hashed again.

mod catalog;
mod error;
mod names;
mod pip;
mod process;
mod pull;
pub(crate) mod space;
mod unpack;
mod verify;

pub use catalog::KnownModel;
pub use error::StoreError;
pub use pip::Pip;
pub use pull::{PullEvent, PullOptions, PullPhase, PullProgress};
pub use verify::Verified;

use error::Result;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The environment variable that sets the cache folder.
pub const CACHE_VARIABLE: &str = "SILICIDE_CACHE";
/// The extension of model files.
const EXTENSION: &str = "gguf";

/// Returns the cache folder of silicide: `SILICIDE_CACHE` if it is set, otherwise `silicide` in the user's cache folder
/// (`$XDG_CACHE_HOME` or `~/.cache`; `%LOCALAPPDATA%` on Windows). Returns `None` for a user without a home folder.
pub fn cache_dir() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    let chosen = std::env::var_os(CACHE_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    chosen.or_else(|| Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("silicide")))
}

/// A folder of models.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

/// A stored model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredModel {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The size of the file.
    pub bytes: u64,
    /// When it was stored, if the system has the time.
    pub modified: Option<SystemTime>,
}

impl Store {
    /// Opens the user's store: `models` in the [cache folder](cache_dir).
    pub fn open() -> Result<Store> {
        Ok(Store::at(cache_dir().ok_or(StoreError::NoHome)?.join("models")))
    }

    /// Returns a store in `directory`, which the first pull creates.
    pub fn at(directory: impl Into<PathBuf>) -> Store {
        Store { directory: directory.into() }
    }

    /// Returns the folder.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the stored models, sorted by name.
    pub fn list(&self) -> Result<Vec<StoredModel>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("read", &self.directory, &error)),
        };
        let mut models = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| StoreError::io("read", &self.directory, &error))?.path();
            let named = path.extension().is_some_and(|extension| extension == EXTENSION);
            let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| named);
            let (Some(name), Ok(metadata)) = (name, std::fs::metadata(&path)) else { continue };
            if metadata.is_file() {
                let (name, bytes) = (name.to_owned(), metadata.len());
                models.push(StoredModel { name, path, bytes, modified: metadata.modified().ok() });
            }
        }
        models.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(models)
    }

    /// Returns the stored model called `name`. Case is ignored unless two names differ only in it.
    pub fn find(&self, name: &str) -> Result<Option<StoredModel>> {
        let models = self.list()?;
        let exact = models.iter().find(|model| model.name == name);
        let found = exact.or_else(|| models.iter().find(|model| model.name.eq_ignore_ascii_case(name)));
        Ok(found.cloned())
    }

    /// Pulls a model by name, unless it is stored. See [`Store::pull_model`].
    pub fn pull(&self, name: &str, options: &PullOptions) -> Result<StoredModel> {
        let model = KnownModel::find(name).ok_or_else(|| not_pullable(name))?;
        self.pull_model(model, options)
    }

    /// Deletes a model.
    pub fn remove(&self, name: &str) -> Result<StoredModel> {
        let model = self.find(name)?.ok_or_else(|| {
            let stored = self.list().map(|models| joined(models.iter().map(|model| model.name.as_str())));
            StoreError::NotHere { name: name.to_owned(), stored: stored.unwrap_or_default() }
        })?;
        std::fs::remove_file(&model.path).map_err(|error| StoreError::io("delete", &model.path, &error))?;
        self.remove_stamp(&model.path);
        Ok(model)
    }

    /// Returns the path of a model: `name_or_path` if it exists, else the stored model of that name, else the known model of
    /// that name, which is pulled.
    pub fn resolve(&self, name_or_path: &str, options: &PullOptions) -> Result<PathBuf> {
        let path = Path::new(name_or_path);
        if path.exists() {
            return Ok(path.to_owned());
        }
        let Some(known) = KnownModel::find(name_or_path) else {
            return match self.find(name_or_path)? {
                Some(model) => Ok(model.path),
                None => Err(self.unknown(name_or_path)),
            };
        };
        // A damaged model is an error here: only `pull` downloads it again.
        match self.checked(known, options)? {
            Some(model) => Ok(model.path),
            None => self.pull_model(known, options).map(|model| model.path),
        }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.{EXTENSION}"))
    }

    fn unknown(&self, name: &str) -> StoreError {
        if names::is_remote(name) {
            return StoreError::Hub { name: name.to_owned() };
        }
        let stored: Vec<String> =
            self.list().unwrap_or_default().into_iter().map(|model| model.name).collect();
        let mut all: Vec<&str> = known_names().collect();
        all.extend(stored.iter().map(String::as_str));
        let hint = hint(name, &all);
        StoreError::Unknown { name: name.to_owned(), known: joined(known_names()), hint }
    }
}

/// Returns the error of a pull of an unknown `name`.
fn not_pullable(name: &str) -> StoreError {
    if names::is_remote(name) {
        return StoreError::Hub { name: name.to_owned() };
    }
    let hint = hint(name, &known_names().collect::<Vec<_>>());
    StoreError::NotPullable { name: name.to_owned(), known: joined(known_names()), hint }
}

fn known_names() -> impl Iterator<Item = &'static str> {
    KnownModel::ALL.iter().map(|model| model.name)
}

/// Returns the name of `all` that is nearest, as the rest of a sentence.
fn hint(name: &str, all: &[&str]) -> String {
    names::nearest(name, all.iter().copied())
        .map(|near| format!(" (did you mean {near:?}?)"))
        .unwrap_or_default()
}

fn joined<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
