//! Read-only memory over mapped files: weights are used where they lie.

use super::{Allocation, Allocator, Request};
use crate::device::Device;
use crate::error::{Error, Result};
use memmap2::Mmap;
use silicide_hal::HostRegion;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// A file mapped read-only, shared by all buffers over it.
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
    /// Nobody may change or shorten the file while a `MappedFile` or a buffer over it lives: the bytes would
    /// change under `&[u8]`, and reading past the new end kills the process.
    pub unsafe fn open(path: &Path) -> Result<MappedFile> {
        let io =
            |error: std::io::Error| Error::Io { path: path.display().to_string(), detail: error.to_string() };
        let file = File::open(path).map_err(io)?;
        // SAFETY: the caller promises that the file stays as it is.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(MappedFile { map: Arc::new(map), path: path.into() })
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a range and makes it an allocator that hands out just that range.
    pub(crate) fn range(&self, range: &Range<usize>) -> Result<Arc<dyn Allocator>> {
        let size = self.map.len();
        let bytes = range.end.saturating_sub(range.start);
        if bytes == 0 {
            return Err(Error::ZeroSize { what: "mapped file" });
        }
        if range.end > size {
            return Err(Error::OutOfBounds { what: "mapped file", offset: range.start, bytes, size });
        }
        Ok(Arc::new(MappedRange { map: Arc::clone(&self.map), start: range.start, bytes }))
    }
}

/// One range of a mapped file, as the allocator of the one buffer over it.
#[derive(Debug)]
struct MappedRange {
    map: Arc<Mmap>,
    start: usize,
    bytes: usize,
}

impl Allocator for MappedRange {
    fn name(&self) -> &'static str {
        "mapped"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        let Some(slice) =
            self.map.get(self.start..self.start + self.bytes).filter(|s| s.len() >= request.bytes)
        else {
            let (offset, bytes, size) = (self.start, request.bytes, self.map.len());
            return Err(Error::OutOfBounds { what: "mapped file", offset, bytes, size });
        };
        let start = NonNull::from(slice).cast::<u8>();
        let host = HostRegion { start, bytes: request.bytes, writable: false };
        let owner = Box::new(Arc::clone(&self.map));
        // SAFETY: the mapping lives as long as `owner`, which is dropped after the block is freed.
        unsafe { device.memory().import(host, request.purpose, owner) }
    }
}
