//! Keeping memory wired for the GPU between submissions, where the system lets us say so (macOS 15).
//!
//! All blocks are in one residency set that belongs to the queue. It is committed once per submission that follows a
//! change, kept warm for a while after the last one by a heart that beats in a thread of its own, and then let go: an
//! idle process holds no memory against the system's will, and costs nothing.

use super::gpu::Gpu;
use super::warmth::{BEAT, Beat, Warmth};
use super::{Object, text};
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLAllocation, MTLBuffer, MTLCommandQueue, MTLDevice, MTLResidencySet, MTLResidencySetDescriptor,
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The residency set of a device, where there are such things.
pub(super) struct Residency {
    gpu: Arc<Gpu>,
    shared: Option<Arc<Shared>>,
}

/// State that the thread of the heart shares with the device.
struct Shared {
    state: Mutex<ResidencyState>,
    /// Rung when the device goes.
    bell: Condvar,
}

struct ResidencyState {
    set: Object<dyn MTLResidencySet>,
    warmth: Warmth,
    /// Whether the set changed since it was committed.
    is_dirty: bool,
    is_closed: bool,
}

// SAFETY: Metal's residency sets may be used from any thread, one at a time; `Shared` keeps this behind a lock.
unsafe impl Send for ResidencyState {}

impl Residency {
    /// Returns a set for the device's blocks, kept warm for `keep` after each use.
    pub(super) fn new(gpu: &Arc<Gpu>, keep: Duration) -> Residency {
        let shared = autoreleasepool(|_| {
            if !gpu.adapter.has_residency_sets {
                return None;
            }
            let descriptor = MTLResidencySetDescriptor::new();
            descriptor.setLabel(Some(&text("silicide")));
            // Without a set everything works, only slower after a pause.
            let set = gpu.device().newResidencySetWithDescriptor_error(&descriptor).ok()?;
            gpu.queue.addResidencySet(&set);
            let state = ResidencyState { set, warmth: Warmth::new(keep), is_dirty: false, is_closed: false };
            Some(Arc::new(Shared { state: Mutex::new(state), bell: Condvar::new() }))
        });
        Residency { gpu: gpu.clone(), shared }
    }

    /// Takes a buffer in, from the next submission on.
    pub(super) fn add(&self, buffer: &ProtocolObject<dyn MTLBuffer>) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            let allocation: &ProtocolObject<dyn MTLAllocation> = ProtocolObject::from_ref(buffer);
            state.set.addAllocation(allocation);
            state.is_dirty = true;
        }
    }

    /// Lets a buffer go at once: the set would keep it alive, and the memory under an import may be gone soon.
    pub(super) fn remove(&self, buffer: &ProtocolObject<dyn MTLBuffer>) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            let allocation: &ProtocolObject<dyn MTLAllocation> = ProtocolObject::from_ref(buffer);
            state.set.removeAllocation(allocation);
            state.set.commit();
            state.is_dirty = false;
        }
    }

    /// Called before a submission: commits changes of the set, and starts the heartbeat thread if it does not run.
    pub(super) fn touch(&self) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock();
        let starts = state.warmth.touch(Instant::now());
        let changed = std::mem::take(&mut state.is_dirty);
        if changed {
            state.set.commit();
        }
        if changed || starts {
            state.set.requestResidency();
        }
        if starts {
            let heart = Arc::clone(shared);
            let thread = std::thread::Builder::new().name("silicide-residency".to_owned());
            if thread.spawn(move || heart.beat()).is_err() {
                state.warmth.stopped();
            }
        }
    }
}

impl Shared {
    /// Beats until the device is idle or gone.
    fn beat(&self) {
        let mut state = self.lock();
        loop {
            let waited = self.bell.wait_timeout_while(state, BEAT, |state| !state.is_closed);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_closed {
                return;
            }
            let beat = state.warmth.beat(Instant::now());
            autoreleasepool(|_| match beat {
                Beat::Keep => state.set.requestResidency(),
                Beat::Release => state.set.endResidency(),
            });
            if beat == Beat::Release {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ResidencyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            state.is_closed = true;
            autoreleasepool(|_| {
                state.set.endResidency();
                self.gpu.queue.removeResidencySet(&state.set);
            });
            shared.bell.notify_all();
        }
    }
}
