//! A mixture of experts: each token's feed-forward is the weighted sum of a few experts.

use super::{FeedForward, Linear};
use crate::error::Result;
use crate::model::Tensors;
use crate::model::config::{ExpertConfig, FeedForwardConfig};
use silicide_core::{Recorder, Weight};
use silicide_ops as ops;
use silicide_ops::glu::Activation;
use silicide_ops::route::Route;

/// `Σ weight · down(activation(gate(x)) * up(x))` over the experts that a router chooses for each token.
#[derive(Clone, Debug)]
pub struct Experts {
    router: Linear,
    route: Route,
    gate: Weight,
    up: Weight,
    down: Weight,
    activation: Activation,
}

impl Experts {
    /// Loads the experts of layer `layer`.
    pub fn load(
        tensors: &mut Tensors<'_>,
        layer: usize,
        experts: &ExpertConfig,
        activation: Activation,
    ) -> Result<Experts> {
        let (hidden, width, count) = (tensors.config().hidden, experts.width, experts.count);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let route =
            Route { normalized: experts.normalized, scale: experts.scale, ..Route::softmax(experts.used) };
        Ok(Experts {
            router: Linear::load(tensors, &name("ffn_gate_inp"), [count, hidden])?,
            route,
            gate: tensors.experts(&name("ffn_gate_exps.weight"), [count, width, hidden])?,
            up: tensors.experts(&name("ffn_up_exps.weight"), [count, width, hidden])?,
            down: tensors.experts(&name("ffn_down_exps.weight"), [count, hidden, width])?,
            activation,
        })
    }

    /// Records the part.
    pub fn apply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        let logits = self.router.apply(recorder, x)?;
        let (ids, weights) = ops::route(recorder, self.route, &logits, None)?;
        let [gate_weight, up_weight, down_weight] =
            [&self.gate, &self.up, &self.down].map(|weight| weight.constant(recorder));
        let gate = ops::expert_linear(recorder, x, &gate_weight, &ids)?;
        let up = ops::expert_linear(recorder, x, &up_weight, &ids)?;
        let h = ops::glu(recorder, self.activation, &gate, &up)?;
        let y = ops::expert_linear(recorder, &h, &down_weight, &ids)?;
        Ok(ops::weighted_sum(recorder, &y, &weights)?)
    }
}

/// The feed-forward part of a layer: one dense feed-forward, or experts.
#[derive(Clone, Debug)]
pub enum FeedForwardKind {
    /// One for all tokens.
    Dense(Box<FeedForward>),
    /// A mixture.
    Experts(Box<Experts>),
}

impl FeedForwardKind {
    /// Loads the feed-forward part of layer `layer`.
    pub fn load(
        tensors: &mut Tensors<'_>,
        layer: usize,
        config: &FeedForwardConfig,
        activation: Activation,
    ) -> Result<FeedForwardKind> {
        match config {
            FeedForwardConfig::Experts(experts) => Experts::load(tensors, layer, experts, activation)
                .map(|experts| FeedForwardKind::Experts(Box::new(experts))),
            FeedForwardConfig::Dense { width } => FeedForward::load(tensors, layer, *width, activation)
                .map(|dense| FeedForwardKind::Dense(Box::new(dense))),
        }
    }

    /// Records the part.
    pub fn apply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        match self {
            FeedForwardKind::Dense(feed_forward) => feed_forward.apply(recorder, x),
            FeedForwardKind::Experts(experts) => experts.apply(recorder, x),
        }
    }
}
