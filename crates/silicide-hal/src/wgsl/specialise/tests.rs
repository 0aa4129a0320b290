use super::*;
use crate::{Part, Snippet};

static ADD: Snippet = Snippet {
    name: "add",
    text: "
override WG: u32 = 64u;
struct AddParams { at_x: u32, at_y: u32, n: u32 }
var<immediate> p: AddParams;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
if id.x < p.n { y[p.at_y + id.x] += x[p.at_x + id.x]; }
}",
};
static BROKEN: Snippet =
    Snippet { name: "broken", text: "@compute @workgroup_size(1) fn main() { let a = b; }" };
static ELSEWHERE: Snippet = Snippet {
    name: "elsewhere",
    text: "@group(1) @binding(0) var<storage, read_write> x: array<f32>;\n\
           @compute @workgroup_size(1) fn main() { x[0] = 1.0; }",
};
static UNIFORM: Snippet = Snippet {
    name: "uniform",
    text: "@group(0) @binding(0) var<uniform> x: vec4<f32>;\n@compute @workgroup_size(1) fn main() { _ = x; }",
};

fn kernel(snippet: &'static Snippet, bindings: u32, params: u32) -> WgslKernel {
    WgslKernel::new("test", &[Part::plain(snippet)], bindings, params)
}

fn detail(kernel: &WgslKernel) -> String {
    match specialise(kernel, ALWAYS, ParameterSpace::Immediate, false) {
        Err(HalError::Compile { label, detail }) => {
            assert_eq!(label, "test");
            detail
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("compiled"),
    }
}

#[test]
fn constants_are_baked_in() {
    let done =
        specialise(&kernel(&ADD, 2, 1).constant("WG", 32), ALWAYS, ParameterSpace::Immediate, false).unwrap();
    assert_eq!(done.module.entry_points[0].workgroup_size, [32, 1, 1]);
}

#[test]
fn parameters_can_lie_in_a_storage_behind_the_others() {
    let done = specialise(&kernel(&ADD, 2, 1), ALWAYS, ParameterSpace::Storage, false).unwrap();
    let bindings = done.module.global_variables.iter().filter_map(|(_, global)| global.binding);
    let mut bindings: Vec<u32> = bindings.map(|binding| binding.binding).collect();
    bindings.sort_unstable();
    assert_eq!(bindings, [0, 1, 2]);
}

#[test]
fn an_unknown_constant_is_named() {
    assert!(detail(&kernel(&ADD, 2, 1).constant("WIDTH", 4)).contains("WIDTH"));
}

#[test]
fn a_syntax_error_shows_its_line() {
    let text = detail(&kernel(&BROKEN, 0, 0));
    assert!(text.contains("let a = b") && text.contains("wgsl:2:"), "{text}");
}

#[test]
fn the_declaration_must_match_the_text() {
    assert!(detail(&kernel(&ADD, 1, 2)).contains("declares 1 bindings"));
    assert!(detail(&kernel(&ADD, 3, 0)).contains("@binding(2) is not there"));
    assert!(detail(&kernel(&ADD, 2, 2)).contains("has 12 bytes, but the kernel declares 4 words"));
    assert!(detail(&kernel(&ELSEWHERE, 1, 0)).contains("@group(1)"));
    assert!(detail(&kernel(&UNIFORM, 1, 0)).contains("not in storage"));
}
