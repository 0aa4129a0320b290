//! A case: one call of an op with made-up inputs. One list per op feeds conformance on every device, the benches,
//! the shader check and the support table.

use silicide_core::kernel::{DynOp, Op};
use silicide_quant::{DType, Shape};
use std::sync::Arc;

/// One call to try.
#[derive(Clone, Debug)]
pub struct Case {
    /// A description: `rows 7 x 8191, tiny values`.
    pub label: String,
    /// The op.
    pub op: Arc<dyn DynOp>,
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// Outputs given by the caller (for ops that update); empty if `infer` returns all.
    pub outputs: Vec<Input>,
}

/// An input to make.
#[derive(Clone, Debug)]
pub struct Input {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Contents.
    pub data: Data,
}

/// The contents of an input. Random values come from a generator seeded by the case's label, so a failure repeats.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Data {
    /// Normal, mean 0.
    Gaussian {
        /// Standard deviation.
        scale: f64,
    },
    /// Uniform in `[low, high)`.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Whole numbers in `[0, below)`.
    Indices {
        /// Upper end.
        below: usize,
    },
    /// Exactly these, repeated to fill.
    Values(Vec<f64>),
    /// Random blocks of a format: any bits, under scales that keep values finite and near 1.
    Blocks,
}

impl Case {
    /// A case of an op on inputs.
    pub fn new(label: impl Into<String>, op: impl Op, inputs: Vec<Input>) -> Case {
        Case { label: label.into(), op: Arc::new(op), inputs, outputs: Vec::new() }
    }
}

impl Input {
    /// Standard normal values. A shape that is no shape becomes a scalar, which the op then refuses.
    pub fn gaussian(dtype: DType, extents: &[usize]) -> Input {
        Input::of(dtype, extents, Data::Gaussian { scale: 1.0 })
    }

    /// An input of given contents.
    pub fn of(dtype: DType, extents: &[usize], data: Data) -> Input {
        Input { dtype, shape: Shape::new(extents).unwrap_or(Shape::SCALAR), data }
    }

    /// The values, as they are once stored in `dtype`.
    pub fn values(&self, seed: u64) -> Vec<f64> {
        silicide_quant::decode(self.dtype, &self.bytes(seed))
    }

    /// The stored bytes.
    pub fn bytes(&self, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        let count = self.shape.elements();
        let raw: Vec<f64> = match &self.data {
            Data::Gaussian { scale } => (0..count).map(|_| random.gaussian() * scale).collect(),
            Data::Uniform { low, high } => (0..count).map(|_| low + (high - low) * random.unit()).collect(),
            Data::Indices { below } => (0..count).map(|_| (random.unit() * *below as f64).floor()).collect(),
            Data::Values(values) => values.iter().copied().cycle().take(count).collect(),
            Data::Blocks => return blocks(self, &mut random),
        };
        silicide_quant::encode(self.dtype, &raw)
    }
}

/// Random blocks whose values are all finite: bytes are drawn until they are, block by block.
fn blocks(input: &Input, random: &mut Random) -> Vec<u8> {
    let (len, size) = (input.dtype.block_len(), input.dtype.block_bytes());
    let mut bytes = Vec::new();
    for _ in 0..input.shape.elements() / len.max(1) {
        let sane = |block: &[u8]| {
            silicide_quant::decode(input.dtype, block)
                .iter()
                .all(|value| value.is_finite() && value.abs() < 1e4)
        };
        let mut block: Vec<u8> = (0..size).map(|_| random.bits() as u8).collect();
        while !sane(&block) {
            block.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        }
        bytes.extend(block);
    }
    bytes
}

/// A small repeatable generator (splitmix64): test data must be the same on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box-Muller).
    pub fn gaussian(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}
