//! Recording: ops become a flat list of commands, barriers are derived, the list is submitted.
//!
//! | file | what |
//! |---|---|
//! | `recorder.rs` | the trait that model code is written against |
//! | `encoder.rs` | [`CommandEncoder`]: ops and transfers in, a submission out |
//! | `lower.rs` | a kernel's plan becomes commands |
//! | `hazard.rs` | which commands may run at once, by byte ranges |
//! | `ranges.rs` | sets of byte ranges |
//! | `recording.rs` | the growing list with everything it uses |
//! | `submission.rs` | a list on its way: waiting, errors, times |
//! | `estimate.rs` | [`Estimate`]: a recorder that only counts the memory a recording would take |

mod derived;
mod encoder;
mod estimate;
mod hazard;
mod lower;
mod ranges;
mod recorder;
mod recording;
mod submission;

pub use encoder::{CommandEncoder, EncoderOptions};
pub use estimate::{Estimate, Estimated};
pub(crate) use hazard::Touch;
pub use hazard::{BufferRange, MemRanges, place};
pub use recorder::Recorder;
pub(crate) use recording::{Recycler, fill_block};
pub use submission::Submission;
