//! Functions that are left out.

use super::buffers;
use mlx_native::KernelRegistry;
use mlx_native::ops::deepseek_hyper_connection::dispatch_hc_pre;
use mlx_native::ops::deepseek_indexer::deepseek_indexer_topk_scratch_elements;

#[test]
fn functions_that_are_left_out_say_so_and_encode_nothing() {
    let (device, [x, weights, output]) = buffers([&[1.0], &[1.0], &[5.0]]);
    let mut encoder = device.command_encoder().unwrap();
    let registry = &mut KernelRegistry::new();
    let error = dispatch_hc_pre(&mut encoder, registry, &device, &x, &weights, &output, 1, 1).unwrap_err();
    assert!(error.to_string().contains("dispatch_hc_pre: left out"), "{error}");
    encoder.commit_and_wait().unwrap();
    assert_eq!(output.as_slice::<f32>().unwrap(), [5.0]);
    assert!(deepseek_indexer_topk_scratch_elements(1, 1, 1).unwrap_err().to_string().contains("left out"));
}
