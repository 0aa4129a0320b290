//! The gated delta rule: attention by a state that decays, forgets what it would answer to a key, and learns the value instead.
//!
//! ```text
//! for each sequence, head and token t, with S of [value_dim, key_dim]:
//!     S = S * exp(decay[t])
//!     S = S + beta[t] * (v[t] - S k[t]) k[t]^T
//!     y[t] = scale * S q[t]
//! ```
//!
//! Tokens are taken one by one, in f32, on every device: the bits of a token's result do not depend on how a text was cut. NaN and infinity go
//! through as the arithmetic has it.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The longest head of keys.
pub const MOST_KEY_DIM: usize = 256;

/// Which head of keys and queries a head of values uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyHeads {
    /// Neighbours share: head `h` of `n` uses `h / (n / key_heads)`.
    #[default]
    Grouped,
    /// In turn: head `h` uses `h % key_heads`.
    Tiled,
}

/// The op. Inputs, all f32: `q` and `k` `[sequences, tokens, key_heads, key_dim]`, `v` `[sequences, tokens, heads, value_dim]`, `decay`, a
/// logarithm, and `beta` `[sequences, tokens, heads]`, `state` `[sequences, heads, value_dim, key_dim]`. Outputs: `y`, like `v`, and
/// `new_state`, like `state`, which it may be.
#[derive(Clone, Copy, Debug)]
pub struct DeltaNet {
    /// The factor of results.
    pub scale: f32,
    /// Which head of keys a head of values uses.
    pub key_heads: KeyHeads,
}

/// By bits: results of a factor of -0 are others than those of 0.
impl PartialEq for DeltaNet {
    fn eq(&self, other: &DeltaNet) -> bool {
        (self.scale.to_bits(), self.key_heads) == (other.scale.to_bits(), other.key_heads)
    }
}

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct DeltaExtents {
    sequences: usize,
    tokens: usize,
    key_heads: usize,
    heads: usize,
    key_dim: usize,
    value_dim: usize,
}

impl DeltaExtents {
    fn of(io: &Io<'_>) -> Option<DeltaExtents> {
        match (io.input(1).shape.axes(), io.input(2).shape.axes()) {
            (&[sequences, tokens, key_heads, key_dim], &[_, _, heads, value_dim]) => {
                Some(DeltaExtents { sequences, tokens, key_heads, heads, key_dim, value_dim })
            }
            _ => None,
        }
    }

    /// The extents as parameter words.
    fn words(&self) -> [u32; 6] {
        let DeltaExtents { sequences, tokens, key_heads, heads, key_dim, value_dim } = *self;
        [sequences, tokens, key_heads, heads, key_dim, value_dim].map(|extent| extent as u32)
    }
}

impl DeltaNet {
    /// Returns the head of keys of head `head` of `heads`.
    fn key_head(&self, head: usize, heads: usize, key_heads: usize) -> usize {
        match self.key_heads {
            KeyHeads::Grouped => head / (heads / key_heads.max(1)).max(1),
            KeyHeads::Tiled => head % key_heads.max(1),
        }
    }
}

