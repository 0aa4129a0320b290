//! GGML formats against golden blocks, and every instruction set against the portable code.

use silicide_quant::{Format, Isa};
use std::path::PathBuf;

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(file))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect()
}

/// Bits, with one pattern for all NaN: which NaN comes out of arithmetic on NaN is nobody's promise.
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
        let name = format.name().to_uppercase();
        let encoded = read(&format!("ggml/{name}.enc.bin")).unwrap();
        let expected = floats(&read(&format!("ggml/{name}.dec.f32.bin")).unwrap());
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
