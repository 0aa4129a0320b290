//! The buffer handle: a storage, a byte range of it, an element type and a shape. A view is a buffer too.

use super::storage::{Storage, StorageId, fresh_id};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::TensorInfo;
use crate::memory::{Allocation, Allocator, Purpose, Request};
use silicide_hal::MemoryKind;
use silicide_quant::{DType, Element, Shape, ShapeError};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The identity of a handle: every buffer and every view has its own. Clones share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(u64);

/// Device memory with an element type and a shape.
///
/// Cloning shares the memory. A view ([`Buffer::view`], [`Buffer::slice`], [`Buffer::reshape`]) shares it too and
/// costs nothing. The host reaches the bytes through guards ([`Buffer::read`], [`Buffer::write`]) that wait for
/// the device and keep it away while they live.
///
/// ```
/// # extern crate silicide_core as silicide;
/// use silicide::{Buffer, Device};
///
/// let device = Device::cpu()?;
/// let table = Buffer::from_slice(&device, [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let row = table.slice(3..6)?; // a view: no copy
/// row.write::<f32>()?[0] = 40.0;
/// assert_eq!(table.to_vec::<f32>()?, [1.0, 2.0, 3.0, 40.0, 5.0, 6.0]);
/// # Ok::<(), silicide::Error>(())
/// ```
#[derive(Clone)]
pub struct Buffer {
    id: BufferId,
    device: Device,
    storage: Arc<Storage>,
    /// First byte, from the start of the storage.
    offset: usize,
    size: usize,
    dtype: DType,
    shape: Shape,
}

/// How to make a buffer. The default is zeroed memory that the host can see.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BufferOptions {
    /// Its purpose, in reports.
    pub purpose: Purpose,
    /// Whether the host sees it.
    pub kind: MemoryKind,
    /// Where the memory comes from; by default the device.
    pub allocator: Option<Arc<dyn Allocator>>,
    /// Whether it begins with zeros. Without, it begins with anything that this program had there before, and nothing is spent on
    /// clearing what is overwritten at once.
    pub zeroed: bool,
}

impl Default for BufferOptions {
    fn default() -> BufferOptions {
        BufferOptions { purpose: Purpose::Other, kind: MemoryKind::Shared, allocator: None, zeroed: true }
    }
}

impl BufferOptions {
    /// Sets the purpose of the buffer in reports.
    pub fn purpose(mut self, purpose: Purpose) -> BufferOptions {
        self.purpose = purpose;
        self
    }

    /// Sets whether the host sees the memory.
    pub fn kind(mut self, kind: MemoryKind) -> BufferOptions {
        self.kind = kind;
        self
    }

    /// Sets the allocator that the memory comes from.
    pub fn allocator(mut self, allocator: Arc<dyn Allocator>) -> BufferOptions {
        self.allocator = Some(allocator);
        self
    }

    /// Sets whether the memory begins with zeros.
    pub fn zeroed(mut self, zeroed: bool) -> BufferOptions {
        self.zeroed = zeroed;
        self
    }
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Buffer>();
    shared_between_threads::<Device>();
};

