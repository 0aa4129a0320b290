//! Choosing the next token: a chain of stages narrows the candidates, then one is drawn.

mod chain;
mod options;
mod stages;
mod survey;

pub use chain::Sampler;
pub use options::SamplerOptions;
