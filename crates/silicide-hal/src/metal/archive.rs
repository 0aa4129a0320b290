//! The binary archive: compiled pipelines of earlier runs.
//!
//! The core keeps it as one file of bytes, written whole or not at all, under the fingerprint of GPU, system and
//! translator. Metal reads and writes archives by path, so here it is a temporary file while the device lives. An
//! archive that Metal does not take is as good as none.

use super::gpu::Gpu;
use super::{Object, text};
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSArray, NSError, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor, MTLComputePipelineState,
    MTLDevice, MTLPipelineOption,
};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Pipelines from disk, and those to be put there.
pub(super) struct Archive {
    state: Mutex<ArchiveState>,
    /// Whether the archive holds pipelines of an earlier run.
    was_loaded: bool,
    /// Where the files are, as long as Metal may read them.
    directory: TempDir,
}

struct ArchiveState {
    raw: Object<dyn MTLBinaryArchive>,
    /// Pipelines that were not found.
    missed: Vec<Retained<MTLComputePipelineDescriptor>>,
}

// SAFETY: Metal's archives and descriptors may be used from any thread, one at a time; `Archive` keeps this behind a lock.
unsafe impl Send for ArchiveState {}

impl Archive {
    /// Returns an archive over what an earlier run left; over nothing when that is not good any more. `None` when there can't
    /// be one: everything is then compiled in every run.
    pub(super) fn open(gpu: &Gpu, bytes: &[u8]) -> Option<Archive> {
        let directory = TempDir::with_prefix("silicide-metal-").ok()?;
        let path = directory.path().join("loaded.archive");
        let loaded = match bytes.is_empty() {
            true => None,
            false => std::fs::write(&path, bytes).ok().and_then(|()| create(gpu, Some(&path))),
        };
        let was_loaded = loaded.is_some();
        let raw = loaded.or_else(|| create(gpu, None))?;
        Some(Archive { state: Mutex::new(ArchiveState { raw, missed: Vec::new() }), was_loaded, directory })
    }

    /// Returns a pipeline, from the archive if it is there.
    pub(super) fn pipeline(
        &self,
        gpu: &Gpu,
        descriptor: &Retained<MTLComputePipelineDescriptor>,
    ) -> Result<Object<dyn MTLComputePipelineState>, Retained<NSError>> {
        if self.was_loaded {
            let raw = self.lock().raw.clone();
            descriptor.setBinaryArchives(Some(&NSArray::from_retained_slice(&[raw])));
            let found = pipeline(gpu, descriptor, true);
            descriptor.setBinaryArchives(None);
            if found.is_ok() {
                return found;
            }
        }
        let made = pipeline(gpu, descriptor, false)?;
        self.lock().missed.push(descriptor.clone());
        Ok(made)
    }

    /// Returns the archive with all that was missed, as bytes; empty when nothing was, or when it can't be written.
    pub(super) fn serialize(&self) -> Vec<u8> {
        let mut state = self.lock();
        if state.missed.is_empty() {
            return Vec::new();
        }
        let path = self.directory.path().join("saved.archive");
        autoreleasepool(|_| {
            for descriptor in std::mem::take(&mut state.missed) {
                // One that can't be kept is compiled again next time.
                let _ = state.raw.addComputePipelineFunctionsWithDescriptor_error(&descriptor);
            }
            let written = url(&path).map(|url| state.raw.serializeToURL_error(&url));
            match written {
                Some(Ok(())) => std::fs::read(&path).unwrap_or_default(),
                _ => Vec::new(),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, ArchiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a pipeline; with `archived`, only if an archive of the descriptor has it.
pub(super) fn pipeline(
    gpu: &Gpu,
    descriptor: &MTLComputePipelineDescriptor,
    archived: bool,
) -> Result<Object<dyn MTLComputePipelineState>, Retained<NSError>> {
    let options = match archived {
        true => MTLPipelineOption::FailOnBinaryArchiveMiss,
        false => MTLPipelineOption::None,
    };
    gpu.device().newComputePipelineStateWithDescriptor_options_reflection_error(descriptor, options, None)
}

fn create(gpu: &Gpu, from: Option<&Path>) -> Option<Object<dyn MTLBinaryArchive>> {
    let descriptor = MTLBinaryArchiveDescriptor::new();
    let url = match from {
        Some(path) => Some(url(path)?),
        None => None,
    };
    descriptor.setUrl(url.as_deref());
    let made: Result<Retained<ProtocolObject<dyn MTLBinaryArchive>>, _> =
        gpu.device().newBinaryArchiveWithDescriptor_error(&descriptor);
    made.ok()
}

/// Returns a path as a file URL; `None` for names that are not Unicode.
pub(super) fn url(path: &Path) -> Option<Retained<NSURL>> {
    Some(NSURL::fileURLWithPath(&text(path.to_str()?)))
}
