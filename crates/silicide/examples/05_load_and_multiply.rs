//! Weights from a file: a tensor is used where it lies, in the format it is stored in, and multiplied by one vector.
//!
//! `cargo run --release -p silicide --example 05_load_and_multiply -- [device] [model file or folder] [tensor]`

use silicide::prelude::*;
use silicide::weights::{LoadOptions, Loader, Source};
use std::path::PathBuf;

/// A tiny model whose matrices are in a block format of 8 bits.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/models/llama-tied-q8_0.gguf");

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let device = Device::open(&arguments.next().unwrap_or("best".into()))?;
    let path = arguments.next().map_or(SAMPLE.into(), PathBuf::from);
    let name = arguments.next().unwrap_or("blk.0.attn_q.weight".into());

    // Opening reads names, shapes and places, and checks them; no weight is touched.
    let source = Source::open(&path)?;
    println!("{}: {} tensors", path.display(), source.len());

    // In place where the device can read the mapped file, copied through bounded memory where it can't.
    let mut loader = Loader::new(&device, &source, LoadOptions::default());
    let weight = loader.load(&name)?;
    let report = loader.finish()?;
    println!("{name} {}: {report:?}", weight.shape());

    let columns = weight.shape().axes().last().copied().unwrap_or(0);
    let x: Vec<f32> = (0..columns).map(|i| (i as f32 * 0.1).sin()).collect();
    let x = Buffer::from_slice(&device, [1, columns], &x)?;

    let mut encoder = CommandEncoder::new(&device);
    // Floats, blocks of GGML or planes of MLX: the kernel decodes what it multiplies.
    let y = ops::linear(&mut encoder, &x, &weight, None)?;
    encoder.submit()?.wait()?;
    println!("first values: {:?}", y.read::<f32>()?.get(..4));
    println!("by {}", device.counters().kernels[0].kernel);
    Ok(())
}
