//! The parts that models are made of. Each has a `load`, which takes its tensors, and an `apply`, which records its
//! arithmetic on any recorder.

mod attention;
mod embedding;
mod experts;
mod feed_forward;
mod linear;
mod norm;

pub use attention::{Attention, AttentionOptions};
pub use embedding::{Embedding, Head};
pub use experts::{Experts, FeedForwardKind};
pub use feed_forward::FeedForward;
pub use linear::Linear;
pub use norm::Norm;
