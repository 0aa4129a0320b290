//! Limits, features and memory of a device: filled in once when it is opened, read by kernel selection and the allocator.

use crate::MatrixShapes;
use crate::cpu::Isa;
use std::fmt;

/// The workspaces of two threads lie a multiple of this many bytes apart, so that they share no cache line.
pub(crate) const WORKSPACE_PAGE: usize = 4096;

/// Invocations of a subgroup from which on larger ones only cost registers.
const PREFERRED_SUBGROUP: u32 = 16;

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The host's own cores.
    Cpu,
    /// A Vulkan device.
    Vulkan,
    /// A Metal device.
    Metal,
    /// Records lists and runs nothing.
    Null,
}

impl Backend {
    /// Returns `cpu`, `vulkan`, `metal` or `null`.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Cpu => "cpu",
            Backend::Vulkan => "vulkan",
            Backend::Metal => "metal",
            Backend::Null => "null",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The description of a device.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The backend.
    pub backend: Backend,
    /// The name it is opened by: `cpu`, `vulkan:0`, `metal:0`, `null`.
    pub id: String,
    /// Product name.
    pub name: String,
    /// Driver and version, for people.
    pub driver: String,
    /// Device, driver and versions: differs where compiled kernels may not be valid. Part of the names of cache files.
    pub fingerprint: String,
    /// True for devices that emulate a GPU on the CPU (lavapipe, SwiftShader).
    pub software: bool,
    /// Hard limits.
    pub limits: Limits,
    /// Features that kernels may use.
    pub features: Features,
    /// Memory sizes.
    pub memory: Memory,
    /// The instruction set in use, on the CPU backend.
    pub isa: Option<Isa>,
    /// Threads that run kernels, on the CPU backend; 0 elsewhere.
    pub threads: usize,
    /// Bytes of a core's L2 cache, on the CPU backend; 0 elsewhere.
    pub core_cache: usize,
}

/// Hard limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest single allocation, in bytes.
    pub max_block: usize,
    /// The largest range that one binding can cover, in bytes. Often smaller than `max_block`.
    pub max_binding: usize,
    /// Bound ranges start at multiples of this many bytes.
    pub binding_alignment: usize,
    /// Bytes of parameter words that a dispatch can have.
    pub max_param_bytes: usize,
    /// Bindings that a dispatch can have.
    pub max_bindings: u32,
    /// The largest grid, per axis.
    pub max_grid: [u32; 3],
    /// The most invocations in a workgroup.
    pub max_workgroup: u32,
    /// The most invocations in a workgroup along each axis.
    pub max_workgroup_size: [u32; 3],
    /// Bytes of memory shared in a workgroup.
    pub max_workgroup_bytes: usize,
}

/// Features that kernels may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features {
    /// f16 arithmetic in kernels.
    pub f16: bool,
    /// 16-bit elements in bound buffers, f16 and u16.
    pub storage_16: bool,
    /// 8-bit elements in bound buffers.
    pub storage_8: bool,
    /// 16-bit integer arithmetic.
    pub int_16: bool,
    /// 64-bit integer arithmetic.
    pub int_64: bool,
    /// Packed 4x8-bit integer dot products in hardware.
    pub integer_dot: bool,
    /// Conversions from f16 to f32 in kernels keep subnormal numbers.
    pub f16_subnormals: bool,
    /// Conversions from f32 to f16 in kernels round to nearest even: infinity where f16 cannot hold the number.
    pub f16_rounding: bool,
    /// Subgroup arithmetic, shuffles and ballots.
    pub subgroups: bool,
    /// Smallest and largest subgroup; (1, 1) without subgroups.
    pub subgroup_size: (u32, u32),
    /// Smallest and largest subgroup that a kernel can require
    /// ([`WgslKernel::with_subgroup`](crate::WgslKernel::with_subgroup)), powers of two; (0, 0) where the driver chooses the size.
    pub required_subgroup_size: (u32, u32),
    /// Host and device share memory: shared blocks are as fast as private ones.
    pub unified_memory: bool,
    /// Host memory, mapped files included, can be used in place.
    pub host_import: bool,
    /// bf16 arithmetic in kernels written by hand.
    pub bf16: bool,
    /// Matrices that a subgroup multiplies together.
    pub matrices: MatrixShapes,
    /// Marks are timed.
    pub timestamps: bool,
}

