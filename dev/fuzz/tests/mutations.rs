//! Every fuzz target over the gallery, the good files, and a few thousand mutations of both: the same on every run.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use fuzz::gallery::cases;
use fuzz::targets::TARGETS;
use std::fs;
use std::path::Path;

fn testdata(path: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)).unwrap()
}

/// What mutations start from.
fn seeds() -> Vec<Vec<u8>> {
    let good = [
        "gguf/python.gguf",
        "gguf/python-big-endian.gguf",
        "gguf/split-00001-of-00003.gguf",
        "models/mlx/llama-4bit/config.json",
        "formats/ggml/Q4_K.enc.bin",
        "formats/ggml/IQ3_S.enc.bin",
    ];
    let mut checkpoint = testdata("models/mlx/llama-4bit/config.json");
    checkpoint.push(0);
    // Cut to its header, and a little: fuzz targets need small inputs.
    let model = testdata("models/mlx/llama-4bit/model.safetensors");
    checkpoint.extend(&model[..8192]);
    let mut seeds: Vec<Vec<u8>> = good.iter().map(|path| testdata(path)).collect();
    seeds.push(checkpoint);
    seeds.extend(cases().into_iter().flat_map(|case| case.files).map(|(_, bytes)| bytes));
    seeds
}

/// Numbers at the edges of what lengths and counts may be.
const EDGES: [u64; 8] = [0, 1, 0xff, 1 << 16, 1 << 31, 1 << 32, 1 << 63, u64::MAX];

fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    if bytes.is_empty() {
        return bytes.push(random.u8(..));
    }
    let at = random.usize(..bytes.len());
    match random.u8(..6) {
        0 => bytes[at] ^= 1 << random.u8(..8),
        1 => bytes[at] = random.u8(..),
        2 => bytes.truncate(at),
        3 => bytes.insert(at, random.u8(..)),
        4 => {
            let number = EDGES[random.usize(..EDGES.len())].to_le_bytes();
            bytes.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
        }
        _ => {
            let from = random.usize(..bytes.len());
            let piece: Vec<u8> = bytes[from..].iter().copied().take(random.usize(..64)).collect();
            bytes.splice(at..at, piece);
        }
    }
}

#[test]
fn targets_keep_their_promises() {
    let seeds = seeds();
    for (name, target) in TARGETS {
        let mut random = fastrand::Rng::with_seed(7);
        seeds.iter().for_each(|seed| target(seed));
        for _ in 0..4000 {
            let mut bytes = seeds[random.usize(..seeds.len())].clone();
            (0..random.usize(1..6)).for_each(|_| mutate(&mut bytes, &mut random));
            target(&bytes);
        }
        println!("{name}: {} seeds", seeds.len());
    }
}

/// Every target has its wrapper, and every wrapper its target.
#[test]
fn wrappers_are_complete() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer/fuzz_targets");
    let mut wrapped: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    wrapped.sort();
    let mut names = TARGETS.map(|(name, _)| name.to_owned());
    names.sort();
    assert_eq!(wrapped, names);
}
