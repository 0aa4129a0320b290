//! Recording: ops become a flat list of commands, barriers are derived, the list is submitted.
//!
//! | file | what |
//! |---|---|
//! | `recorder.rs` | the trait that model code is written against |
//! | `encoder.rs` | [`CommandEncoder`]: ops and transfers in, a submission out |
//! | `rules.rs` | what the arguments of a call satisfy, for encoder and graph alike |
//! | `lower.rs` | a kernel's plan becomes commands |
//! | `derived.rs` | what calls make of one input is made once |
//! | `hazard.rs` | which commands may run at once, by byte ranges |
//! | `ranges.rs` | sets of byte ranges |
//! | `recording.rs` | the growing list with everything it uses |
//! | `baked.rs` | a list in its device's form, with everything it uses |
//! | `submission.rs` | a list on its way: waiting, errors, times |
//! | `estimate.rs` | [`Estimate`]: a recorder that only counts the memory a recording would take |

mod baked;
mod derived;
mod encoder;
mod estimate;
mod hazard;
mod lower;
mod ranges;
mod recorder;
mod recording;
pub(crate) mod rules;
mod submission;

pub(crate) use baked::BakedList;
pub(crate) use derived::{is_same as is_same_launch, of as derives};
pub use encoder::{CommandEncoder, EncoderOptions};
pub use estimate::{Estimate, Estimated};
pub(crate) use hazard::Touch;
pub use hazard::{BufferRange, MemRanges, place};
pub(crate) use lower::{Call, Own, scratch_bytes};
pub use recorder::Recorder;
pub(crate) use recording::{Place, Recording, Recycler, fill_block};
pub use submission::Submission;
