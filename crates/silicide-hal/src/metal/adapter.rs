//! Description of a device: the [`DeviceInfo`] for the core, and the facts that opening needs.
//!
//! Only devices that can be opened become adapters. The system's own choice comes first, otherwise they are in the
//! system's order. That order numbers them.

use super::gpu::responds;
use super::traits::{OLDEST, Traits, macos_major};
use super::{MetalOptions, Object};
use crate::wgsl::MslTarget;
use crate::{Backend, DeviceInfo, HalError, Memory, Result};
use objc2::sel;
use objc2_foundation::NSProcessInfo;
use objc2_metal::{
    MTLCopyAllDevices, MTLCounterSamplingPoint, MTLCreateSystemDefaultDevice, MTLDevice, MTLGPUFamily,
};

// Without this framework in the process, command line programs on macOS find no device.
// SAFETY: the block declares no item; it only links a framework of the system.
#[cfg(target_os = "macos")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// `MTLGPUFamilyApple1` is one more.
const APPLE_FAMILIES: isize = 1000;

/// Threads of a SIMD group on every GPU of Apple's so far. Pipelines are held against it.
const SIMD_WIDTH: u32 = 32;

/// How the GPU's clock can be read where marks stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    /// Not at all: marks are names.
    Off,
    /// Where a pass begins and ends (Apple's GPUs).
    Pass,
    /// Between dispatches (others).
    Dispatch,
    /// Where a command buffer begins and ends.
    Buffer,
}

/// A device that can be opened.
pub(super) struct Adapter {
    pub(super) device: Object<dyn MTLDevice>,
    pub(super) info: DeviceInfo,
    /// The language version and features of its kernels.
    pub(super) target: MslTarget,
    pub(super) sampling: Sampling,
    /// Whether memory can be kept resident (macOS 15).
    pub(super) has_residency_sets: bool,
    /// Bytes of a page of host memory.
    pub(super) page: u64,
    /// Whether threadgroups that are multiples of the SIMD width may be announced as such.
    pub(super) is_apple: bool,
}

/// Facts of the system, the same for all devices.
struct System {
    macos: u32,
    version: String,
    page: u64,
}

impl Adapter {
    /// Returns all devices that can be opened, best first.
    pub(super) fn all(options: &MetalOptions) -> Result<Vec<Adapter>> {
        let system = System::look();
        if system.macos < OLDEST {
            let detail = format!("{} is too old", system.version);
            return Err(unavailable(&detail, "Update to macOS 13, iOS 16 or later"));
        }
        let first = MTLCreateSystemDefaultDevice().map(|device| device.registryID());
        let mut devices: Vec<Object<dyn MTLDevice>> = MTLCopyAllDevices().iter().collect();
        devices.sort_by_key(|device| Some(device.registryID()) != first);
        if devices.is_empty() {
            let advice = "Metal needs a GPU; in a virtual machine it must be passed through";
            return Err(unavailable("the system has no Metal device", advice));
        }
        let numbered = devices.into_iter().enumerate();
        Ok(numbered.map(|(index, device)| Adapter::describe(index, device, &system, options)).collect())
    }

    fn describe(
        index: usize,
        device: Object<dyn MTLDevice>,
        system: &System,
        options: &MetalOptions,
    ) -> Adapter {
        let is_family = |family: isize| device.supportsFamily(MTLGPUFamily(family));
        let apple = (1..=20).rev().find(|n| is_family(APPLE_FAMILIES + n)).unwrap_or(0);
        let sampling = sampling(&device, options.timing);
        let traits = Traits {
            apple: apple as u32,
            metal3: device.supportsFamily(MTLGPUFamily::Metal3),
            macos: system.macos,
            unified_memory: device.hasUnifiedMemory(),
            max_buffer: device.maxBufferLength(),
            max_threads: device.maxThreadsPerThreadgroup().width,
            threadgroup_bytes: device.maxThreadgroupMemoryLength(),
            simd_width: SIMD_WIDTH,
            timestamps: sampling != Sampling::Off,
        };
        let name = device.name().to_string();
        let architecture = match responds(&*device, sel!(architecture)) {
            true => device.architecture().name().to_string(),
            false => name.clone(),
        };
        let mut info = DeviceInfo::new(Backend::Metal, format!("metal:{index}"), name);
        let (major, minor) = traits.language();
        info.driver = format!("Metal {major}.{minor}, Apple family {apple}, {}", system.version);
        info.fingerprint = traits.fingerprint(&architecture, &system.version);
        info.features = traits.features();
        info.limits = traits.limits();
        info.memory = memory_sizes(&device, traits.max_buffer);
        Adapter {
            target: traits.target(),
            has_residency_sets: responds(&*device, sel!(newResidencySetWithDescriptor:error:)),
            is_apple: apple > 0,
            page: system.page,
            device,
            info,
            sampling,
        }
    }
}

impl System {
    fn look() -> System {
        let process = NSProcessInfo::processInfo();
        let major = u32::try_from(process.operatingSystemVersion().majorVersion).unwrap_or(0);
        // SAFETY: `sysconf` has no preconditions; it returns -1 for a name that the system lacks, which `try_from` below refuses.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        System {
            macos: macos_major(major, cfg!(target_os = "macos")),
            version: process.operatingSystemVersionString().to_string(),
            // Apple's own chips have pages of 16 KiB, and those are multiples of all others.
            page: u64::try_from(page).ok().filter(|page| page.is_power_of_two()).unwrap_or(16 << 10),
        }
    }
}

fn sampling(device: &Object<dyn MTLDevice>, wanted: bool) -> Sampling {
    let supports = |point| device.supportsCounterSampling(point);
    match wanted {
        false => Sampling::Off,
        true if supports(MTLCounterSamplingPoint::AtDispatchBoundary) => Sampling::Dispatch,
        true if supports(MTLCounterSamplingPoint::AtStageBoundary) => Sampling::Pass,
        true => Sampling::Buffer,
    }
}

/// Returns the recommended working set as the device's memory: beyond it, work becomes slow or fails.
fn memory_sizes(device: &Object<dyn MTLDevice>, max_buffer: usize) -> Memory {
    let recommended = usize::try_from(device.recommendedMaxWorkingSetSize()).unwrap_or(usize::MAX);
    let total = if recommended == 0 { max_buffer } else { recommended };
    Memory { total, available: total.saturating_sub(device.currentAllocatedSize()) }
}

/// That Metal, or a device, can't be had.
pub(super) fn unavailable(detail: &str, advice: &'static str) -> HalError {
    HalError::Unavailable { backend: "metal", detail: detail.to_owned(), advice }
}
