//! The bytes of a file: mapped, or read into memory.

use crate::error::{Error, Result};
use crate::map::MappedFile;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read into memory between two events.
const PIECE: u64 = 16 << 20;

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

/// The progress of a file that is read into memory.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReadEvent<'a> {
    /// The file.
    pub path: &'a Path,
    /// Bytes that were read.
    pub done: u64,
    /// Bytes of the file.
    pub total: u64,
}

/// Maps files or reads them into memory, and reports how far it is. Mapped files have no events.
pub(crate) struct FileReader<'a> {
    pub(crate) load: Load,
    /// Called before every piece. `Break` cancels the reading.
    pub(crate) watch: &'a mut dyn FnMut(&ReadEvent<'_>) -> ControlFlow<()>,
}

impl FileReader<'_> {
    /// Maps or reads the file at `path`.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Bytes> {
        match self.load {
            Load::Map => MappedFile::open_weights(path).map(Bytes::Mapped),
            Load::Copy => {
                let bytes = self.read(path).map_err(|error| Error::io(path, &error))?;
                Ok(Bytes::Memory { path: path.to_owned(), bytes: Arc::new(bytes) })
            }
        }
    }

    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let total = file.metadata()?.len();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(total).unwrap_or(usize::MAX))?;
        loop {
            let event = ReadEvent { path, done: bytes.len() as u64, total };
            if (self.watch)(&event).is_break() {
                return Err(io::Error::other("reading was cancelled"));
            }
            if file.by_ref().take(PIECE).read_to_end(&mut bytes)? == 0 {
                return Ok(bytes);
            }
        }
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
        FileReader { load, watch: &mut |_| ControlFlow::Continue(()) }.open(path.as_ref())
    }

    /// Returns the bytes that are in memory already.
    pub fn from_memory(name: &str, bytes: Vec<u8>) -> Bytes {
        Bytes::Memory { path: PathBuf::from(name), bytes: Arc::new(bytes) }
    }

    /// Returns all bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(file) => file.bytes(),
            Bytes::Memory { bytes, .. } => bytes,
        }
    }

    /// Returns the path that they came from.
    pub fn path(&self) -> &Path {
        match self {
            Bytes::Mapped(file) => file.path(),
            Bytes::Memory { path, .. } => path,
        }
    }
}
