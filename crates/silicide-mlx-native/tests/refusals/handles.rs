//! Buffers, encoders, registries, workers and graphs.

use super::{Refusals, of};
use mlx_native::{
    DType, EncoderWorker, GgmlRoutingPolicy, GgmlTensorMmPreference, GraphExecutor, KernelRegistry,
    MlxDevice, MlxError,
};

#[test]
fn uploads_need_the_exact_length() {
    let device = MlxDevice::new().unwrap();
    for (bytes, shape) in [(7, vec![2]), (8, vec![3]), (8, vec![usize::MAX, 4]), (0, vec![0])] {
        let refused = device.upload_shared_bytes(&vec![0; bytes], DType::F32, shape);
        assert!(matches!(refused, Err(MlxError::InvalidArgument(_))), "{bytes}: {refused:?}");
    }
    assert_eq!(device.upload_shared_bytes(&[0; 8], DType::F32, vec![2]).unwrap().data_byte_len(), 8);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let device = MlxDevice::new().unwrap();
    let buffer = of(&device, DType::F32, 4);
    for shape in [vec![5], vec![2, 3], vec![usize::MAX, usize::MAX]] {
        assert!(buffer.with_shape(shape).is_err());
    }
    assert_eq!(buffer.with_shape(vec![2, 2]).unwrap().shape(), [2, 2]);
    // A logical slice covers the shape alone, and only if it is there.
    let wide = device.alloc_buffer(8, DType::F32, vec![3]).unwrap();
    assert!(wide.as_logical_slice::<f32>().is_err());
}

#[test]
fn copies_of_nothing_are_refused() {
    let mut refusals = Refusals::new();
    let from = refusals.buffer(DType::F32, 4);
    refusals.refused("zero bytes", |encoder, _, _, output| encoder.blit_copy_bytes(&from, 0, output, 0, 0));
    refusals.end();
}

#[test]
fn kernels_need_a_name() {
    let mut registry = KernelRegistry::new();
    assert!(registry.try_register_source("", "kernel void f() {}").is_err());
    let device = MlxDevice::new().unwrap();
    let missing = registry.get_pipeline_with_bool_constants("no kernel", device.metal_device(), &[(0, true)]);
    assert!(matches!(missing, Err(MlxError::KernelNotFound(name)) if name == "no kernel"));
}

#[test]
fn a_routing_policy_is_fixed_once() {
    let mut registry = KernelRegistry::new();
    let policy = GgmlRoutingPolicy::default();
    registry.freeze_ggml_routing_policy(policy.clone()).unwrap();
    registry.freeze_ggml_routing_policy(policy.clone()).unwrap();
    let other = GgmlRoutingPolicy { dense_tensor_mm: GgmlTensorMmPreference::ForceSimd, ..policy.clone() };
    assert!(registry.freeze_ggml_routing_policy(other).is_err());
    assert_eq!(registry.ggml_routing_policy(), Some(&policy));
}

#[test]
fn a_worker_takes_nothing_after_its_shutdown() {
    let mut worker = EncoderWorker::spawn();
    let (sender, receiver) = std::sync::mpsc::channel();
    worker.submit(move || sender.send(1).unwrap()).unwrap();
    worker.shutdown();
    assert_eq!(receiver.recv(), Ok(1));
    assert!(worker.submit(|| ()).is_err());
}

#[test]
fn graphs_without_ranges_are_not_reordered() {
    let refusals = Refusals::new();
    let (device, output, registry) =
        (refusals.device.clone(), refusals.output.clone(), &mut KernelRegistry::new());
    let executor = GraphExecutor::new(device.clone());
    let mut session = executor.begin_recorded().unwrap();
    // No `barrier_between` says what the dispatch touches.
    session
        .elementwise_add(registry, device.metal_device(), &output, &output, &output, 4, DType::F32)
        .unwrap();
    let error = session.finish_with_reorder().unwrap_err().to_string();
    assert!(error.contains("lack complete buffer ranges"), "{error}");
    refusals.end();
}
