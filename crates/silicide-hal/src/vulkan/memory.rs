//! Blocks: one piece of device memory with one buffer over all of it, allocated or imported from the host.
//!
//! The core cuts its buffers out of few big blocks, so nothing here is made for being called often; reading a block
//! while recording is a look into a slab.

use super::gpu::Gpu;
use crate::window::Window;
use crate::{BlockDesc, HalError, HostRegion, Imported, RawBlock, Result};
use ash::vk;
use slab::Slab;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Memory with a buffer over it.
pub(super) struct VulkanBlock {
    pub(super) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    /// Where it is mapped; nowhere for imports, which the host has already.
    host: Option<NonNull<[u8]>>,
}

// SAFETY: handles are words, and the mapping is an address. Bytes are touched only as `RawDevice::map` and `submit` allow.
unsafe impl Send for VulkanBlock {}
// SAFETY: a shared block allows reading its handles and its address, nothing else.
unsafe impl Sync for VulkanBlock {}

/// All blocks of a device.
pub(super) struct Blocks {
    gpu: Arc<Gpu>,
    blocks: RwLock<Slab<VulkanBlock>>,
}

impl Blocks {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Blocks {
        Blocks { gpu: gpu.clone(), blocks: RwLock::default() }
    }

    /// Returns the blocks, for looking many up.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Slab<VulkanBlock>> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`RawDevice::alloc`](crate::RawDevice::alloc).
    pub(super) fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock> {
        self.gpu.check()?;
        let out_of_memory = HalError::OutOfMemory { requested: desc.bytes };
        // Whole words, so that fills and word-sized views reach the last byte.
        let Some(size) = (desc.bytes as u64).checked_next_multiple_of(16) else { return Err(out_of_memory) };
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::INDIRECT_BUFFER;
        let buffer =
            self.create_buffer(&vk::BufferCreateInfo::default().size(size).usage(usage), desc.bytes)?;
        let device = &self.gpu.device;
        // SAFETY: `create_buffer` made the buffer above, and `OwnedBuffer` keeps it.
        let needs = unsafe { device.get_buffer_memory_requirements(buffer.raw) };
        for index in self.gpu.adapter.memory.candidates(desc.kind, needs.memory_type_bits) {
            let allocate =
                vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
            match self.bind(&buffer, &allocate) {
                Ok(memory) => {
                    let host = match self.gpu.adapter.memory.is_visible(index) {
                        true => Some(self.map_memory(&memory, desc.bytes)?),
                        false => None,
                    };
                    return Ok(self.keep(buffer, memory, host));
                }
                Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY) => {}
                Err(result) => return Err(self.gpu.error("vkAllocateMemory", result)),
            }
        }
        Err(out_of_memory)
    }

    /// See [`RawDevice::import`](crate::RawDevice::import). The block is the aligned window round the region.
    pub(super) fn import(&self, region: HostRegion) -> Result<Option<Imported>> {
        self.gpu.check()?;
        let Some(functions) = &self.gpu.host_memory else { return Ok(None) };
        let window = Window::round(&region, self.gpu.adapter.import_alignment);
        let Some(window) = window.filter(|w| w.bytes <= self.gpu.adapter.info.limits.max_block as u64) else {
            return Ok(None);
        };
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_SRC;
        if region.writable {
            usage |= vk::BufferUsageFlags::TRANSFER_DST;
        }
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(kind);
        let create = vk::BufferCreateInfo::default().size(window.bytes).usage(usage).push_next(&mut external);
        let buffer = self.create_buffer(&create, region.bytes)?;
        let device = &self.gpu.device;
        let mut host = vk::MemoryHostPointerPropertiesEXT::default();
        let ask = functions.fp().get_memory_host_pointer_properties_ext;
        // SAFETY: the extension is enabled; the window is aligned and the caller keeps its pages alive.
        if unsafe { ask(device.handle(), kind, window.start.cast_const(), &mut host) } != vk::Result::SUCCESS
        {
            return Ok(None);
        }
        // SAFETY: `create_buffer` made the buffer above, and `OwnedBuffer` keeps it.
        let needs = unsafe { device.get_buffer_memory_requirements(buffer.raw) };
        let index = self.gpu.adapter.memory.for_import(needs.memory_type_bits & host.memory_type_bits);
        let Some(index) = index.filter(|_| needs.size <= window.bytes) else { return Ok(None) };
        let mut import =
            vk::ImportMemoryHostPointerInfoEXT::default().handle_type(kind).host_pointer(window.start);
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(window.bytes)
            .memory_type_index(index)
            .push_next(&mut import);
        match self.bind(&buffer, &allocate) {
            Ok(memory) => {
                let block = self.keep(buffer, memory, None);
                Ok(Some(Imported { block, offset: window.before }))
            }
            Err(vk::Result::ERROR_DEVICE_LOST) => {
                Err(self.gpu.error("vkAllocateMemory", vk::Result::ERROR_DEVICE_LOST))
            }
            // Drivers refuse pages they can't pin (read-only files, for some): the caller copies instead.
            Err(_) => Ok(None),
        }
    }

    /// See [`RawDevice::free`](crate::RawDevice::free).
    ///
    /// # Safety
    /// The block is live and every ticket that used it was reached.
    pub(super) unsafe fn free(&self, block: RawBlock) {
        if let Some(block) = self.write().try_remove(block.0 as usize) {
            // SAFETY: no longer in the slab, and the tickets that used it were reached (`# Safety`).
            unsafe { destroy(&self.gpu, &block) };
        }
    }

    /// See [`RawDevice::map`](crate::RawDevice::map).
    pub(super) fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>> {
        self.read().get(block.0 as usize)?.host
    }

    fn create_buffer(&self, create: &vk::BufferCreateInfo<'_>, bytes: usize) -> Result<OwnedBuffer<'_>> {
        // SAFETY: the device is alive; the chain lives on the caller's stack.
        match unsafe { self.gpu.device.create_buffer(create, None) } {
            Ok(raw) => Ok(OwnedBuffer { gpu: &self.gpu, raw }),
            Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY) => {
                Err(HalError::OutOfMemory { requested: bytes })
            }
            Err(result) => Err(self.gpu.error("vkCreateBuffer", result)),
        }
    }

    /// Allocates memory and puts the buffer over it.
    fn bind(
        &self,
        buffer: &OwnedBuffer<'_>,
        allocate: &vk::MemoryAllocateInfo<'_>,
    ) -> std::result::Result<OwnedMemory<'_>, vk::Result> {
        // SAFETY: type and size are from the buffer's requirements; the chain lives on the caller's stack.
        let raw = unsafe { self.gpu.device.allocate_memory(allocate, None) }?;
        let memory = OwnedMemory { gpu: &self.gpu, raw };
        // SAFETY: the memory is as large as the buffer needs, and neither was bound before.
        unsafe { self.gpu.device.bind_buffer_memory(buffer.raw, raw, 0) }?;
        Ok(memory)
    }

    fn map_memory(&self, memory: &OwnedMemory<'_>, bytes: usize) -> Result<NonNull<[u8]>> {
        // SAFETY: the memory is host-visible and not mapped yet.
        let start =
            unsafe { self.gpu.device.map_memory(memory.raw, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) }
                .map_err(|result| self.gpu.error("vkMapMemory", result))?;
        match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(NonNull::slice_from_raw_parts(start, bytes)),
            None => Err(HalError::Driver { call: "vkMapMemory", detail: "a null mapping".to_owned() }),
        }
    }

    fn keep(
        &self,
        buffer: OwnedBuffer<'_>,
        memory: OwnedMemory<'_>,
        host: Option<NonNull<[u8]>>,
    ) -> RawBlock {
        let block = VulkanBlock { buffer: buffer.release(), memory: memory.release(), host };
        RawBlock(self.write().insert(block) as u64)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slab<VulkanBlock>> {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let gpu = self.gpu.clone();
        for block in self.write().drain() {
            // SAFETY: the device is idle when its parts are dropped, and the block is in no slab any more.
            unsafe { destroy(&gpu, &block) };
        }
    }
}

