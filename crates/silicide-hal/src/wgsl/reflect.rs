//! What a WGSL text declares, read before a kernel is made of it. Texts that programs register at run time pass here.

use super::specialise::{SUBGROUP_OPERATIONS, compile_error};
use crate::{Access, HalError, Limits, Result, WgslKernel};
use naga::proc::IndexableLength;
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, ValidationFlags, Validator};
use naga::{
    AddressSpace, GlobalVariable, Handle, Module, ScalarKind, ShaderStage, SourceLocation, StorageAccess,
    Type, TypeInner,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most bindings that a text may declare.
const MAX_BINDINGS: u32 = 32;

/// The arguments of one entry point of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The access of each binding of group 0, in order: [`Access::Read`] or [`Access::ReadWrite`].
    pub bindings: Vec<Access>,
    /// The least bytes of each binding: the size of its type. A runtime array counts as one element.
    pub least_bytes: Vec<u32>,
    /// Bytes of `var<immediate>`; 0 without one.
    pub immediate_bytes: u32,
    /// Invocations of a workgroup along each axis.
    pub workgroup: [u32; 3],
    /// Bytes of workgroup memory that the entry point uses.
    pub workgroup_bytes: u64,
}

impl Interface {
    /// Returns what of the workgroup a device with these limits does not have.
    pub fn check_workgroup(&self, limits: &Limits) -> std::result::Result<(), String> {
        for ((axis, got), limit) in ["x", "y", "z"].iter().zip(self.workgroup).zip(limits.max_workgroup_size)
        {
            if got == 0 || got > limit {
                return Err(format!("a workgroup of {got} invocations along {axis}, expected 1 to {limit}"));
            }
        }
        let (invocations, limit) =
            (self.workgroup.map(u64::from).iter().product::<u64>(), limits.max_workgroup);
        if invocations > u64::from(limit) {
            return Err(format!("a workgroup of {invocations} invocations, expected at most {limit}"));
        }
        let (got, limit) = (self.workgroup_bytes, limits.max_workgroup_bytes);
        if got > limit as u64 {
            return Err(format!("{got} bytes of workgroup memory, expected at most {limit}"));
        }
        Ok(())
    }
}

/// Returns the least bytes of each binding of a kernel that is translated with bounds checks, in order; 0 if it is not used. The checks clamp an index to
/// the length of the type, or to the last element of a runtime array, so they hold for bindings of at least these bytes.
pub fn least_bytes(kernel: &WgslKernel) -> Result<Vec<u32>> {
    let source = kernel.source();
    let options = naga::front::wgsl::Options { parse_doc_comments: false, capabilities: Capabilities::all() };
    let module = naga::front::wgsl::Frontend::new_with_options(options)
        .parse(&source)
        .map_err(|error| compile_error(kernel, error.emit_to_string(&source)))?;
    let info = validator(Capabilities::all())
        .validate(&module)
        .map_err(|error| compile_error(kernel, error.emit_to_string(&source)))?;
    let mut least = vec![0; kernel.bindings as usize];
    for (handle, global) in module.global_variables.iter() {
        let index = global.binding.as_ref().map(|binding| binding.binding as usize);
        // Several variables may be one binding, and most kernels use one of them.
        if let Some(least) = index.and_then(|index| least.get_mut(index))
            && is_used(&module, &info, kernel.entry(), handle)
        {
            *least = size_of(&module, global).max(*least);
        }
    }
    Ok(least)
}

/// Parses and validates a text, and returns what its entry point `entry` takes. Errors name the line and the column. `label` names
/// the kernel in them.
///
/// A panic of the translator is an error too: programs register texts that they did not write.
pub fn interface_of(label: &str, text: &str, entry: &str) -> Result<Interface> {
    let refuse = |detail: String| HalError::Compile { label: label.to_owned(), detail };
    let read = AssertUnwindSafe(|| interface(text, entry));
    match catch_unwind(read) {
        Ok(interface) => interface.map_err(refuse),
        Err(_) => Err(refuse("the translator of WGSL cannot take this text".to_owned())),
    }
}

