//! Buffers: a range of an allocation, an element type and a shape.
//!
//! The slices of mlx-native show memory that a device may be writing, and clones give two exclusive slices of the same bytes. Here
//! [`MlxBuffer::as_slice`] shows a copy, and [`MlxBuffer::as_mut_slice`] holds a write guard of silicide in the handle, until the next
//! call of a method of that handle or its end. While it is held, other handles of these bytes and the device are refused.

mod snapshots;

use crate::error::{MlxError, Result, refuse};
use crate::{DType, metal};
use bytemuck::Pod;
use silicide::buffer::{ReadGuard, WriteGuard};
use silicide::{Buffer, Shape};
use snapshots::Snapshots;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of one handle.
#[derive(Debug, Default)]
struct HandleState {
    /// The guard of the last exclusive slice.
    held: Option<WriteGuard<u8>>,
    /// The last tensor that a function took: programs repeat themselves.
    tensor: Option<Buffer>,
}

/// Device memory with an element type and a shape. Clones share the memory.
pub struct MlxBuffer {
    root: metal::Buffer,
    offset: usize,
    bytes: usize,
    dtype: DType,
    shape: Vec<usize>,
    file_backed: bool,
    state: Mutex<HandleState>,
    snapshots: Snapshots,
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<MlxBuffer>();
    shared_between_threads::<crate::MlxDevice>();
};

/// Returns the bytes of a dense tensor, unless they can't be counted.
pub(crate) fn shape_bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(dtype.size_of(), |bytes, extent| bytes.checked_mul(*extent))
}

impl MlxBuffer {
    /// A buffer over all of an allocation of bytes.
    pub(crate) fn over(root: Buffer, dtype: DType, shape: Vec<usize>) -> MlxBuffer {
        let bytes = root.size();
        MlxBuffer::part(metal::Buffer(root), (0, bytes), dtype, shape)
    }

    /// A read-only buffer over bytes of a file.
    pub(crate) fn over_file(root: Buffer, dtype: DType, shape: Vec<usize>) -> MlxBuffer {
        MlxBuffer { file_backed: true, ..MlxBuffer::over(root, dtype, shape) }
    }

    fn part(root: metal::Buffer, range: (usize, usize), dtype: DType, shape: Vec<usize>) -> MlxBuffer {
        let (state, snapshots) = (Mutex::default(), Snapshots::default());
        MlxBuffer {
            root,
            offset: range.0,
            bytes: range.1,
            dtype,
            shape,
            file_backed: false,
            state,
            snapshots,
        }
    }

    /// Returns a buffer over an allocation that another buffer shows ([`MlxBuffer::metal_buffer`]).
    pub fn from_raw(inner: metal::Buffer, dtype: DType, shape: Vec<usize>) -> MlxBuffer {
        let bytes = inner.0.size();
        MlxBuffer::part(inner, (0, bytes), dtype, shape)
    }

    /// Returns `n_elements` elements of this view, from byte `byte_offset` on. A range that is not in it has a view of no bytes, which
    /// every use refuses: mlx-native panics.
    pub fn slice_view(&self, byte_offset: u64, n_elements: usize) -> MlxBuffer {
        self.settle();
        let range = || {
            let bytes = n_elements.checked_mul(self.dtype.size_of())?;
            let offset = usize::try_from(byte_offset).ok()?;
            (offset.checked_add(bytes)? <= self.bytes).then_some((self.offset + offset, bytes))
        };
        let (range, count) = range().map_or(((self.offset, 0), 0), |range| (range, n_elements));
        let view = MlxBuffer::part(self.root.clone(), range, self.dtype, vec![count]);
        MlxBuffer { file_backed: self.file_backed, ..view }
    }

    /// Returns the same bytes with another shape, whose elements must fit.
    pub fn with_shape(&self, shape: Vec<usize>) -> Result<MlxBuffer> {
        if shape_bytes(self.dtype, &shape).is_none_or(|bytes| bytes > self.bytes) {
            refuse!("with_shape: {shape:?} of {} does not fit in {} bytes", self.dtype, self.bytes);
        }
        Ok(MlxBuffer { shape, ..self.clone() })
    }

    /// The same bytes under another type and shape.
    pub(crate) fn retyped(self, dtype: DType, shape: Vec<usize>) -> MlxBuffer {
        MlxBuffer { dtype, shape, ..self }
    }