/// Memory sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Memory {
    /// All memory of the device.
    pub total: usize,
    /// Free memory when the device was opened, where the system reports it; otherwise `total`.
    pub available: usize,
}

impl Features {
    /// Returns whether a kernel can require subgroups of `size` invocations.
    pub fn takes_subgroup(&self, size: u32) -> bool {
        let (least, most) = self.required_subgroup_size;
        self.subgroups && size.is_power_of_two() && (least..=most).contains(&size)
    }

    /// Returns the subgroup size that kernels should require: the smallest of at least 16 invocations (32 on RDNA, 16 on
    /// Intel), which has the most registers for each invocation; the largest where all are smaller. `None` where the driver chooses.
    pub fn preferred_subgroup(&self) -> Option<u32> {
        let (least, most) = self.required_subgroup_size;
        let size = least.max(PREFERRED_SUBGROUP.min(most));
        self.takes_subgroup(size).then_some(size)
    }
}

impl DeviceInfo {
    /// Returns an info with conservative limits and no features, for a backend to fill in.
    pub fn new(backend: Backend, id: impl Into<String>, name: impl Into<String>) -> DeviceInfo {
        DeviceInfo {
            backend,
            id: id.into(),
            name: name.into(),
            driver: String::new(),
            fingerprint: String::new(),
            software: false,
            limits: Limits {
                max_block: isize::MAX as usize,
                max_binding: isize::MAX as usize,
                binding_alignment: 256,
                max_param_bytes: 128,
                max_bindings: 8,
                max_grid: [65_535; 3],
                max_workgroup: 256,
                max_workgroup_size: [256, 256, 64],
                max_workgroup_bytes: 16 << 10,
            },
            features: Features { subgroup_size: (1, 1), ..Features::default() },
            memory: Memory::default(),
            isa: None,
            threads: 0,
            core_cache: 0,
        }
    }

    /// Sets the limits and features of a device whose kernels run on the host: every integer and float type, host memory in
    /// place, and grids of any size.
    pub(crate) fn with_host_kernels(mut self) -> DeviceInfo {
        self.limits =
            Limits { max_param_bytes: 4096, max_bindings: 16, max_grid: [u32::MAX; 3], ..self.limits };
        self.features = Features {
            f16: true,
            storage_16: true,
            storage_8: true,
            int_16: true,
            int_64: true,
            unified_memory: true,
            host_import: true,
            ..self.features
        };
        self
    }

    /// Returns the bytes of all threads' workspaces if the largest kernel declares `largest` bytes.
    pub fn workspace_bytes(&self, largest: usize) -> usize {
        self.threads.saturating_mul(largest.checked_next_multiple_of(WORKSPACE_PAGE).unwrap_or(largest))
    }

    /// Returns true for backends that run WGSL.
    pub fn is_gpu(&self) -> bool {
        matches!(self.backend, Backend::Vulkan | Backend::Metal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_subgroup_is_the_smallest_of_at_least_16() {
        let sizes = [
            ((32, 64), Some(32)),
            ((8, 32), Some(16)),
            ((16, 32), Some(16)),
            ((64, 64), Some(64)),
            ((8, 8), Some(8)),
            ((0, 0), None),
        ];
        for (required_subgroup_size, preferred) in sizes {
            let features = Features { subgroups: true, required_subgroup_size, ..Features::default() };
            assert_eq!(features.preferred_subgroup(), preferred, "{required_subgroup_size:?}");
            let without = Features { subgroups: false, ..features };
            assert_eq!(without.preferred_subgroup(), None);
        }
    }

    #[test]
    fn only_powers_of_two_in_range_can_be_required() {
        let features = Features { subgroups: true, required_subgroup_size: (8, 32), ..Features::default() };
        let taken: Vec<u32> = (0..=64).filter(|&size| features.takes_subgroup(size)).collect();
        assert_eq!(taken, [8, 16, 32]);
    }
}
