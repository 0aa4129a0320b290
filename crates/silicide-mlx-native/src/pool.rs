//! A pool of buffers in powers of two.

use crate::error::{MlxError, Result};
use crate::{DType, MlxBuffer, MlxDevice};
use std::collections::HashMap;

/// Buffers that are handed out, and those that wait for reuse.
///
/// A request takes a buffer of the next power of two of its bytes. Buffers that were handed out keep their memory when the pool ends.
#[derive(Debug, Default)]
pub struct MlxBufferPool {
    free: HashMap<usize, Vec<MlxBuffer>>,
    in_use: Vec<MlxBuffer>,
}

impl MlxBufferPool {
    /// Returns an empty pool.
    pub fn new() -> MlxBufferPool {
        MlxBufferPool::default()
    }

    /// Returns a buffer of `byte_len` bytes: a free one, or new memory, which is zero.
    pub fn alloc(
        &mut self,
        device: &MlxDevice,
        byte_len: usize,
        dtype: DType,
        shape: Vec<usize>,
    ) -> Result<MlxBuffer> {
        let too_large = MlxError::BufferAllocationError { bytes: byte_len };
        let bucket = if byte_len == 0 { 0 } else { byte_len.checked_next_power_of_two().ok_or(too_large)? };
        let whole = match self.free.get_mut(&bucket).and_then(Vec::pop) {
            Some(buffer) => buffer,
            None => device.alloc_buffer(bucket, DType::U8, vec![bucket])?,
        };
        let root = whole.metal_buffer().clone();
        self.in_use.push(whole);
        Ok(MlxBuffer::from_raw(root, dtype, shape).shortened(byte_len))
    }

    /// As [`MlxBufferPool::alloc`].
    pub fn alloc_uninitialized(
        &mut self,
        device: &MlxDevice,
        byte_len: usize,
        dtype: DType,
        shape: Vec<usize>,
    ) -> Result<MlxBuffer> {
        self.alloc(device, byte_len, dtype, shape)
    }

    /// Returns a buffer for each request. After an error the pool has those that were made, as handed out.
    pub fn alloc_batch<I>(&mut self, device: &MlxDevice, requests: I) -> Result<Vec<MlxBuffer>>
    where
        I: IntoIterator<Item = (usize, DType, Vec<usize>)>,
    {
        requests.into_iter().map(|(bytes, dtype, shape)| self.alloc(device, bytes, dtype, shape)).collect()
    }

    /// Takes a buffer back. One that this pool did not hand out is only dropped.
    pub fn release(&mut self, buffer: MlxBuffer) {
        let storage = buffer.metal_buffer().0.storage_id();
        let same = |held: &MlxBuffer| held.metal_buffer().0.storage_id() == storage;
        if let Some(index) = self.in_use.iter().position(same) {
            let whole = self.in_use.swap_remove(index);
            self.free.entry(whole.byte_len()).or_default().push(whole);
        }
    }

    /// Takes all buffers back.
    pub fn reset(&mut self) {
        for whole in self.in_use.drain(..) {
            self.free.entry(whole.byte_len()).or_default().push(whole);
        }
    }

    /// Does nothing: there are no residency sets.
    pub fn register_existing(&mut self, _device: &MlxDevice, _buffer: &MlxBuffer) -> Result<()> {
        Ok(())
    }

    /// Returns the number of free buffers.
    pub fn free_count(&self) -> usize {
        self.free.values().map(Vec::len).sum()
    }

    /// Returns the bytes of free buffers.
    pub fn free_bytes(&self) -> usize {
        self.free.iter().map(|(bucket, buffers)| bucket.saturating_mul(buffers.len())).sum()
    }

    /// Returns the number of buffers that are handed out.
    pub fn in_use_count(&self) -> usize {
        self.in_use.len()
    }

    /// Forgets all buffers.
    pub fn clear(&mut self) {
        self.free.clear();
        self.in_use.clear();
    }
}
