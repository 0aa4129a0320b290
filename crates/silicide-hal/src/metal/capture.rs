//! Recording the device's work into a `.gputrace` for Xcode.

use super::adapter::unavailable;
use super::archive::url;
use super::gpu::Gpu;
use crate::{HalError, Result};
use objc2::rc::autoreleasepool;
use objc2_metal::{MTLCaptureDescriptor, MTLCaptureDestination, MTLCaptureManager};
use std::path::Path;
use std::sync::atomic::Ordering;

/// See [`RawDevice::capture`](crate::RawDevice::capture). From here on passes carry labels.
pub(super) fn capture(gpu: &Gpu, to: Option<&Path>) -> Result<()> {
    autoreleasepool(|_| {
        // SAFETY: the one object of its kind; Metal synchronises it.
        let recorder = unsafe { MTLCaptureManager::sharedCaptureManager() };
        let Some(path) = to else {
            if recorder.isCapturing() {
                recorder.stopCapture();
            }
            return Ok(());
        };
        if !recorder.supportsDestination(MTLCaptureDestination::GPUTraceDocument) {
            let advice = "Set METAL_CAPTURE_ENABLED=1 in the environment before the program starts";
            return Err(unavailable("captures are not enabled in this process", advice));
        }
        let failed = |detail: String| HalError::Driver { call: "startCapture", detail };
        let to = url(path).ok_or_else(|| failed(format!("{} is not Unicode", path.display())))?;
        let descriptor = MTLCaptureDescriptor::new();
        descriptor.set_capture_command_queue(&gpu.queue);
        descriptor.setDestination(MTLCaptureDestination::GPUTraceDocument);
        descriptor.setOutputURL(Some(&to));
        gpu.labels.store(true, Ordering::Relaxed);
        recorder
            .startCaptureWithDescriptor_error(&descriptor)
            .map_err(|error| failed(format!("{}: {}", path.display(), error.localizedDescription())))
    })
}
