//! Arithmetic that only WGSL kernels have: f16, subgroups.

use super::{Bench, Rig, binding};
use half::f16;
use silicide_hal::{CommandList, Part, Program, Snippet, WgslKernel};

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

static SIZE: Snippet = Snippet {
    name: "size",
    text: "
override WG: u32 = 128u;
struct Params { at_y: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(WG)
fn main(@builtin(subgroup_size) size: u32, @builtin(subgroup_id) group: u32,
        @builtin(subgroup_invocation_id) lane: u32) {
    y[p.at_y + group * size + lane] = size;
}",
};

static SIZE_OF_ANY: Snippet = Snippet {
    name: "size of any",
    text: "
override WG: u32 = 128u;
struct Params { at_y: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) { y[p.at_y + lane] = 0u; }",
};

pub(crate) fn f16_values_are_stored_and_computed<R: Rig>(bench: &Bench<R>) {
    assert!(bench.device.info().features.f16, "the test device has f16");
    let kernel = WgslKernel::new("half", &[Part::plain(&HALF)], 2, 1);
    let pipeline = bench.compile_program(&Program::Wgsl(kernel)).unwrap();
    let values: Vec<f16> = (0..64).map(|i| f16::from_f32(i as f32 * 0.125)).collect();
    let (x, y) = (bench.bind(&values), bench.bind(&[0u8; 128]));
    let mut list = CommandList::default();
    list.dispatch(pipeline, [2, 1, 1], &[x, y], &[0, 0, 2f32.to_bits()]);
    bench.run(&list);
    let expected: Vec<f16> = values.iter().map(|v| f16::from_f32(v.to_f32() * 2.0 + 1.0)).collect();
    assert_eq!(bench.read::<f16>(y), expected);
}

pub(crate) fn subgroups_of_any_size_sum_a_row<R: Rig>(bench: &Bench<R>) {
    let features = &bench.device.info().features;
    assert!(features.subgroups && features.subgroup_size.0 >= 2, "the test device has subgroups");
    let (rows, n) = (5usize, 333usize);
    let values: Vec<f32> = (0..rows * n).map(|i| (i % 17) as f32).collect();
    let (x, y) = (bench.bind(&values), bench.bind(&vec![0f32; rows]));
    for workgroup in [8, 64, 96] {
        let kernel = WgslKernel::new("sum", &[Part::plain(&SUM)], 2, 1).constant("WG", workgroup);
        let pipeline = bench.compile_program(&Program::Wgsl(kernel)).unwrap();
        let mut list = CommandList::default();
        let bindings = [x, binding(y.block, 0, y.bytes)];
        list.dispatch(pipeline, [rows as u32, 1, 1], &bindings, &[0, 0, n as u32]);
        bench.run(&list);
        let expected: Vec<f32> = values.chunks(n).map(|row| row.iter().sum()).collect();
        assert_eq!(bench.read::<f32>(y), expected, "workgroups of {workgroup}");
    }
}

pub(crate) fn kernels_run_in_subgroups_of_the_size_that_they_require<R: Rig>(bench: &Bench<R>) {
    const WORKGROUP: u32 = 128;
    let features = &bench.device.info().features;
    assert!(features.preferred_subgroup().is_some(), "the test device takes a size");
    let kernel = WgslKernel::new("size", &[Part::plain(&SIZE)], 1, 0).constant("WG", WORKGROUP);
    for size in [1u32, 2, 4, 8, 16, 32, 64, 128] {
        let kernel = kernel.clone().with_subgroup(size).or_portable(&SIZE, &SIZE_OF_ANY);
        let compiled = bench.compile_program(&Program::Wgsl(kernel.clone()));
        assert_eq!(compiled.is_ok(), features.takes_subgroup(size), "subgroups of {size}");
        let portable = bench.compile_program(&Program::Wgsl(kernel.portable().unwrap())).unwrap();
        for (pipeline, expected) in [(compiled.ok(), size), (Some(portable), 0)] {
            let Some(pipeline) = pipeline else { continue };
            let y = bench.bind(&vec![9u32; WORKGROUP as usize]);
            let mut list = CommandList::default();
            list.dispatch(pipeline, [1, 1, 1], &[y], &[0]);
            bench.run(&list);
            assert_eq!(bench.read::<u32>(y), vec![expected; WORKGROUP as usize], "subgroups of {size}");
        }
    }
    let partial = kernel.constant("WG", 129).with_subgroup(features.preferred_subgroup().unwrap());
    assert!(
        bench.compile_program(&Program::Wgsl(partial)).is_err(),
        "a workgroup that is not whole subgroups"
    );
}
