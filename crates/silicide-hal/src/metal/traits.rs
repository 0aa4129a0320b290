//! Features, limits, language and cache name, from a GPU's families and the system's version.
//! Plain rules, so that they are tested wherever the tests run.

use crate::wgsl::{MslTarget, TRANSLATOR};
use crate::{Features, Limits, MatrixShape, MatrixShapes};

/// Buffer slots of a compute encoder; two of them are for parameters and sizes.
const SLOTS: u32 = 31;

/// Bytes that can be given to a dispatch without a buffer.
const INLINE_BYTES: usize = 4096;

/// The largest grid per axis: threads are counted in 32 bits, and a workgroup has at most 1024 of them.
const MAX_GRID: u32 = (1 << 31) / 1024 - 1;

/// The oldest system with version 3.0 of the language, in macOS' numbers.
pub(super) const OLDEST: u32 = 13;

/// Returns a system's version in macOS' numbers, whatever Apple system it is: those of one year share a Metal.
pub(super) fn macos_major(major: u32, is_macos: bool) -> u32 {
    match is_macos || major >= 26 {
        true => major,
        // iOS 16 came with macOS 13.
        false => major.saturating_sub(3),
    }
}

/// Properties that a GPU reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// The highest `MTLGPUFamilyApple` it belongs to; 0 for GPUs of other makers.
    pub(super) apple: u32,
    /// Whether it belongs to `MTLGPUFamilyMetal3`.
    pub(super) metal3: bool,
    /// The system's version in macOS' numbers.
    pub(super) macos: u32,
    pub(super) unified_memory: bool,
    /// `maxBufferLength`.
    pub(super) max_buffer: usize,
    /// The width of `maxThreadsPerThreadgroup`.
    pub(super) max_threads: usize,
    /// `maxThreadgroupMemoryLength`.
    pub(super) threadgroup_bytes: usize,
    /// Threads of a SIMD group: of every one on GPUs of Apple's, of most on others.
    pub(super) simd_width: u32,
    /// Whether marks will be timed.
    pub(super) timestamps: bool,
}

impl Traits {
    /// Returns the newest version of the language that the system compiles.
    pub(super) fn language(&self) -> (u8, u8) {
        match self.macos {
            ..=13 => (3, 0),
            14 => (3, 1),
            15..=25 => (3, 2),
            _ => (4, 0),
        }
    }

    /// Returns the MSL that the device takes.
    pub(super) fn target(&self) -> MslTarget {
        MslTarget { language: self.language(), simdgroup_matrix: self.apple >= 7 }
    }

    pub(super) fn features(&self) -> Features {
        // Shuffles came with Apple6, reductions with Apple7; GPUs of other makers have both or are not Metal 3.
        let subgroups = self.apple >= 7 || (self.apple == 0 && self.metal3);
        Features {
            f16: true,
            storage_16: true,
            storage_8: true,
            int_16: true,
            int_64: true,
            f16_subnormals: false,
            // Metal's specification: conversions to half round to nearest even.
            f16_rounding: true,
            // The translation of a packed dot is four multiplications.
            integer_dot: false,
            subgroups,
            subgroup_size: match (subgroups, self.apple) {
                (false, _) => (1, 1),
                (true, 0) => (self.simd_width.min(8), self.simd_width.max(64)),
                (true, _) => (self.simd_width, self.simd_width),
            },
            // Metal has no choice of sizes: a pipeline of Apple's has the one that it reports.
            required_subgroup_size: match subgroups && self.apple > 0 {
                true => (self.simd_width, self.simd_width),
                false => (0, 0),
            },
            unified_memory: self.unified_memory,
            host_import: self.unified_memory,
            bf16: self.language() >= (3, 1) && (self.apple >= 6 || self.metal3),
            matrices: match self.target().simdgroup_matrix {
                true => [MatrixShape::F32M8N8K8, MatrixShape::F16M8N8K8].into_iter().collect(),
                false => MatrixShapes::NONE,
            },
            timestamps: self.timestamps,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_block: self.max_buffer,
            // Kernels get the sizes of their bindings in 32 bits.
            max_binding: self.max_buffer.min(u32::MAX as usize - 3),
            binding_alignment: if self.apple > 0 { 16 } else { 256 },
            max_param_bytes: INLINE_BYTES,
            max_bindings: SLOTS - 2,
            max_grid: [MAX_GRID, 65_535, 65_535],
            max_workgroup: u32::try_from(self.max_threads).unwrap_or(1024).clamp(1, 1024),
            max_workgroup_size: [u32::try_from(self.max_threads).unwrap_or(1024).clamp(1, 1024); 3],
            max_workgroup_bytes: self.threadgroup_bytes,
        }
    }