impl Buffer {
    /// A zeroed buffer whose memory is allocated when it is first needed.
    pub fn new<S>(device: &Device, dtype: DType, shape: S) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        Buffer::with(device, dtype, shape, &BufferOptions::default())
    }

    /// A zeroed buffer whose memory is allocated at once.
    pub fn allocate<S>(device: &Device, dtype: DType, shape: S) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        Buffer::allocate_with(device, dtype, shape, &BufferOptions::default())
    }

    /// A zeroed buffer from an allocator of your own.
    pub fn new_in<S>(device: &Device, allocator: Arc<dyn Allocator>, dtype: DType, shape: S) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let options = BufferOptions { allocator: Some(allocator), ..BufferOptions::default() };
        Buffer::with(device, dtype, shape, &options)
    }

    /// A buffer with options, allocated when it is first needed.
    pub fn with<S>(device: &Device, dtype: DType, shape: S, options: &BufferOptions) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let shape = shape.try_into().map_err(|error| Error::bad_shape("buffer", error))?;
        let bytes = shape.bytes(dtype).map_err(|error| Error::bad_shape("buffer", error))?;
        let request = Request { bytes, purpose: options.purpose, kind: options.kind, zeroed: options.zeroed };
        let allocator = options.allocator.clone().unwrap_or_else(|| Arc::<_>::clone(device.memory()) as _);
        Buffer::from_request(device, allocator, dtype, shape, request)
    }

    /// A buffer with options, such as an allocator, whose memory is allocated at once.
    pub fn allocate_with<S>(
        device: &Device,
        dtype: DType,
        shape: S,
        options: &BufferOptions,
    ) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let buffer = Buffer::with(device, dtype, shape, options)?;
        buffer.ensure_allocated()?;
        Ok(buffer)
    }

    /// A buffer with the given contents.
    pub fn from_slice<T: Element, S>(device: &Device, shape: S, values: &[T]) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let buffer = Buffer::new(device, T::DTYPE, shape)?;
        buffer.copy_in(values)?;
        Ok(buffer)
    }

    pub(crate) fn from_request(
        device: &Device,
        allocator: Arc<dyn Allocator>,
        dtype: DType,
        shape: Shape,
        request: Request,
    ) -> Result<Buffer> {
        if request.bytes == 0 {
            return Err(Error::ZeroSize { what: "buffer" });
        }
        let limit = device.info().limits.max_block;
        if request.bytes > limit {
            let (device, bytes) = (device.info().id.clone(), request.bytes);
            return Err(Error::TooLarge { device, what: "allocation", bytes, limit });
        }
        let (id, storage) = (BufferId(fresh_id()), Arc::new(Storage::new(allocator, request)));
        Ok(Buffer { id, device: device.clone(), storage, offset: 0, size: request.bytes, dtype, shape })
    }

    /// A new handle for all of a storage, which has as many bytes as the type and shape.
    pub(crate) fn over(device: &Device, storage: &Arc<Storage>, dtype: DType, shape: Shape) -> Buffer {
        let (id, storage, size) = (BufferId(fresh_id()), Arc::clone(storage), storage.bytes());
        Buffer { id, device: device.clone(), storage, offset: 0, size, dtype, shape }
    }

    /// A tensor that lies in this buffer from byte `offset` on.
    pub(crate) fn within(&self, offset: usize, dtype: DType, shape: Shape) -> Result<Buffer> {
        let (what, size) = ("view", shape.bytes(dtype).map_err(|error| Error::bad_shape("view", error))?);
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(Error::OutOfBounds { what, offset, bytes: size, size: self.size });
        }
        let (id, offset) = (BufferId(fresh_id()), self.offset + offset);
        Ok(Buffer { id, offset, size, dtype, shape, ..self.clone() })
    }

    /// This handle's identity; a view has its own.
    pub fn id(&self) -> BufferId {
        self.id
    }

    /// Names the allocation, for dumps of graphs. Views share the name. Only the first call has an effect.
    pub fn set_label(&self, label: &str) {
        let _ = self.storage.label().set(label.into());
    }

    /// Returns the name of the allocation, if it has one.
    pub fn label(&self) -> Option<&str> {
        self.storage.label().get().map(AsRef::as_ref)
    }

    /// The allocation's identity, shared by all views and never used again.
    pub fn storage_id(&self) -> StorageId {
        self.storage.id()
    }

    /// Bytes of this view.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the whole allocation.
    pub fn total_size(&self) -> usize {
        self.storage.bytes()
    }

    /// The first byte of this view in the allocation.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// The device whose memory it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The allocator that the memory comes from.
    pub fn allocator(&self) -> &Arc<dyn Allocator> {
        self.storage.allocator()
    }

    /// Allocates the memory if that has not happened.
    pub fn ensure_allocated(&self) -> Result<()> {
        self.allocation().map(|_| ())
    }

    /// Whether memory was allocated.
    pub fn is_allocated(&self) -> bool {
        self.storage.is_allocated()
    }

    /// Whether the host can see the memory. Allocates it to find out.
    pub fn is_host_visible(&self) -> Result<bool> {
        self.allocation().map(|allocation| allocation.host.is_some())
    }

    /// Whether the memory may be written: mapped files and [frozen](Buffer::freeze) buffers may not. Allocates it to find out.
    pub fn is_writable(&self) -> Result<bool> {
        self.allocation().map(|allocation| allocation.writable && !self.storage.is_frozen())
    }

    /// Makes the storage read-only for good, for all views of it: guards, copies and outputs of ops on it are errors from now on.
    /// What was recorded before still runs, and graph sessions that are bound to it keep writing it at each replay. Fails while a write
    /// guard is held.
    pub fn freeze(&self) -> Result<()> {
        self.storage.freeze()
    }

    /// Bytes `offset..offset + bytes` of this view, as a vector. Both are whole numbers of elements, or of blocks.
    pub fn view(&self, offset: usize, bytes: usize) -> Result<Buffer> {
        let what = "view";
        if bytes == 0 {
            return Err(Error::ZeroSize { what });
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.size) {
            return Err(Error::OutOfBounds { what, offset, bytes, size: self.size });
        }
        let alignment = self.dtype.block_bytes();
        for count in [offset, bytes] {
            if !count.is_multiple_of(alignment) {
                return Err(Error::Misaligned { what, bytes: count, alignment, dtype: self.dtype });
            }
        }
        let shape = vector(what, self.dtype, bytes)?;
        Ok(Buffer {
            id: BufferId(fresh_id()),
            offset: self.offset + offset,
            size: bytes,
            shape,
            ..self.clone()
        })
    }

    /// Elements `range` of this view, as a vector. It begins and ends between blocks.
    pub fn slice(&self, range: Range<usize>) -> Result<Buffer> {
        let (size, block_len) = (self.dtype.block_bytes(), self.dtype.block_len());
        for extent in [range.start, range.end] {
            if !extent.is_multiple_of(block_len) {
                let source = ShapeError::PartialBlock { extent, dtype: self.dtype };
                return Err(Error::BadShape { what: "slice", source });
            }
        }
        let (start, count) = (range.start / block_len, range.end.saturating_sub(range.start) / block_len);
        let outside =
            Error::OutOfBounds { what: "slice", offset: range.start, bytes: count, size: self.elements() };
        let (Some(offset), Some(bytes)) = (start.checked_mul(size), count.checked_mul(size)) else {
            return Err(outside);
        };
        self.view(offset, bytes)
    }

    /// The same bytes with another shape of the same number of elements.
    pub fn reshape<S>(&self, shape: S) -> Result<Buffer>
    where
        S: TryInto<Shape, Error: Into<ShapeError>>,
    {
        let shape: Shape = shape.try_into().map_err(|error| Error::bad_shape("reshape", error))?;
        if shape.elements() != self.elements() {
            let expected = format!("{} elements", self.elements());
            return Err(Error::Shape { op: "reshape", slot: "shape", expected, got: shape });
        }
        // Refuses rows that would end inside a block.
        shape.bytes(self.dtype).map_err(|error| Error::bad_shape("reshape", error))?;
        Ok(Buffer { id: BufferId(fresh_id()), shape, ..self.clone() })
    }

    /// The same bytes as a vector of another element type, whose elements or blocks must divide them.
    pub fn reinterpret(&self, dtype: DType) -> Result<Buffer> {
        let what = "reinterpret";
        for (bytes, alignment) in [(self.offset, dtype.alignment()), (self.size, dtype.block_bytes())] {
            if !bytes.is_multiple_of(alignment) {
                return Err(Error::Misaligned { what, bytes, alignment, dtype });
            }
        }
        let shape = vector(what, dtype, self.size)?;
        Ok(Buffer { id: BufferId(fresh_id()), dtype, shape, ..self.clone() })
    }

    /// Type, shape and alignment, as ops see them. Allocates the memory. The alignment may be less than the type
    /// needs: `record::rules` refuses such an argument.
    pub(crate) fn info(&self) -> Result<TensorInfo> {
        let alignment = self.allocation()?.alignment(self.offset);
        Ok(TensorInfo { dtype: self.dtype, shape: self.shape, alignment })
    }

    /// Type, shape and the alignment that is certain before the memory is allocated. The device's own allocator
    /// aligns to 256 bytes; another one may hand out memory at any address, so only the type's alignment is assumed.
    pub(crate) fn info_before_allocation(&self) -> TensorInfo {
        let own = std::ptr::addr_eq(Arc::as_ptr(self.allocator()), Arc::as_ptr(self.device.memory()));
        let alignment = match own {
            true => 1 << self.offset.trailing_zeros().min(8),
            false => self.dtype.alignment() as u32,
        };
        let allocated = if self.is_allocated() { self.info().ok() } else { None };
        allocated.unwrap_or(TensorInfo { dtype: self.dtype, shape: self.shape, alignment })
    }

    /// The memory, allocating it on first need.
    pub(crate) fn allocation(&self) -> Result<&Allocation> {
        self.storage.allocation(&self.device)
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The bytes of this view in the storage.
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.size
    }
}

