//! The steps of the gated delta net in chunks, over ops of silicide.
//!
//! Tensors of a step are split to `[rows, heads, BT, d]`, where a row is a chunk of a batch, and joined again. Head `h` of values uses head
//! `h / (H / Hg)` of keys. Sums are in f32: values are rounded to bf16 where they are stored, not in between.

mod between;
mod within;

pub use between::{gated_delta_net_chunk, gated_delta_net_chunk_o};
pub use within::{
    chunk_gated_delta_rule_tri_solve_invert, gated_delta_net_kkt, gated_delta_net_recompute_wu,
};

use super::{sized, words};
use crate::error::{Result, refuse};
use crate::ops::support::{cast_into, count, reshaped, wide};
use crate::{DType, MlxBuffer};
use silicide::ops::matmul::Matmul;
use silicide::ops::unary::{Unary, unary};
use silicide::ops::{self, permute::permute};
use silicide::record::CommandEncoder as Recorder;
use silicide::{Buffer, Recorder as _};

type Made = std::result::Result<Buffer, silicide::Error>;

/// Tokens of a chunk.
const BT: usize = 64;

/// Extents that the steps share.
#[derive(Clone, Copy)]
struct Chunks {
    b: usize,
    t: usize,
    hg: usize,
    h: usize,
    k: usize,
    v: usize,
}

impl Chunks {
    /// Checks the extents.
    fn new(what: &str, [b, t, hg, h, k, v, bt]: [u32; 7]) -> Result<Chunks> {
        let [b, t, hg, h, k, v, bt] = [b, t, hg, h, k, v, bt].map(|extent| extent as usize);
        if [b, t, hg, h, k, v, bt].contains(&0) {
            refuse!("{what}: all dims must be > 0");
        }
        if !h.is_multiple_of(hg) {
            refuse!("{what}: h ({h}) must be a multiple of hg ({hg})");
        }
        if bt != BT {
            refuse!("{what}: bt must be {BT} (got {bt})");
        }
        if !t.is_multiple_of(bt) {
            refuse!("{what}: t ({t}) must be a multiple of bt ({bt})");
        }
        count(what, &[b, t, h, k.max(v).max(bt)])?;
        count(what, &[b, t / bt, h, k, v])?;
        Ok(Chunks { b, t, hg, h, k, v })
    }

    fn chunks(&self) -> usize {
        self.t / BT
    }

    fn rows(&self) -> usize {
        self.b * self.chunks()
    }

    /// `[B, T, heads, d]` of a buffer.
    fn tokens(&self, buffer: &MlxBuffer, heads: usize, d: usize) -> Result<Buffer> {
        buffer.tensor(buffer.dtype().silicide(), &[self.rows(), BT, heads, d])
    }

    /// `[B, T, H]` of f32.
    fn scalars(&self, buffer: &MlxBuffer) -> Result<Buffer> {
        buffer.tensor(silicide::DType::F32, &[self.rows(), BT, self.h])
    }
}

/// `[rows, BT, heads, d]` as f32 `[rows, heads, BT, d]`.
fn split(recorder: &mut Recorder, x: &Buffer) -> Made {
    let x = wide(recorder, x)?;
    permute(recorder, &x, &[0, 2, 1, 3])
}

/// `[rows, BT, heads, d]` as f32 `[rows, heads, d, BT]`.
fn split_turned(recorder: &mut Recorder, x: &Buffer) -> Made {
    let x = wide(recorder, x)?;
    permute(recorder, &x, &[0, 2, 3, 1])
}

/// `[rows, BT, H]` as `[rows, H, BT]`.
fn split_scalars(recorder: &mut Recorder, g: &Buffer) -> Made {
    permute(recorder, g, &[0, 2, 1])
}

/// Multiplies each row, along the last axis, by its factor.
fn scaled(recorder: &mut Recorder, x: &Buffer, factors: &Buffer) -> Made {
    let shape = x.shape();
    let [leading @ .., n] = shape.axes() else { return Ok(x.clone()) };
    let of_x: Vec<usize> = leading.iter().copied().chain([1, *n]).collect();
    let of_factors: Vec<usize> = leading.iter().copied().chain([1]).collect();
    let (x, factors) = (reshaped(x, &of_x)?, reshaped(factors, &of_factors)?);
    ops::weighted_sum(recorder, &x, &factors)
}

/// `a b^T` without rounding of factors.
fn product(recorder: &mut Recorder, a: &Buffer, b: &Buffer) -> Made {
    recorder.run_one(Matmul { exact: true }, &[a, b])
}

fn exp(recorder: &mut Recorder, x: &Buffer) -> Made {
    unary(recorder, Unary::Exp, x)
}

/// `(n, n)` systems whose left sides are one plus `a`, and whose right side is one.
fn inverted(recorder: &mut Recorder, a: &Buffer, unit: &Buffer) -> Made {
    let axes = a.shape().axes().to_vec();
    let systems = axes.iter().rev().skip(2).product();
    let left = reshaped(a, &[systems, BT, BT])?;
    let solved = ops::tri_solve(recorder, &left, unit)?;
    reshaped(&solved, &axes)
}

/// The unit matrix, as the right side of all systems.
fn unit(device: &silicide::Device) -> Result<Buffer> {
    let values: Vec<f32> = (0..BT * BT).map(|i| if i / BT == i % BT { 1.0 } else { 0.0 }).collect();
    Ok(Buffer::from_slice(device, [1, BT, BT], &values)?)
}

/// Refuses heads of keys or values that the kernels of mlx-native do not take.
fn heads_of(what: &str, name: &str, dim: u32, most: u32, step: u32) -> Result<()> {
    if dim > most {
        refuse!(
            "{what}: {name} ({dim}) exceeds the 32 KB threadgroup memory budget of mlx-native (MAX_{name} = {most})"
        );
    }
    if !dim.is_multiple_of(step) {
        refuse!("{what}: {name} ({dim}) must be a multiple of {step}");
    }
    Ok(())
}

/// Refuses heads of keys of another length.
fn keys_of(what: &str, dim: u32, only: u32) -> Result<()> {
    if dim != only {
        refuse!(
            "{what}: K ({dim}) must equal MAX_K = {only} exactly: MMA loops of mlx-native have compile-time bounds"
        );
    }
    Ok(())
}
