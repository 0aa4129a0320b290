//! Routing: which experts each row goes to, and how much each of them counts.
//!
//! A row of logits, one for each expert, becomes the ids of the `used` best experts, the best first, and their weights. Of equals
//! the one with the lowest id comes first; NaN counts as larger than everything, as in `top_k`. So ids are always experts that
//! there are, no two of a row alike, whatever the logits hold.

pub mod cases;
mod cpu;
mod gpu;

use crate::rowwise::Arguments;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The most experts of a row.
pub const MOST: usize = 1024;

/// The least sum that weights are divided by, so that weights of a row of zeros are not NaN.
const LEAST: f32 = 1.0 / 16384.0;

/// The function from logits to weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// The softmax over all experts.
    Softmax,
    /// Each by itself: its sigmoid.
    Sigmoid,
    /// The softmax over the experts that were chosen.
    SoftmaxOfChosen,
}

impl Gate {
    const fn code(self) -> u32 {
        match self {
            Gate::Softmax => 0,
            Gate::Sigmoid => 1,
            Gate::SoftmaxOfChosen => 2,
        }
    }
}

/// The op. Inputs: `logits` of f32, whose last axis counts the experts, and `bias` of as many, where it has one. Outputs: `ids`
/// of u32 and `weights` of f32, with `used` as the last axis.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Experts that a row goes to.
    pub used: usize,
    /// The function over logits.
    pub gate: Gate,
    /// Whether the weights of a row are divided by their sum.
    pub normalized: bool,
    /// The factor of the weights.
    pub scale: f32,
    /// Whether a bias is added before the best are chosen. Weights do not include it.
    pub biased: bool,
}

/// By bits: weights of a factor of -0 are others than those of 0.
impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        (self.used, self.words()) == (other.used, other.words())
    }
}

impl Route {
    /// The softmax over all experts, the weights of the chosen divided by their sum: what most models do.
    pub const fn softmax(used: usize) -> Route {
        Route { used, gate: Gate::Softmax, normalized: true, scale: 1.0, biased: false }
    }

    /// Parameter words that all kernels take: the gate, whether weights are normalised, whether there is a bias, the scale.
    fn words(&self) -> [u32; 4] {
        [self.gate.code(), u32::from(self.normalized), u32::from(self.biased), self.scale.to_bits()]
    }
}

impl Op for Route {
    fn name(&self) -> &'static str {
        "route"
    }

    fn slots(&self) -> &'static [Slot] {
        const LOGITS: Slot = Slot::input("logits");
        const BIAS: Slot = Slot::input("bias");
        const IDS: Slot = Slot::output("ids");
        const WEIGHTS: Slot = Slot::output("weights");
        match self.biased {
            false => &[LOGITS, IDS, WEIGHTS],
            true => &[LOGITS, BIAS, IDS, WEIGHTS],
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let op = "route";
        let mut arguments = Arguments::new(op, self.slots(), inputs)?;
        let logits = arguments.rows()?;
        if logits.dtype != DType::F32 {
            return Err(Error::DTypeMismatch {
                op,
                slot: "logits",
                expected: "f32".to_owned(),
                got: logits.dtype,
            });
        }
        if self.biased {
            arguments.trailing(&logits, 1)?;
        }
        if self.used == 0 || !self.scale.is_finite() {
            let what =
                format!("needs at least one expert and a finite scale, got {} and {}", self.used, self.scale);
            return Err(Error::BadParameter { op, what });
        }
        if !(self.used..=MOST).contains(&logits.shape.last()) {
            let expected = format!("rows of {} to {MOST} experts", self.used);
            return Err(Error::Shape { op, slot: "logits", expected, got: logits.shape });
        }
        let shape = logits.shape.with_last(self.used).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::U32, shape), TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(logits), [ids, weights, ..]) = (inputs.first(), outputs) else { return };
        let bias = inputs.get(1).filter(|_| self.biased).map(|bias| bias.values.as_slice());
        let rows = logits.values.chunks_exact(logits.shape.last().max(1));
        let places = ids.values.chunks_exact_mut(self.used).zip(weights.values.chunks_exact_mut(self.used));
        for (logits, (ids, weights)) in rows.zip(places) {
            let values = match self.gate {
                Gate::Softmax => softmax(logits),
                Gate::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
                Gate::SoftmaxOfChosen => logits.to_vec(),
            };
            // The gate keeps the order, which a bias is all that changes.
            let score = |i: usize| match bias {
                Some(bias) => values.get(i).zip(bias.get(i)).map_or(0.0, |(value, bias)| value + bias),
                None => logits.get(i).copied().unwrap_or(0.0),
            };
            let mut order: Vec<usize> = (0..logits.len()).collect();
            // NaN first, then from the largest; the sort keeps the order of equals.
            let rank = |i: usize| (!score(i).is_nan(), if score(i).is_nan() { 0.0 } else { -score(i) });
            order.sort_by(|&a, &b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
            order.truncate(self.used);
            let mut chosen: Vec<f64> = order.iter().filter_map(|&i| values.get(i).copied()).collect();
            if self.gate == Gate::SoftmaxOfChosen {
                chosen = softmax(&chosen);
            }
            let sum: f64 = chosen.iter().sum();
            let divisor = match self.normalized {
                true if sum < f64::from(LEAST) => f64::from(LEAST),
                true => sum,
                false => 1.0,
            };
            for ((id, weight), (i, value)) in ids.iter_mut().zip(weights).zip(order.into_iter().zip(chosen)) {
                (*id, *weight) = (i as f64, value / divisor * f64::from(self.scale));
            }
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64 * 4)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuRoute, &gpu::GpuRoute]
    }
}

