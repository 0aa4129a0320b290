//! Captures, and passes over them.

use super::buffers;
use mlx_native::{ComputeGraph, DType, GraphExecutor, KernelRegistry, MlxBuffer};

#[test]
fn a_capture_runs_when_it_is_encoded_and_not_before() {
    let (device, [a, sum]) = buffers([&[1.0], &[0.0]]);
    let mut encoder = device.command_encoder().unwrap();
    encoder.start_capture();
    let registry = &mut KernelRegistry::new();
    let metal = device.metal_device();
    mlx_native::ops::elementwise::elementwise_add(&mut encoder, registry, metal, &a, &a, &sum, 1, DType::F32)
        .unwrap();
    let graph = ComputeGraph::from_nodes(encoder.take_capture().unwrap());
    encoder.commit_and_wait().unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap(), [0.0]);
    let mut encoder = device.command_encoder().unwrap();
    assert_eq!(graph.encode_with_barriers(&mut encoder), 0);
    encoder.commit_and_wait().unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap(), [2.0]);
}

/// `c = (a + a) * a` and `e = d + d`, with a barrier between dependent dispatches.
fn record(
    session: &mut mlx_native::GraphSession<'_>,
    metal: &mlx_native::metal::DeviceRef,
    buffers: [&MlxBuffer; 5],
) {
    let registry = &mut KernelRegistry::new();
    let [a, b, c, d, e] = buffers;
    session.barrier_between(&[a], &[b]);
    session.elementwise_add(registry, metal, a, a, b, 1, DType::F32).unwrap();
    session.barrier_between(&[a, b], &[c]);
    session.elementwise_mul(registry, metal, a, b, c, 1, DType::F32).unwrap();
    session.barrier_between(&[d], &[e]);
    session.elementwise_add(registry, metal, d, d, e, 1, DType::F32).unwrap();
}

#[test]
fn reordering_moves_independent_dispatches_and_keeps_results() {
    let (device, [a, b, c, d, e]) = buffers([&[3.0], &[0.0], &[0.0], &[4.0], &[0.0]]);
    let executor = GraphExecutor::new(device.clone());
    let mut session = executor.begin_recorded().unwrap();
    record(&mut session, device.metal_device(), [&a, &b, &c, &d, &e]);
    assert_eq!(session.finish_with_reorder().unwrap(), (1, 1));
    assert_eq!(c.as_slice::<f32>().unwrap(), [18.0]);
    assert_eq!(e.as_slice::<f32>().unwrap(), [8.0]);
}

#[test]
fn a_norm_and_the_product_that_reads_it_are_fused() {
    let (device, [x, weight, y, z, params]) =
        buffers([&[3.0, 4.0], &[1.0, 1.0], &[0.0, 0.0], &[0.0, 0.0], &[0.0, 2.0]]);
    let executor = GraphExecutor::new(device.clone());
    let registry = &mut KernelRegistry::new();
    let metal = device.metal_device();
    let mut session = executor.begin_recorded().unwrap();
    session.barrier_between(&[&x, &weight], &[&y]);
    session.rms_norm(registry, metal, &x, &weight, &y, &params, 1, 2).unwrap();
    session.barrier_between(&[&y, &x], &[&z]);
    session.elementwise_mul(registry, metal, &y, &x, &z, 2, DType::F32).unwrap();
    assert_eq!(session.finish_with_fusion(registry, metal).unwrap(), 1);
    let scale = 12.5f32.sqrt();
    for (got, expected) in z.as_slice::<f32>().unwrap().iter().zip([9.0 / scale, 16.0 / scale]) {
        assert!((got - expected).abs() < 1e-5);
    }
}
