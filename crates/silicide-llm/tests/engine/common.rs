//! Helpers of the engine's tests.

use silicide_core::{CancelToken, Device, DeviceOptions, Isa};
use silicide_llm::ModelOptions;
use silicide_llm::engine::{LogitsFrom, Session};
use silicide_quant::DType;
use std::path::Path;

/// The devices that every model must be right on.
pub(crate) fn devices() -> Vec<Device> {
    vec![Device::cpu().unwrap(), vulkan()]
}

/// The CPU with every instruction set that it has, one after the other, and Vulkan.
pub(crate) fn every_device() -> Vec<Device> {
    Isa::available().into_iter().map(|isa| cpu_with(isa, None)).chain([vulkan()]).collect()
}

/// The CPU with an instruction set and a number of threads.
pub(crate) fn cpu_with(isa: Isa, threads: Option<usize>) -> Device {
    let mut options = DeviceOptions::default();
    (options.isa, options.threads) = (Some(isa), threads);
    samples::note_isa(isa.name(), "engine goldens");
    Device::open_with("cpu", &options).unwrap()
}

/// The device in messages, with its instruction set: `cpu avx2`.
pub(crate) fn label(device: &Device) -> String {
    let info = device.info();
    info.isa.map_or_else(|| info.id.clone(), |isa| format!("{} {isa}", info.id))
}

/// Vulkan with validation: any message is an error.
pub(crate) fn vulkan() -> Device {
    let mut options = DeviceOptions::default();
    options.validation = true;
    Device::open_with("vulkan:0", &options).unwrap()
}

/// Returns the CPU device with `threads` threads.
pub(crate) fn cpu(threads: usize) -> Device {
    let mut options = DeviceOptions::default();
    options.threads = Some(threads);
    Device::open_with("cpu", &options).unwrap()
}

/// A session with a cache of f32.
pub(crate) fn exact_session(device: &Device, path: &Path, chunk: usize) -> Session {
    let mut options = ModelOptions::default();
    (options.key_type, options.value_type) = (DType::F32.into(), DType::F32.into());
    (options.context, options.chunk) = (Some(128), chunk);
    Session::new(&options.device(device).open(path).unwrap()).unwrap()
}

/// The logits of every token, fed in pieces of `size`.
pub(crate) fn logits(session: &mut Session, tokens: &[u32], size: usize) -> Vec<f32> {
    let mut all = Vec::new();
    session.rewind(0);
    for piece in tokens.chunks(size) {
        let expected = session.tokens().len();
        let mut position = expected;
        session
            .feed(piece, LogitsFrom::Token(0), &CancelToken::new(), &mut |at, logits| {
                assert_eq!(at, position);
                position += 1;
                all.extend_from_slice(logits);
                Ok(())
            })
            .unwrap();
        assert_eq!(position, expected + piece.len());
    }
    all
}

/// The squared error relative to the squares of the truth.
pub(crate) fn nmse(got: &[f32], truth: &[f32]) -> f64 {
    assert_eq!(got.len(), truth.len());
    let error: f64 = got.iter().zip(truth).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    error / truth.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>()
}

/// A file of f32.
pub(crate) fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}
