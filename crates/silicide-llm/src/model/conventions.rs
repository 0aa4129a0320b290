//! What the files of an architecture have in common without saying it: how tensors are named and stored, and what
//! `config.json` may leave out.

/// The conventions of an architecture's files.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Conventions {
    /// Whether layers have norms before and after each of their two parts, which changes what checkpoints call them.
    pub four_norms: bool,
    /// Whether checkpoints store the weights of norms less one.
    pub norms_less_one: bool,
    /// What `config.json` calls the activation of the feed-forward.
    pub activation: &'static str,
    /// Whether layers have experts for their feed-forward.
    pub experts: Mixture,
    /// What `config.json` means where it says nothing.
    pub unsaid: Unsaid,
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

/// What a `config.json` means by leaving a setting out; `None` where it may not, or where the setting then follows from
/// others.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Unsaid {
    /// Query heads.
    pub heads: Option<usize>,
    /// Heads of keys and values; as many as query heads where there is no number.
    pub kv_heads: Option<usize>,
    /// Numbers per head; the hidden extent divided by the heads where there is no number.
    pub head_dim: Option<usize>,
    /// The constant of the norms.
    pub epsilon: Option<f32>,
    /// The base of the frequencies.
    pub base: f64,
    /// Tokens the model was trained to look back over.
    pub context: usize,
    /// Positions that local layers see.
    pub window: Option<u32>,
    /// The number whose root divides scores; the extent of a head where there is no number.
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
        unsaid: Unsaid {
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