/// The vector whose elements take `bytes`, a whole number of blocks.
fn vector(what: &'static str, dtype: DType, bytes: usize) -> Result<Shape> {
    let elements = (bytes / dtype.block_bytes()).saturating_mul(dtype.block_len());
    Shape::new(&[elements]).map_err(|error| Error::bad_shape(what, error))
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.range();
        let (device, storage) = (&self.device().info().id, self.storage_id());
        write!(f, "Buffer({}{} on {device}, bytes {start}..{end} of {storage})", self.dtype, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Format;

    const Q4_0: DType = DType::Block(Format::Q4_0);

    #[test]
    fn views_of_blocks_begin_and_end_between_blocks() {
        let device = Device::cpu().unwrap();
        let buffer = Buffer::new(&device, Q4_0, [4, 64]).unwrap();
        assert_eq!((buffer.size(), buffer.elements()), (4 * 2 * 18, 256));

        let second_row = buffer.slice(64..128).unwrap();
        assert_eq!(
            (second_row.offset(), second_row.size(), second_row.shape()),
            (36, 36, 64.try_into().unwrap())
        );
        let its_last_block = second_row.view(18, 18).unwrap();
        assert_eq!((its_last_block.offset(), its_last_block.elements()), (54, 32));

        let partial = buffer.slice(0..40).unwrap_err();
        let expected = ShapeError::PartialBlock { extent: 40, dtype: Q4_0 };
        assert!(
            matches!(partial, Error::BadShape { what: "slice", source } if source == expected),
            "{partial}"
        );
        for (offset, bytes) in [(2, 36), (18, 20)] {
            let error = buffer.view(offset, bytes).unwrap_err();
            assert!(matches!(error, Error::Misaligned { alignment: 18, .. }), "{error}");
        }
        assert!(matches!(buffer.slice(224..288), Err(Error::OutOfBounds { .. })));
    }

    #[test]
    fn shapes_of_blocks_have_whole_rows() {
        let device = Device::cpu().unwrap();
        assert!(matches!(Buffer::new(&device, Q4_0, [2, 48]), Err(Error::BadShape { .. })));
        let buffer = Buffer::new(&device, Q4_0, [4, 64]).unwrap();
        assert_eq!(buffer.reshape([2, 4, 32]).unwrap().size(), buffer.size());
        assert!(matches!(buffer.reshape([16, 16]), Err(Error::BadShape { what: "reshape", .. })));
    }

    #[test]
    fn the_host_reads_blocks_as_bytes() {
        let device = Device::cpu().unwrap();
        let buffer = Buffer::new(&device, Q4_0, [64]).unwrap();
        assert!(matches!(buffer.read::<u8>(), Err(Error::DTypeMismatch { .. })));
        buffer.as_bytes().unwrap().copy_in(&[7u8; 36]).unwrap();
        assert_eq!(*buffer.as_bytes().unwrap().read::<u8>().unwrap(), [7; 36]);

        let bytes = Buffer::new(&device, DType::U8, [64]).unwrap();
        let blocks = bytes.view(6, 54).unwrap().reinterpret(Q4_0).unwrap();
        assert_eq!((blocks.offset(), blocks.elements()), (6, 96));
        assert!(matches!(
            bytes.view(7, 54).unwrap().reinterpret(Q4_0),
            Err(Error::Misaligned { alignment: 2, .. })
        ));
        assert!(matches!(
            bytes.view(6, 53).unwrap().reinterpret(Q4_0),
            Err(Error::Misaligned { alignment: 18, .. })
        ));
    }
}
