//! WGSL kernels as Metal source, with the slots of their arguments.
//!
//! Slots: binding `i` is buffer `i`; the parameters come after the bindings, the sizes of the bound buffers last. A
//! version written by hand has the same slots, and the workgroup of the WGSL that it stands for.

use super::specialise::{
    ALWAYS, ENTRY, ParameterSpace, Specialised, bounds_checks, compile_error, specialise,
};
use crate::{NativeMsl, Result, WgslKernel};
use naga::back::msl;
use naga::valid::Capabilities;
use naga::{AddressSpace, StorageAccess};

/// A kernel in the Metal Shading Language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Msl {
    /// The text.
    pub source: String,
    /// The version of the language that it is written in, major and minor.
    pub language: (u8, u8),
    /// Name of the entry point in the text.
    pub entry: String,
    /// Threads in a threadgroup.
    pub workgroup: [u32; 3],
    /// The buffer slot of the parameter words.
    pub params_slot: u32,
    /// The buffer slot of the sizes: one `u32` with the bound bytes for each binding in `sized`.
    pub sizes_slot: u32,
    /// The bindings whose sizes the kernel is given, in the order of the sizes buffer.
    pub sized: Vec<u32>,
    /// Bytes of each piece of threadgroup memory, in index order; multiples of 16, as Metal requires.
    pub threadgroup_bytes: Vec<u32>,
}

/// The version of MSL that WGSL is translated to; every supported system has it.
pub const MSL_VERSION: (u8, u8) = (3, 0);

/// The MSL that a Metal device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MslTarget {
    /// The newest version of the language that it compiles, major and minor.
    pub language: (u8, u8),
    /// Whether it multiplies `simdgroup_matrix`.
    pub simdgroup_matrix: bool,
}

/// Returns the MSL of a kernel: the version written by hand where there is one that the device takes, otherwise the
/// translation.
pub fn msl_for(kernel: &WgslKernel, target: &MslTarget) -> Result<Msl> {
    let translated = to_msl(kernel, target)?;
    let fits = |native: &&NativeMsl| {
        native.language <= target.language && (target.simdgroup_matrix || !native.simdgroup_matrix)
    };
    let by_hand = kernel.msl().filter(|_| !kernel.is_checked());
    let Some(native) = by_hand.filter(fits) else { return Ok(translated) };
    let constants = kernel
        .constants()
        .iter()
        .map(|(name, value)| format!("constant constexpr uint {name} = {value}u;\n"));
    Ok(Msl {
        source: format!("#include <metal_stdlib>\n{}{}", constants.collect::<String>(), native.text),
        language: native.language,
        entry: native.entry.to_owned(),
        sized: Vec::new(),
        threadgroup_bytes: native.threadgroup_bytes.iter().map(|bytes| bytes.next_multiple_of(16)).collect(),
        ..translated
    })
}

/// Translates a kernel for a device, whatever is written by hand.
pub fn to_msl(kernel: &WgslKernel, target: &MslTarget) -> Result<Msl> {
    let version = MSL_VERSION.min(target.language);
    let mut allowed = ALWAYS
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_INT16
        | Capabilities::SHADER_INT64
        | Capabilities::SUBGROUP
        | Capabilities::SUBGROUP_BARRIER;
    allowed.set(Capabilities::COOPERATIVE_MATRIX, target.simdgroup_matrix);
    // Metal binds parameter words of a live dispatch like any others.
    let Specialised { module, info, .. } = specialise(kernel, allowed, ParameterSpace::Immediate, false)?;
    let slots = slots(kernel, &module)?;
    let (params_slot, sizes_slot) = (kernel.bindings, kernel.bindings + 1);
    let options = msl::Options {
        lang_version: version,
        per_entry_point_map: [(ENTRY.to_owned(), slots)].into(),
        fake_missing_bindings: false,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: kernel.is_checked(),
        emit_int_div_checks: kernel.is_checked(),
        bounds_check_policies: bounds_checks(kernel),
        ..msl::Options::default()
    };
    let pipeline = msl::PipelineOptions {
        entry_point: Some((naga::ShaderStage::Compute, ENTRY.to_owned())),
        ..msl::PipelineOptions::default()
    };
    let (source, written) = msl::write_string(&module, &info, &options, &pipeline)
        .map_err(|error| compile_error(kernel, format!("MSL: {error}")))?;
    let entry = match written.entry_point_names.into_iter().next() {
        Some(Ok(name)) => name,
        Some(Err(error)) => return Err(compile_error(kernel, format!("MSL: {error}"))),
        None => return Err(compile_error(kernel, "MSL: no entry point was written")),
    };
    let workgroup = module.entry_points.first().map_or([1; 3], |entry| entry.workgroup_size);
    let used = info.get_entry_point(0);
    let mut sized = Vec::new();
    let mut threadgroup_bytes = Vec::new();
    for (handle, global) in module.global_variables.iter() {
        let inner = &module.types[global.ty].inner;
        if let Some(binding) = global.binding.filter(|_| inner.needs_host_buffer_byte_size(&module.types)) {
            sized.push(binding.binding);
        }
        if global.space == AddressSpace::WorkGroup && !used[handle].is_empty() {
            threadgroup_bytes.push(inner.size(module.to_ctx()).next_multiple_of(16));
        }
    }
    Ok(Msl { source, language: version, entry, workgroup, params_slot, sizes_slot, sized, threadgroup_bytes })
}

