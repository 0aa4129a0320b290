//! WGSL kernels as SPIR-V, with the capabilities of one device.
//!
//! naga writes instructions that need a capability whenever it may (`Int8` to unpack bytes), and drivers without it
//! crash instead of refusing: a [`SpirvTarget`] is therefore always given, never assumed.

use super::halves::{DENORM_PRESERVE, FloatControl, ROUND_TO_EVEN, with_float_controls};
use super::share::share_memory;
use super::specialise::{
    ALWAYS, ENTRY, ParameterSpace, Specialised, bounds_checks, compile_error, specialise,
};
use super::strip::{Instructions, strip_layout};
use crate::{Result, WgslKernel};
use naga::back::spv;
use naga::valid::Capabilities;

/// The SPIR-V capabilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpirvTarget {
    /// Version of SPIR-V, major and minor.
    pub version: (u8, u8),
    /// f16 arithmetic, with f16 in buffers.
    pub f16: bool,
    /// 8-bit integers.
    pub int_8: bool,
    /// 16-bit integers, with u16 in buffers.
    pub int_16: bool,
    /// 64-bit integers.
    pub int_64: bool,
    /// Packed 4x8-bit dot products.
    pub integer_dot: bool,
    /// Subgroup votes, arithmetic, ballots and shuffles.
    pub subgroups: bool,
    /// Conversions of f16 that keep subnormal numbers, by execution mode.
    pub f16_subnormals: bool,
    /// Conversions to f16 that round to nearest even, by execution mode.
    pub f16_rounding: bool,
    /// Matrices of a subgroup, with Vulkan's memory model, which they need.
    pub cooperative_matrix: bool,
}

impl SpirvTarget {
    /// Everything a kernel could use: for checking that kernels translate, not for a device.
    pub const fn full() -> SpirvTarget {
        SpirvTarget {
            version: (1, 6),
            f16: true,
            int_8: true,
            int_16: true,
            int_64: true,
            integer_dot: true,
            subgroups: true,
            f16_subnormals: true,
            f16_rounding: true,
            cooperative_matrix: true,
        }
    }

    /// Returns the capabilities that the validator accepts: it refuses what the writer would emit regardless.
    fn allowed(&self) -> Capabilities {
        let mut allowed = ALWAYS;
        allowed.set(Capabilities::SHADER_FLOAT16, self.f16);
        allowed.set(Capabilities::SHADER_INT16, self.int_16);
        allowed.set(Capabilities::SHADER_INT64, self.int_64);
        allowed.set(Capabilities::SUBGROUP, self.subgroups);
        allowed.set(Capabilities::SUBGROUP_BARRIER, self.subgroups);
        allowed.set(Capabilities::COOPERATIVE_MATRIX, self.cooperative_matrix);
        allowed
    }

    /// Returns the capabilities that the writer may use.
    fn capabilities(&self) -> impl Iterator<Item = spv::Capability> {
        use spv::Capability as C;
        let sets: [(bool, &[C]); 8] = [
            (true, &[C::Shader, C::Matrix]),
            (self.f16, &[C::Float16]),
            (self.f16 || self.int_16, &[C::StorageBuffer16BitAccess, C::UniformAndStorageBuffer16BitAccess]),
            (self.int_8, &[C::Int8]),
            (self.int_16, &[C::Int16]),
            (self.int_64, &[C::Int64]),
            (self.integer_dot, &[C::DotProduct, C::DotProductInput4x8BitPacked]),
            (self.cooperative_matrix, &[C::CooperativeMatrixKHR, C::VulkanMemoryModel]),
        ];
        let subgroup: &[C] = match self.subgroups {
            true => &[
                C::GroupNonUniform,
                C::GroupNonUniformVote,
                C::GroupNonUniformArithmetic,
                C::GroupNonUniformBallot,
                C::GroupNonUniformShuffle,
                C::GroupNonUniformShuffleRelative,
            ],
            false => &[],
        };
        sets.into_iter().filter(|(there, _)| *there).flat_map(|(_, set)| set).chain(subgroup).copied()
    }
}

/// Translates a kernel for a device.
pub fn to_spirv(kernel: &WgslKernel, target: &SpirvTarget) -> Result<Vec<u32>> {
    let space = if kernel.is_live() { ParameterSpace::Storage } else { ParameterSpace::Immediate };
    let Specialised { module, info, keeps_halves } =
        specialise(kernel, target.allowed(), space, target.f16_subnormals)?;
    let options = spv::Options {
        lang_version: target.version,
        flags: spv::WriterFlags::empty(),
        capabilities: Some(target.capabilities().collect()),
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: kernel.is_checked(),
        use_storage_input_output_16: false,
        emit_int_div_checks: kernel.is_checked(),
        bounds_check_policies: bounds_checks(kernel),
        ..spv::Options::default()
    };
    let pipeline =
        spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: ENTRY.to_owned() };
    let words = spv::write_vec(&module, &info, &options, Some(&pipeline))
        .map_err(|error| compile_error(kernel, format!("SPIR-V: {error}")))?;
    let words = share_memory(&strip_layout(&words));
    let mut controls: Vec<FloatControl> = Vec::new();
    controls.extend(keeps_halves.then_some(DENORM_PRESERVE));
    // Kernels in matrices of f16 see factors that f16 cannot hold by infinities.
    controls.extend((target.f16_rounding && has_matrices(&words)).then_some(ROUND_TO_EVEN));
    Ok(with_float_controls(&words, &controls))
}

/// Returns whether a module multiplies matrices of subgroups.
pub fn has_matrices(words: &[u32]) -> bool {
    const OP_CAPABILITY: u32 = 17;
    const COOPERATIVE_MATRIX: u32 = 6022;
    // Capabilities stand first in every module.
    let mut capabilities =
        Instructions::of(words).take_while(|instruction| instruction.opcode() == OP_CAPABILITY);
    capabilities.any(|instruction| instruction.operand(0) == Some(COOPERATIVE_MATRIX))
}

/// Returns whether words can be a whole SPIR-V module: its header, and instructions that end with a function where the words
/// end. Data from disk is looked at with this before a driver sees it.
pub fn is_well_formed(words: &[u32]) -> bool {
    const MAGIC: u32 = 0x0723_0203;
    const OP_FUNCTION_END: u32 = 56;
    let [MAGIC, _version, _generator, bound, 0, ..] = words else { return false };
    let mut instructions = Instructions::of(words);
    let last = instructions.by_ref().last().map(|instruction| instruction.opcode());
    *bound > 0 && last == Some(OP_FUNCTION_END) && instructions.is_finished()
}

#[cfg(test)]
mod tests;
