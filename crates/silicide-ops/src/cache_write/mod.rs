//! Writes keys or values of new tokens into their slots of a cache, in the cache's own element type.
//!
//! The cache is `[kv_heads, capacity, dim]`: what one head has stored lies together, as attention reads it. The caller says
//! which slot each token gets, for a ring `position % capacity`. A token whose slot does not exist, negative ones included,
//! is not stored; of several tokens for one slot the last is.

pub mod cases;
mod cpu;
mod gpu;

pub(crate) use cpu::{cache_bytes, store_row};

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};

/// The op. Inputs: `rows` of f32 `[tokens, kv_heads, dim]`, and `slots` of i32 or u32 `[tokens]`. Output, updated: `cache`
/// `[kv_heads, capacity, dim]` of f32, f16, bf16 or a block format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheWrite;

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct CacheWriteExtents {
    tokens: usize,
    heads: usize,
    dim: usize,
    capacity: usize,
}

impl CacheWriteExtents {
    /// Unless something can't be counted in 32 bits.
    fn of(io: &Io<'_>) -> Option<CacheWriteExtents> {
        let (&[tokens, heads, dim], &[_, capacity, _]) =
            (io.input(0).shape.axes(), io.output(0).shape.axes())
        else {
            return None;
        };
        let counted = io.input(0).elements() <= u32::MAX as usize && capacity <= u32::MAX as usize;
        counted.then_some(CacheWriteExtents { tokens, heads, dim, capacity })
    }
}

impl Op for CacheWrite {
    fn name(&self) -> &'static str {
        "cache_write"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("rows"), Slot::input("slots"), Slot::update("cache")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "cache_write";
        let [rows, slots] = inputs(op, self.slots(), given)?;
        if rows.dtype != DType::F32 {
            return Err(Error::DTypeMismatch {
                op,
                slot: "rows",
                expected: "f32".to_owned(),
                got: rows.dtype,
            });
        }
        if !matches!(slots.dtype, DType::I32 | DType::U32) {
            let expected = "i32 or u32".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "slots", expected, got: slots.dtype });
        }
        let &[tokens, heads, dim] = rows.shape.axes() else {
            let expected = "[tokens, kv_heads, dim]".to_owned();
            return Err(Error::Shape { op, slot: "rows", expected, got: rows.shape });
        };
        if slots.shape.axes() != [tokens] {
            let expected = format!("[{tokens}], one slot for each token");
            return Err(Error::Shape { op, slot: "slots", expected, got: slots.shape });
        }
        // The smallest cache there could be: `check_outputs` takes any type and capacity.
        let shape = Shape::new(&[heads, 1, dim]).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn check_outputs(&self, inferred: &[TensorInfo], given: &[TensorInfo]) -> Result<()> {
        let (op, slot) = ("cache_write", "cache");
        let (Some(inferred), Some(cache)) = (inferred.first(), given.first()) else { return Ok(()) };
        if !matches!(cache.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::Block(_)) {
            let expected = "f32, f16, bf16 or a block format".to_owned();
            return Err(Error::DTypeMismatch { op, slot, expected, got: cache.dtype });
        }
        match (inferred.shape.axes(), cache.shape.axes()) {
            (&[heads, _, dim], &[cache_heads, capacity, cache_dim])
                if cache_heads == heads && cache_dim == dim && capacity > 0 => {}
            (wanted, _) => {
                let [heads, dim] = [0, 2].map(|axis| wanted.get(axis).copied().unwrap_or(0));
                let expected = format!("[{heads}, capacity, {dim}]");
                return Err(Error::Shape { op, slot, expected, got: cache.shape });
            }
        }
        Ok(())
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([rows, slots, ..], [cache, ..]) = (inputs, outputs) else { return };
        let (&[_, heads, dim], &[_, capacity, _]) = (rows.shape.axes(), cache.shape.axes()) else { return };
        for (row, values) in rows.values.chunks_exact(dim).enumerate() {
            let (token, head) = (row / heads, row % heads);
            let slot = slots.values.get(token).copied().unwrap_or(-1.0);
            if slot >= 0.0 && slot < capacity as f64 {
                let stored = cache.values.chunks_exact_mut(dim).nth(head * capacity + slot as usize);
                stored.into_iter().for_each(|stored| stored.copy_from_slice(values));
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if output.dtype.is_block() {
            // Division is not exact on GPUs, so that here and there a value rounds to the other neighbour: of 255 steps in
            // 8-bit formats, of 15 at least in others, which encode on the CPU alone.
            Tolerance { nmse: 1e-5, max: 8.5e-3 }
        } else {
            Tolerance::EXACT
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let (rows, cache) = (io.input(0), io.output(0));
        let stored = rows.elements() / cache.dtype.block_len().max(1) * cache.dtype.size();
        Work { bytes: (rows.bytes() + io.input(1).bytes() + stored) as u64, flops: 0 }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuCacheWrite, &gpu::GpuCacheWrite]
    }
}

/// Stores `rows`, `[tokens, kv_heads, dim]`, in `cache`, `[kv_heads, capacity, dim]`: those of token `i` in slot `slots[i]`.
pub fn cache_write<R: Recorder>(
    recorder: &mut R,
    rows: &R::Value,
    slots: &R::Value,
    cache: &R::Value,
) -> Result<()> {
    recorder.run_into(CacheWrite, &[rows, slots], &[cache])
}
