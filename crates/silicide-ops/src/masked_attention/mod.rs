//! Attention of queries over contiguous keys and values under a mask that is a tensor: trees of drafted tokens, packed sequences, images.
//!
//! ```text
//! score[t][h][j] = scale * q[t][h] . k[h / group][j] + mask[t][j]      y[t][h] = sum over j of softmax(score)[j] * v[h / group][j]
//! ```
//!
//! A mask of floats is added to scores; -infinity hides a key. A mask of bytes shows keys where it is not 0. A sink is one more logit of the
//! softmax, without a value. A query that sees nothing gives zeros. Keys and values that no query sees, NaN included, do not reach a result.
//! [`attention`](crate::attention()) takes positions in place of a mask, which is less to read, and caches that are rings.
//!
//! On the CPU, keys are folded in order, in blocks of 64: where another key is seen
//! and values are finite, hiding a key or giving it a large negative mask makes the same bits.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::{inputs, is_float};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};

/// The longest head of keys.
pub const MOST_KEY_DIM: usize = 576;
/// The longest head of values.
pub const MOST_VALUE_DIM: usize = 512;

/// The op. Inputs: `q` f32 `[tokens, heads, dim]`; `k` `[kv_heads, capacity, dim]` and `v` `[kv_heads, capacity, value_dim]` of f32, f16 or
/// bf16; `mask` of f32, f16, bf16 or u8, `[tokens, keys]` or `[heads, tokens, keys]`, where `keys` is at most `capacity`; with sinks, `sinks`
/// f32 `[heads]`. Output: `y` f32 `[tokens, heads, value_dim]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskedAttention {
    /// The factor of products of queries and keys.
    pub scale: f32,
    /// Whether there are sinks.
    pub sinks: bool,
}

/// The tensors of a call, as [`MaskedAttention`] has them.
#[derive(Clone, Copy, Debug)]
pub struct MaskedInputs<'a, V> {
    /// Queries.
    pub q: &'a V,
    /// Keys.
    pub k: &'a V,
    /// Values.
    pub v: &'a V,
    /// The mask.
    pub mask: &'a V,
    /// One more logit for each head.
    pub sinks: Option<&'a V>,
}

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct MaskedExtents {
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    value_dim: usize,
    capacity: usize,
    keys: usize,
    /// Whether heads have masks of their own.
    by_head: bool,
}

impl MaskedExtents {
    fn of(io: &Io<'_>) -> Option<MaskedExtents> {
        let (q, k, v, mask) = (io.input(0).shape, io.input(1).shape, io.input(2).shape, io.input(3).shape);
        match (q.axes(), k.axes(), mask.axes()) {
            (&[tokens, heads, dim], &[kv_heads, capacity, _], &[.., keys]) => Some(MaskedExtents {
                tokens,
                heads,
                kv_heads,
                dim,
                value_dim: v.last(),
                capacity,
                keys,
                by_head: mask.rank() == 3,
            }),
            _ => None,
        }
    }

    /// The extents as parameter words.
    fn words(&self) -> [u32; 8] {
        let MaskedExtents { tokens, heads, kv_heads, dim, value_dim, capacity, keys, by_head } = *self;
        [tokens, heads, kv_heads, dim, value_dim, capacity, keys, usize::from(by_head)]
            .map(|word| word as u32)
    }
}

