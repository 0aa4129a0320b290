//! Finding and opening devices by name.

use super::Device;
use crate::error::{Error, Result};
use silicide_hal::cpu::{self, CpuOptions, Isa};
use silicide_hal::null::{self, NullOptions};
use silicide_hal::{Backend, DeviceInfo, HalError, RawDevice};
use std::path::PathBuf;
use std::sync::Arc;

/// How to open a device. The default suits most programs.
///
/// ```
/// # extern crate silicide_core as silicide;
/// use silicide::device::DeviceOptions;
/// use silicide::Device;
///
/// let options = DeviceOptions::default().threads(2).memory_budget(1 << 30);
/// let device = Device::open_with("cpu", &options)?;
/// # Ok::<(), silicide::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// Threads of the CPU backend; by default one per core.
    pub threads: Option<usize>,
    /// The instruction set of the CPU backend; by default the best that the machine has. Kernels without a variant for it use
    /// the next lower one. A set that the machine does not have is an error, which names those that it has.
    pub isa: Option<Isa>,
    /// Whether to run the backend's validation layer and turn its messages into errors.
    pub validation: bool,
    /// Whether marks must be timed. Where reading the clock costs nothing they always are; on Metal each mark then
    /// interrupts the work.
    pub timing: bool,
    /// The most bytes that may be in use; by default the device's memory.
    pub memory_budget: Option<usize>,
    /// The most bytes kept for reuse by outputs and scratch of ops; by default a twentieth of the budget.
    pub pool_budget: Option<usize>,
    /// A directory in which compiled kernels are kept between runs; by default they are not.
    pub kernel_cache: Option<PathBuf>,
    /// Whether scratch memory is filled with NaN before each use, so that a kernel that reads what it did not
    /// write shows itself.
    pub poison_scratch: bool,
    /// Whether GPU bindings reach to the end of their allocation instead of the end of the view. Drivers drop
    /// writes past a binding; so only then a test can see that a kernel writes past its view.
    pub loose_bindings: bool,
}

impl DeviceOptions {
    /// Sets the number of threads of the CPU backend.
    pub fn threads(mut self, threads: usize) -> DeviceOptions {
        self.threads = Some(threads);
        self
    }

    /// Sets the instruction set of the CPU backend.
    pub fn isa(mut self, isa: Isa) -> DeviceOptions {
        self.isa = Some(isa);
        self
    }

    /// Sets whether the backend's validation layer runs.
    pub fn validation(mut self, validation: bool) -> DeviceOptions {
        self.validation = validation;
        self
    }

    /// Sets whether marks must be timed.
    pub fn timing(mut self, timing: bool) -> DeviceOptions {
        self.timing = timing;
        self
    }

    /// Sets the most bytes that may be in use.
    pub fn memory_budget(mut self, bytes: usize) -> DeviceOptions {
        self.memory_budget = Some(bytes);
        self
    }

    /// Sets the most bytes kept for reuse by outputs and scratch of ops.
    pub fn pool_budget(mut self, bytes: usize) -> DeviceOptions {
        self.pool_budget = Some(bytes);
        self
    }

    /// Sets the directory in which compiled kernels are kept between runs.
    pub fn kernel_cache(mut self, directory: impl Into<PathBuf>) -> DeviceOptions {
        self.kernel_cache = Some(directory.into());
        self
    }

    /// Sets whether scratch memory is filled with NaN before each use.
    pub fn poison_scratch(mut self, poison: bool) -> DeviceOptions {
        self.poison_scratch = poison;
        self
    }

    /// Sets whether GPU bindings reach to the end of their allocation.
    pub fn loose_bindings(mut self, loose: bool) -> DeviceOptions {
        self.loose_bindings = loose;
        self
    }
}

/// The devices that can be opened, and the reasons why others can't.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Devices that can be opened by their `id`, best first.
    pub devices: Vec<DeviceInfo>,
    /// Backends that can't be used, with advice.
    pub missing: Vec<HalError>,
}

impl Device {
    /// The best device of this machine: a GPU where there is one, otherwise the CPU. Emulated GPUs never win.
    pub fn best() -> Result<Device> {
        match Device::list().devices.iter().find(|info| info.backend != Backend::Cpu && !info.software) {
            Some(info) => Device::open(&info.id),
            None => Device::cpu(),
        }
    }

    /// The CPU.
    pub fn cpu() -> Result<Device> {
        Device::open("cpu")
    }

    /// Opens a device by name: `best`, `cpu`, `metal` (the first), `vulkan:1`, `null`.
    pub fn open(name: &str) -> Result<Device> {
        Device::open_with(name, &DeviceOptions::default())
    }