/// # Safety
/// No list in flight uses the block, and it is destroyed once.
unsafe fn destroy(gpu: &Gpu, block: &VulkanBlock) {
    // SAFETY: unused and not destroyed before (`# Safety`). Freeing memory unmaps it.
    unsafe {
        gpu.device.destroy_buffer(block.buffer, None);
        gpu.device.free_memory(block.memory, None);
    }
}

/// A buffer until its block is complete.
struct OwnedBuffer<'a> {
    gpu: &'a Gpu,
    raw: vk::Buffer,
}

impl OwnedBuffer<'_> {
    fn release(self) -> vk::Buffer {
        std::mem::ManuallyDrop::new(self).raw
    }
}

impl Drop for OwnedBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: no list can name it before its block is complete; `release` forgets it, so it is destroyed once.
        unsafe { self.gpu.device.destroy_buffer(self.raw, None) };
    }
}

/// Memory until its block is complete.
struct OwnedMemory<'a> {
    gpu: &'a Gpu,
    raw: vk::DeviceMemory,
}

impl OwnedMemory<'_> {
    fn release(self) -> vk::DeviceMemory {
        std::mem::ManuallyDrop::new(self).raw
    }
}

impl Drop for OwnedMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: no list can name it before its block is complete; `release` forgets it, so it is freed once.
        unsafe { self.gpu.device.free_memory(self.raw, None) };
    }
}
