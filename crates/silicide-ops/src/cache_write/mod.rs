//! Writes keys or values of new tokens into their slots of a cache, in the cache's own element type.
//!
//! The cache is `[kv_heads, capacity, dim]`: what one head has stored lies together, as attention reads it. On the CPU it may be in lanes,
//! `[kv_heads, capacity / 16, dim, 16]`: sets of sixteen slots, element by element, as attention reads keys fastest. The caller says
//! which slot each token gets, for a ring `position % capacity`. A token whose slot does not exist, negative ones included,
//! is not stored; of several tokens for one slot the last is.

pub mod cases;
mod cpu;
mod gpu;

pub(crate) use cpu::{CacheRow, SetWorkspace, cache_bytes, prefetch_set, store_row, store_set};

use crate::attention::{CacheShape, KEY_LANES};
use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};

/// The op. Inputs: `rows` of f32 `[tokens, kv_heads, dim]`, and `slots` of i32 or u32 `[tokens]`. Output, updated: `cache`
/// `[kv_heads, capacity, dim]` of f32, f16, bf16, a block format or one of TurboQuant, or `[kv_heads, capacity / 16, dim, 16]` of f32, f16 or bf16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheWrite;

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct CacheWriteExtents {
    tokens: usize,
    heads: usize,
    dim: usize,
    capacity: usize,
    in_lanes: bool,
}

impl CacheWriteExtents {
    /// Unless something can't be counted in 32 bits.
    fn of(io: &Io<'_>) -> Option<CacheWriteExtents> {
        let &[tokens, heads, dim] = io.input(0).shape.axes() else { return None };
        let CacheShape { capacity, in_lanes, .. } = CacheShape::of(&io.output(0).shape)?;
        let counted = io.input(0).elements() <= u32::MAX as usize && capacity <= u32::MAX as usize;
        counted.then_some(CacheWriteExtents { tokens, heads, dim, capacity, in_lanes })
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
        if !matches!(cache.dtype, DType::F32 | DType::F16 | DType::BF16) && !cache.dtype.is_compressed() {
            let expected = "f32, f16, bf16, a block format or one of TurboQuant".to_owned();
            return Err(Error::DTypeMismatch { op, slot, expected, got: cache.dtype });
        }
        let [heads, dim] = [0, 2].map(|axis| inferred.shape.axes().get(axis).copied().unwrap_or(0));
        let fits = |shape: CacheShape| {
            let is_blocks_in_lanes = shape.in_lanes && cache.dtype.is_compressed();
            shape.heads == heads && shape.dim == dim && shape.capacity > 0 && !is_blocks_in_lanes
        };
        if CacheShape::of(&cache.shape).is_some_and(fits) {
            return Ok(());
        }
        let lanes = format!(", or [{heads}, capacity / {KEY_LANES}, {dim}, {KEY_LANES}]");
        let lanes = if cache.dtype.is_compressed() { "" } else { &lanes };
        let expected = format!("[{heads}, capacity, {dim}]{lanes}");
        Err(Error::Shape { op, slot, expected, got: cache.shape })
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([rows, slots, ..], [cache, ..]) = (inputs, outputs) else { return };
        let (&[_, heads, dim], Some(shape)) = (rows.shape.axes(), CacheShape::of(&cache.shape)) else {
            return;
        };
        for (row, values) in rows.values.chunks_exact(dim).enumerate() {
            let (token, head) = (row / heads, row % heads);
            let slot = slots.values.get(token).copied().unwrap_or(-1.0);
            if slot >= 0.0 && slot < shape.capacity as f64 {
                for (i, value) in values.iter().enumerate() {
                    if let Some(stored) = cache.values.get_mut(shape.element(head, slot as usize, i)) {
                        *stored = *value;
                    }
                }
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if output.dtype.is_compressed() {
            // Division is not exact on GPUs, so that in q8_0 here and there a value rounds to the other neighbour, of 255 steps. With fewer
            // steps that is rarer, and does not happen in the cases.
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

/// Stores `rows`, `[tokens, kv_heads, dim]`, in `cache`, `[kv_heads, capacity, dim]` or in lanes: those of token `i` in slot `slots[i]`.
pub fn cache_write<R: Recorder>(
    recorder: &mut R,
    rows: &R::Value,
    slots: &R::Value,
    cache: &R::Value,
) -> Result<()> {
    recorder.run_into(CacheWrite, &[rows, slots], &[cache])
}