    /// Opens a device by name, with options.
    pub fn open_with(name: &str, options: &DeviceOptions) -> Result<Device> {
        let failed = |error| Error::device(name, error);
        let (backend, index) = name.split_once(':').unwrap_or((name, "0"));
        let unknown = || Error::UnknownDevice {
            name: name.to_owned(),
            known: Device::list().devices.iter().map(|info| info.id.as_str()).collect::<Vec<_>>().join(", "),
        };
        let index: usize = index.parse().map_err(|_| unknown())?;
        match (backend, index) {
            ("best", 0) => {
                let devices = Device::list().devices;
                let gpu = devices.iter().find(|info| info.backend != Backend::Cpu && !info.software);
                Device::open_with(gpu.map_or("cpu", |info| info.id.as_str()), options)
            }
            ("cpu", 0) => {
                let mut cpu_options = CpuOptions::default();
                cpu_options.threads = options.threads;
                cpu_options.isa = options.isa;
                Ok(own(cpu::open(&cpu_options).map_err(failed)?, options))
            }
            ("vulkan", _) => open_vulkan(name, index, options)?.ok_or_else(unknown),
            ("metal", _) => open_metal(name, index, options),
            ("null", 0) => Ok(own(null::open(&NullOptions::default()).map_err(failed)?, options)),
            _ => Err(unknown()),
        }
    }

    /// Every device that can be opened, best first, and why others can't.
    pub fn list() -> Listing {
        let mut listing = Listing { devices: Vec::new(), missing: Vec::new() };
        let mut add = |found: silicide_hal::Result<Vec<DeviceInfo>>| match found {
            Ok(devices) => listing.devices.extend(devices),
            Err(error) => listing.missing.push(error),
        };
        #[cfg(all(target_vendor = "apple", feature = "metal"))]
        add(silicide_hal::metal::enumerate());
        #[cfg(all(target_vendor = "apple", not(feature = "metal")))]
        add(Err(left_out("metal")));
        #[cfg(feature = "vulkan")]
        add(silicide_hal::vulkan::enumerate());
        #[cfg(not(feature = "vulkan"))]
        add(Err(left_out("vulkan")));
        match cpu::info(&CpuOptions::default()) {
            Ok(info) => listing.devices.push(info),
            Err(error) => listing.missing.push(error),
        }
        // Real GPUs, then the CPU, then emulated GPUs.
        listing.devices.sort_by_key(|info| (info.software, info.backend == Backend::Cpu));
        listing
    }
}

/// Opens a Vulkan device, or returns `None` when there is no device with this index.
#[cfg(feature = "vulkan")]
fn open_vulkan(name: &str, index: usize, options: &DeviceOptions) -> Result<Option<Device>> {
    use crate::kernel::DiskCache;
    use silicide_hal::vulkan::{self, VulkanOptions};
    let failed = |error| Error::device(name, error);
    let devices = vulkan::enumerate().map_err(failed)?;
    let Some(info) = devices.get(index) else { return Ok(None) };
    let mut vulkan_options = VulkanOptions::default();
    vulkan_options.validation = options.validation;
    if let Some(directory) = &options.kernel_cache {
        vulkan_options.driver_cache = DiskCache::new(directory, &info.fingerprint).load_driver();
    }
    Ok(Some(own(vulkan::open(index, &vulkan_options).map_err(failed)?, options)))
}

#[cfg(not(feature = "vulkan"))]
fn open_vulkan(name: &str, _index: usize, _options: &DeviceOptions) -> Result<Option<Device>> {
    Err(Error::device(name, left_out("vulkan")))
}

/// Returns the error for a backend whose feature is off.
#[cfg(not(all(feature = "vulkan", any(feature = "metal", not(target_vendor = "apple")))))]
fn left_out(backend: &'static str) -> HalError {
    HalError::Unavailable {
        backend,
        detail: "this program was built without it".to_owned(),
        advice: "Build with the feature of the same name, which is on by default",
    }
}

#[cfg(all(target_vendor = "apple", feature = "metal"))]
fn open_metal(name: &str, index: usize, options: &DeviceOptions) -> Result<Device> {
    use crate::kernel::DiskCache;
    use silicide_hal::metal::{self, MetalOptions};
    let failed = |error| Error::device(name, error);
    let devices = metal::enumerate().map_err(failed)?;
    let Some(info) = devices.get(index) else {
        let known = devices.iter().map(|info| info.id.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Error::UnknownDevice { name: name.to_owned(), known });
    };
    let mut metal_options = MetalOptions::default();
    metal_options.validation = options.validation;
    metal_options.timing = options.timing;
    metal_options.driver_cache = options
        .kernel_cache
        .as_ref()
        .map(|directory| DiskCache::new(directory, &info.fingerprint).load_driver());
    Ok(own(metal::open(index, &metal_options).map_err(failed)?, options))
}

#[cfg(all(target_vendor = "apple", not(feature = "metal")))]
fn open_metal(name: &str, _index: usize, _options: &DeviceOptions) -> Result<Device> {
    Err(Error::device(name, left_out("metal")))
}

#[cfg(not(target_vendor = "apple"))]
fn open_metal(name: &str, _index: usize, _options: &DeviceOptions) -> Result<Device> {
    let unavailable = HalError::Unavailable {
        backend: "metal",
        detail: "only Apple's systems have it".to_owned(),
        advice: "Use `best`, which finds the device that this machine has",
    };
    Err(Error::device(name, unavailable))
}

/// A device over a backend that was just opened.
fn own(raw: Arc<dyn RawDevice>, options: &DeviceOptions) -> Device {
    // SAFETY: `raw` comes from a backend's `open` a few lines before each call of this, and has no other user.
    unsafe { Device::with_backend(raw, options) }
}
