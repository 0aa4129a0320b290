use super::*;
use crate::{HalError, Part, Snippet};
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

static REDUCE: Snippet = Snippet {
    name: "reduce",
    text: "
enable f16;
override WG: u32 = 64u;
struct ReduceParams { at_x: u32, at_y: u32, n: u32 }
var<immediate> p: ReduceParams;
@group(0) @binding(0) var<storage, read> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> partial: array<f32, WG>;
@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) t: u32, @builtin(subgroup_id) group: u32,
    @builtin(subgroup_invocation_id) lane: u32, @builtin(num_subgroups) groups: u32) {
var sum = 0.0;
for (var i = t; i < p.n; i += WG) { sum += f32(x[p.at_x + i]); }
let part = subgroupAdd(sum);
if lane == 0u { partial[group] = part; }
workgroupBarrier();
if t == 0u {
    var total = 0.0;
    for (var i = 0u; i < groups; i++) { total += partial[i]; }
    y[p.at_y] = total;
}
}",
};
static BYTES: Snippet = Snippet {
    name: "bytes",
    text: "
struct BytesParams { at_x: u32, at_y: u32 }
var<immediate> p: BytesParams;
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<i32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
let bytes = unpack4xU8(x[p.at_x + id.x]);
y[p.at_y + id.x] = dot4I8Packed(x[p.at_x], x[p.at_x + id.x]) + i32(bytes.y);
}",
};

static MATRICES: Snippet = Snippet {
    name: "matrices",
    text: "
enable wgpu_cooperative_matrix;
struct MatricesParams { at_x: u32, at_y: u32 }
var<immediate> p: MatricesParams;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> cells: array<f32, 64>;
@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) t: u32) {
cells[t] = x[p.at_x + t];
cells[t + 32u] = x[p.at_x + t + 32u];
workgroupBarrier();
let a = coopLoad<coop_mat8x8<f32, A>>(&cells[0], 8u);
let b = coopLoad<coop_mat8x8<f32, B>>(&cells[0], 8u);
let c = coopLoad<coop_mat8x8<f32, C>>(&cells[0], 8u);
let sum = coopMultiplyAdd(a, b, c);
workgroupBarrier();
coopStore(sum, &cells[0], 8u);
workgroupBarrier();
y[p.at_y + t] = cells[t];
}",
};

fn kernel(snippet: &'static Snippet, params: u32) -> WgslKernel {
    WgslKernel::new("test", &[Part::plain(snippet)], 2, params)
}

fn matrices() -> WgslKernel {
    // SAFETY: it is translated, and never run.
    unsafe { kernel(&MATRICES, 0).unchecked(|_| None, &[]) }
}

fn capabilities_of(words: &[u32]) -> Vec<u32> {
    // OpCapability stands first in every module.
    words[5..].chunks(2).take_while(|pair| pair[0] == 2 << 16 | 17).map(|pair| pair[1]).collect()
}

/// Runs spirv-val, which may be missing on a developer's machine but not in CI.
fn validate(words: &[u32]) {
    let child =
        Command::new("spirv-val").args(["--target-env", "vulkan1.3", "-"]).stdin(Stdio::piped()).spawn();
    let mut child = match child {
        Err(error) if error.kind() == ErrorKind::NotFound => return samples::not_tested("spirv-val"),
        child => child.unwrap(),
    };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn kernels_give_valid_modules() {
    for kernel in [kernel(&REDUCE, 1).constant("WG", 32), kernel(&BYTES, 0)] {
        let words = to_spirv(&kernel, &SpirvTarget::full()).unwrap();
        assert!(is_well_formed(&words));
        validate(&words);
    }
}

#[test]
fn capabilities_a_device_lacks_are_not_used() {
    const INT_8: u32 = 39;
    const DOT_PRODUCT: u32 = 6019;
    let full = to_spirv(&kernel(&BYTES, 0), &SpirvTarget::full()).unwrap();
    assert!([INT_8, DOT_PRODUCT].iter().all(|needed| capabilities_of(&full).contains(needed)));
    let plain = SpirvTarget { int_8: false, integer_dot: false, ..SpirvTarget::full() };
    let words = to_spirv(&kernel(&BYTES, 0), &plain).unwrap();
    assert!(![INT_8, DOT_PRODUCT].iter().any(|needed| capabilities_of(&words).contains(needed)));
    validate(&words);
}

#[test]
fn a_kernel_the_device_cannot_run_does_not_compile() {
    for target in [
        SpirvTarget { f16: false, ..SpirvTarget::full() },
        SpirvTarget { subgroups: false, ..SpirvTarget::full() },
    ] {
        let error = to_spirv(&kernel(&REDUCE, 1), &target).unwrap_err();
        assert!(matches!(error, HalError::Compile { .. }), "{error}");
    }
    let without = SpirvTarget { cooperative_matrix: false, ..SpirvTarget::full() };
    let error = to_spirv(&matrices(), &without).unwrap_err();
    assert!(matches!(error, HalError::Compile { .. }), "{error}");
}

#[test]
fn matrices_of_subgroups_are_refused_with_bounds_checks() {
    let error = to_spirv(&kernel(&MATRICES, 0), &SpirvTarget::full()).unwrap_err().to_string();
    assert!(error.contains("wgpu_cooperative_matrix") && error.contains("wgsl:1:8"), "{error}");
}

#[test]
fn matrices_of_subgroups_are_seen() {
    let full = SpirvTarget::full();
    let words = to_spirv(&matrices(), &full).unwrap();
    assert!(is_well_formed(&words) && has_matrices(&words));
    assert!(!has_matrices(&to_spirv(&kernel(&REDUCE, 1), &full).unwrap()) && !has_matrices(&[]));
}

#[test]
fn malformed_binaries_are_seen() {
    let words = to_spirv(&kernel(&BYTES, 0), &SpirvTarget::full()).unwrap();
    assert!(!is_well_formed(&[]));
    assert!(!is_well_formed(&words[..5]));
    assert!(!is_well_formed(&words[..words.len() - 1]));
    let mut other = words.clone();
    other[0] ^= 1;
    assert!(!is_well_formed(&other));
    let mut other = words;
    other[5] = 0;
    assert!(!is_well_formed(&other));
}
