//! MLX formats against golden groups, and every instruction set against the portable code.

use safetensors::{Dtype, SafeTensors};
use silicide_quant::{DType, Isa, MlxFormat, MlxPlanes};
use std::path::PathBuf;

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/mlx").join(file))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect()
}

fn scale_dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::U8 => DType::U8,
        _ => DType::F32,
    }
}

#[test]
fn golden_groups_decode_to_the_bit() {
    let mut seen = Vec::new();
    for format in MlxFormat::all() {
        let (mode, prefix) = (format.mode(), format!("b{}_g{}", format.bits(), format.group()));
        for dtype in ["f32", "f16", "bf16"] {
            let file = read(&format!("mlx_{mode}_{dtype}.safetensors")).unwrap();
            let tensors = SafeTensors::deserialize(&file).unwrap();
            let tensor = |field: &str| tensors.tensor(&format!("{prefix}.{field}"));
            let scales = tensor("scales").unwrap();
            if scale_dtype(scales.dtype()) != format.scale_dtype() {
                continue;
            }
            seen.push(format);
            let (packed, biases) = (tensor("wq").unwrap(), tensor("biases"));
            let biases = biases.as_ref().map_or(&[][..], |biases| biases.data());
            let planes = MlxPlanes { packed: packed.data(), scales: scales.data(), biases };
            let expected = floats(tensor("deq_f32").unwrap().data());
            for isa in Isa::available() {
                let mut decoded = vec![f32::NAN; expected.len()];
                format.decode_with(isa, planes, &mut decoded).unwrap();
                let different = decoded.iter().zip(&expected).position(|(a, b)| a.to_bits() != b.to_bits());
                assert_eq!(different, None, "{format} on {isa}");
            }
        }
    }
    seen.dedup();
    assert_eq!(seen, MlxFormat::all());
}

#[test]
fn instruction_sets_agree_on_any_bytes() {
    for format in MlxFormat::all() {
        let elements = 20 * 128;
        let bytes = format.plane_bytes(elements).unwrap();
        let plane = |count: usize, factor: usize| -> Vec<u8> {
            (0..count).map(|i| ((i + 1) * factor + i / 255 * 17) as u8).collect()
        };
        let (packed, scales) = (plane(bytes.packed, 37), plane(bytes.scales, 59));
        let biases = plane(bytes.biases, 101);
        let planes = MlxPlanes { packed: &packed[..], scales: &scales, biases: &biases };
        let decoded = Isa::available().into_iter().map(|isa| {
            let mut out = vec![0.0; elements];
            format.decode_with(isa, planes, &mut out).unwrap();
            // One pattern for all NaN: which NaN comes out of arithmetic on NaN is nobody's promise.
            out.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<_>>()
        });
        let mut decoded: Vec<_> = decoded.collect();
        decoded.dedup();
        assert_eq!(decoded.len(), 1, "{format}");
    }
}
