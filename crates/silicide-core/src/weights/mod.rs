//! Tensors of weight files as buffers on a device: in place where the device can read the file, copied otherwise.
//!
//! | file | what |
//! |---|---|
//! | `loader.rs` | [`Loader`]: one tensor, or all of them |
//! | `options.rs` | how, with progress and cancelling |
//! | `window.rs` | pieces of files that are used in place, few and large |
//! | `staging.rs` | the bounded way through memory that host and device both see |
//! | `weight.rs` | what comes out: [`Weight`] and the map [`Weights`] |
//!
//! However large a file is, bringing it onto a device takes no more memory than the tensors do there, and
//! [`LoadOptions::staging_bytes`] on the way.

mod loader;
mod options;
mod staging;
mod weight;
mod window;

pub use loader::{LoadReport, Loader};
pub use options::{LoadEvent, LoadOptions, LoadProgress, Placement};
pub use weight::{PlanarWeight, Weight, Weights};
