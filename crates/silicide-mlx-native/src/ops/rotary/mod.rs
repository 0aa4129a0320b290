//! Rotary embeddings. Angles are computed on the host in f64 while encoding, from positions and parameters that it reads.

pub mod deepseek_tail_rope;
pub mod fused_head_norm_rope;
pub mod rope;
pub mod rope_multi;
pub mod rope_train;
pub mod vision_2d_rope;

use super::support::{cast_into, positive};
use crate::encoder::{CommandEncoder, Dispatch};
use crate::error::{MlxError, Result, refuse};
use crate::{DType, MlxBuffer};
use silicide::ops::rope::{Rope, RopeStyle};
use silicide::{Buffer, DType as Element, Recorder};

/// The extents of a rotation, `[tokens, heads, dim]`, and its angles.
struct Rotation {
    tokens: usize,
    heads: usize,
    dim: usize,
    style: RopeStyle,
    /// Cosine and sine of each pair of a token.
    table: Vec<f32>,
}

impl Rotation {
    /// A rotation by the angles that `angle` returns for token and pair.
    fn new(
        [tokens, heads, dim]: [usize; 3],
        style: RopeStyle,
        pairs: usize,
        angle: impl Fn(usize, usize) -> f64,
    ) -> Result<Rotation> {
        let mut table = Vec::new();
        let count = super::support::count("rope", &[tokens, pairs, 2])?;
        let failed = |_| MlxError::BufferAllocationError { bytes: count.saturating_mul(4) };
        table.try_reserve_exact(count).map_err(failed)?;
        for token in 0..tokens {
            for pair in 0..pairs {
                let (sine, cosine) = angle(token, pair).sin_cos();
                table.extend([cosine as f32, sine as f32]);
            }
        }
        Ok(Rotation { tokens, heads, dim, style, table })
    }

    fn pairs(&self) -> usize {
        self.table.len() / 2 / self.tokens.max(1)
    }
}

/// Encodes a rotation, between elements of the types of both buffers.
fn rotate(
    encoder: &mut CommandEncoder,
    what: &str,
    [input, output]: [&MlxBuffer; 2],
    rotation: Rotation,
) -> Result<()> {
    let float = super::support::float;
    let shape = [rotation.tokens, rotation.heads, rotation.dim];
    let x = input.tensor(float(what, "input", input)?, &shape)?;
    let y = output.tensor(float(what, "output", output)?, &shape)?;
    let table = Buffer::from_slice(
        encoder.device().silicide(),
        [rotation.tokens, rotation.pairs(), 2],
        &rotation.table,
    )?;
    let op = Rope { style: rotation.style };
    let dispatch = Dispatch::new(what, x.elements(), &[input], &[output]);
    encoder.dispatch(dispatch, move |recorder| {
        if (x.dtype(), y.dtype()) == (Element::F32, Element::F32) {
            return recorder.run_into(op, &[&x, &table], &[&y]);
        }
        let wide = silicide::ops::cast(recorder, &x, Element::F32)?;
        let turned = recorder.run_one(op, &[&wide, &table])?;
        cast_into(recorder, &turned, &y)
    })
}

/// The base of the frequencies, which must be a positive number.
fn base(what: &str, base: f32) -> Result<f64> {
    if !(base.is_finite() && base > 0.0) {
        refuse!("{what}: the base must be finite and greater than zero, got {base}");
    }
    Ok(f64::from(base))
}

fn same_types(what: &str, input: &MlxBuffer, output: &MlxBuffer, dtype: Option<DType>) -> Result<()> {
    if output.dtype() != input.dtype() || dtype.is_some_and(|dtype| dtype != input.dtype()) {
        refuse!("{what}: unsupported dtypes {} and {}", input.dtype(), output.dtype());
    }
    Ok(())
}

/// The axis of a pair among sections whose pairs are interleaved.
fn interleaved_axis(sector: u32, sections: [u32; 4]) -> usize {
    let axis = sector % 3;
    let within = sections.get(axis as usize).is_some_and(|count| sector < count.saturating_mul(3));
    if within { axis as usize } else { 3 }
}

/// The axis of a pair among sections that follow one another.
fn contiguous_axis(sector: u32, sections: [u32; 4]) -> usize {
    let mut end = 0u32;
    sections
        .iter()
        .position(|count| {
            end = end.saturating_add(*count);
            sector < end
        })
        .unwrap_or(3)
}
