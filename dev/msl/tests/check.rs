//! Checking can fail: what is wrong in a kernel's text, or in what the host is told about it, is found and named.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failure should end the test")]

mod support;

use msl::{Kernel, NEWEST, OLDEST, check};
use silicide_hal::{NativeMsl, Part, Snippet, WgslKernel};

static SUMS: Snippet = Snippet {
    name: "sums",
    text: "
override WG: u32 = 64u;
struct Params { at_x: u32, at_y: u32, n: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> cells: array<f32, WG>;
@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) row: vec3<u32>) {
    cells[t] = x[p.at_x + row.x * p.n + t];
    workgroupBarrier();
    y[p.at_y + row.x * WG + t] = cells[t] + cells[0];
}",
};

fn kernel(name: &str) -> Kernel {
    Kernel::new(name, &WgslKernel::new("sums", &[Part::plain(&SUMS)], 2, 1), &OLDEST).unwrap()
}

#[test]
fn good_kernels_pass() {
    let Some(clang) = support::clang() else { return };
    let many: Vec<Kernel> = (0..60).map(|i| kernel(&format!("sums {i}"))).collect();
    assert_eq!(check(&clang, &many), Vec::<String>::new());
}

#[test]
fn a_broken_kernel_is_named_with_its_line() {
    let Some(clang) = support::clang() else { return };
    let mut broken = kernel("the broken one");
    let line = 1 + broken.msl.source.lines().position(|line| line.contains("threadgroup_barrier")).unwrap();
    broken.msl.source =
        broken.msl.source.replace("metal::threadgroup_barrier", "metal::threadgroup_barriers");
    let failures = check(&clang, &[kernel("a good one"), broken, kernel("another good one")]);
    let said = failures.join("\n");
    assert!(said.contains(&format!("the broken one:{line}:")), "{said}");
    assert!(said.contains("threadgroup_barriers") && !said.contains("good one:"), "{said}");
}

#[test]
fn types_are_checked() {
    let Some(clang) = support::clang() else { return };
    for (right, wrong) in [
        ("return;", "metal::float4 v = metal::float4(1.0, 2.0); return;"),
        ("return;", "metal::float2 v = metal::float4(1.0); return;"),
        ("return;", "float v = metal::float2(1.0).z; return;"),
        ("return;", "uint v = as_type<uint>(metal::half2(1.0h).x); return;"),
        ("return;", "float v = metal::no_such_function(1.0); return;"),
    ] {
        let mut broken = kernel("broken");
        assert!(broken.msl.source.contains(right));
        broken.msl.source = broken.msl.source.replace(right, wrong);
        assert!(!check(&clang, &[broken]).is_empty(), "{wrong}");
    }
}

#[test]
fn host_side_facts_of_a_kernel_are_checked() {
    let Some(clang) = support::clang() else { return };
    let refused = |change: fn(&mut Kernel)| {
        let mut kernel = kernel("told wrongly");
        change(&mut kernel);
        check(&clang, &[kernel]).join("\n")
    };
    assert!(refused(|kernel| kernel.msl.threadgroup_bytes[0] -= 16).contains("threadgroup memory too small"));
    assert!(refused(|kernel| kernel.msl.threadgroup_bytes.clear()).contains("none for"));
    assert!(refused(|kernel| kernel.msl.threadgroup_bytes.push(16)).contains("no parameter is for"));
    assert!(refused(|kernel| kernel.words += 1).contains("another size"));
    assert!(refused(|kernel| kernel.msl.sized.truncate(1)).contains("another size"));
}

static BY_HAND: NativeMsl = NativeMsl {
    entry: "sums_by_hand",
    text: "

struct Words { uint at_x, at_y, n; };
kernel void sums_by_hand(
    device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    constant Words& p [[buffer(2)]],
    threadgroup float* cells [[threadgroup(0)]],
    uint row [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]])
{
    cells[t] = x[p.at_x + row * p.n + t];
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    y[p.at_y + row * WG + t] = cells[t] + cells[0];
}",
    threadgroup_bytes: &[256],
    language: (3, 1),
    simdgroup_matrix: false,
};

#[test]
fn kernels_written_by_hand_are_checked_too() {
    let Some(clang) = support::clang() else { return };
    let program =
        WgslKernel::new("sums", &[Part::plain(&SUMS)], 2, 1).constant("WG", 64).native_msl(&BY_HAND);
    // SAFETY: it is compiled, and never run.
    let program = unsafe { program.unchecked(|_| None, &[]) };
    let mut native = Kernel::new("by hand", &program, &NEWEST).unwrap();
    assert_eq!(check(&clang, std::slice::from_ref(&native)), Vec::<String>::new());
    native.msl.source = native.msl.source.replace("mem_flags::mem_threadgroup", "mem_flags::mem_of_nobody");
    let said = check(&clang, &[native]).join("\n");
    assert!(said.contains("by hand:") && said.contains("mem_of_nobody"), "{said}");
}
