//! Kernels that programs register by name: texts on GPUs, native functions on the CPU.

use crate::common::ops::native_add;
use crate::common::{GPU, count, devices, null_device, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::hal::{HalError, Program};
use silicide_core::kernel::{Access, Grid, KernelText};
use silicide_core::{Buffer, CommandEncoder, Device, Error, GraphBuilder, GraphExecutor, GraphOptions};
use silicide_core::{Recorder, Result};

/// `y = factor * x`, with the output first.
const SCALE: &str = "
struct Params { x: u32, y: u32, z: u32, factor: f32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@compute @workgroup_size(64) fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.x { y[id.x] = p.factor * x[id.x]; }
}
@compute @workgroup_size(64) fn scale_unguarded(@builtin(global_invocation_id) id: vec3<u32>) {
    y[id.x] = p.factor * x[id.x];
}";

const Y_X: &[Access] = &[Access::ReadWrite, Access::Read];

fn text<'a>(name: &'a str, text: &'a str, entry: &'a str) -> KernelText<'a> {
    KernelText { name, text, entry, bindings: Y_X, param_bytes: 4 }
}

/// The GPU of the tests, with both kernels of `SCALE`.
fn gpu() -> Option<Device> {
    let device = devices().into_iter().find(|device| device.info().is_gpu())?;
    for entry in ["scale", "scale_unguarded"] {
        device.kernels().register(&text(entry, SCALE, entry)).unwrap();
    }
    Some(device)
}

fn run(name: &str, factor: f32, threads: u32, bindings: &[&Buffer]) -> Result<()> {
    let device = bindings[0].device();
    let call = device.kernels().named(name)?.call(&factor.to_le_bytes(), Grid::Threads([threads, 1, 1]))?;
    let mut encoder = CommandEncoder::new(device);
    encoder.dispatch(&call, bindings)?;
    encoder.submit()?.wait()
}

#[test]
fn text_runs_by_name_with_inline_bytes_on_exactly_its_threads() {
    let Some(device) = gpu() else { return };
    for threads in [1, 63, 64, 65, 1000] {
        let (x, y) = (vector(&device, &count(1024)), vector(&device, &[-1.0; 1024]));
        run("scale", 0.5, threads, &[&y, &x]).unwrap();
        let expected = |i: usize| if i < threads as usize { i as f32 / 2.0 } else { -1.0 };
        assert_eq!(y.to_vec::<f32>().unwrap(), (0..1024).map(expected).collect::<Vec<_>>(), "{threads}");
    }
    let (x, y) = (vector(&device, &count(128)), vector(&device, &[0.0; 128]));
    let call = device.kernels().named("scale").unwrap();
    let call = call.call(&2.0f32.to_le_bytes(), Grid::Workgroups([2, 1, 1])).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    encoder.dispatch(&call, &[&y, &x]).unwrap();
    encoder.dispatch(&call, &[&x, &y]).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap()[127], 508.0, "a barrier lies between the two");
    let counters = device.counters();
    let scale = counters.kernels.iter().find(|entry| entry.kernel == "scale").unwrap();
    assert!(scale.count >= 7);
}

#[test]
fn text_that_leaves_its_bindings_touches_no_other_bytes() {
    let Some(device) = gpu() else { return };
    let (x, all) = (vector(&device, &count(128)), vector(&device, &[-1.0; 384]));
    run("scale_unguarded", 1.0, 4096, &[&all.slice(128..256).unwrap(), &x]).unwrap();
    let all = all.to_vec::<f32>().unwrap();
    assert!(all[..128].iter().chain(&all[256..]).all(|&value| value == -1.0), "{all:?}");
    assert_eq!(all[128..255], count(127));
}