    /// The first bytes, for a pool that rounds sizes up.
    pub(crate) fn shortened(self, bytes: usize) -> MlxBuffer {
        let bytes = bytes.min(self.bytes);
        MlxBuffer { bytes, state: Mutex::default(), ..self }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the bytes of the whole allocation.
    pub fn byte_len(&self) -> usize {
        self.root.0.size()
    }

    /// Returns the bytes of this view.
    pub fn data_byte_len(&self) -> usize {
        self.bytes
    }

    /// Returns the product of the extents.
    pub fn element_count(&self) -> usize {
        self.shape.iter().fold(1, |count: usize, extent| count.saturating_mul(*extent))
    }

    /// Returns the first byte of this view in the allocation.
    pub fn byte_offset(&self) -> u64 {
        self.offset as u64
    }

    /// Returns the host's address of the allocation's first byte, after waiting for the device; null where the host can't see it, or where
    /// a slice of another handle is held. The caller keeps the device and slices away from these bytes.
    pub fn contents_ptr(&self) -> *mut c_void {
        self.settle();
        let root = &self.root.0;
        match root.write::<u8>() {
            Ok(mut guard) => guard.as_mut_ptr().cast(),
            Err(_) => {
                root.read::<u8>().map_or(std::ptr::null_mut(), |guard| guard.as_ptr().cast_mut().cast())
            }
        }
    }

    /// Returns the allocation.
    pub fn metal_buffer(&self) -> &metal::Buffer {
        self.settle();
        &self.root
    }

    /// Returns whether the bytes are those of a mapped file.
    pub fn is_file_backed(&self) -> bool {
        self.file_backed
    }

    /// Returns whether the host may write the bytes.
    pub fn is_cpu_writable(&self) -> bool {
        !self.file_backed && self.root.0.is_writable().unwrap_or(false)
    }

    /// Returns a copy of the view's elements, which lives as long as this handle. Waits for the device.
    ///
    /// The copy does not change when the memory does: call again for the new contents. Copies are freed by [`MlxBuffer::as_mut_slice`],
    /// [`MlxBuffer::release_slices`] and the end of the handle.
    pub fn as_slice<T: Pod>(&self) -> Result<&[T]> {
        self.copied(self.bytes)
    }

    /// As [`MlxBuffer::as_slice`], but only the elements of the shape.
    pub fn as_logical_slice<T: Pod>(&self) -> Result<&[T]> {
        self.copied(self.logical_bytes()?)
    }

    /// Returns the view's elements to write. Waits for the device. Until the next call of a method of this handle, the device and other
    /// handles of these bytes are refused.
    pub fn as_mut_slice<T: Pod>(&mut self) -> Result<&mut [T]> {
        self.exclusive(self.bytes)
    }

    /// As [`MlxBuffer::as_mut_slice`], but only the elements of the shape.
    pub fn as_logical_mut_slice<T: Pod>(&mut self) -> Result<&mut [T]> {
        self.exclusive(self.logical_bytes()?)
    }

    /// Frees the copies that [`MlxBuffer::as_slice`] has made.
    pub fn release_slices(&mut self) {
        self.settle();
        self.snapshots.clear();
    }

    fn state(&self) -> MutexGuard<'_, HandleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the guard of the last exclusive slice. The slice borrows the handle exclusively, so it is gone when a method is called.
    pub(crate) fn settle(&self) {
        self.state().held = None;
    }

    fn logical_bytes(&self) -> Result<usize> {
        let bytes = shape_bytes(self.dtype, &self.shape).filter(|bytes| *bytes <= self.bytes);
        bytes.ok_or_else(|| {
            let MlxBuffer { shape, dtype, bytes, .. } = self;
            MlxError::argument(format!("{shape:?} of {dtype} does not fit in {bytes} bytes"))
        })
    }

    fn copied<T: Pod>(&self, bytes: usize) -> Result<&[T]> {
        self.check_elements::<T>(bytes)?;
        if bytes == 0 {
            return Ok(&[]);
        }
        let copy = self.snapshots.keep(&self.host_bytes(bytes)?)?;
        bytemuck::try_cast_slice(copy).map_err(|error| MlxError::argument(format!("as_slice: {error}")))
    }

    fn exclusive<T: Pod>(&mut self, bytes: usize) -> Result<&mut [T]> {
        self.release_slices();
        self.check_elements::<T>(bytes)?;
        if self.file_backed {
            refuse!("as_mut_slice: the buffer is file-backed and read-only");
        }
        if bytes == 0 {
            return Ok(&mut []);
        }
        let guard = self.root.0.view(self.offset, bytes)?.write::<u8>()?;
        let held = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).held.insert(guard);
        bytemuck::try_cast_slice_mut(held)
            .map_err(|error| MlxError::argument(format!("as_mut_slice: {error}")))
    }

