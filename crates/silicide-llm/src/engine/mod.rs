//! Running models: [`LanguageModel`] is a loaded file, a [`Session`] one conversation with it, [`generate`] its text.
//!
//! | file | what |
//! |---|---|
//! | `load.rs` | from a file to a model on a device |
//! | `fit.rs` | whether it fits, before anything is loaded |
//! | `inputs.rs` | what one pass reads: tokens, positions, slots |
//! | `graphs.rs` | passes captured once and replayed |
//! | `session.rs` | tokens in, logits out, with a cache of what was seen |
//! | `generate.rs` | tokens out: sampling, stops, streaming |
//! | `profiling.rs` | passes whose kernels are timed |
//! | `roofline.rs` | what a device can do at most |
//! | `perplexity.rs` | how well a model predicts a text |

mod ahead;
mod fit;
mod generate;
mod graphs;
mod inputs;
mod load;
mod perplexity;
mod profiling;
mod roofline;
mod session;
mod stops;

pub use fit::Fit;
pub use generate::{Finish, GenerateOptions, Generation, PromptEvent, PromptProgress, Timings, generate};
pub use load::{EngineOptions, LanguageModel, capture_pass};
pub use perplexity::{Perplexity, perplexity};
pub use roofline::roofline;
pub use session::{Session, Wanted};