#[test]
fn views_that_the_device_cannot_bind_exactly_are_refused() {
    let Some(device) = gpu() else { return };
    let (x, y) = (vector(&device, &count(128)), vector(&device, &[0.0; 128]));
    let needed = device.info().limits.binding_alignment;
    if needed > 4 {
        let text =
            assert_error!(run("scale", 1.0, 4, &[&y, &x.slice(1..9).unwrap()]), Error::NoKernel { .. });
        assert!(text.contains("binding_alignment"), "{text}");
    }
    let bytes = Buffer::from_slice(&device, [5], &[0u8; 5]).unwrap();
    assert_error!(run("scale", 1.0, 1, &[&bytes, &x]), Error::NoKernel { .. });
    assert_error!(run("scale", 1.0, 1, &[&y]), Error::ArgumentCount { expected: 2, got: 1, .. });
    assert_error!(run("scale", 1.0, 1, &[&y, &y]), Error::Aliasing { .. });
    assert_error!(run("scale", 1.0, 0, &[&y, &x]), Error::BadParameter { .. });
    let scale = device.kernels().named("scale").unwrap();
    assert_error!(
        scale.call(&[0; 8], Grid::Threads([1; 3])),
        Error::SizeMismatch { expected: 4, got: 8, .. }
    );
    assert_error!(scale.call(&[0; 4], Grid::Workgroups([u32::MAX, 1, 1])), Error::BadParameter { .. });
}

#[test]
fn broken_text_is_refused_by_line_and_column() {
    let Some(device) = gpu() else { return };
    let register = |text: &KernelText<'_>| device.kernels().register(text);
    let broken = SCALE.replace("p.factor * x[id.x]; }\n}\n", "p.factor * z[id.x]; }\n}\n");
    let error = assert_error!(
        register(&text("broken", &broken, "scale")),
        Error::Device { source: HalError::Compile { .. }, .. }
    );
    assert!(error.contains("line 7, column 42") && error.contains("broken"), "{error}");
    assert_error!(register(&text("no such entry", SCALE, "scales")), Error::Device { .. });
    let wrong = |wrong: KernelText<'_>| assert_error!(register(&wrong), Error::BadParameter { .. });
    let right = text("wrong", SCALE, "scale");
    let error = wrong(KernelText { bindings: &[Access::Read, Access::ReadWrite], ..right });
    assert!(error.contains("[ReadWrite, Read]"), "{error}");
    let error = wrong(KernelText { param_bytes: 8, ..right });
    assert!(error.contains("16 bytes, expected 20"), "{error}");
    wrong(KernelText { param_bytes: 3, ..right });
    wrong(KernelText { param_bytes: usize::MAX, ..right });
    wrong(KernelText { bindings: &[], ..right });
    wrong(KernelText { name: "", ..right });
    assert_error!(device.kernels().named("wrong"), Error::UnknownKernel { .. });
}

#[test]
fn a_name_is_one_kernel_and_an_unknown_name_lists_the_known() {
    let Some(device) = gpu() else { return };
    let kernels = device.kernels();
    let scale = kernels.named("scale").unwrap();
    assert_eq!(kernels.register(&text("scale", SCALE, "scale")).unwrap(), scale);
    let compiled = kernels.usage().compiled;
    assert_error!(kernels.register(&text("scale", SCALE, "scale_unguarded")), Error::KernelExists { .. });
    assert_eq!(kernels.usage().compiled, compiled, "a name that is taken compiles nothing");
    let error = assert_error!(kernels.named("scales"), Error::UnknownKernel { .. });
    assert!(error.contains("scale, scale_unguarded"), "{error}");
    assert!(kernels.unregister("scale") && !kernels.unregister("scale"));
    assert_ne!(kernels.register(&text("scale", SCALE, "scale_unguarded")).unwrap(), scale);
}

#[test]
fn graphs_take_calls_of_named_kernels() {
    let Some(device) = gpu() else { return };
    let (x, y) = (vector(&device, &count(64)), vector(&device, &[0.0; 64]));
    let call = device.kernels().named("scale").unwrap();
    let call = call.call(&3.0f32.to_le_bytes(), Grid::Threads([64, 1, 1])).unwrap();
    let mut graph = GraphBuilder::new(&device);
    let (from, to) = (graph.constant(&x), graph.constant(&y));
    graph.run_into(call, &[&from], &[&to]).unwrap();
    let executor = GraphExecutor::new(graph.finish(&[]).unwrap(), &GraphOptions::default()).unwrap();
    let mut session = executor.session(&[]).unwrap();
    session.replay().unwrap().wait().unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap()[21], 63.0);
}

