//! Tensors of weight files as buffers on a device: in place where the device can read the file, copied otherwise.
//!
//! A [`Loader`] loads one tensor or all of them as [`Weight`]s. [`LoadOptions`] sets placement, progress and cancellation.
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
pub use weight::{AsWeight, Weight, Weights};
