//! Text to a module that is parsed, validated, held against the kernel's own declaration and free of overrides.
//!
//! The writers rely on what is checked here: one compute entry point `main`, storage buffers at group 0 numbered
//! without gaps, an immediate of exactly the declared length. [`ParameterSpace::Storage`] puts the words of the immediate into one more
//! storage buffer, behind the others.

use super::halves;
use crate::{HalError, Result, WgslKernel};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess};

/// The entry point of every module that is written.
pub(super) const ENTRY: &str = "main";

/// The capabilities of every target: parameters, and f16 values packed into 32-bit words.
pub(super) const ALWAYS: Capabilities =
    Capabilities::IMMEDIATES.union(Capabilities::SHADER_FLOAT16_IN_FLOAT32);

/// The subgroup operations kernels may use.
pub(super) const SUBGROUP_OPERATIONS: SubgroupOperationSet = SubgroupOperationSet::BASIC
    .union(SubgroupOperationSet::VOTE)
    .union(SubgroupOperationSet::ARITHMETIC)
    .union(SubgroupOperationSet::BALLOT)
    .union(SubgroupOperationSet::SHUFFLE)
    .union(SubgroupOperationSet::SHUFFLE_RELATIVE);

/// A module ready to be written.
pub(super) struct Specialised {
    pub(super) module: Module,
    pub(super) info: ModuleInfo,
    /// Whether it relies on conversions that keep subnormal f16.
    pub(super) keeps_halves: bool,
}

/// Where a kernel reads its parameter words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterSpace {
    /// In the immediate that its text declares.
    Immediate,
    /// In a read-only storage buffer, at the first binding that the kernel does not use.
    Storage,
}

impl ParameterSpace {
    /// Moves the parameters of a parsed kernel to this space. The kernel has no binding behind those that it declares.
    fn place(self, kernel: &WgslKernel, module: &mut Module) {
        if self == ParameterSpace::Immediate {
            return;
        }
        let globals = module.global_variables.iter_mut().map(|(_, global)| global);
        for global in globals.filter(|global| global.space == AddressSpace::Immediate) {
            global.space = AddressSpace::Storage { access: StorageAccess::LOAD };
            global.binding = Some(naga::ResourceBinding { group: 0, binding: kernel.bindings });
        }
    }
}

/// Parses a kernel that may use `allowed`, and bakes its constants in. `keeps_halves`: conversions keep subnormal f16.
pub(super) fn specialise(
    kernel: &WgslKernel,
    allowed: Capabilities,
    space: ParameterSpace,
    keeps_halves: bool,
) -> Result<Specialised> {
    let source = kernel.source();
    // Bounds checks leave loads and stores of subgroup matrices alone.
    let allowed = match kernel.is_checked() {
        true => allowed.difference(Capabilities::COOPERATIVE_MATRIX),
        false => allowed,
    };
    let mut front = naga::front::wgsl::Frontend::new_with_options(naga::front::wgsl::Options {
        parse_doc_comments: false,
        capabilities: allowed,
    });
    let mut module =
        front.parse(&source).map_err(|error| compile_error(kernel, error.emit_to_string(&source)))?;
    keep_entry(kernel, &mut module)?;
    check_declaration(kernel, &module)?;
    space.place(kernel, &mut module);
    let mut validator = Validator::new(ValidationFlags::all(), allowed);
    if allowed.contains(Capabilities::SUBGROUP) {
        validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SUBGROUP_OPERATIONS);
    }
    let info =
        validator.validate(&module).map_err(|error| compile_error(kernel, error.emit_to_string(&source)))?;
    let halves = module.overrides.iter().filter_map(|(_, constant)| constant.name.clone());
    let halves: Vec<String> =
        halves.filter(|name| keeps_halves && name.starts_with(halves::OVERRIDE)).collect();
    let keeps_halves = !halves.is_empty();
    let halves = halves.into_iter().map(|name| (name, 1.0));
    let constants = kernel.constants().iter().map(|&(name, value)| (name.to_owned(), f64::from(value)));
    let constants = constants.chain(halves).collect();
    let (module, info) = naga::back::pipeline_constants::process_overrides(
        &module,
        &info,
        Some((ShaderStage::Compute, ENTRY)),
        &constants,
    )
    .map_err(|error| compile_error(kernel, format!("constants: {error}")))?;
    Ok(Specialised { module: module.into_owned(), info: info.into_owned(), keeps_halves })
}

