//! The null backend: records what it is given and never runs it; fails on demand, for tests of everything above.
//!
//! Its memory is real host memory, so that host access works; what a list should have written is simply not there.
//! Everything it holds can be counted, work can be kept "in flight" until a test releases it, and each kind of
//! failure can be injected at a chosen call.
//!
//! | file | what |
//! |---|---|
//! | `options` | limits to claim and failures to inject |
//! | `device` | the device, its counters and controls |

mod device;
mod options;

pub use device::{Counts, NullDevice, open};
pub use options::NullOptions;
