//! Recording: ops become a flat list of commands, barriers are derived, the list is submitted.
//!
//! A [`CommandEncoder`] records ops and copies; [`CommandEncoder::submit`] returns a [`Submission`] to wait for. Op functions
//! take any [`Recorder`], so model code runs on an encoder or on a graph builder. Barriers follow from the byte ranges that commands touch.

mod baked;
mod encoder;
mod hazard;
mod lower;
mod needs;
mod ranges;
mod recorder;
mod recording;
pub(crate) mod rules;
mod submission;

pub(crate) use baked::BakedList;
pub use encoder::{CommandEncoder, EncoderOptions};
pub(crate) use hazard::Touch;
pub use hazard::{BufferRange, MemRanges, place};
pub(crate) use lower::{Call, PlanBuffers, scratch_bytes};
pub use recorder::Recorder;
pub(crate) use recording::{BufferRegion, Recording, Recycler, fill_block};
pub use submission::{LabelTime, Submission};