/// Returns where the kernel's arguments go.
fn slots(kernel: &WgslKernel, module: &naga::Module) -> Result<msl::EntryPointResources> {
    let slot = |index: u32| {
        msl::Slot::try_from(index)
            .map_err(|_| compile_error(kernel, format!("{index} is no Metal buffer slot")))
    };
    let mut slots = msl::EntryPointResources {
        immediates_buffer: Some(slot(kernel.bindings)?),
        sizes_buffer: Some(slot(kernel.bindings.saturating_add(1))?),
        ..msl::EntryPointResources::default()
    };
    for (_, global) in module.global_variables.iter() {
        if let (Some(binding), AddressSpace::Storage { access }) = (global.binding, global.space) {
            let target = msl::BindTarget {
                buffer: Some(slot(binding.binding)?),
                mutable: access.contains(StorageAccess::STORE),
                ..msl::BindTarget::default()
            };
            slots.resources.insert(binding, target);
        }
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Snippet};

    static ROWS: Snippet = Snippet {
        name: "rows",
        text: "
override WG: u32 = 64u;
struct RowsParams { at_x: u32, at_y: u32, n: u32 }
var<immediate> p: RowsParams;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> unused: array<f32, 100>;
var<workgroup> last: f32;
var<workgroup> partial: array<f32, WG>;
@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) row: vec3<u32>) {
    partial[t] = x[p.at_x + row.x * p.n + t];
    workgroupBarrier();
    if t == 0u { last = partial[WG - 1u]; }
    workgroupBarrier();
    y[p.at_y + row.x * WG + t] = partial[t] - last;
}",
    };

    #[test]
    fn msl_says_where_arguments_go() {
        let kernel = WgslKernel::new("rows", &[Part::plain(&ROWS)], 2, 1).constant("WG", 33);
        let msl = to_msl(&kernel, &MslTarget { language: (2, 4), simdgroup_matrix: false }).unwrap();
        assert_eq!(msl.workgroup, [33, 1, 1]);
        assert_eq!((msl.params_slot, msl.sizes_slot), (2, 3));
        assert_eq!(msl.sized, [0, 1]);
        assert_eq!(msl.threadgroup_bytes, [16, 144]);
        assert!(msl.source.contains(&format!("kernel void {}(", msl.entry)), "{}", msl.source);
        for argument in ["[[buffer(0)]]", "[[buffer(1)]]", "[[buffer(2)]]", "[[buffer(3)]]"] {
            assert!(msl.source.contains(argument), "{argument} missing in {}", msl.source);
        }
    }
    static BY_HAND: NativeMsl = NativeMsl {
        entry: "rows_by_hand",
        text: "kernel void rows_by_hand(device const float* x [[buffer(0)]]) {}",
        threadgroup_bytes: &[33 * 4],
        language: (3, 1),
        simdgroup_matrix: true,
    };

    #[test]
    fn a_version_by_hand_is_used_where_the_device_takes_it() {
        let kernel = WgslKernel::new("rows", &[Part::plain(&ROWS)], 2, 1).constant("WG", 33);
        // SAFETY: it is translated, and never run.
        let kernel = unsafe { kernel.native_msl(&BY_HAND).unchecked(|_| None, &[]) };
        let full = MslTarget { language: (3, 1), simdgroup_matrix: true };
        let translated = to_msl(&kernel, &full).unwrap();
        for less in [MslTarget { language: (3, 0), ..full }, MslTarget { simdgroup_matrix: false, ..full }] {
            assert_eq!(msl_for(&kernel, &less).unwrap(), translated);
        }
        let native = msl_for(&kernel, &full).unwrap();
        assert_eq!((native.entry.as_str(), &native.threadgroup_bytes[..]), ("rows_by_hand", &[144][..]));
        assert_eq!((native.workgroup, native.params_slot), (translated.workgroup, translated.params_slot));
        assert_eq!((native.language, translated.language), ((3, 1), MSL_VERSION));
        assert!(native.source.contains("constant constexpr uint WG = 33u;\nkernel void rows_by_hand"));
    }
}
