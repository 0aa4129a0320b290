//! Settings of the feed-forward part: its width, or its experts.

use super::Layout;
use super::settings::{Key, Settings};
use crate::error::Result;
use silicide_ops::route::MOST;

const WIDTH: Key = Key::new("feed_forward_length", "intermediate_size");
const COUNT: Key = Key::new("expert_count", "num_experts");
/// Its name in files of Mixtral.
const LOCAL_COUNT: Key = Key::hf("num_local_experts");
const USED: Key = Key::new("expert_used_count", "num_experts_per_tok");
const EXPERT_WIDTH: Key = Key::new("expert_feed_forward_length", "moe_intermediate_size");
const SCALE: Key = Key::gguf("expert_weights_scale");
const GATING: Key = Key::gguf("expert_gating_func");
const NORMALIZED: Key = Key::hf("norm_topk_prob");
const SPARSE_STEP: Key = Key::hf("decoder_sparse_step");
const DENSE_LAYERS: Key = Key::hf("mlp_only_layers");

/// Whether models of an architecture have experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixture {
    /// No model has experts.
    Never,
    /// Some models have experts.
    Possible,
    /// All models have experts.
    Always,
}

/// The feed-forward part of all layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeedForwardConfig {
    /// One feed-forward for all tokens.
    Dense {
        /// Elements per token inside it.
        width: usize,
    },
    /// A mixture of experts.
    Experts(ExpertConfig),
}

/// The experts that take the place of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExpertConfig {
    /// Experts of a layer.
    pub count: usize,
    /// Experts that a token is routed to.
    pub used: usize,
    /// Elements per token inside an expert.
    pub width: usize,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalized: bool,
    /// The factor of the routing weights.
    pub scale: f32,
}

impl FeedForwardConfig {
    /// Reads the settings of a file. Refuses experts that the architecture does not have, or that are not implemented.
    pub fn read(settings: &Settings<'_>, mixture: Mixture) -> Result<FeedForwardConfig> {
        match ExpertConfig::read(settings, mixture)? {
            Some(experts) => Ok(FeedForwardConfig::Experts(experts)),
            None => Ok(FeedForwardConfig::Dense { width: settings.extent(WIDTH)? }),
        }
    }
}

impl ExpertConfig {
    /// Reads the experts of a file, if it has any.
    fn read(settings: &Settings<'_>, mixture: Mixture) -> Result<Option<ExpertConfig>> {
        let (key, count) = match (settings.optional_count(COUNT)?, settings.optional_count(LOCAL_COUNT)?) {
            (None, Some(count)) => (LOCAL_COUNT, Some(count)),
            (count, _) => (COUNT, count),
        };
        let Some(count @ 1..) = count else {
            return match mixture {
                Mixture::Always => Err(settings.wrong(key, "a count above 0", "no experts")),
                _ => Ok(None),
            };
        };
        if mixture == Mixture::Never {
            let expected = "0 experts: this architecture has no mixtures of experts";
            return Err(settings.wrong(key, expected, &count.to_string()));
        }
        if count > MOST {
            return Err(settings.wrong(key, &format!("at most {MOST} experts"), &count.to_string()));
        }
        let used = settings.optional_count(USED)?.unwrap_or(0);
        if used == 0 || used > count {
            let expected = format!("between 1 and the {count} experts");
            return Err(settings.wrong(USED, &expected, &used.to_string()));
        }
        check_routing(settings)?;
        let width = match settings.optional_extent(EXPERT_WIDTH)? {
            Some(width) => width,
            None => settings.optional_extent(WIDTH)?.map_or_else(|| settings.extent(EXPERT_WIDTH), Ok)?,
        };
        let normalized = match settings.layout() {
            // GGUF does not have the setting; the architectures here always normalize.
            Layout::Gguf => true,
            // Mixtral's weights are a softmax over the chosen experts, which equals dividing by their sum.
            Layout::Checkpoint => settings.optional_flag(NORMALIZED)?.unwrap_or(key == LOCAL_COUNT),
        };
        // Files write 0 for weights that are not scaled.
        let scale = settings.optional_number(SCALE)?.filter(|&scale| scale != 0.0).unwrap_or(1.0) as f32;
        Ok(Some(ExpertConfig { count, used, width, normalized, scale }))
    }
}

/// Refuses routing that is not a softmax over all experts, and layers without experts.
fn check_routing(settings: &Settings<'_>) -> Result<()> {
    match settings.optional_count(GATING)? {
        None | Some(0 | 1) => (),
        Some(gate) => {
            return Err(settings.wrong(GATING, "1: a softmax over all experts", &gate.to_string()));
        }
    }
    let step = settings.optional_count(SPARSE_STEP)?.unwrap_or(1);
    let dense =
        settings.get(DENSE_LAYERS).and_then(|layers| layers.items()).is_some_and(|layers| !layers.is_empty());
    if step != 1 || dense {
        return Err(settings.wrong(SPARSE_STEP, "experts in every layer", "layers without them"));
    }
    Ok(())
}