fn interface(text: &str, entry: &str) -> std::result::Result<Interface, String> {
    let located = |location: Option<SourceLocation>, message: String| match location {
        Some(at) => format!("line {}, column {}: {message}", at.line_number, at.line_position),
        None => message,
    };
    // Bounds checks leave loads and stores of subgroup matrices alone.
    let allowed = Capabilities::all().difference(Capabilities::COOPERATIVE_MATRIX);
    let options = naga::front::wgsl::Options { parse_doc_comments: false, capabilities: allowed };
    let mut front = naga::front::wgsl::Frontend::new_with_options(options);
    let mut module = front
        .parse(text)
        .map_err(|error| located(error.location(text), error.emit_to_string(text).trim_end().to_owned()))?;
    let info = validator(allowed)
        .validate(&module)
        .map_err(|error| located(error.location(text), error.emit_to_string(text).trim_end().to_owned()))?;
    let workgroup_bytes = workgroup_bytes(&module, &info, entry)?;
    let known: Vec<String> = module.entry_points.iter().map(|entry| entry.name.clone()).collect();
    module.entry_points.retain(|found| found.name == entry && found.stage == ShaderStage::Compute);
    let Some(found) = module.entry_points.first() else {
        return Err(format!("there is no `@compute fn {entry}`; entry points are {known:?}"));
    };
    if found.workgroup_size_overrides.is_some() {
        return Err("the workgroup size is an override; registered text states numbers".to_owned());
    }
    let workgroup = found.workgroup_size;
    let mut bound: Vec<Option<(Access, u32)>> = Vec::new();
    let mut immediate_bytes = 0;
    for (handle, global) in module.global_variables.iter() {
        let name = global.name.as_deref().unwrap_or("?");
        let location = || Some(module.global_variables.get_span(handle).location(text));
        let refuse = |message: String| Err(located(location(), message));
        match (global.space, &global.binding) {
            (AddressSpace::Immediate, _) => immediate_bytes = size_of(&module, global),
            (AddressSpace::Storage { access }, Some(binding)) => {
                let (group, index) = (binding.group, binding.binding);
                if group != 0 || index >= MAX_BINDINGS {
                    return refuse(format!(
                        "`{name}` is at @group({group}) @binding({index}), expected group 0 and a binding below {MAX_BINDINGS}"
                    ));
                }
                let index = index as usize;
                bound.resize(bound.len().max(index + 1), None);
                let is_written = access.intersects(StorageAccess::STORE | StorageAccess::ATOMIC);
                let access = if is_written { Access::ReadWrite } else { Access::Read };
                match bound.get_mut(index) {
                    Some(slot @ None) => *slot = Some((access, size_of(&module, global))),
                    _ => {
                        return refuse(format!(
                            "`{name}` is at @binding({index}), which another variable has"
                        ));
                    }
                }
            }
            (_, Some(_)) => {
                return refuse(format!(
                    "`{name}` is bound but not in storage; parameters are var<immediate>"
                ));
            }
            (_, None) => (),
        }
    }
    let missing = bound.iter().position(Option::is_none);
    if let Some(missing) = missing {
        return Err(format!("@binding({missing}) is missing: bindings are numbered from 0 without gaps"));
    }
    let (bindings, least_bytes) = bound.into_iter().flatten().unzip();
    Ok(Interface { bindings, least_bytes, immediate_bytes, workgroup, workgroup_bytes })
}

fn validator(allowed: Capabilities) -> Validator {
    let mut validator = Validator::new(ValidationFlags::all(), allowed);
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SUBGROUP_OPERATIONS);
    validator
}

/// Returns whether the entry point uses a variable.
fn is_used(module: &Module, info: &ModuleInfo, entry: &str, global: Handle<GlobalVariable>) -> bool {
    let is_entry = |found: &naga::EntryPoint| found.name == entry && found.stage == ShaderStage::Compute;
    let index = module.entry_points.iter().position(is_entry);
    index.is_some_and(|index| !info.get_entry_point(index)[global].is_empty())
}

fn size_of(module: &Module, global: &naga::GlobalVariable) -> u32 {
    module.types.get_handle(global.ty).map_or(0, |ty| ty.inner.size(module.to_ctx()))
}

/// Returns the bytes of workgroup memory that an entry point uses.
fn workgroup_bytes(module: &Module, info: &ModuleInfo, entry: &str) -> std::result::Result<u64, String> {
    let shared = module.global_variables.iter().filter(|(handle, global)| {
        global.space == AddressSpace::WorkGroup && is_used(module, info, entry, *handle)
    });
    shared.map(|(_, global)| shared_bytes(module, global.ty)).sum()
}

