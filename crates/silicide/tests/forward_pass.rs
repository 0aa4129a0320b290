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

/// Recorded op by op from weights as they lie in the file, with keys row by row; or captured, fused, from repacked weights, with keys in
/// lanes: on the CPU the logits have the same bits.
#[cfg(feature = "llm")]
#[test]
fn captured_passes_give_the_bits_of_ops_that_are_recorded_one_by_one() {
    use silicide::device::DeviceOptions;
    use silicide::hal::cpu::Isa;
    use silicide::llm::ModelOptions;
    use silicide::llm::engine::{LogitsFrom, Session};
    use silicide::{CancelToken, DType};
    let tokens: Vec<u32> = (0..200).map(|i| (i * i + 7 * i) % 300).collect();
    for isa in Isa::available() {
        let device = Device::open_with("cpu", &DeviceOptions::default().isa(isa)).unwrap();
        for name in ["llama-tied", "llama-tied-f16", "llama-tied-q8_0"] {
            let path = samples::testdata(&format!("models/{name}.gguf"));
            let mut model = example::Model::open(&device, &path).unwrap();
            let (first, second) = tokens.split_at(131);
            let mut recorded = model.forward(first).unwrap().to_vec::<f32>().unwrap();
            recorded.extend(model.forward(second).unwrap().to_vec::<f32>().unwrap());
            let options = ModelOptions::default().device(&device).context(256);
            let options = options.key_type(DType::F32).value_type(DType::F32);
            let mut session = Session::new(&options.open(&path).unwrap()).unwrap();
            let mut captured = Vec::new();
            let sink = &mut |_: usize, row: &[f32]| {
                captured.extend_from_slice(row);
                Ok(())
            };
            session.feed(&tokens, LogitsFrom::Token(0), &CancelToken::new(), sink).unwrap();
            let bits = |logits: &[f32]| logits.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>();
            assert!(bits(&recorded) == bits(&captured), "{name} on {isa}");
        }
    }
}
