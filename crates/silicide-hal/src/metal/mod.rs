//! The Metal backend: kernels are MSL made from WGSL (or by hand), a submission is usually one command buffer with one
//! concurrent compute pass.
//!
//! Every call into Metal is inside an autorelease pool. Objects are shared between threads only where Metal says so,
//! or behind a lock; each such place says which.
//!
//! | file | what |
//! |---|---|
//! | `adapter`, `traits` | finding devices; their description and features |
//! | `gpu` | an opened device with its queue, and where its loss is remembered |
//! | `device` | the verbs of [`RawDevice`] |
//! | `memory` | blocks: allocated, imported, adopted |
//! | `residency`, `warmth` | memory kept wired between submissions, for a while |
//! | `pipeline`, `stored`, `archive` | compiled kernels, in memory and on disk |
//! | `submit`, `split`, `record`, `arguments` | lists into command buffers and passes; `transfer.metal` copies and fills |
//! | `timeline` | tickets: waiting |
//! | `timestamps`, `samples` | device times of marks |
//! | `fault` | Metal's errors |
//! | `capture` | recording work for Xcode |
//!
//! `arguments`, `fault`, `samples`, `split`, `stored`, `traits` and `warmth` are plain rules: other systems compile them for their
//! tests, and nothing else of this folder.

#[cfg(target_vendor = "apple")]
mod adapter;
#[cfg(target_vendor = "apple")]
mod archive;
mod arguments;
#[cfg(target_vendor = "apple")]
mod capture;
#[cfg(target_vendor = "apple")]
mod device;
mod fault;
#[cfg(target_vendor = "apple")]
mod gpu;
#[cfg(target_vendor = "apple")]
mod memory;
#[cfg(target_vendor = "apple")]
mod pipeline;
#[cfg(target_vendor = "apple")]
mod record;
#[cfg(target_vendor = "apple")]
mod residency;
mod samples;
mod split;
mod stored;
#[cfg(target_vendor = "apple")]
mod submit;
#[cfg(target_vendor = "apple")]
mod timeline;
#[cfg(target_vendor = "apple")]
mod timestamps;
mod traits;
mod warmth;

#[cfg(target_vendor = "apple")]
pub use apple::{MetalOptions, bindings, enumerate, open};
#[cfg(target_vendor = "apple")]
use apple::{Object, text};

#[cfg(target_vendor = "apple")]
mod apple {
    use super::{adapter::Adapter, device::MetalDevice};
    use crate::{DeviceInfo, RawDevice, Result};
    use objc2::rc::{Retained, autoreleasepool};
    use objc2::runtime::ProtocolObject;
    use objc2_foundation::NSString;
    use std::sync::Arc;
    use std::time::Duration;

    /// The bindings that this backend uses, for applications that call Metal too.
    pub mod bindings {
        pub use objc2;
        pub use objc2_foundation;
        pub use objc2_metal;
    }

    /// An object of a Metal protocol.
    pub(super) type Object<T> = Retained<ProtocolObject<T>>;

    /// Text as Foundation has it.
    pub(super) fn text(text: &str) -> Retained<NSString> {
        NSString::from_str(text)
    }

    /// How to open a device.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub struct MetalOptions {
        /// Let errors of finished work name the pass that failed. Metal's own validation layer is enabled from
        /// outside, with `MTL_DEBUG_LAYER=1`.
        pub validation: bool,
        /// Time marks. Apple's GPUs tell the time only between passes, so each mark then opens one, which costs.
        pub timing: bool,
        /// The result of [`RawDevice::driver_cache`] in an earlier run, or empty. `None` keeps no cache.
        pub driver_cache: Option<Vec<u8>>,
        /// How long memory is kept wired after its last use, where the system lets us say.
        pub keep_warm: Duration,
    }

    impl Default for MetalOptions {
        fn default() -> MetalOptions {
            MetalOptions {
                validation: false,
                timing: false,
                driver_cache: None,
                keep_warm: Duration::from_secs(60),
            }
        }
    }

    impl MetalOptions {
        /// Sets whether errors of finished work name the pass that failed.
        pub fn validation(mut self, validation: bool) -> MetalOptions {
            self.validation = validation;
            self
        }

        /// Sets whether marks are timed.
        pub fn timing(mut self, timing: bool) -> MetalOptions {
            self.timing = timing;
            self
        }

        /// Sets the driver cache of an earlier run, or an empty one.
        pub fn driver_cache(mut self, cache: Vec<u8>) -> MetalOptions {
            self.driver_cache = Some(cache);
            self
        }

        /// Sets how long memory is kept wired after its last use.
        pub fn keep_warm(mut self, time: Duration) -> MetalOptions {
            self.keep_warm = time;
            self
        }
    }

    /// Returns the devices that can be opened, the system's own choice first. Position in the list is the index for [`open`].
    pub fn enumerate() -> Result<Vec<DeviceInfo>> {
        autoreleasepool(|_| {
            let adapters = Adapter::all(&MetalOptions::default())?;
            Ok(adapters.into_iter().map(|adapter| adapter.info).collect())
        })
    }

    /// Opens device `index` of [`enumerate`].
    pub fn open(index: usize, options: &MetalOptions) -> Result<Arc<dyn RawDevice>> {
        Ok(Arc::new(MetalDevice::open(index, options)?))
    }
}
