//! MLX formats against golden groups, and every instruction set against the portable code.

use safetensors::{Dtype, SafeTensors};
use silicide_quant::{DType, Isa, MlxFormat, MlxPlanes, decode};
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
            // One pattern for all NaN: arithmetic on NaN may return any NaN.
            out.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<_>>()
        });
        let mut decoded: Vec<_> = decoded.collect();
        decoded.dedup();
        assert_eq!(decoded.len(), 1, "{format}");
    }
}

#[test]
fn encoders_are_as_good_as_the_reference() {
    let reference: serde_json::Value = serde_json::from_slice(&read("index.json").unwrap()).unwrap();
    for format in MlxFormat::all() {
        let dtype = if format.has_biases() { format.scale_dtype().name() } else { "f32" };
        let file = format!("mlx_{}_{dtype}.safetensors", format.mode());
        let prefix = format!("b{}_g{}", format.bits(), format.group());
        let bytes = read(&file).unwrap();
        let original = SafeTensors::deserialize(&bytes).unwrap();
        let original = original.tensor(&format!("{prefix}.w")).unwrap();
        let values: Vec<f32> = decode(scale_dtype(original.dtype()), original.data())
            .into_iter()
            .map(|value| value as f32)
            .collect();

        let lengths = format.plane_bytes(values.len()).unwrap();
        let mut packed = vec![0; lengths.packed];
        let (mut scales, mut biases) = (vec![0; lengths.scales], vec![0; lengths.biases]);
        let planes = MlxPlanes { packed: &mut packed[..], scales: &mut scales, biases: &mut biases };
        format.encode(&values, planes, 2).unwrap();
        let mut decoded = vec![0.0; values.len()];
        let planes = MlxPlanes { packed: &packed[..], scales: &scales, biases: &biases };
        format.decode(planes, &mut decoded).unwrap();

        let squares: f64 = values.iter().zip(&decoded).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        let got = (squares / values.len() as f64).sqrt();
        let expected = reference["files"][&file][&prefix]["rmse_quant"].as_f64().unwrap();
        println!("{format}: {got:.6}, {:.4} of the reference", got / expected);
        assert!(got <= expected * 1.02, "{format}: {got} against {expected}");
    }
}

#[test]
fn encoders_take_any_values() {
    let special =
        [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45, -1e-38, 1.0];
    for format in MlxFormat::all() {
        let lengths = format.plane_bytes(1280).unwrap();
        let (mut packed, mut scales) = (vec![0; lengths.packed], vec![0; lengths.scales]);
        let mut biases = vec![0; lengths.biases];
        let mut round_trip = |values: &[f32]| {
            let planes = MlxPlanes { packed: &mut packed[..], scales: &mut scales, biases: &mut biases };
            format.encode(values, planes, 1).unwrap();
            let mut decoded = vec![f32::NAN; values.len()];
            let planes = MlxPlanes { packed: &packed[..], scales: &scales, biases: &biases };
            format.decode(planes, &mut decoded).unwrap();
            decoded
        };
        assert!(round_trip(&[0.0; 1280]).iter().all(|value| *value == 0.0), "{format}");
        for i in 0..special.len() {
            round_trip(&[special[i]; 1280]);
            round_trip(&(0..1280).map(|j| special[(i + j * j) % special.len()]).collect::<Vec<_>>());
        }
    }
}