impl Op for MaskedAttention {
    fn name(&self) -> &'static str {
        "masked_attention"
    }

    fn slots(&self) -> &'static [Slot] {
        const PLAIN: [Slot; 5] =
            [Slot::input("q"), Slot::input("k"), Slot::input("v"), Slot::input("mask"), Slot::output("y")];
        const SINKS: [Slot; 6] = {
            let [q, k, v, mask, y] = PLAIN;
            [q, k, v, mask, Slot::input("sinks"), y]
        };
        if self.sinks { &SINKS } else { &PLAIN }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "masked_attention";
        let ([q, k, v, mask], sinks) = if self.sinks {
            let [q, k, v, mask, sinks] = inputs(op, self.slots(), given)?;
            ([q, k, v, mask], Some(sinks))
        } else {
            (inputs(op, self.slots(), given)?, None)
        };
        if !self.scale.is_finite() {
            let what = format!("scale must be finite, got {}", self.scale);
            return Err(Error::BadParameter { op, what });
        }
        if q.dtype != DType::F32 {
            return Err(Error::DTypeMismatch { op, slot: "q", expected: "f32".to_owned(), got: q.dtype });
        }
        for (slot, info) in [("k", k), ("v", v)] {
            crate::elementwise::check_float(op, slot, info.dtype)?;
        }
        if !is_float(mask.dtype) && mask.dtype != DType::U8 {
            let expected = "f32, f16, bf16 or u8".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "mask", expected, got: mask.dtype });
        }
        let refuse = |slot, expected: String, got| Err(Error::Shape { op, slot, expected, got });
        let &[tokens, heads, dim] = q.shape.axes() else {
            return refuse("q", "[tokens, heads, dim]".to_owned(), q.shape);
        };
        let (kv_heads, capacity) = match k.shape.axes() {
            &[kv_heads, capacity, same]
                if same == dim && dim <= MOST_KEY_DIM && heads.is_multiple_of(kv_heads) =>
            {
                (kv_heads, capacity)
            }
            _ => {
                let expected = format!("[a divisor of {heads}, capacity, {dim}, at most {MOST_KEY_DIM}]");
                return refuse("k", expected, k.shape);
            }
        };
        let value_dim = match v.shape.axes() {
            &[h, c, value_dim] if [h, c] == [kv_heads, capacity] && value_dim <= MOST_VALUE_DIM => value_dim,
            _ => {
                let expected = format!("[{kv_heads}, {capacity}, at most {MOST_VALUE_DIM}]");
                return refuse("v", expected, v.shape);
            }
        };
        match *mask.shape.axes() {
            [rows, keys] if rows == tokens && keys <= capacity => {}
            [h, rows, keys] if [h, rows] == [heads, tokens] && keys <= capacity => {}
            _ => {
                let expected = format!("[{tokens}, at most {capacity}], or that for each of {heads} heads");
                return refuse("mask", expected, mask.shape);
            }
        }
        if let Some(sinks) = sinks
            && (sinks.dtype != DType::F32 || sinks.shape.axes() != [heads])
        {
            return refuse("sinks", format!("f32 [{heads}]"), sinks.shape);
        }
        let shape = Shape::new(&[tokens, heads, value_dim]).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([q, k, v, mask, sinks @ ..], [y, ..]) = (inputs, outputs) else { return };
        let (&[tokens, heads, dim], &[kv_heads, capacity, _]) = (q.shape.axes(), k.shape.axes()) else {
            return;
        };
        let (keys, value_dim) = (mask.shape.last(), v.shape.last());
        for (row, y) in y.values.chunks_exact_mut(value_dim).enumerate() {
            let (token, head) = (row / heads, row % heads);
            let of_mask = if mask.shape.rank() == 3 { head * tokens + token } else { token };
            let of_keys = head / (heads / kv_heads) * capacity;
            let query = &q.values[row * dim..][..dim];
            let mut scores = Vec::new();
            for (j, &mask_value) in mask.values[of_mask * keys..][..keys].iter().enumerate() {
                let key = &k.values[(of_keys + j) * dim..][..dim];
                let product: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
                match mask.dtype {
                    DType::U8 if mask_value == 0.0 => {}
                    DType::U8 => scores.push((j, f64::from(self.scale) * product)),
                    _ if mask_value == f64::NEG_INFINITY => {}
                    _ => scores.push((j, f64::from(self.scale) * product + mask_value)),
                }
            }
            let sink = sinks.first().map(|sinks| sinks.values[head]);
            let largest =
                scores.iter().map(|(_, score)| *score).chain(sink).fold(f64::NEG_INFINITY, f64::max);
            y.fill(0.0);
            let mut sum = sink.map_or(0.0, |sink| (sink - largest).exp());
            for (j, score) in scores {
                let weight = (score - largest).exp();
                sum += weight;
                let value = &v.values[(of_keys + j) * value_dim..][..value_dim];
                y.iter_mut().zip(value).for_each(|(y, v)| *y += weight * v);
            }
            if sum > 0.0 {
                y.iter_mut().for_each(|y| *y /= sum);
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, _output: &TensorInfo) -> Tolerance {
        Tolerance { nmse: 1e-10, max: 1e-4 }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let keys = io.input(3).shape.last() as u64;
        Work::streaming(io, (io.input(0).elements() + io.output(0).elements()) as u64 * keys * 2)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuMasked, &gpu::GpuMasked]
    }
}

/// Records attention under a mask.
pub fn masked_attention<R: Recorder>(
    recorder: &mut R,
    inputs: &MaskedInputs<'_, R::Value>,
    scale: f32,
) -> Result<R::Value> {
    let MaskedInputs { q, k, v, mask, sinks } = *inputs;
    match sinks {
        Some(sinks) => recorder.run_one(MaskedAttention { scale, sinks: true }, &[q, k, v, mask, sinks]),
        None => recorder.run_one(MaskedAttention { scale, sinks: false }, &[q, k, v, mask]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_argument() {
        let op = MaskedAttention { scale: 1.0, sinks: true };
        let info = |axes: &[usize]| TensorInfo::new(DType::F32, Shape::new(axes).unwrap());
        let good: [&[usize]; 5] = [&[3, 4, 8], &[2, 9, 8], &[2, 9, 5], &[3, 7], &[4]];
        let given = |axes: [&[usize]; 5]| axes.map(info);
        assert_eq!(op.infer(&given(good)).unwrap().as_slice(), [info(&[3, 4, 5])]);
        let bad: [(usize, &[usize], &str); 6] = [
            (0, &[3, 8], "q"),
            (1, &[3, 9, 8], "k"),
            (2, &[2, 8, 5], "v"),
            (3, &[3, 10], "mask"),
            (3, &[3, 3, 7], "mask"),
            (4, &[3], "sinks"),
        ];
        for (i, axes, name) in bad {
            let mut all = good;
            all[i] = axes;
            match op.infer(&given(all)) {
                Err(Error::Shape { slot, .. }) => assert_eq!(slot, name),
                other => panic!("{other:?}"),
            }
        }
    }
}
