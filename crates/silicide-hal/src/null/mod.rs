//! The null backend: records lists, never runs them, and fails on demand; for tests of the crates above.
//!
//! Its memory is real host memory, so that host access works; lists write nothing.
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
