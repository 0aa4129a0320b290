//! How tensors are loaded, and how one watches it.

use crate::cancel::CancelToken;
use crate::memory::Purpose;
use std::fmt;
use std::sync::Arc;

/// Watches loading.
pub type LoadProgress = Arc<dyn Fn(&LoadEvent<'_>) + Send + Sync>;

/// How to load tensors. The default uses files in place where the device can.
#[derive(Clone)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The purpose of the buffers, in reports.
    pub purpose: Purpose,
    /// Where the bytes go.
    pub placement: Placement,
    /// The most bytes on their way to memory that the host can't see.
    pub staging_bytes: usize,
    /// Called after every piece that is loaded, on the loading thread.
    pub progress: Option<LoadProgress>,
    /// Stops loading, within a piece.
    pub cancel: CancelToken,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            purpose: Purpose::Weights,
            placement: Placement::InPlace,
            staging_bytes: 32 << 20,
            progress: None,
            cancel: CancelToken::new(),
        }
    }
}

impl LoadOptions {
    /// Sets the purpose of the buffers in reports.
    pub fn purpose(mut self, purpose: Purpose) -> LoadOptions {
        self.purpose = purpose;
        self
    }

    /// Sets where the bytes go.
    pub fn placement(mut self, placement: Placement) -> LoadOptions {
        self.placement = placement;
        self
    }

    /// Sets the most bytes of staging memory.
    pub fn staging_bytes(mut self, bytes: usize) -> LoadOptions {
        self.staging_bytes = bytes;
        self
    }

    /// Sets the function that is called after each piece, on the loading thread.
    pub fn progress(mut self, progress: impl Fn(&LoadEvent<'_>) + Send + Sync + 'static) -> LoadOptions {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Sets the token that cancels loading.
    pub fn cancel(mut self, cancel: CancelToken) -> LoadOptions {
        self.cancel = cancel;
        self
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("purpose", &self.purpose)
            .field("placement", &self.placement)
            .field("staging_bytes", &self.staging_bytes)
            .field("progress", &self.progress.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// Where the bytes of tensors go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Nowhere: the device reads the file's memory, if it can; otherwise as [`Placement::Copy`].
    #[default]
    InPlace,
    /// Into memory of the device: written by the host where it sees that memory, otherwise as [`Placement::Staged`].
    Copy,
    /// Into memory of the device, by copies that the device makes from staging memory.
    Staged,
}

/// A piece of a tensor that has been loaded.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LoadEvent<'a> {
    /// The tensor.
    pub tensor: &'a str,
    /// Bytes of the tensor, all planes together.
    pub tensor_bytes: u64,
    /// Bytes loaded so far, of all tensors.
    pub done: u64,
    /// Bytes of all tensors of the source.
    pub total: u64,
}
