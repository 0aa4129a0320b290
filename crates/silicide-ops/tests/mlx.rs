//! A row times weights of MLX has the same bits whatever rows are beside it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use silicide_core::{Buffer, CommandEncoder, Device, Weight};
use silicide_ops::case::Random;
use silicide_ops::{linear, linear_exact};
use silicide_quant::{DType, Encoding, MlxFormat, MlxMode, MlxPlanes};

#[test]
fn rows_have_the_same_bits_alone_and_in_a_batch() {
    for device in common::devices() {
        check(&device);
    }
}

fn check(device: &Device) {
    let (rows, n, k) = (512, 37, 768);
    let mut random = Random::new(13);
    let x: Vec<f32> = (0..rows * k).map(|_| random.gaussian() as f32).collect();
    let values: Vec<f32> = (0..n * k).map(|_| random.gaussian() as f32).collect();
    let mut tried = 0;
    for format in MlxFormat::all().into_iter().filter(|format| format.mode() == MlxMode::Affine) {
        let bytes = format.plane_bytes(n * k).unwrap();
        let (mut packed, mut scales, mut biases) =
            (vec![0; bytes.packed], vec![0; bytes.scales], vec![0; bytes.biases]);
        let planes = MlxPlanes { packed: &mut packed[..], scales: &mut scales[..], biases: &mut biases[..] };
        format.encode(&values, planes, 1).unwrap();
        let plane = |bytes: &[u8], dtype: DType| {
            let buffer = Buffer::from_slice(device, bytes.len(), bytes).unwrap().reinterpret(dtype).unwrap();
            buffer.reshape([n, bytes.len() / n / dtype.size()]).unwrap()
        };
        let scale = format.scale_dtype();
        let planes = [plane(&packed, DType::U32), plane(&scales, scale), plane(&biases, scale)];
        let weight = Weight::new(Encoding::Planes(format), planes).unwrap();
        let product = |m: usize, exact: bool| {
            let x = Buffer::from_slice(device, [m, k], &x[..m * k]).unwrap();
            let mut encoder = CommandEncoder::new(device);
            let y = match exact {
                true => linear_exact(&mut encoder, &x, &weight, None).unwrap(),
                false => linear(&mut encoder, &x, &weight, None).unwrap(),
            };
            encoder.submit().unwrap().wait().unwrap();
            y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        for exact in [false, true] {
            let whole = product(rows, exact);
            for m in 1..=70 {
                assert_eq!(product(m, exact), whole[..m * n], "{format}, {m} rows, exact {exact}");
            }
        }
        tried += 1;
    }
    assert!(tried >= 6, "{tried} formats");
}
