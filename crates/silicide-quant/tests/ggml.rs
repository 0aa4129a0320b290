//! GGML formats against golden blocks, and every instruction set against the portable code.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use safetensors::SafeTensors;
use silicide_quant::{DType, Format, Isa, decode_into, encode_into};
use std::collections::HashMap;
use std::path::PathBuf;

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(file)
}

fn gaussian() -> Vec<f32> {
    floats(&std::fs::read(path("gaussian.f32.bin")).unwrap())
}

/// Blocks of the reference, as `testdata/formats/README.md` says.
struct Golden {
    encoded: Vec<u8>,
    decoded: Vec<f32>,
    /// The input of the first half of the blocks, if our encoder must make the same bytes.
    source: Option<Vec<f32>>,
    metadata: HashMap<String, String>,
}

impl Golden {
    fn of(dtype: impl Into<DType>) -> Golden {
        let name = dtype.into().name().to_uppercase();
        let file = path(&format!("ggml/{name}.safetensors"));
        let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let metadata = SafeTensors::read_metadata(&bytes).unwrap().1.metadata().clone().unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let bytes = |name: &str| Some(tensors.tensor(name).ok()?.data());
        Golden {
            encoded: bytes("enc").unwrap().to_vec(),
            decoded: floats(bytes("dec").unwrap()),
            source: bytes("src").map(floats),
            metadata,
        }
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect()
}

/// Bits, with one pattern for all NaN: arithmetic on NaN may return any NaN.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }).collect()
}

/// Repeatable random bytes (splitmix64).
fn random_bytes(count: usize, mut state: u64) -> Vec<u8> {
    std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).to_le_bytes()
    })
    .flatten()
    .take(count)
    .collect()
}

#[test]
fn golden_blocks_decode_to_the_bit() {
    for format in Format::ALL {
        let Golden { encoded, decoded: expected, .. } = Golden::of(format);
        assert_eq!(encoded.len(), 16 * format.block_bytes(), "{format}");
        assert_eq!(expected.len(), 16 * format.block_len(), "{format}");
        for isa in Isa::available() {
            let mut decoded = vec![f32::NAN; expected.len()];
            format.decode_with(isa, &encoded, &mut decoded).unwrap();
            let different = decoded.iter().zip(&expected).position(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(different, None, "{format} on {isa}");
        }
    }
}

#[test]
fn golden_halves_decode_to_the_bit() {
    for dtype in [DType::F16, DType::BF16] {
        let Golden { encoded, decoded: expected, .. } = Golden::of(dtype);
        let mut decoded = vec![f32::NAN; expected.len()];
        decode_into(dtype, &encoded, &mut decoded).unwrap();
        assert!(decoded.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{dtype}");
        let mut again = vec![0; encoded.len()];
        encode_into(dtype, &decoded, &mut again, 1).unwrap();
        assert_eq!(again, encoded, "{dtype}");
    }
}

#[test]
fn instruction_sets_agree_on_any_bytes() {
    for format in Format::ALL {
        let bytes = random_bytes(257 * format.block_bytes(), format.info().ggml_id.into());
        let mut expected = vec![0.0; 257 * format.block_len()];
        format.decode_with(Isa::PORTABLE, &bytes, &mut expected).unwrap();
        for isa in Isa::available() {
            let mut decoded = vec![0.0; expected.len()];
            format.decode_with(isa, &bytes, &mut decoded).unwrap();
            assert!(bits(&decoded) == bits(&expected), "{format} on {isa}");
        }
    }
}

fn rmse(a: &[f32], b: &[f32]) -> f64 {
    let squares: f64 = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    (squares / a.len() as f64).sqrt()
}

#[test]
fn encoders_are_as_good_as_the_reference() {
    let values = gaussian();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for format in Format::ALL {
        let mut encoded = vec![0; format.bytes_of(values.len()).unwrap()];
        encode_into(format.into(), &values, &mut encoded, threads).unwrap();
        let mut decoded = vec![0.0; values.len()];
        format.decode(&encoded, &mut decoded).unwrap();
        let expected: f64 = Golden::of(format).metadata["rmse"].parse().unwrap();
        let got = rmse(&values, &decoded);
        println!("{format}: {got:.6}, {:.4} of the reference", got / expected);
        assert!(got <= expected * 1.001, "{format}: {got} against {expected}");
    }
}

#[test]
fn simple_encoders_give_the_bytes_of_the_reference() {
    let mut tested = 0;
    for format in Format::ALL {
        let golden = Golden::of(format);
        let Some(values) = golden.source else { continue };
        let expected = &golden.encoded[..8 * format.block_bytes()];
        tested += 1;
        for isa in Isa::available() {
            let mut encoded = vec![0; expected.len()];
            format.encode_with(isa, &values, &mut encoded).unwrap();
            assert_eq!(encoded, expected, "{format} on {isa}");
        }
    }
    // Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, TQ1_0, TQ2_0, Q1_0.
    assert!(tested >= 9, "{tested}");
}

#[test]
fn members_are_those_of_the_reference() {
    for format in Format::ALL {
        let members = format.info().members.iter().map(|member| format!("{}*{}", member.count, member.width));
        let expected = &Golden::of(format).metadata["members"];
        assert_eq!(&members.collect::<Vec<_>>().join(" "), expected, "{format}");
    }
}

#[test]
fn every_golden_file_is_of_a_type_and_names_its_source() {
    for entry in std::fs::read_dir(path("ggml")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_lowercase();
        let dtype = DType::from_name(&name).unwrap_or_else(|| panic!("{} is of no type", file.display()));
        assert!(!Golden::of(dtype).metadata["source"].is_empty(), "{name}");
    }
}

#[test]
fn instruction_sets_encode_to_the_same_bytes() {
    let values = gaussian();
    for format in Format::ALL {
        let encoded = Isa::available().into_iter().map(|isa| {
            let mut encoded = vec![0; format.bytes_of(1024).unwrap()];
            format.encode_with(isa, &values[..1024], &mut encoded).unwrap();
            encoded
        });
        let mut encoded: Vec<_> = encoded.collect();
        encoded.dedup();
        assert_eq!(encoded.len(), 1, "{format}");
    }
}

#[test]
fn encoders_take_any_values() {
    let special =
        [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45, -1e-38, 1.0];
    for format in Format::ALL {
        let len = format.block_len();
        let round_trip = |values: &[f32]| {
            let mut encoded = vec![0; format.bytes_of(values.len()).unwrap()];
            format.encode(values, &mut encoded).unwrap();
            let mut decoded = vec![f32::NAN; values.len()];
            format.decode(&encoded, &mut decoded).unwrap();
            decoded
        };
        assert!(round_trip(&vec![0.0; len]).iter().all(|value| *value == 0.0), "{format}");
        for (i, first) in special.into_iter().enumerate() {
            // A block of one value, and blocks of that value among others.
            round_trip(&vec![first; len]);
            round_trip(&(0..4 * len).map(|j| special[(i + j * j) % special.len()]).collect::<Vec<_>>());
            round_trip(&(0..len).map(|j| if j == i { first } else { j as f32 - 9.5 }).collect::<Vec<_>>());
        }
        // Great and small values that halves hold, and constants, come back near enough.
        for magnitude in [1e-3, 1.0, 1e4] {
            let values: Vec<f32> = (0..len).map(|j| magnitude * (j as f32 * 0.7).sin()).collect();
            let (zeros, error) = (vec![0.0; len], rmse(&values, &round_trip(&values)));
            assert!(error < 0.8 * rmse(&values, &zeros), "{format} at {magnitude}");
        }
    }
}
