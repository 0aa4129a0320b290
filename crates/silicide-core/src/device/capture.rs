//! Recording a device's work for the debugger of its maker.

use super::Device;
use crate::error::{Error, Result};
use std::path::Path;

/// A recording under way. It ends with [`Capture::finish`], or when this is dropped.
#[derive(Debug)]
#[must_use = "a capture ends when it is dropped"]
pub struct Capture {
    device: Device,
    is_open: bool,
}

impl Device {
    /// Records everything that the device does from here on into a file: a `.gputrace` for Xcode on Metal. Backends that
    /// can't say so.
    pub fn capture(&self, path: impl AsRef<Path>) -> Result<Capture> {
        self.raw().capture(Some(path.as_ref())).map_err(|error| Error::device(&self.info().id, error))?;
        Ok(Capture { device: self.clone(), is_open: true })
    }
}

impl Capture {
    /// Waits for the work and ends the recording.
    pub fn finish(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        // Failed work is recorded too, and the recording must end whatever became of it.
        let worked = self.device.synchronize();
        let ended = self.device.raw().capture(None);
        worked.and(ended.map_err(|error| Error::device(&self.device.info().id, error)))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // `finish` reports an error of the capture; a failure of work is reported where it is waited for.
        let _ = self.end();
    }
}
