//! Read-only memory over files, mapped or read: weights are used where they lie.

use super::{Allocation, Allocator, Request};
use crate::device::Device;
use crate::error::{Error, Result};
use silicide_hal::HostRegion;
use silicide_weights::Bytes;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Checks a range of a file and makes it an allocator that hands out just that range.
pub(crate) fn mapped_range(file: &Bytes, range: &Range<usize>) -> Result<Arc<dyn Allocator>> {
    let size = file.as_slice().len();
    let bytes = range.end.saturating_sub(range.start);
    if bytes == 0 {
        return Err(Error::ZeroSize { what: "mapped file" });
    }
    if range.end > size {
        return Err(Error::OutOfBounds { what: "mapped file", offset: range.start, bytes, size });
    }
    Ok(Arc::new(MappedRange { file: file.clone(), start: range.start, bytes }))
}

/// One range of a file, as the allocator of the one buffer over it.
#[derive(Debug)]
struct MappedRange {
    file: Bytes,
    start: usize,
    bytes: usize,
}

impl Allocator for MappedRange {
    fn name(&self) -> &'static str {
        "mapped"
    }

    fn allocate(&self, device: &Device, request: &Request) -> Result<Allocation> {
        let Some(slice) = self
            .file
            .as_slice()
            .get(self.start..self.start + self.bytes)
            .filter(|s| s.len() >= request.bytes)
        else {
            let (offset, bytes, size) = (self.start, request.bytes, self.file.as_slice().len());
            return Err(Error::OutOfBounds { what: "mapped file", offset, bytes, size });
        };
        let start = NonNull::from(slice).cast::<u8>();
        let host = HostRegion { start, bytes: request.bytes, writable: false };
        let owner = Box::new(self.file.clone());
        // SAFETY: the bytes live, and stay as they are, as long as `owner`, which is dropped after the block is freed.
        unsafe { device.memory().import(host, request.purpose, owner) }
    }
}
