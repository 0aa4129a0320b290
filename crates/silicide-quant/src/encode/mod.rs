//! Encoders: from values to blocks. Each family of formats has the file that its decoders have in `format`.
//!
//! The simple formats take their scale from the extremes of a block, as GGML does, with the same bytes. The others
//! search for the scales with the least squared error (`fit`). Like decoders, encoders are compiled once per instruction
//! set; they add in a fixed order, so all have the same bytes.

pub(crate) mod fit;
pub(crate) mod fp4;
mod iq;
mod iq4;
mod k;
mod legacy;
mod ternary;
