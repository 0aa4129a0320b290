//! A row of a product has the same bits however many rows share the pass, for any number of threads, on each instruction set: dense
//! weights, and blocks that are multiplied exactly.
#![allow(clippy::unwrap_used, clippy::panic)]

use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Isa, Weight};
use silicide_ops::case::{Data, Input};
use silicide_ops::interleave::{TOGETHER, interleave, interleaves};
use silicide_ops::linear_exact;
use silicide_quant::{DType, Encoding, Format, RowEncoding};

/// Multiplies the first `m` rows of `activations` with a weight of `[n, k]`.
fn product(device: &Device, activations: &[f32], weight: &Weight, m: usize) -> Vec<u32> {
    let k = weight.shape().last();
    let x = Buffer::from_slice(device, [m, k], &activations[..m * k]).unwrap();
    let mut encoder = CommandEncoder::new(device);
    let y = linear_exact(&mut encoder, &x, weight, None).unwrap();
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

/// A weight in place, and interleaved if it can be.
fn weights(device: &Device, dtype: DType, [n, k]: [usize; 2], bytes: &[u8]) -> Vec<Weight> {
    let plain = Buffer::from_slice(device, [n, bytes.len() / n], bytes).unwrap();
    let mut weights = vec![Weight::from(plain.reinterpret(dtype).unwrap().reshape([n, k]).unwrap())];
    if interleaves(dtype, n, k) {
        let mut encoder = CommandEncoder::new(device);
        let arranged = interleave(&mut encoder, &plain, dtype).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        let encoding = Encoding::Interleaved { of: RowEncoding::from(dtype), rows: TOGETHER };
        weights.push(Weight::new(encoding, [arranged]).unwrap());
    }
    weights
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
            let weights = weights(device, dtype, [n, k], &bytes);
            let every: Vec<usize> = if threads == 0 { few.to_vec() } else { vec![1, 5, 9, 70] };
            for m in every.into_iter().chain([512]) {
                for weight in &weights {
                    let got = product(device, &activations, weight, m);
                    let whole = whole.get_or_insert_with(|| product(device, &activations, weight, 512));
                    let label = weight.encoding();
                    assert!(got == whole[..m * n], "{label} {isa}, {m} rows, {} threads", threads + 1);
                }
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
        check(DType::Block(format), [48, k], &(1..=70).collect::<Vec<_>>());
    }
}
