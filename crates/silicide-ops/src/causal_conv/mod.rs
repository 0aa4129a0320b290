//! Causal depthwise convolution over tokens with a state: the short convolution of state-space models and of delta nets.
//!
//! ```text
//! y[t][c] = act(sum over k of weights[c][k] * x[t + k - (width - 1)][c])
//! ```
//!
//! Tokens before the first are the state, the last `width - 1` inputs of each channel, oldest first. The new state continues it. Summed in
//! f32 in the order of `k`. NaN and infinity go through as the arithmetic has it.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};

/// The most taps.
pub const MOST_WIDTH: usize = 32;

/// The op. Inputs, all f32: `x` `[sequences, tokens, channels]`, `weights` `[channels, width]`, `state` `[sequences, channels, width - 1]`.
/// Outputs: `y`, like `x`, and `new_state`, like `state`, which it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CausalConv {
    /// Whether `act` is silu; otherwise it is the identity.
    pub silu: bool,
}

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct ConvExtents {
    sequences: usize,
    tokens: usize,
    channels: usize,
    width: usize,
}

impl ConvExtents {
    fn of(io: &Io<'_>) -> Option<ConvExtents> {
        match (io.input(0).shape.axes(), io.input(1).shape.last()) {
            (&[sequences, tokens, channels], width) => {
                Some(ConvExtents { sequences, tokens, channels, width })
            }
            _ => None,
        }
    }

    /// The extents as parameter words.
    fn words(&self) -> [u32; 4] {
        [self.sequences, self.tokens, self.channels, self.width].map(|extent| extent as u32)
    }
}

impl Op for CausalConv {
    fn name(&self) -> &'static str {
        "causal_conv"
    }

    fn slots(&self) -> &'static [Slot] {
        const {
            &[
                Slot::input("x"),
                Slot::input("weights"),
                Slot::input("state"),
                Slot::output("y"),
                Slot::output_over("new_state", 0b100),
            ]
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "causal_conv";
        let [x, weights, state] = inputs(op, self.slots(), given)?;
        for (slot, info) in [("x", x), ("weights", weights), ("state", state)] {
            if info.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op, slot, expected: "f32".to_owned(), got: info.dtype });
            }
        }
        let &[sequences, _, channels] = x.shape.axes() else {
            let expected = "[sequences, tokens, channels]".to_owned();
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        };
        let width = match weights.shape.axes() {
            &[rows, width] if rows == channels && (2..=MOST_WIDTH).contains(&width) => width,
            _ => {
                let expected = format!("[{channels}, 2 to {MOST_WIDTH}]");
                return Err(Error::Shape { op, slot: "weights", expected, got: weights.shape });
            }
        };
        if state.shape.axes() != [sequences, channels, width - 1] {
            let expected = format!("[{sequences}, {channels}, {}]", width - 1);
            return Err(Error::Shape { op, slot: "state", expected, got: state.shape });
        }
        Ok(Outputs::from_slice(&[
            TensorInfo::new(DType::F32, x.shape),
            TensorInfo::new(DType::F32, state.shape),
        ]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([x, weights, state, ..], [y, new_state, ..]) = (inputs, outputs) else { return };
        let &[_, tokens, channels] = x.shape.axes() else { return };
        let width = weights.shape.last();
        // Input `t` of the state and then of the tokens.
        let at = |sequence: usize, channel: usize, t: usize| {
            if t < width - 1 {
                state.values[(sequence * channels + channel) * (width - 1) + t]
            } else {
                x.values[(sequence * tokens + t - (width - 1)) * channels + channel]
            }
        };
        for (i, y) in y.values.iter_mut().enumerate() {
            let (row, channel) = (i / channels, i % channels);
            let taps = weights.values.iter().skip(channel * width).take(width).enumerate();
            let sum: f64 = taps.map(|(k, weight)| weight * at(row / tokens, channel, row % tokens + k)).sum();
            *y = if self.silu { sum / (1.0 + (-sum).exp()) } else { sum };
        }
        for (i, new) in new_state.values.iter_mut().enumerate() {
            let (row, k) = (i / (width - 1), i % (width - 1));
            *new = at(row / channels, row % channels, tokens + k);
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64 * 2 * io.input(1).shape.last() as u64)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuConv, &gpu::GpuConv]
    }
}

/// The shape of the state of a convolution.
pub fn state_shape(sequences: usize, channels: usize, width: usize) -> Result<Shape> {
    Shape::new(&[sequences, channels, width.saturating_sub(1)])
        .map_err(|source| Error::bad_shape("causal_conv", source))
}

/// Records the convolution of `x` with `weights` after `state`. Returns the result and the new state.
pub fn causal_conv<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weights: &R::Value,
    state: &R::Value,
    silu: bool,
) -> Result<(R::Value, R::Value)> {
    let mut outputs = recorder.run(CausalConv { silu }, &[x, weights, state])?.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(y), Some(new_state)) => Ok((y, new_state)),
        _ => Err(Error::ArgumentCount { op: "causal_conv", what: "outputs", expected: 2, got: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_argument() {
        let info = |dtype, axes: &[usize]| TensorInfo::new(dtype, Shape::new(axes).unwrap());
        let f32s = |axes: &[usize]| info(DType::F32, axes);
        let slot = |given: [TensorInfo; 3]| match (CausalConv { silu: true }).infer(&given) {
            Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
            other => panic!("{other:?}"),
        };
        assert_eq!(slot([f32s(&[5, 7]), f32s(&[7, 4]), f32s(&[1, 7, 3])]), "x");
        assert_eq!(slot([info(DType::F16, &[1, 5, 7]), f32s(&[7, 4]), f32s(&[1, 7, 3])]), "x");
        assert_eq!(slot([f32s(&[1, 5, 7]), f32s(&[7, 1]), f32s(&[1, 7, 3])]), "weights");
        assert_eq!(slot([f32s(&[1, 5, 7]), f32s(&[6, 4]), f32s(&[1, 7, 3])]), "weights");
        assert_eq!(slot([f32s(&[1, 5, 7]), f32s(&[7, 4]), f32s(&[1, 7, 4])]), "state");
        let fits = CausalConv { silu: true }.infer(&[f32s(&[2, 5, 7]), f32s(&[7, 4]), f32s(&[2, 7, 3])]);
        assert_eq!(fits.unwrap().as_slice(), [f32s(&[2, 5, 7]), f32s(&[2, 7, 3])]);
    }
}
