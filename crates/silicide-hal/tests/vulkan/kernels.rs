//! Small kernels, and tests that they compute what they say.

use crate::rig::{Rig, range};
use half::f16;
use silicide_hal::{CommandList, Part, Snippet, WgslKernel};

static ADD: Snippet = Snippet {
    name: "add",
    text: "
override WG: u32 = 64u;
struct Params { at_x: u32, at_y: u32, at_z: u32, n: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> z: array<f32>;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.n { z[p.at_z + id.x] = x[p.at_x + id.x] + y[p.at_y + id.x]; }
}",
};

static COUNT: Snippet = Snippet {
    name: "count",
    text: "
struct Params { at_x: u32, step: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1)
fn main() { x[p.at_x] = x[p.at_x] + p.step; }",
};

static SPIN: Snippet = Snippet {
    name: "spin",
    text: "
struct Params { at_x: u32, rounds: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3<u32>) {
    var a = id.x;
    for (var i = 0u; i < p.rounds; i++) { a = (a ^ (a << 13u)) + i; a = a ^ (a >> 17u); }
    x[p.at_x + id.x] = a;
}",
};

static HALF: Snippet = Snippet {
    name: "half",
    text: "
enable f16;
struct Params { at_x: u32, at_y: u32, scale: f32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f16>;
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    y[p.at_y + id.x] = x[p.at_x + id.x] * f16(p.scale) + 1.0h;
}",
};

static SUM: Snippet = Snippet {
    name: "sum",
    text: "
override WG: u32 = 64u;
struct Params { at_x: u32, at_y: u32, n: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> partial: array<f32, WG>;
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) row: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) group: u32, @builtin(subgroup_invocation_id) lane: u32,
        @builtin(num_subgroups) groups: u32) {
    var sum = 0.0;
    for (var i = t; i < p.n; i += WG) { sum += x[p.at_x + row.x * p.n + i]; }
    let part = subgroupAdd(sum);
    if lane == 0u { partial[group] = part; }
    workgroupBarrier();
    if t == 0u {
        var total = 0.0;
        for (var i = 0u; i < groups; i++) { total += partial[i]; }
        y[p.at_y + row.x] = total;
    }
}",
};

/// z = x + y; parameter: n.
pub(crate) fn add() -> WgslKernel {
    WgslKernel::new("add", &[Part::plain(&ADD)], 3, 1)
}

/// One invocation adds `step` to a word; parameter: step.
pub(crate) fn count() -> WgslKernel {
    WgslKernel::new("count", &[Part::plain(&COUNT)], 1, 1)
}

/// One invocation per word works for a while; parameter: rounds. Software devices end loops after 65,535 rounds, so
/// long work is many words.
pub(crate) fn spin() -> WgslKernel {
    WgslKernel::new("spin", &[Part::plain(&SPIN)], 1, 1)
}

#[test]
fn vectors_add_at_offsets() {
    let rig = Rig::new();
    let add = rig.compile(add().constant("WG", 32));
    let n = 1000usize;
    let alignment = rig.device.info().limits.binding_alignment as u64;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let y: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();
    let (bx, by, bz) = (rig.alloc_with(&x), rig.alloc_with(&y), rig.alloc(n * 4));
    rig.bytes(bz).fill(0xff);
    // Elements 7.. of x, from an aligned window on; z is written from element 3 of its second window.
    let (count, window) = (700u64, 2 * alignment);
    let mut list = CommandList::default();
    let at_z = 3 + (window / 4) as u32;
    let bindings = [
        range(bx, window, n as u64 * 4 - window),
        range(by, 0, n as u64 * 4),
        range(bz, alignment, (n as u64) * 4 - alignment),
    ];
    list.dispatch(add, [(count as u32).div_ceil(32), 1, 1], &bindings, &[7, 0, at_z, count as u32]);
    rig.run(&list);
    let z = rig.read::<f32>(bz);
    let (from_x, to) = ((window / 4) as usize + 7, (alignment / 4) as usize + at_z as usize);
    for (i, z) in z.iter().enumerate() {
        match i.checked_sub(to).filter(|j| *j < count as usize) {
            Some(j) => assert_eq!(*z, x[from_x + j] + y[j], "element {i}"),
            None => assert_eq!(z.to_bits(), !0, "element {i} was not to be touched"),
        }
    }
}

#[test]
fn half_precision_is_stored_and_computed() {
    let rig = Rig::new();
    assert!(rig.device.info().features.f16, "the test device has f16");
    let kernel = rig.compile(WgslKernel::new("half", &[Part::plain(&HALF)], 2, 1));
    let x: Vec<f16> = (0..64).map(|i| f16::from_f32(i as f32 * 0.125)).collect();
    let (bx, by) = (rig.alloc_with(&x), rig.alloc(128));
    let mut list = CommandList::default();
    list.dispatch(kernel, [2, 1, 1], &[range(bx, 0, 128), range(by, 0, 128)], &[0, 0, 2f32.to_bits()]);
    rig.run(&list);
    let want: Vec<f16> = x.iter().map(|v| f16::from_f32(v.to_f32() * 2.0 + 1.0)).collect();
    assert_eq!(rig.read::<f16>(by), want);
}

#[test]
fn subgroups_sum_rows_whatever_their_size() {
    let rig = Rig::new();
    let features = &rig.device.info().features;
    assert!(features.subgroups && features.subgroup_size.0 >= 2, "the test device has subgroups");
    let (rows, n) = (5usize, 333usize);
    let x: Vec<f32> = (0..rows * n).map(|i| (i % 17) as f32).collect();
    let (bx, by) = (rig.alloc_with(&x), rig.alloc(rows * 4));
    for workgroup in [8, 64, 96] {
        let kernel =
            rig.compile(WgslKernel::new("sum", &[Part::plain(&SUM)], 2, 1).constant("WG", workgroup));
        let mut list = CommandList::default();
        let bindings = [range(bx, 0, (rows * n * 4) as u64), range(by, 0, rows as u64 * 4)];
        list.dispatch(kernel, [rows as u32, 1, 1], &bindings, &[0, 0, n as u32]);
        rig.run(&list);
        let want: Vec<f32> = x.chunks(n).map(|row| row.iter().sum()).collect();
        assert_eq!(rig.read::<f32>(by), want, "workgroup of {workgroup}");
    }
}
