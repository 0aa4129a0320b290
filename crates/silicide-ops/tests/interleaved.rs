//! Interleaving weights changes no bit of a product or a row, whatever the format and the number of rows.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use silicide_core::{Buffer, CommandEncoder, Device, Weight};
use silicide_ops::case::{Data, Input};
use silicide_ops::interleave::{TOGETHER, interleave, interleaves};
use silicide_ops::{dequantize, gather_rows, linear, linear_exact};
use silicide_quant::{DType, Encoding, Format, RowEncoding};

#[test]
fn products_have_the_same_bits_as_with_plain_weights() {
    for device in common::devices() {
        check(&device);
    }
}

fn bits(y: Buffer) -> Vec<u32> {
    y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn check(device: &Device) {
    let mut tried = 0;
    let elements = [DType::F32, DType::F16, DType::BF16];
    for dtype in elements.into_iter().chain(Format::ALL.map(DType::Block)) {
        let of = RowEncoding::from(dtype);
        // Rows of single elements may end after the last whole set.
        let n = if dtype.is_block() { 3 * TOGETHER } else { 3 * TOGETHER + 5 };
        let k = 288usize.next_multiple_of(dtype.block_len());
        if !interleaves(of, n, k) {
            continue;
        }
        tried += 1;
        let data = if dtype.is_block() { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
        let bytes = Input::of(dtype, &[n, k], data).bytes(7);
        let plain = Buffer::from_slice(device, [n, bytes.len() / n], &bytes).unwrap();
        let weight = plain.reinterpret(dtype).unwrap().reshape([n, k]).unwrap();
        let mut encoder = CommandEncoder::new(device);
        let bytes = interleave(&mut encoder, &plain, of).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        let encoding = Encoding::Interleaved { of, rows: TOGETHER };
        let arranged = Weight::new(encoding, [bytes]).unwrap();
        for m in [1, 2, 4, 5, 17, 40] {
            let x: Vec<f32> = (0..m * k).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
            let x = Buffer::from_slice(device, [m, k], &x).unwrap();
            let mut encoder = CommandEncoder::new(device);
            let expected = linear(&mut encoder, &x, &weight, None).unwrap();
            let got = linear(&mut encoder, &x, &arranged, None).unwrap();
            let exact = linear_exact(&mut encoder, &x, &weight, None).unwrap();
            let got_exact = linear_exact(&mut encoder, &x, &arranged, None).unwrap();
            encoder.submit().unwrap().wait().unwrap();
            assert_eq!(bits(got), bits(expected), "{of}, {m} rows");
            assert_eq!(bits(got_exact), bits(exact), "{of}, {m} rows, exact");
        }
        let mut encoder = CommandEncoder::new(device);
        let ids = Buffer::from_slice(device, [3], &[17u32, 0, n as u32 - 1]).unwrap();
        let [plain, arranged] = [&Weight::from(weight), &arranged].map(|weight| {
            let values = dequantize(&mut encoder, weight, DType::F32).unwrap();
            (values, gather_rows(&mut encoder, weight, &ids, DType::F32).unwrap())
        });
        encoder.submit().unwrap().wait().unwrap();
        assert_eq!(bits(plain.0), bits(arranged.0), "{of}");
        assert_eq!(bits(plain.1), bits(arranged.1), "{of}");
    }
    assert!(tried >= 19, "{tried} formats");
}
