//! Mixtures of experts: the settings of files, checked.

use super::conventions::Mixture;
use super::settings::Settings;
use crate::error::Result;
use silicide_ops::route::MOST;

/// The experts that take the place of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExpertConfig {
    /// Experts of a layer.
    pub count: usize,
    /// Experts that a token goes to.
    pub used: usize,
    /// Numbers per token inside an expert.
    pub feed_forward: usize,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalized: bool,
    /// The factor of the routing weights.
    pub scale: f32,
}

/// The expert settings of a file, not checked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawExpertConfig<'a> {
    /// The keys of `count` and `used`, for errors.
    pub(super) keys: [&'a str; 2],
    pub(super) count: Option<usize>,
    pub(super) used: Option<usize>,
    pub(super) feed_forward: usize,
    pub(super) normalized: bool,
    pub(super) scale: Option<f64>,
}

impl RawExpertConfig<'_> {
    /// Returns the experts, if there are any. Refuses those that the architecture does not have or that are not implemented.
    pub(super) fn checked(self, settings: &Settings<'_>, mixture: Mixture) -> Result<Option<ExpertConfig>> {
        let [count_key, used_key] = self.keys;
        let Some(count @ 1..) = self.count else {
            return match mixture {
                Mixture::Always => Err(settings.wrong(count_key, "a count above 0", "no experts")),
                _ => Ok(None),
            };
        };
        if mixture == Mixture::Never {
            let expected = "0 experts: this architecture has no mixtures of experts";
            return Err(settings.wrong(count_key, expected, &count.to_string()));
        }
        if count > MOST {
            return Err(settings.wrong(count_key, &format!("at most {MOST} experts"), &count.to_string()));
        }
        let used = self.used.unwrap_or(0);
        if used == 0 || used > count {
            let expected = format!("between 1 and the {count} experts");
            return Err(settings.wrong(used_key, &expected, &used.to_string()));
        }
        let RawExpertConfig { feed_forward, normalized, scale, .. } = self;
        // 0 is how files say that weights are not scaled.
        let scale = scale.filter(|&scale| scale != 0.0).unwrap_or(1.0) as f32;
        Ok(Some(ExpertConfig { count, used, feed_forward, normalized, scale }))
    }
}

/// The experts of GGUF metadata.
pub(super) fn gguf(
    settings: &Settings<'_>,
    architecture: &str,
    mixture: Mixture,
    feed_forward: Option<usize>,
) -> Result<Option<ExpertConfig>> {
    let key = |name: &str| format!("{architecture}.{name}");
    let (count_key, used_key) = (key("expert_count"), key("expert_used_count"));
    let count = settings.optional_count(&count_key)?;
    let inner_key = key("expert_feed_forward_length");
    let feed_forward = match settings.optional_extent(&inner_key)?.or(feed_forward) {
        Some(feed_forward) => feed_forward,
        None if count.unwrap_or(0) == 0 => 0,
        None => settings.extent(&inner_key)?,
    };
    // Sigmoids and the like belong to architectures that are not here.
    if let Some(gate) = settings.optional_count(&key("expert_gating_func"))?
        && gate > 1
    {
        return Err(settings.wrong(
            &key("expert_gating_func"),
            "1: a softmax over all experts",
            &gate.to_string(),
        ));
    }
    let raw = RawExpertConfig {
        keys: [&count_key, &used_key],
        count,
        used: settings.optional_count(&used_key)?,
        feed_forward,
        // Not read from the file: the architectures here have no other way.
        normalized: true,
        scale: settings.optional_number(&key("expert_weights_scale"))?,
    };
    raw.checked(settings, mixture)
}
