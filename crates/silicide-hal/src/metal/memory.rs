//! Blocks: one `MTLBuffer` each, allocated, laid over host memory, or adopted from the application.
//!
//! The core cuts its buffers out of few big blocks, so nothing here is made for being called often; reading a block
//! while encoding is a look into a slab. Metal tracks no hazards of these buffers: the fence and the list's barriers
//! order what touches them.

use super::gpu::Gpu;
use super::residency::Residency;
use super::{Object, text};
use crate::window::Window;
use crate::{BlockDesc, HalError, HostRegion, Imported, MemoryKind, RawBlock, Result};
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBuffer, MTLDevice, MTLResource, MTLResourceOptions, MTLStorageMode};
use slab::Slab;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A buffer.
pub(super) struct MetalBlock {
    pub(super) buffer: Object<dyn MTLBuffer>,
    /// Where the host sees it; nowhere for imports, which the host has already.
    host: Option<NonNull<[u8]>>,
}

// SAFETY: Metal's buffers may be used from any thread. Their bytes are touched only as `RawDevice::map` and `submit` allow.
unsafe impl Send for MetalBlock {}
// SAFETY: Metal's buffers may be used from several threads at once; nothing here writes to the object.
unsafe impl Sync for MetalBlock {}

/// All blocks of a device.
pub(super) struct Blocks {
    gpu: Arc<Gpu>,
    residency: Arc<Residency>,
    blocks: RwLock<Slab<MetalBlock>>,
}

impl Blocks {
    pub(super) fn new(gpu: &Arc<Gpu>, residency: &Arc<Residency>) -> Blocks {
        Blocks { gpu: gpu.clone(), residency: residency.clone(), blocks: RwLock::default() }
    }

    /// Returns the blocks, for looking many up.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Slab<MetalBlock>> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`RawDevice::alloc`](crate::RawDevice::alloc).
    pub(super) fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        self.gpu.check()?;
        let out_of_memory = HalError::OutOfMemory { requested: desc.bytes };
        // Whole words, so that fills and word-sized views reach the last byte. Beyond the longest buffer Metal aborts
        // instead of refusing.
        let size = desc.bytes.checked_next_multiple_of(16);
        let Some(size) = size.filter(|size| *size <= self.gpu.adapter.info.limits.max_block) else {
            return Err(out_of_memory);
        };
        let storage = match desc.kind {
            MemoryKind::Shared => MTLResourceOptions::StorageModeShared,
            MemoryKind::Private => MTLResourceOptions::StorageModePrivate,
        };
        let options = storage | MTLResourceOptions::HazardTrackingModeUntracked;
        autoreleasepool(|_| {
            let buffer = self.gpu.device().newBufferWithLength_options(size, options).ok_or(out_of_memory)?;
            buffer.setLabel(Some(&text(&format!("silicide block of {size} bytes"))));
            let host = match desc.kind {
                MemoryKind::Shared => {
                    Some(NonNull::slice_from_raw_parts(buffer.contents().cast(), desc.bytes))
                }
                MemoryKind::Private => None,
            };
            Ok(self.keep(buffer, host))
        })
    }

    /// See [`RawDevice::import`](crate::RawDevice::import). The block is the window of whole pages around the region.
    pub(super) fn import(&self, region: HostRegion) -> Result<Option<Imported>> {
        self.gpu.check()?;
        if !self.gpu.adapter.info.features.host_import {
            return Ok(None);
        }
        let Some(window) = Window::round(&region, self.gpu.adapter.page) else { return Ok(None) };
        let bytes = usize::try_from(window.bytes).unwrap_or(usize::MAX);
        let start = NonNull::new(window.start).filter(|_| bytes <= self.gpu.adapter.info.limits.max_block);
        let Some(start) = start else { return Ok(None) };
        let options = MTLResourceOptions::StorageModeShared | MTLResourceOptions::HazardTrackingModeUntracked;
        autoreleasepool(|_| {
            // SAFETY: whole pages that the caller keeps alive until the block is freed, so nothing is left to do then;
            // kernels write only what the core lets them.
            let buffer = unsafe {
                self.gpu
                    .device()
                    .newBufferWithBytesNoCopy_length_options_deallocator(start, bytes, options, None)
            };
            // Pages that can't be wired are refused: the caller copies instead.
            let Some(buffer) = buffer else { return Ok(None) };
            buffer.setLabel(Some(&text("silicide import")));
            Ok(Some(Imported { block: self.keep(buffer, None), offset: window.before }))
        })
    }

    /// See [`RawDevice::adopt`](crate::RawDevice::adopt).
    ///
    /// # Safety
    /// `object` is an `MTLBuffer`.
    pub(super) unsafe fn adopt(&self, object: NonNull<c_void>) -> Result<Option<RawBlock>> {
        autoreleasepool(|_| {
            // SAFETY: `object` is a live `MTLBuffer` (`# Safety`).
            let buffer = unsafe { Retained::retain(object.as_ptr().cast::<ProtocolObject<dyn MTLBuffer>>()) };
            let Some(buffer) = buffer else { return Ok(None) };
            if buffer.device().registryID() != self.gpu.device().registryID() {
                let detail = "the buffer belongs to another device".to_owned();
                return Err(HalError::Driver { call: "adopt", detail });
            }
            let host = match buffer.storageMode() {
                MTLStorageMode::Shared => {
                    Some(NonNull::slice_from_raw_parts(buffer.contents().cast(), buffer.length()))
                }
                MTLStorageMode::Private => None,
                // Managed memory has two copies that would have to be synchronized.
                _ => {
                    let detail = "only buffers of shared or private storage can be used".to_owned();
                    return Err(HalError::Driver { call: "adopt", detail });
                }
            };
            Ok(Some(self.keep(buffer, host)))
        })
    }

    /// See [`RawDevice::free`](crate::RawDevice::free).
    pub(super) fn free(&self, block: RawBlock) {
        let freed = self.write().try_remove(block.0 as usize);
        if let Some(block) = freed {
            autoreleasepool(|_| {
                self.residency.remove(&block.buffer);
                drop(block);
            });
        }
    }

    /// See [`RawDevice::map`](crate::RawDevice::map).
    pub(super) fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
        self.read().get(block.0 as usize)?.host
    }

    fn keep(&self, buffer: Object<dyn MTLBuffer>, host: Option<NonNull<[u8]>>) -> RawBlock {
        self.residency.add(&buffer);
        RawBlock(self.write().insert(MetalBlock { buffer, host }) as u64)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slab<MetalBlock>> {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let blocks = std::mem::take(&mut *self.write());
        autoreleasepool(|_| {
            for (_, block) in &blocks {
                self.residency.remove(&block.buffer);
            }
            drop(blocks);
        });
    }
}
