//! Captures of frames to a file that `MLX_METAL_CAPTURE` names, once per process. Only Metal records them ([`silicide::Device::capture`]).

use crate::MlxDevice;
use silicide::device::Capture;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the variable was used.
static CONSUMED: AtomicBool = AtomicBool::new(false);

/// A capture. It is recorded between [`MetalCapture::begin`] and [`MetalCapture::end`].
#[derive(Debug)]
pub struct MetalCapture {
    device: silicide::Device,
    path: String,
    recording: Option<Capture>,
}

impl MetalCapture {
    /// Returns a capture to the file that `MLX_METAL_CAPTURE` names: once, and only if the variable has a value.
    pub fn from_env(device: &MlxDevice) -> Option<MetalCapture> {
        let path = std::env::var("MLX_METAL_CAPTURE").ok().filter(|path| !path.is_empty())?;
        let first = !CONSUMED.swap(true, Ordering::Relaxed);
        first.then(|| MetalCapture { device: device.silicide().clone(), path, recording: None })
    }

    /// Begins the recording. Where the device can't record, nothing happens; `silicide::Device::capture` says why.
    pub fn begin(&mut self) {
        if self.recording.is_none() {
            self.recording = self.device.capture(&self.path).ok();
        }
    }

    /// Waits for the work and ends the recording.
    pub fn end(&mut self) {
        if let Some(recording) = self.recording.take() {
            let _ = recording.finish();
        }
    }
}

/// Lets the variable be used again.
pub fn reset_capture_consumed_for_test() {
    CONSUMED.store(false, Ordering::Relaxed);
}
