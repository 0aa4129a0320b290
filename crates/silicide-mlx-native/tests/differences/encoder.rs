//! Submission, parameters and dispatches by kernel.

use super::buffers;
use mlx_native::ops::elementwise::elementwise_add;
use mlx_native::ops::rms_norm::dispatch_rms_norm;
use mlx_native::{CapturedNode, DType, DispatchKind, KernelArg, KernelRegistry, MTLSize, MlxError};

#[test]
fn parameters_that_the_encoder_writes_are_read_after_it_wrote_them() {
    let (device, [x, weight, y, params, source]) =
        buffers([&[3.0, 4.0], &[1.0, 1.0], &[0.0, 0.0], &[f32::NAN, 2.0], &[0.0, 2.0]]);
    let mut encoder = device.command_encoder().unwrap();
    encoder.blit_copy_bytes(&source, 0, &params, 0, 8).unwrap();
    let registry = &mut KernelRegistry::new();
    dispatch_rms_norm(&mut encoder, registry, device.metal_device(), &x, &weight, &y, &params, 1, 2).unwrap();
    encoder.commit_and_wait().unwrap();
    let scale = 12.5f32.sqrt();
    for (got, expected) in y.as_slice::<f32>().unwrap().iter().zip([3.0 / scale, 4.0 / scale]) {
        assert!((got - expected).abs() < 1e-6);
    }
}

#[test]
fn a_kernel_of_msl_text_fails_the_command_buffer() {
    let (device, [x]) = buffers([&[1.0]]);
    let mut registry = KernelRegistry::new();
    registry.register_source("mine", "kernel void mine() {}");
    let pipeline = registry.get_pipeline("mine", device.metal_device()).unwrap();
    let mut encoder = device.command_encoder().unwrap();
    let one = MTLSize::new(1, 1, 1);
    encoder.encode(pipeline, &[(0, &x)], one, one);
    let error = encoder.commit_and_wait().unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("mine"), "{error}");
    assert!(matches!(
        registry.get_pipeline("no kernel", device.metal_device()),
        Err(MlxError::KernelNotFound(name)) if name == "no kernel"
    ));
}

/// `y = factor * x + offset`.
const AXPY: &str = "
struct Params { x: u32, y: u32, z: u32, factor: f32, offset: f32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(32) fn axpy(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.x { y[id.x] = p.factor * x[id.x] + p.offset; }
}";

/// Registers a text under the name of its entry point.
fn registered(text: &'static str) -> KernelRegistry {
    let mut registry = KernelRegistry::new();
    registry.register_source("axpy", text);
    registry
}

/// Where the device is the CPU, runs this test once more on the first Vulkan device.
#[test]
fn registered_wgsl_is_dispatched_by_name() {
    let (device, [x, y]) = buffers([&[1.0, 2.0, 3.0, 4.0], &[0.0; 4]]);
    let mut registry = registered(AXPY);
    let found = registry.get_pipeline("axpy", device.metal_device());
    if std::env::var_os("SILICIDE_DEVICE").is_none()
        && let Err(error) = &found
    {
        let error = error.to_string();
        assert!(error.contains("axpy") && error.contains("SILICIDE_DEVICE"), "{error}");
        if let Err(error) = silicide::Device::open("vulkan:0") {
            samples::not_tested(format!("vulkan:0: {error}"));
            return;
        }
        let name = "encoder::registered_wgsl_is_dispatched_by_name";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let status = again.args(["--exact", name]).env("SILICIDE_DEVICE", "vulkan:0").status().unwrap();
        assert!(status.success());
        return;
    }
    let pipeline = found.unwrap();
    let params: Vec<u8> = [2.0f32, 0.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let arguments = [(0, KernelArg::Buffer(&x)), (1, KernelArg::Buffer(&y)), (2, KernelArg::Bytes(&params))];
    let (threads, group) = (MTLSize::new(3, 1, 1), MTLSize::new(32, 1, 1));
    let mut encoder = device.command_encoder().unwrap();
    encoder.encode_with_args(pipeline, &arguments, threads, group);
    encoder.commit_and_wait().unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [2.5, 4.5, 6.5, 0.0]);
    let mut encoder = device.command_encoder().unwrap();
    encoder.encode_with_args(pipeline, &arguments[1..], threads, group);
    let error = encoder.commit_and_wait().unwrap_err().to_string();
    assert!(error.contains("slot 0"), "{error}");
    let broken = registered("@compute @workgroup_size(1)\nfn axpy() { let x = y; }")
        .get_pipeline("axpy", device.metal_device())
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(&broken, MlxError::ShaderCompilationError { name, .. } if name == "axpy"));
    assert!(broken.to_string().contains("line 2, column 21"), "{broken}");
}

