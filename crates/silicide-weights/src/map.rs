//! Files mapped read-only. The only unsafe code of this crate.

use crate::error::{Error, Result};
use memmap2::Mmap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file mapped read-only, shared by everything over it. Cloning shares the mapping.
#[derive(Clone, Debug)]
pub struct MappedFile {
    map: Arc<Mmap>,
    path: Arc<Path>,
    metadata: Metadata,
}

impl MappedFile {
    /// Maps a whole file.
    ///
    /// # Safety
    ///
    /// No process changes or truncates the file while a `MappedFile`, or memory over it, lives. A change would alter bytes
    /// behind `&[u8]`; reading past a new end raises SIGBUS.
    #[allow(unsafe_code)]
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<MappedFile> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::io(path, &error))?;
        // SAFETY: no process changes the file while the mapping lives (`# Safety`).
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io(path, &error))?;
        let metadata = file.metadata().map_err(|error| Error::io(path, &error))?;
        Ok(MappedFile { map: Arc::new(map), path: path.into(), metadata })
    }

    /// Maps a weight file. By convention a weight file is not changed in place: it is written once, and replaced by a rename. A
    /// file whose size changes while it is mapped is refused.
    ///
    /// This is the one place where silicide relies on a convention instead of a proof. See [`MappedFile::open`] for what could
    /// go wrong, and [`Load::Copy`](crate::Load::Copy) for a way without.
    #[allow(unsafe_code)]
    pub fn open_weights(path: impl AsRef<Path>) -> Result<MappedFile> {
        let path = path.as_ref();
        let size =
            |path: &Path| std::fs::metadata(path).map(|m| m.len()).map_err(|error| Error::io(path, &error));
        let before = size(path)?;
        // SAFETY: weight files are not changed in place: a convention, which the documentation of this function states.
        let file = unsafe { MappedFile::open(path) }?;
        if before != file.bytes().len() as u64 || before != size(path)? {
            let detail = "its size changed while it was being opened; wait until it is written".to_owned();
            return Err(Error::Io { path: path.to_owned(), detail });
        }
        Ok(file)
    }

    /// Returns the file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Releases the memory of the pages in `range`. They stay readable: a later read loads them from the file again.
    pub fn release(&self, range: Range<usize>) {
        let range = range.start..range.end.min(self.map.len());
        // Other systems take memory back without advice.
        #[cfg(not(unix))]
        let _ = range;
        #[cfg(unix)]
        if !range.is_empty() {
            use memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: `open` made a shared, read-only mapping, so dropping its pages loses nothing: the next read loads them
            // from the file, which is not changed (`open`, `# Safety`).
            #[allow(unsafe_code)]
            let advised = unsafe { self.map.unchecked_advise_range(DontNeed, range.start, range.len()) };
            // Only advice: memory stays taken where the system refuses it.
            let _ = advised;
        }
    }

    /// Returns the metadata of the mapped file as it was after mapping. A file that has replaced it since has others.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