#[test]
fn the_cpu_runs_native_functions_by_name() {
    let device = Device::cpu().unwrap();
    let error = assert_error!(
        device.kernels().register(&text("scale", SCALE, "scale")),
        Error::Device { source: HalError::Compile { .. }, .. }
    );
    assert!(error.contains("register_native"), "{error}");
    let Program::Native(add) = native_add() else { panic!("native_add is native") };
    let bindings = &[Access::Read, Access::Read, Access::ReadWrite];
    let named = device.kernels().register_native("sum", add, bindings, 4).unwrap();
    assert_eq!(device.kernels().register_native("sum", add, bindings, 4).unwrap(), named);
    assert_error!(device.kernels().register_native("sum", add, bindings, 8), Error::KernelExists { .. });
    let (a, b, y) =
        (vector(&device, &count(300)), vector(&device, &[1.0; 300]), vector(&device, &[0.0; 300]));
    let run = |elements: u32, tiles: u32| {
        let call = named.call(&elements.to_le_bytes(), Grid::Threads([tiles, 1, 1])).unwrap();
        let mut encoder = CommandEncoder::new(&device);
        encoder.dispatch(&call, &[&a, &b, &y])?;
        encoder.submit()?.wait()
    };
    run(300, 2).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), count(301)[1..]);
    assert_error!(run(301, 2), Error::BadPlan { .. });
}

#[test]
fn metal_text_is_refused_elsewhere() {
    if GPU.starts_with("metal") {
        return;
    }
    let (device, _) = null_device(&NullOptions::default());
    let launch =
        silicide_core::kernel::MslLaunch { workgroup: [1; 3], threadgroup_bytes: &[], needs: |_| None };
    // SAFETY: the device refuses it.
    let refused =
        unsafe { device.kernels().register_msl(&text("msl", "kernel void msl() {}", "msl"), &launch) };
    let error = assert_error!(refused, Error::Device { source: HalError::Compile { .. }, .. });
    assert!(error.contains("WGSL"), "{error}");
}

/// A text over `bindings` whose entry point `main` has this body.
fn with_body(workgroup: &str, globals: &str, body: &str) -> String {
    format!(
        "{globals}\n@compute @workgroup_size({workgroup}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{ {body} }}"
    )
}

#[test]
fn bindings_shorter_than_their_type_are_refused() {
    let Some(device) = gpu() else { return };
    let element = "@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> x: array<f32, 64>;";
    let body = "y[id.x] = vec4<f32>(x[id.x]);";
    let source = with_body("64", element, body);
    let sized = KernelText { param_bytes: 0, ..text("sized", &source, "main") };
    let sized = device.kernels().register(&sized).unwrap();
    let run = |y: &Buffer, x: &Buffer| {
        let mut encoder = CommandEncoder::new(&device);
        encoder.dispatch(&sized.call(&[], Grid::Threads([64, 1, 1]))?, &[y, x])?;
        encoder.submit()?.wait()
    };
    let of = |len: usize| vector(&device, &vec![-1.0; len]);
    run(&of(256), &of(64)).unwrap();
    run(&of(4), &of(64)).unwrap();
    let error = assert_error!(run(&of(1), &of(64)), Error::BadParameter { .. });
    assert!(error.contains("binding 0 has 4 bytes, expected at least the 16 bytes"), "{error}");
    let error = assert_error!(run(&of(4), &of(63)), Error::BadParameter { .. });
    assert!(error.contains("binding 1 has 252 bytes, expected at least the 256 bytes"), "{error}");
}