#[test]
fn commands_after_a_commit_are_submitted_by_the_next() {
    let (device, [a, b, c]) = buffers([&[1.0], &[2.0], &[3.0]]);
    let mut encoder = device.command_encoder().unwrap();
    encoder.blit_copy_bytes(&a, 0, &b, 0, 4).unwrap();
    encoder.commit();
    encoder.commit();
    encoder.blit_copy_bytes(&b, 0, &c, 0, 4).unwrap();
    encoder.commit_and_wait().unwrap();
    assert_eq!(c.as_slice::<f32>().unwrap(), [1.0]);
}

#[test]
fn copies_out_of_range_or_over_themselves_are_refused() {
    let (device, [a]) = buffers([&[1.0, 2.0, 3.0]]);
    let mut encoder = device.command_encoder().unwrap();
    assert!(encoder.blit_copy_bytes(&a, 8, &a, 0, 8).is_err());
    assert!(encoder.blit_copy_bytes(&a, u64::MAX, &a, 0, 8).is_err());
    let error = encoder.blit_copy_bytes(&a, 0, &a, 4, 8).unwrap_err();
    assert!(error.to_string().contains("overlapping same-buffer ranges"));
    encoder.blit_copy_bytes(&a, 4, &a, 4, 4).unwrap();
    encoder.start_capture();
    assert!(encoder.blit_copy_bytes(&a, 0, &a, 4, 4).unwrap_err().to_string().contains("graph capture"));
}

#[test]
fn a_captured_kernel_refuses_operands_that_are_not_its_own() {
    let (device, [a, b, sum, other]) = buffers([&[1.0], &[2.0], &[0.0], &[7.0]]);
    let registry = &mut KernelRegistry::new();
    let mut encoder = device.command_encoder().unwrap();
    encoder.start_capture();
    elementwise_add(&mut encoder, registry, device.metal_device(), &a, &b, &sum, 1, DType::F32).unwrap();
    let nodes = encoder.take_capture().unwrap();
    let [CapturedNode::Dispatch { pipeline, bindings, .. }] = nodes.as_slice() else { panic!("{nodes:?}") };
    let one = MTLSize::new(1, 1, 1);
    let mut own = device.command_encoder().unwrap();
    own.replay_dispatch(pipeline, bindings, &[], one, one, DispatchKind::Threads);
    own.commit_and_wait().unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap(), [3.0]);
    let mut foreign = device.command_encoder().unwrap();
    foreign.encode(pipeline, &[(0, &a), (1, &other), (2, &sum)], one, one);
    let error = foreign.commit_and_wait().unwrap_err().to_string();
    assert!(error.contains("slot 1"), "{error}");
    let mut incomplete = device.command_encoder().unwrap();
    incomplete.encode(pipeline, &[(0, &a), (1, &b)], one, one);
    let error = incomplete.commit_and_wait().unwrap_err().to_string();
    assert!(error.contains("captured with 3 operands, got 2"), "{error}");
    assert_eq!(sum.as_slice::<f32>().unwrap(), [3.0]);
}
