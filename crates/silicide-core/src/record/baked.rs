//! A list in its device's form, with everything it uses.

use super::hazard::Touch;
use super::recording::Recording;
use crate::device::{Device, StorageUse, Tally};
use crate::error::{Error, Result};
use crate::memory::DeviceAllocator;
use silicide_hal::RawBaked;
use std::fmt;
use std::sync::Arc;

/// The list that replays submit. Lists in flight hold it, so it is dropped when no device runs it any more.
pub(crate) struct BakedList {
    /// Keeps the backend alive; not the device, which holds lists in flight.
    home: Arc<DeviceAllocator>,
    pub(crate) raw: RawBaked,
    pub(crate) uses: Vec<StorageUse>,
    pub(crate) touches: Vec<Touch>,
    pub(crate) tally: Tally,
}

impl BakedList {
    /// Bakes a recording.
    pub(crate) fn new(device: &Device, mut recording: Recording) -> Result<BakedList> {
        // SAFETY: the list was recorded as every other: handles live in `uses`, which stay as long as this, and in the
        // registry, which outlives all work; ranges were checked, barriers separate hazards.
        let baked = unsafe { device.raw().bake(&recording.list) };
        let baked = baked.map(|raw| BakedList {
            home: Arc::clone(device.memory()),
            raw,
            uses: std::mem::take(&mut recording.uses),
            touches: std::mem::take(&mut recording.touches),
            tally: std::mem::take(&mut recording.tally),
        });
        device.recycler().give(recording);
        baked.map_err(|error| Error::device(&device.info().id, error))
    }
}

impl Drop for BakedList {
    fn drop(&mut self) {
        // SAFETY: `bake` returned the list in `new`. `Timeline::replay` keeps an `Arc` of this until the ticket is reached, so
        // this drop comes after the last ticket.
        unsafe { self.home.raw().unbake(self.raw) };
    }
}

impl fmt::Debug for BakedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BakedList({} storages)", self.uses.len())
    }
}