/// Returns the bytes of a type in workgroup memory, where a `bool` takes four.
fn shared_bytes(module: &Module, ty: Handle<Type>) -> std::result::Result<u64, String> {
    let Ok(ty) = module.types.get_handle(ty) else { return Ok(0) };
    let inner = &ty.inner;
    let size = u64::from(inner.size(module.to_ctx()));
    Ok(match inner {
        TypeInner::Scalar(scalar) | TypeInner::Vector { scalar, .. } if scalar.kind == ScalarKind::Bool => {
            4 * size
        }
        TypeInner::Array { base, size, stride } => {
            let Ok(IndexableLength::Known(count)) = size.resolve(module.to_ctx()) else {
                let what = "an array of workgroup memory has an override as its length; registered text states numbers";
                return Err(what.to_owned());
            };
            u64::from(count).saturating_mul(shared_bytes(module, *base)?.max(u64::from(*stride)))
        }
        TypeInner::Struct { members, .. } => {
            let members = members.iter().map(|member| shared_bytes(module, member.ty));
            members.sum::<std::result::Result<u64, String>>()?.max(size)
        }
        _ => size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: &str = "struct Params { x: u32, y: u32, z: u32, factor: f32 }
var<immediate> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(8, 4) fn scale(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = p.factor * x[id.x]; }
@compute @workgroup_size(1) fn other() { y[0] = 1.0; }";

    fn refusal(text: &str, entry: &str) -> String {
        interface_of("test", text, entry).unwrap_err().to_string()
    }

    #[test]
    fn the_interface_is_what_the_text_declares() {
        let scale = interface_of("test", SCALE, "scale").unwrap();
        assert_eq!(scale.bindings, [Access::ReadWrite, Access::Read]);
        assert_eq!((scale.immediate_bytes, scale.workgroup), (16, [8, 4, 1]));
        assert_eq!(interface_of("test", SCALE, "other").unwrap().workgroup, [1, 1, 1]);
    }

    #[test]
    fn the_least_bytes_of_a_binding_are_those_of_its_type() {
        let text = "struct Tail { count: u32, rows: array<vec4<f32>> }
@group(0) @binding(0) var<storage, read> a: array<f32, 64>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c: Tail;
@compute @workgroup_size(1) fn main() { c.rows[0] = b[0] * a[0]; }";
        assert_eq!(interface_of("test", text, "main").unwrap().least_bytes, [256, 16, 32]);
    }

    #[test]
    fn workgroup_memory_of_the_entry_point_is_counted() {
        let text = "struct Flags { seen: array<bool, 10>, at: u32 }
override N: u32 = 100u;
var<workgroup> flags: Flags;
var<workgroup> cells: array<f32, N>;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn one() { flags.seen[0] = true; y[0] = f32(flags.at); }
@compute @workgroup_size(1) fn two() { y[0] = cells[0]; }
@compute @workgroup_size(1) fn three() { y[0] = 1.0; }";
        let bytes = |entry| interface_of("test", text, entry).unwrap().workgroup_bytes;
        assert_eq!(["one", "two", "three"].map(bytes), [44, 400, 0]);
    }

    #[test]
    fn broken_text_is_refused_by_line_and_column() {
        let parse = refusal("// one\n@compute @workgroup_size(1) fn main() { let a = ; }", "main");
        assert!(parse.contains("line 2, column 49"), "{parse}");
        let types = refusal(
            "@compute @workgroup_size(1)\nfn main() {\n  let a: f32 = vec2<f32>(1.0, 2.0);\n}",
            "main",
        );
        assert!(types.contains("line 3, column"), "{types}");
        assert!(refusal(SCALE, "scales").contains("\"scale\", \"other\""));
    }

    #[test]
    fn bindings_that_no_launch_can_have_are_refused() {
        let body = "@compute @workgroup_size(1) fn main() { x[0] = 1.0; }";
        for (declared, expected) in [
            ("@group(1) @binding(0) var<storage, read_write> x: array<f32>;", "line 1, column"),
            ("@group(0) @binding(4000000000) var<storage, read_write> x: array<f32>;", "below 32"),
            ("@group(0) @binding(1) var<storage, read_write> x: array<f32>;", "@binding(0) is missing"),
            (
                "@group(0) @binding(0) var<uniform> u: vec4<f32>; @group(0) @binding(1) var<storage, read_write> x: array<f32>;",
                "not in storage",
            ),
        ] {
            let text = format!("{declared}\n{body}");
            assert!(refusal(&text, "main").contains(expected), "{}", refusal(&text, "main"));
        }
    }

    #[test]
    fn any_text_is_an_interface_or_an_error() {
        for cut in 0..SCALE.len() {
            let _ = interface_of("test", &SCALE[..cut], "scale");
            let _ = interface_of("test", &SCALE[cut..], "scale");
            let _ = interface_of("test", &format!("{}\u{e9}{}", &SCALE[..cut], &SCALE[cut..]), "scale");
        }
        let deep = format!(
            "@compute @workgroup_size(1) fn main() {{ let a = {}1{}; }}",
            "(".repeat(5000),
            ")".repeat(5000)
        );
        let _ = interface_of("test", &deep, "main");
    }
}