/// Returns the bounds checks of a kernel: indices are clamped to what is bound, or, in an unchecked kernel, left alone.
pub(super) fn bounds_checks(kernel: &WgslKernel) -> BoundsCheckPolicies {
    let policy = if kernel.is_checked() { BoundsCheckPolicy::Restrict } else { BoundsCheckPolicy::Unchecked };
    BoundsCheckPolicies { index: policy, buffer: policy, image_load: policy, binding_array: policy }
}

/// Returns an error about `kernel`.
pub(super) fn compile_error(kernel: &WgslKernel, detail: impl Into<String>) -> HalError {
    HalError::Compile { label: kernel.name.to_owned(), detail: detail.into() }
}

/// Removes the entry points of other kernels in the text, and names this one [`ENTRY`].
fn keep_entry(kernel: &WgslKernel, module: &mut Module) -> Result<()> {
    let name = kernel.entry();
    module.entry_points.retain(|entry| entry.name == name && entry.stage == ShaderStage::Compute);
    match module.entry_points.first_mut() {
        Some(entry) => ENTRY.clone_into(&mut entry.name),
        None => return Err(compile_error(kernel, format!("there is no `@compute fn {name}`"))),
    }
    Ok(())
}

/// Compares the text with `bindings` and `words`: a kernel that reads past its parameters or lacks a binding
/// would otherwise show up as wrong numbers on some device.
fn check_declaration(kernel: &WgslKernel, module: &Module) -> Result<()> {
    let mut bound = vec![false; kernel.bindings as usize];
    let (mut immediate_bytes, mut written) = (0, 0u32);
    for (_, global) in module.global_variables.iter() {
        let name = global.name.as_deref().unwrap_or("?");
        if global.space == AddressSpace::Immediate {
            immediate_bytes = module.types[global.ty].inner.size(module.to_ctx());
        } else if let Some(binding) = &global.binding {
            let AddressSpace::Storage { access } = global.space else {
                return Err(compile_error(kernel, format!("`{name}` is bound but not in storage")));
            };
            if access.contains(StorageAccess::STORE) {
                written |= 1u32.checked_shl(binding.binding).unwrap_or(0);
            }
            match bound.get_mut(binding.binding as usize).filter(|_| binding.group == 0) {
                Some(seen) => *seen = true,
                None => {
                    let detail = format!(
                        "`{name}` is at @group({}) @binding({}), but the kernel declares {} bindings of group 0",
                        binding.group, binding.binding, kernel.bindings
                    );
                    return Err(compile_error(kernel, detail));
                }
            }
        }
    }
    if let Some(missing) = bound.iter().position(|seen| !seen) {
        let detail =
            format!("{} bindings are declared, but @binding({missing}) is not there", kernel.bindings);
        return Err(compile_error(kernel, detail));
    }
    if written != kernel.written() || kernel.bindings > u32::BITS {
        let detail = format!(
            "bindings {written:#b} are read_write, but of {} bindings the kernel declares to write {:#b}",
            kernel.bindings,
            kernel.written()
        );
        return Err(compile_error(kernel, detail));
    }
    if u64::from(immediate_bytes) != u64::from(kernel.words) * 4 {
        let detail = format!(
            "var<immediate> has {immediate_bytes} bytes, but the kernel declares {} words of 4 bytes",
            kernel.words
        );
        return Err(compile_error(kernel, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