/// The softmax of a row; zeros where all of it is -infinity.
fn softmax(row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::from(f32::MIN), f64::max);
    let powers: Vec<f64> = row.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| if sum == 0.0 { 0.0 } else { power / sum }).collect()
}

/// Records the choice of experts for each row of `logits`: ids and weights, both with `route.used` as the last axis.
pub fn route<R: Recorder>(
    recorder: &mut R,
    route: Route,
    logits: &R::Value,
    bias: Option<&R::Value>,
) -> Result<(R::Value, R::Value)> {
    let route = Route { biased: bias.is_some(), ..route };
    let mut outputs = match bias {
        Some(bias) => recorder.run(route, &[logits, bias])?,
        None => recorder.run(route, &[logits])?,
    }
    .into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(ids), Some(weights)) => Ok((ids, weights)),
        _ => Err(Error::ArgumentCount { op: "route", what: "outputs", expected: 2, got: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Shape;

    #[test]
    fn refusals_say_what_was_expected() {
        let info = |axes: &[usize]| TensorInfo::new(DType::F32, Shape::new(axes).unwrap());
        let message = |route: Route, inputs: &[TensorInfo]| route.infer(inputs).unwrap_err().to_string();
        assert_eq!(
            message(Route::softmax(9), &[info(&[3, 8])]),
            "route: logits has shape [3, 8], expected rows of 9 to 1024 experts"
        );
        assert!(message(Route::softmax(0), &[info(&[3, 8])]).contains("at least one expert"));
        assert!(
            message(Route { scale: f32::NAN, ..Route::softmax(2) }, &[info(&[3, 8])])
                .contains("finite scale")
        );
        let biased = Route { biased: true, ..Route::softmax(2) };
        assert_eq!(message(biased, &[info(&[3, 8])]), "route: takes 2 inputs, got 1");
        assert!(message(biased, &[info(&[3, 8]), info(&[3])]).contains("bias has shape [3]"));
        let half = TensorInfo::new(DType::F16, Shape::new(&[3, 8]).unwrap());
        assert_eq!(message(Route::softmax(2), &[half]), "route: logits has type f16, expected f32");
    }

    #[test]
    fn a_bias_changes_the_choice_and_not_the_weights() {
        let host = |axes: &[usize], values: &[f64]| Host {
            dtype: DType::F32,
            shape: Shape::new(axes).unwrap(),
            values: values.to_vec(),
        };
        let logits = host(&[1, 4], &[0.0, 3.0, 1.0, 1.0]);
        let bias = host(&[4], &[9.0, 0.0, 0.0, 0.0]);
        let mut outputs = [host(&[1, 2], &[0.0; 2]), host(&[1, 2], &[0.0; 2])];
        let route = Route { gate: Gate::Sigmoid, normalized: false, biased: true, ..Route::softmax(2) };
        route.reference(&[logits, bias], &mut outputs);
        assert_eq!(outputs[0].values, [0.0, 1.0]);
        assert_eq!(outputs[1].values, [0.5, 1.0 / (1.0 + (-3.0f64).exp())]);
    }
}