#[test]
fn a_slice_shorter_than_a_sized_array_keeps_the_bytes_around_it() {
    let Some(device) = gpu() else { return };
    let globals = "@group(0) @binding(0) var<storage, read_write> y: array<f32, 64>;
@group(0) @binding(1) var<storage, read> x: array<f32>;";
    let source = with_body("64", globals, "y[id.x] = x[id.x];");
    let filled = KernelText { param_bytes: 0, ..text("filled", &source, "main") };
    let filled = device.kernels().register(&filled).unwrap();
    let (x, all) = (vector(&device, &count(64)), vector(&device, &[-1.0; 384]));
    let call = filled.call(&[], Grid::Threads([64, 1, 1])).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    assert_error!(encoder.dispatch(&call, &[&all.slice(128..132).unwrap(), &x]), Error::BadParameter { .. });
    let mut graph = GraphBuilder::new(&device);
    let (from, to) = (graph.constant(&x), graph.constant(&all.slice(128..132).unwrap()));
    assert_error!(graph.run_into(call.clone(), &[&from], &[&to]), Error::BadParameter { .. });
    encoder.dispatch(&call, &[&all.slice(128..192).unwrap(), &x]).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    let all = all.to_vec::<f32>().unwrap();
    assert!(all[..128].iter().chain(&all[192..]).all(|&value| value == -1.0), "{all:?}");
    assert_eq!(all[128..192], count(64));
}

#[test]
fn workgroups_beyond_the_limits_of_the_device_are_refused() {
    let Some(device) = gpu() else { return };
    let limits = &device.info().limits;
    let globals = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;";
    let refused = |workgroup: &str, shared: &str, body: &str, expected: &str| {
        let source = with_body(workgroup, &format!("{globals}\n{shared}"), body);
        let large = KernelText { param_bytes: 0, ..text("large", &source, "main") };
        let error = assert_error!(device.kernels().register(&large), Error::BadParameter { .. });
        assert!(error.contains(expected), "{error}");
    };
    let copy = "y[id.x] = x[id.x];";
    let [x, y, z] = limits.max_workgroup_size;
    refused(&format!("{x}, {y}, {z}"), "", copy, &format!("expected at most {}", limits.max_workgroup));
    for (axis, [i, j, k], limit) in
        [("x", [x + 1, 1, 1], x), ("y", [1, y + 1, 1], y), ("z", [1, 1, z + 1], z)]
    {
        refused(&format!("{i}, {j}, {k}"), "", copy, &format!("along {axis}, expected 1 to {limit}"));
    }
    let shared = "var<workgroup> a: array<f32, 10000000>;";
    let at_most =
        format!("40000000 bytes of workgroup memory, expected at most {}", limits.max_workgroup_bytes);
    refused("64", shared, "a[id.x] = x[id.x]; y[id.x] = a[id.x];", &at_most);
    let by_override = "override N: u32 = 10000000u; var<workgroup> a: array<f32, N>;";
    refused("64", by_override, "a[id.x] = x[id.x]; y[id.x] = a[id.x];", &at_most);
}

#[test]
fn matrices_of_subgroups_are_refused_by_line() {
    let Some(device) = gpu() else { return };
    let source = format!("enable wgpu_cooperative_matrix;\n{SCALE}");
    let error =
        assert_error!(device.kernels().register(&text("matrix", &source, "scale")), Error::Device { .. });
    assert!(error.contains("line 1") && error.contains("wgpu_cooperative_matrix"), "{error}");
}

#[test]
fn a_grid_beyond_the_limit_of_the_device_is_refused() {
    let Some(device) = gpu() else { return };
    let Some(groups) = device.info().limits.max_grid[1].checked_add(1) else { return };
    let (x, y) = (vector(&device, &count(64)), vector(&device, &[0.0; 64]));
    let call = device.kernels().named("scale").unwrap();
    let call = call.call(&1.0f32.to_le_bytes(), Grid::Workgroups([1, groups, 1])).unwrap();
    let error =
        assert_error!(CommandEncoder::new(&device).dispatch(&call, &[&y, &x]), Error::NoKernel { .. });
    assert!(error.contains("max_grid"), "{error}");
}
