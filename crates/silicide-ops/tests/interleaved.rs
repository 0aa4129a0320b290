//! Interleaving weights changes no bit of a product, whatever the format and the number of rows.
#![allow(clippy::unwrap_used, clippy::panic)]

use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Isa};
use silicide_ops::case::{Data, Input};
use silicide_ops::interleave::{TOGETHER, interleave, interleaves};
use silicide_ops::interleaved_matmul::interleaved_matmul;
use silicide_ops::matmul::matmul;
use silicide_quant::{DType, Format};

#[test]
fn products_have_the_same_bits_as_with_plain_weights() {
    for isa in Isa::available() {
        let mut options = DeviceOptions::default();
        options.isa = Some(isa);
        samples::note_isa(isa.name(), "kernels");
        check(&Device::open_with("cpu", &options).unwrap());
    }
}

fn check(device: &Device) {
    let mut tried = 0;
    for format in Format::ALL {
        let (n, k) = (3 * TOGETHER, format.block_len() * 288usize.div_ceil(format.block_len()));
        if !interleaves(format, n, k) {
            continue;
        }
        tried += 1;
        let bytes = Input::of(DType::Block(format), &[n, k], Data::Blocks).bytes(7);
        let plain = Buffer::from_slice(device, [n, bytes.len() / n], &bytes).unwrap();
        let weight = plain.reinterpret(DType::Block(format)).unwrap().reshape([n, k]).unwrap();
        for m in [1, 2, 4, 5, 17, 40] {
            let x: Vec<f32> = (0..m * k).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
            let x = Buffer::from_slice(device, [m, k], &x).unwrap();
            let mut encoder = CommandEncoder::new(device);
            let expected = matmul(&mut encoder, &x, &weight).unwrap();
            let arranged = interleave(&mut encoder, &plain, format).unwrap();
            let got = interleaved_matmul(&mut encoder, &x, &arranged, format).unwrap();
            encoder.submit().unwrap().wait().unwrap();
            let bits =
                |y: Buffer| y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(got), bits(expected), "{format}, {m} rows");
        }
    }
    assert!(tried >= 16, "{tried} formats");
}