    fn check_elements<T>(&self, bytes: usize) -> Result<()> {
        if size_of::<T>() == 0 {
            refuse!("a slice of elements without a size");
        }
        if !bytes.is_multiple_of(size_of::<T>()) {
            refuse!("{bytes} bytes are not a multiple of the element's {}", size_of::<T>());
        }
        if !self.offset.is_multiple_of(align_of::<T>()) {
            refuse!("byte offset {} is not aligned for elements of {} bytes", self.offset, size_of::<T>());
        }
        Ok(())
    }

    /// The first `bytes` of this view, under a guard.
    fn host_bytes(&self, bytes: usize) -> Result<ReadGuard<u8>> {
        self.settle();
        Ok(self.root.0.view(self.offset, bytes)?.read::<u8>()?)
    }

    /// Returns the first `count` elements as values, once the device has written them.
    pub(crate) fn values<T: Pod>(&self, count: usize) -> Result<Vec<T>> {
        let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= self.bytes);
        let Some(bytes) = bytes else {
            refuse!("a buffer of {} bytes does not have {count} elements of {}", self.bytes, size_of::<T>())
        };
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let mut values = Vec::new();
        values.try_reserve_exact(count).map_err(|_| MlxError::BufferAllocationError { bytes })?;
        values.resize(count, T::zeroed());
        bytemuck::cast_slice_mut::<T, u8>(&mut values).copy_from_slice(&self.host_bytes(bytes)?);
        Ok(values)
    }

    /// Returns the first bytes of this view as a tensor of silicide.
    pub(crate) fn tensor(&self, dtype: silicide::DType, shape: &[usize]) -> Result<Buffer> {
        let known = |last: &&Buffer| last.dtype() == dtype && last.shape().axes() == shape;
        {
            let mut state = self.state();
            state.held = None;
            if let Some(tensor) = state.tensor.as_ref().filter(known) {
                return Ok(tensor.clone());
            }
        }
        let tensor = self.tensor_at(0, dtype, shape)?;
        self.state().tensor = Some(tensor.clone());
        Ok(tensor)
    }

    /// As [`MlxBuffer::tensor`], from byte `start` of the view on.
    pub(crate) fn tensor_at(&self, start: usize, dtype: silicide::DType, shape: &[usize]) -> Result<Buffer> {
        self.settle();
        let shape = Shape::new(shape).map_err(|error| MlxError::argument(error.to_string()))?;
        let bytes = shape.bytes(dtype).map_err(|error| MlxError::argument(error.to_string()))?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.bytes && bytes > 0);
        if end.is_none() {
            refuse!(
                "buffer too small: {shape} of {dtype} needs {bytes} bytes from {start} on, it has {}",
                self.bytes
            );
        }
        Ok(self.root.0.view(self.offset + start, bytes)?.reinterpret(dtype)?.reshape(shape)?)
    }

    /// The address range of this view, as numbers that tell allocations apart.
    pub(crate) fn range(&self) -> crate::MemRange {
        let base = crate::hazard::base(&self.root.0);
        (base.saturating_add(self.offset), base.saturating_add(self.offset + self.bytes))
    }

    /// Whether the two share bytes.
    pub(crate) fn overlaps(&self, other: &MlxBuffer) -> bool {
        self.root.0.storage_id() == other.root.0.storage_id()
            && self.offset < other.offset + other.bytes
            && other.offset < self.offset + self.bytes
    }
}

impl Clone for MlxBuffer {
    fn clone(&self) -> MlxBuffer {
        self.settle();
        let range = (self.offset, self.bytes);
        let clone = MlxBuffer::part(self.root.clone(), range, self.dtype, self.shape.clone());
        MlxBuffer { file_backed: self.file_backed, ..clone }
    }
}

impl fmt::Debug for MlxBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape, byte_len) = (self.dtype, &self.shape, self.byte_len());
        f.debug_struct("MlxBuffer")
            .field("dtype", &dtype)
            .field("shape", shape)
            .field("byte_len", &byte_len)
            .finish()
    }
}