    /// Names cached pipelines: another GPU, system or translator finds nothing.
    pub(super) fn fingerprint(&self, gpu: &str, system: &str) -> String {
        format!("metal-{gpu}-{system}-{TRANSLATOR}").replace(' ', "-")
    }
}

/// Returns whether a pipeline's width is one that kernels were promised, and the one that its kernel requires.
pub(super) fn is_promised(width: u32, required: Option<u32>, features: &Features) -> bool {
    let (least, most) = features.subgroup_size;
    let is_required = required.is_none_or(|required| required == width && features.takes_subgroup(width));
    is_required && (!features.subgroups || (least..=most).contains(&width))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m1() -> Traits {
        Traits {
            apple: 7,
            metal3: true,
            macos: 14,
            unified_memory: true,
            max_buffer: 8 << 30,
            max_threads: 1024,
            threadgroup_bytes: 32 << 10,
            simd_width: 32,
            timestamps: false,
        }
    }

    #[test]
    fn features_follow_from_families_and_the_system() {
        let features = m1().features();
        assert!(features.subgroups && features.bf16 && features.host_import);
        assert!(features.matrices.iter().eq([MatrixShape::F32M8N8K8, MatrixShape::F16M8N8K8]));
        assert_eq!(features.subgroup_size, (32, 32));
        assert_eq!(features.preferred_subgroup(), Some(32));
        assert!(!Traits { macos: 13, ..m1() }.features().bf16);
        let a13 = Traits { apple: 6, ..m1() }.features();
        assert!(!a13.subgroups && a13.matrices.is_empty() && a13.subgroup_size == (1, 1));
        let amd = Traits { apple: 0, simd_width: 64, unified_memory: false, ..m1() };
        let features = amd.features();
        assert!(features.subgroups && features.matrices.is_empty() && !features.host_import);
        assert_eq!(features.subgroup_size, (8, 64));
        assert_eq!(features.preferred_subgroup(), None);
        assert_eq!((m1().limits().binding_alignment, amd.limits().binding_alignment), (16, 256));
    }

    #[test]
    fn the_language_follows_from_the_system() {
        let languages = [13, 14, 15, 26].map(|macos| Traits { macos, ..m1() }.language());
        assert_eq!(languages, [(3, 0), (3, 1), (3, 2), (4, 0)]);
        let target = Traits { apple: 6, ..m1() }.target();
        assert_eq!((target.language, target.simdgroup_matrix), ((3, 1), false));
    }

    #[test]
    fn other_systems_count_as_the_macos_of_their_year() {
        assert_eq!(
            [(16, false), (18, false), (26, false), (15, true)].map(|(v, m)| macos_major(v, m)),
            [13, 15, 26, 15]
        );
        assert!(macos_major(15, false) < OLDEST);
    }

    #[test]
    fn limits_fit_what_kernels_count_with() {
        let limits = m1().limits();
        assert_eq!(limits.max_binding, (1 << 32) - 4);
        assert_eq!(Traits { max_buffer: 1 << 28, ..m1() }.limits().max_binding, 1 << 28);
        assert_eq!(limits.max_bindings, 29);
        assert!(u64::from(limits.max_grid[0]) * u64::from(limits.max_workgroup) < 1 << 31);
    }

    #[test]
    fn caches_are_for_one_gpu_system_and_translator() {
        let name = m1().fingerprint("Apple M1", "Version 14.5 (Build 23F79)");
        assert!(name.starts_with("metal-Apple-M1-Version-14.5") && name.contains("naga"), "{name}");
        assert_ne!(name, m1().fingerprint("Apple M1", "Version 14.6 (Build 23G80)"));
    }

    #[test]
    fn a_pipeline_of_an_unpromised_width_is_told() {
        let features = m1().features();
        assert!(is_promised(32, None, &features) && !is_promised(16, None, &features));
        assert!(is_promised(32, Some(32), &features) && !is_promised(32, Some(16), &features));
        assert!(is_promised(16, None, &Features::default()));
        assert!(!is_promised(16, Some(16), &Features::default()));
    }
}
