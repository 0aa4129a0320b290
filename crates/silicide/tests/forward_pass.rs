//! The example that does a forward pass by hand computes what an f64 reference computes from the same file.

#[path = "../examples/06_forward_pass.rs"]
#[expect(dead_code, reason = "the example's own `main` is not called")]
mod example;

use silicide::Device;

#[test]
fn the_example_is_right_on_every_device() {
    let golden = std::fs::read_to_string(samples::testdata("models/llama-tied.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&golden).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(golden["sequences"][1]["tokens"].clone()).unwrap();
    let truth = std::fs::read(samples::testdata("models/llama-tied.s17.ref64.f32.bin")).unwrap();
    let truth: Vec<f32> =
        truth.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    for device in ["cpu", "vulkan"] {
        let device = Device::open(device).unwrap();
        let mut model = example::Model::open(&device, &samples::testdata("models/llama-tied.gguf")).unwrap();
        // In two pieces, the second of which sees the first through the cache.
        let (first, second) = tokens.split_at(11);
        let mut logits = model.forward(first).unwrap().to_vec::<f32>().unwrap();
        logits.extend(model.forward(second).unwrap().to_vec::<f32>().unwrap());
        assert_eq!(logits.len(), truth.len());
        let square = |value: f32| f64::from(value).powi(2);
        let error: f64 = logits.iter().zip(&truth).map(|(got, truth)| square(got - truth)).sum();
        let error = error / truth.iter().copied().map(square).sum::<f64>();
        assert!(error < 1e-8, "{}: {error:e}", device.info().id);
    }
}
