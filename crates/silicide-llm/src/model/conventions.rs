//! Conventions of an architecture's files that the files do not state: names and storage of tensors, and defaults of
//! `config.json`.

/// The conventions of an architecture's files.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Conventions {
    /// Whether layers have norms before and after attention and feed-forward, which changes their names in checkpoints.
    pub four_norms: bool,
    /// Whether checkpoints store the weights of norms less one.
    pub norms_less_one: bool,
    /// The name of the feed-forward's activation in `config.json`.
    pub activation: &'static str,
    /// Whether layers have experts for their feed-forward.
    pub experts: Mixture,
    /// Defaults for settings that `config.json` may omit.
    pub defaults: ConfigDefaults,
}

/// Whether models of an architecture have experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixture {
    /// None have.
    Never,
    /// Some have.
    Possible,
    /// All have.
    Always,
}

/// Defaults for settings that `config.json` may omit. `None` if the setting is required, or follows from others.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConfigDefaults {
    /// Query heads.
    pub heads: Option<usize>,
    /// Heads of keys and values; `None`: as many as query heads.
    pub kv_heads: Option<usize>,
    /// Elements per head; `None`: the hidden size divided by the heads.
    pub head_dim: Option<usize>,
    /// The constant of the norms.
    pub epsilon: Option<f32>,
    /// The base of the frequencies.
    pub base: f64,
    /// Tokens the model was trained to look back over.
    pub context: usize,
    /// Positions that local layers see.
    pub window: Option<u32>,
    /// The number whose square root divides the scores; `None`: the elements per head.
    pub query_scalar: Option<f32>,
    /// Whether the token table is the head too.
    pub tied: bool,
}

impl Conventions {
    /// Those of Llama, which most follow.
    pub const USUAL: Conventions = Conventions {
        four_norms: false,
        norms_less_one: false,
        activation: "silu",
        experts: Mixture::Never,
        defaults: ConfigDefaults {
            heads: None,
            kv_heads: None,
            head_dim: None,
            epsilon: None,
            base: 10_000.0,
            context: 2048,
            window: None,
            query_scalar: None,
            tied: false,
        },
    };
}
