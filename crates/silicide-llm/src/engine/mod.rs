//! Sessions and generation: the layer under [`Model`](crate::Model) and [`Chat`](crate::Chat).
//!
//! A [`Session`] takes tokens and returns logits; its KV cache has the earlier tokens. [`generate`] samples
//! tokens from those logits and streams their text to a callback. A [`Generator`] is the same loop, one step at a time.
//! [`perplexity()`] scores a text, [`roofline()`] measures the limits of a device, [`capture_pass`] returns a forward pass
//! as a graph.

mod bound;
mod generate;
mod generator;
mod inputs;
pub(crate) mod load;
mod memory;
pub(crate) mod options;
mod passes;
mod perplexity;
mod profiling;
mod repacked;
mod roofline;
mod session;
mod split;
mod stops;

pub use generate::{Finish, GenerateOptions, Generation, PromptEvent, PromptProgress, Timings, generate};
pub use generator::Generator;
pub use load::capture_pass;
pub use memory::MemoryEstimate;
pub use options::ReadProgress;
pub use perplexity::{Perplexity, perplexity};
pub use roofline::roofline;
pub use session::{LogitsFrom, Session};
