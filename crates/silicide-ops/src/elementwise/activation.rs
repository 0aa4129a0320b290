//! Activation functions: exact in f64, in CPU lanes, and in WGSL. They agree on what is special: NaN stays NaN,
//! infinities become the function's limit (silu and gelu of -infinity are 0).

use crate::cpu::{Simd, math};
use silicide_hal::Snippet;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

/// `activate(kind, x)`, the functions under it and `is_nan`, `tanh_of`.
pub(crate) static ACTIVATION: Snippet = Snippet { name: "activation", text: include_str!("activation.wgsl") };

/// The activations that a gate can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// The common approximation `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `x / 2 * (1 + erf(x / sqrt 2))`.
    GeluErf,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
}

impl Activation {
    /// Every one, in the order of [`Activation::code`].
    pub(crate) const ALL: [Activation; 4] =
        [Activation::Silu, Activation::GeluTanh, Activation::GeluErf, Activation::Sigmoid];

    /// Its number in the parameters of kernels.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Activation::Silu => 0,
            Activation::GeluTanh => 1,
            Activation::GeluErf => 2,
            Activation::Sigmoid => 3,
        }
    }

    /// The definition.
    pub(crate) fn exact(self, x: f64) -> f64 {
        // Infinity times zero has no value of its own; the functions have a limit.
        let factor = |share: f64| if x == f64::NEG_INFINITY { 0.0 } else { x * share };
        match self {
            Activation::Silu => factor(sigmoid(x)),
            Activation::GeluTanh => {
                let inner = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (x + 0.044_715 * x * x * x);
                factor(sigmoid(2.0 * inner))
            }
            Activation::GeluErf => factor(0.5 * libm::erfc(-x / SQRT_2)),
            Activation::Sigmoid => sigmoid(x),
        }
    }
}

/// `1 / (1 + e^-x)` without cancellation or overflow.
fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

/// Applies the activation numbered `code` to every lane.
#[inline(always)]
pub(crate) fn activate<S: Simd>(code: u32, lanes: &mut [f32]) {
    const GELU_TANH: u32 = Activation::GeluTanh.code();
    const GELU_ERF: u32 = Activation::GeluErf.code();
    const SIGMOID: u32 = Activation::Sigmoid.code();
    match code {
        GELU_TANH => map(lanes, gelu_tanh::<S>),
        GELU_ERF => map(lanes, |x| finite(x) * math::normal_cdf::<S>(x)),
        SIGMOID => map(lanes, math::sigmoid::<S>),
        _ => map(lanes, |x| finite(x) * math::sigmoid::<S>(x)),
    }
}

/// Replaces every lane by a function of it.
#[inline(always)]
pub(crate) fn map(lanes: &mut [f32], function: impl Fn(f32) -> f32) {
    for lane in lanes {
        *lane = function(*lane);
    }
}

/// Replaces -infinity by the lowest number, whose product with a share of 0 is 0.
#[inline(always)]
fn finite(x: f32) -> f32 {
    if x < f32::MIN { f32::MIN } else { x }
}

#[inline(always)]
fn gelu_tanh<S: Simd>(x: f32) -> f32 {
    // (1 + tanh u) / 2 is sigmoid(2 u).
    let inner = x * S::mul_add(0.071_354_815, x * x, 1.595_769_2);
    finite(x) * math::sigmoid::<S>(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Portable;

    #[test]
    fn lanes_agree_with_the_definition() {
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-40, -1e-40];
        let sweep = (-4000..4000).map(|i| i as f32 * 0.005);
        for activation in Activation::ALL {
            for x in sweep.clone().chain(special) {
                let mut lanes = [x];
                activate::<Portable>(activation.code(), &mut lanes);
                let exact = activation.exact(f64::from(x));
                // Far down the tail the exponential magnifies the rounding of its argument, and the share of x
                // that is left becomes subnormal.
                let bound = exact.abs() * 2e-5 + 5e-44;
                let near = f64::from(lanes[0]) == exact || (f64::from(lanes[0]) - exact).abs() <= bound;
                assert!(near, "{activation:?}({x:e}) = {:e}, not {exact:e}", lanes[0]);
            }
            let mut lanes = [f32::NAN];
            activate::<Portable>(activation.code(), &mut lanes);
            assert!(lanes[0].is_nan() && activation.exact(f64::NAN).is_nan());
        }
    }
}
