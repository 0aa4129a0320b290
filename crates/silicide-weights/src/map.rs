//! Files mapped read-only. The only unsafe code of this crate.

use crate::error::{Error, Result};
use memmap2::Mmap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file mapped read-only, shared by everything over it. Cloning shares the mapping.
#[derive(Clone, Debug)]
pub struct MappedFile {
    map: Arc<Mmap>,
    path: Arc<Path>,
}

impl MappedFile {
    /// Maps a whole file.
    ///
    /// # Safety
    ///
    /// Nobody may change or shorten the file while a `MappedFile` or something over it lives: the bytes would
    /// change under `&[u8]`, and reading past the new end kills the process.
    #[allow(unsafe_code)]
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<MappedFile> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::io(path, &error))?;
        // SAFETY: the caller promises that the file stays as it is.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io(path, &error))?;
        Ok(MappedFile { map: Arc::new(map), path: path.into() })
    }

    /// Maps a weight file, which by convention nobody changes in place: they are written once and replaced by
    /// renaming. A file whose size changes while it is being mapped is refused.
    ///
    /// This is the one place where silicide relies on the file system's manners rather than on a proof; see
    /// [`MappedFile::open`] for what could go wrong, and [`Load::Copy`](crate::Load::Copy) for a way without.
    #[allow(unsafe_code)]
    pub fn open_weights(path: impl AsRef<Path>) -> Result<MappedFile> {
        let path = path.as_ref();
        let size =
            |path: &Path| std::fs::metadata(path).map(|m| m.len()).map_err(|error| Error::io(path, &error));
        let before = size(path)?;
        // SAFETY: weight files are not changed in place, see above.
        let file = unsafe { MappedFile::open(path) }?;
        if before != file.bytes().len() as u64 || before != size(path)? {
            let detail = "its size changed while it was being opened; wait until it is written".to_owned();
            return Err(Error::Io { path: path.to_owned(), detail });
        }
        Ok(file)
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Lets the system take back the memory of bytes that were read and will not be soon. They stay readable: they
    /// come from the file again.
    pub fn release(&self, range: Range<usize>) {
        let range = range.start..range.end.min(self.map.len());
        // Other systems take memory back without advice.
        #[cfg(not(unix))]
        let _ = range;
        #[cfg(unix)]
        if !range.is_empty() {
            use memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: dropping pages of a shared, read-only mapping of a file loses nothing: who reads them next gets
            // them from the file, which nobody changes.
            #[allow(unsafe_code)]
            let advised = unsafe { self.map.unchecked_advise_range(DontNeed, range.start, range.len()) };
            // Only advice: memory stays taken where the system refuses it.
            let _ = advised;
        }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
