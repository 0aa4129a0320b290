//! The bytes of a file: mapped, or read into memory.

use crate::error::{Error, Result};
use crate::map::MappedFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the bytes of a file are had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// Mapped; see [`MappedFile::open_weights`] for what that relies on.
    #[default]
    Map,
    /// Read into memory: slower and larger, but nothing that happens to the file later matters.
    Copy,
}

impl Load {
    /// Returns `Copy` for a path on a network file system or one that a user process serves (FUSE), `Map` elsewhere.
    /// There a file can change or disappear while it is mapped, which kills the process.
    pub fn preferred(path: &Path) -> Load {
        if crate::network::is_remote(path) { Load::Copy } else { Load::Map }
    }
}

/// The bytes of a file, shared by everything over them.
#[derive(Clone, Debug)]
pub enum Bytes {
    /// Mapped: pages are read when they are touched.
    Mapped(MappedFile),
    /// In memory.
    Memory {
        /// Where they came from, for messages.
        path: PathBuf,
        /// The bytes.
        bytes: Arc<Vec<u8>>,
    },
}

impl Bytes {
    /// Maps or reads a file.
    pub fn load(path: impl AsRef<Path>, load: Load) -> Result<Bytes> {
        let path = path.as_ref();
        if load == Load::Map {
            return MappedFile::open_weights(path).map(Bytes::Mapped);
        }
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, &error))?;
        Ok(Bytes::Memory { path: path.to_owned(), bytes: Arc::new(bytes) })
    }

    /// Bytes that are in memory already.
    pub fn from_memory(name: &str, bytes: Vec<u8>) -> Bytes {
        Bytes::Memory { path: PathBuf::from(name), bytes: Arc::new(bytes) }
    }

    /// All of them.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(file) => file.bytes(),
            Bytes::Memory { bytes, .. } => bytes,
        }
    }

    /// Where they came from.
    pub fn path(&self) -> &Path {
        match self {
            Bytes::Mapped(file) => file.path(),
            Bytes::Memory { path, .. } => path,
        }
    }
}
