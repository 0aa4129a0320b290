//! Sampling: a chain of stages narrows the candidates, then one token is drawn.

mod chain;
mod options;
mod stages;
mod survey;

pub use chain::Sampler;
pub use options::SamplerOptions;
