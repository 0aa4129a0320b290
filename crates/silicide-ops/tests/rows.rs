//! A row of a product has the same bits however many rows share the pass, for any number of threads, on each instruction set: dense
//! weights, and blocks that are multiplied exactly.
#![allow(clippy::unwrap_used, clippy::panic)]

use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Isa, Recorder};
use silicide_ops::case::{Data, Input};
use silicide_ops::matmul::Matmul;
use silicide_quant::{DType, Format};

/// Multiplies the first `m` rows of `activations` with a weight of `[n, k]`.
fn product(device: &Device, activations: &[f32], weight: &Buffer, m: usize) -> Vec<u32> {
    let k = weight.shape().last();
    let x = Buffer::from_slice(device, [m, k], &activations[..m * k]).unwrap();
    let mut encoder = CommandEncoder::new(device);
    let y = encoder.run_one(Matmul { exact: true }, &[&x, weight]).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Devices with one to three threads, of every instruction set of this machine.
fn devices() -> impl Iterator<Item = (Isa, [Device; 3])> {
    Isa::available().into_iter().map(|isa| {
        samples::note_isa(isa.name(), "kernels");
        let open = |threads| {
            let mut options = DeviceOptions::default();
            (options.isa, options.threads) = (Some(isa), Some(threads));
            Device::open_with("cpu", &options).unwrap()
        };
        (isa, [1, 2, 3].map(open))
    })
}

fn check(dtype: DType, [n, k]: [usize; 2], few: &[usize]) {
    let data = if dtype.is_block() { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
    let bytes = Input::of(dtype, &[n, k], data).bytes(7);
    let activations: Vec<f32> = Input::gaussian(DType::F32, &[512, k])
        .bytes(11)
        .as_chunks()
        .0
        .iter()
        .map(|x| f32::from_ne_bytes(*x))
        .collect();
    for (isa, devices) in devices() {
        let mut whole: Option<Vec<u32>> = None;
        for (threads, device) in devices.iter().enumerate() {
            let weight = Buffer::from_slice(device, bytes.len(), &bytes).unwrap();
            let weight = weight.reinterpret(dtype).unwrap().reshape([n, k]).unwrap();
            let every: Vec<usize> = if threads == 0 { few.to_vec() } else { vec![1, 5, 9, 70] };
            for m in every.into_iter().chain([512]) {
                let got = product(device, &activations, &weight, m);
                let whole = whole.get_or_insert_with(|| product(device, &activations, &weight, 512));
                assert!(got == whole[..m * n], "{dtype} {isa}, {m} rows, {} threads", threads + 1);
            }
        }
    }
}

#[test]
fn dense_products_have_the_same_bits_for_every_number_of_rows_and_threads() {
    let every: Vec<usize> = (1..=70).collect();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        check(dtype, [112, 331], &every);
        check(dtype, [50, 1029], &[1, 4, 8, 9]);
    }
}

#[test]
fn exact_products_of_blocks_have_the_same_bits_for_every_number_of_rows_and_threads() {
    for format in Format::ALL {
        let k = format.block_len() * 288usize.div_ceil(format.block_len());
        check(DType::Block(format), [50, k], &[1, 2, 3, 4, 5, 8, 9, 16, 17, 70]);
    }
}