impl Op for DeltaNet {
    fn name(&self) -> &'static str {
        "delta_net"
    }

    fn slots(&self) -> &'static [Slot] {
        const {
            &[
                Slot::input("q"),
                Slot::input("k"),
                Slot::input("v"),
                Slot::input("decay"),
                Slot::input("beta"),
                Slot::input("state"),
                Slot::output("y"),
                Slot::output_over("new_state", 0b10_0000),
            ]
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "delta_net";
        let all: [TensorInfo; 6] = inputs(op, self.slots(), given)?;
        let [q, k, v, decay, beta, state] = all;
        for (slot, info) in self.slots().iter().zip(all) {
            if info.dtype != DType::F32 {
                let expected = "f32".to_owned();
                return Err(Error::DTypeMismatch { op, slot: slot.name, expected, got: info.dtype });
            }
        }
        if !self.scale.is_finite() {
            let what = format!("scale must be finite, got {}", self.scale);
            return Err(Error::BadParameter { op, what });
        }
        let refuse = |slot, expected: String, got| Err(Error::Shape { op, slot, expected, got });
        let &[sequences, tokens, key_heads, key_dim] = k.shape.axes() else {
            return refuse("k", "[sequences, tokens, key_heads, key_dim]".to_owned(), k.shape);
        };
        if key_dim > MOST_KEY_DIM {
            return refuse("k", format!("heads of at most {MOST_KEY_DIM}"), k.shape);
        }
        if q.shape != k.shape {
            return refuse("q", k.shape.to_string(), q.shape);
        }
        let (heads, value_dim) = match v.shape.axes() {
            &[s, t, heads, dim] if [s, t] == [sequences, tokens] && heads.is_multiple_of(key_heads) => {
                (heads, dim)
            }
            _ => {
                let expected = format!("[{sequences}, {tokens}, a multiple of {key_heads}, value_dim]");
                return refuse("v", expected, v.shape);
            }
        };
        for (slot, info) in [("decay", decay), ("beta", beta)] {
            if info.shape.axes() != [sequences, tokens, heads] {
                return refuse(slot, format!("[{sequences}, {tokens}, {heads}]"), info.shape);
            }
        }
        if state.shape.axes() != [sequences, heads, value_dim, key_dim] {
            let expected = format!("[{sequences}, {heads}, {value_dim}, {key_dim}]");
            return refuse("state", expected, state.shape);
        }
        Ok(Outputs::from_slice(&[
            TensorInfo::new(DType::F32, v.shape),
            TensorInfo::new(DType::F32, state.shape),
        ]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([q, k, v, decay, beta, state, ..], [y, new_state, ..]) = (inputs, outputs) else { return };
        let (&[_, tokens, key_heads, key_dim], &[_, _, heads, value_dim]) = (k.shape.axes(), v.shape.axes())
        else {
            return;
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        new_state.values.clone_from(&state.values);
        for (i, row) in new_state.values.chunks_exact_mut(key_dim).enumerate() {
            let (head_of_all, at) = (i / value_dim, i % value_dim);
            let (sequence, head) = (head_of_all / heads, head_of_all % heads);
            for token in sequence * tokens..(sequence + 1) * tokens {
                let from = (token * key_heads + self.key_head(head, heads, key_heads)) * key_dim;
                let (q, k) = (&q.values[from..from + key_dim], &k.values[from..from + key_dim]);
                let scalar = token * heads + head;
                let factor = decay.values[scalar].exp();
                row.iter_mut().for_each(|s| *s *= factor);
                let delta = beta.values[scalar] * (v.values[scalar * value_dim + at] - dot(row, k));
                row.iter_mut().zip(k).for_each(|(s, k)| *s += delta * k);
                y.values[scalar * value_dim + at] = f64::from(self.scale) * dot(row, q);
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, _output: &TensorInfo) -> Tolerance {
        // Roundings of a state are carried from token to token.
        Tolerance { nmse: 1e-10, max: 1e-4 }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let tokens = io.input(0).shape.axes().get(1).copied().unwrap_or(0) as u64;
        Work::streaming(io, io.input(5).elements() as u64 * tokens * 7)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuDeltaNet, &gpu::GpuDeltaNet]
    }
}

/// The tensors of a delta net, as [`DeltaNet`] has them.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInputs<'a, V> {
    /// Queries.
    pub q: &'a V,
    /// Keys.
    pub k: &'a V,
    /// Values.
    pub v: &'a V,
    /// Logarithms of the factors by which the state decays before each token.
    pub decay: &'a V,
    /// How much of the difference each token learns.
    pub beta: &'a V,
    /// The state before the first token.
    pub state: &'a V,
}

/// Records a delta net. Returns the results and the state after the last token.
pub fn delta_net<R: Recorder>(
    recorder: &mut R,
    rule: DeltaNet,
    inputs: &DeltaInputs<'_, R::Value>,
) -> Result<(R::Value, R::Value)> {
    let DeltaInputs { q, k, v, decay, beta, state } = *inputs;
    let mut outputs = recorder.run(rule, &[q, k, v, decay, beta, state])?.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(y), Some(new_state)) => Ok((y, new_state)),
        _ => Err(Error::ArgumentCount { op: "delta_net", what: "outputs", expected: 2, got: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Shape;

    const RULE: DeltaNet = DeltaNet { scale: 1.0, key_heads: KeyHeads::Grouped };

    fn given(axes: [&[usize]; 6]) -> Vec<TensorInfo> {
        axes.iter().map(|axes| TensorInfo::new(DType::F32, Shape::new(axes).unwrap())).collect()
    }

    #[test]
    fn refusals_name_the_argument() {
        let good: [&[usize]; 6] =
            [&[2, 3, 2, 8], &[2, 3, 2, 8], &[2, 3, 4, 5], &[2, 3, 4], &[2, 3, 4], &[2, 4, 5, 8]];
        assert_eq!(RULE.infer(&given(good)).unwrap().as_slice(), [given(good)[2], given(good)[5]]);
        let bad: [(usize, &[usize], &str); 6] = [
            (0, &[2, 3, 2, 9], "q"),
            (1, &[3, 2, 8], "k"),
            (2, &[2, 3, 3, 5], "v"),
            (3, &[2, 3, 2], "decay"),
            (4, &[2, 3], "beta"),
            (5, &[2, 4, 8, 5], "state"),
        ];
        for (i, axes, name) in bad {
            let mut all = good;
            all[i] = axes;
            match RULE.infer(&given(all)) {
                Err(Error::Shape { slot, .. }) => assert_eq!(slot, name),
                other => panic!("{other:?}"),
            }
        }
        assert!(DeltaNet { scale: f32::NAN, ..RULE }.infer(&given(good)).is_err());
    }
}
