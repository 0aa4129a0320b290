//! What a WGSL text declares, read before a kernel is made of it. Texts that programs register at run time pass here.

use super::specialise::SUBGROUP_OPERATIONS;
use crate::{Access, HalError, Result};
use naga::valid::{Capabilities, ShaderStages, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, SourceLocation, StorageAccess};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most bindings that a text may declare.
const MAX_BINDINGS: u32 = 32;

/// The arguments of one entry point of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The access of each binding of group 0, in order: [`Access::Read`] or [`Access::ReadWrite`].
    pub bindings: Vec<Access>,
    /// Bytes of `var<immediate>`; 0 without one.
    pub immediate_bytes: u32,
    /// Invocations of a workgroup along each axis.
    pub workgroup: [u32; 3],
}

/// Parses and validates a text, and returns what its entry point `entry` takes. Errors name the line and the column. `label` names
/// the kernel in them.
///
/// A panic of the translator is an error too: the text is whatever a program was given.
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
    let allowed = Capabilities::all();
    let options = naga::front::wgsl::Options { parse_doc_comments: false, capabilities: allowed };
    let mut front = naga::front::wgsl::Frontend::new_with_options(options);
    let mut module = front
        .parse(text)
        .map_err(|error| located(error.location(text), error.emit_to_string(text).trim_end().to_owned()))?;
    let mut validator = Validator::new(ValidationFlags::all(), allowed);
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SUBGROUP_OPERATIONS);
    validator
        .validate(&module)
        .map_err(|error| located(error.location(text), error.emit_to_string(text).trim_end().to_owned()))?;
    let known: Vec<String> = module.entry_points.iter().map(|entry| entry.name.clone()).collect();
    module.entry_points.retain(|found| found.name == entry && found.stage == ShaderStage::Compute);
    let Some(found) = module.entry_points.first() else {
        return Err(format!("there is no `@compute fn {entry}`; entry points are {known:?}"));
    };
    if found.workgroup_size_overrides.is_some() {
        return Err("the workgroup size is an override; registered text states numbers".to_owned());
    }
    let workgroup = found.workgroup_size;
    let mut bound: Vec<Option<Access>> = Vec::new();
    let mut immediate_bytes = 0;
    for (handle, global) in module.global_variables.iter() {
        let name = global.name.as_deref().unwrap_or("?");
        let location = || Some(module.global_variables.get_span(handle).location(text));
        let refuse = |message: String| Err(located(location(), message));
        match (global.space, &global.binding) {
            (AddressSpace::Immediate, _) => immediate_bytes = size_of_immediate(&module, global),
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
                    Some(slot @ None) => *slot = Some(access),
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
    Ok(Interface { bindings: bound.into_iter().flatten().collect(), immediate_bytes, workgroup })
}

fn size_of_immediate(module: &Module, global: &naga::GlobalVariable) -> u32 {
    module.types.get_handle(global.ty).map_or(0, |ty| ty.inner.size(module.to_ctx()))
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
