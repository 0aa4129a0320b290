//! Products of quantized rows, on every instruction set: rows that are quantized once, and rows that are any bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::devices;
use silicide_core::hal::Command;
use silicide_core::kernel::{Op, TensorInfo};
use silicide_core::{Buffer, CommandEncoder, Device};
use silicide_ops::case::{Data, Input, Random};
use silicide_ops::quantize_q8::QuantizeQ8;
use silicide_ops::{expert_linear, linear, linear_input};
use silicide_quant::{DType, Format, Shape};

const ROWS: usize = 5;
const N: usize = 48;
const K: usize = 512;
const EXPERTS: usize = 3;

fn buffer(device: &Device, dtype: DType, axes: &[usize]) -> Buffer {
    let data = if dtype.is_block() { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
    let buffer = Buffer::new(device, dtype, axes).unwrap();
    buffer.as_bytes().unwrap().copy_in(&Input::of(dtype, axes, data).bytes(7)).unwrap();
    buffer
}

/// Shape of the quantized rows of `[ROWS, K]`.
fn quantized_shape() -> Shape {
    let x = TensorInfo::new(DType::F32, Shape::new(&[ROWS, K]).unwrap());
    QuantizeQ8.infer(&[x]).unwrap()[0].shape
}

/// Formats whose products are in integers.
fn formats(device: &Device) -> Vec<Format> {
    let x = buffer(device, DType::F32, &[ROWS, K]);
    let is_integer = |format: &Format| {
        let weight = buffer(device, DType::Block(*format), &[N, K]);
        let input = linear_input(&mut CommandEncoder::new(device), &x, &[&weight]).unwrap();
        input.dtype() == DType::U8
    };
    Format::ALL.into_iter().filter(is_integer).collect()
}

#[test]
fn an_input_that_is_recorded_for_several_products_is_quantized_once() {
    for device in devices() {
        let x = buffer(&device, DType::F32, &[ROWS, K]);
        let weights = [Format::Q4_0, Format::Q6K, Format::Q8_0]
            .map(|format| buffer(&device, DType::Block(format), &[N, K]));
        let record = |is_shared: bool| {
            let mut encoder = CommandEncoder::new(&device);
            let input = match is_shared {
                true => linear_input(&mut encoder, &x, &weights.each_ref()).unwrap(),
                false => x.clone(),
            };
            let made = weights.each_ref().map(|weight| linear(&mut encoder, &input, weight, None).unwrap());
            let commands = encoder.list().commands.iter();
            let dispatches = commands.filter(|command| matches!(command, Command::Dispatch(_))).count();
            encoder.submit().unwrap().wait().unwrap();
            let bits = |y: Buffer| y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
            (made.map(|y| -> Vec<u32> { bits(y) }), dispatches)
        };
        let ((alone, six), (shared, four)) = (record(false), record(true));
        assert_eq!(alone, shared, "bits on {device:?}");
        assert_eq!([six, four], [6, 4]);
    }
}

#[test]
fn an_input_with_a_product_in_floats_is_not_quantized() {
    for device in devices() {
        let x = buffer(&device, DType::F32, &[ROWS, K]);
        let blocks = buffer(&device, DType::Block(Format::Q4_0), &[N, K]);
        let dense = buffer(&device, DType::F16, &[N, K]);
        let mut encoder = CommandEncoder::new(&device);
        let input = linear_input(&mut encoder, &x, &[&blocks, &dense]).unwrap();
        assert_eq!(input.dtype(), DType::F32);
    }
}

/// A user may give any bytes as quantized rows. Products of them are some numbers; every output is written.
#[test]
fn products_take_any_bytes_for_quantized_rows() {
    let shape = quantized_shape();
    let mut random = Random::new(3);
    for device in devices() {
        let ids = Buffer::from_slice(&device, [ROWS, 1], &[0u32, 2, 1, 2, 2]).unwrap();
        for format in formats(&device) {
            let weight = buffer(&device, DType::Block(format), &[N, K]);
            let experts = buffer(&device, DType::Block(format), &[EXPERTS, N, K]);
            let any: Vec<u8> = (0..shape.elements()).map(|_| random.bits() as u8).collect();
            for bytes in [any, vec![0x80; shape.elements()], vec![0x7f; shape.elements()]] {
                let q = Buffer::from_slice(&device, shape, &bytes).unwrap();
                let made = || {
                    let mut encoder = CommandEncoder::new(&device);
                    let y = linear(&mut encoder, &q, &weight, None).unwrap();
                    let of_experts = expert_linear(&mut encoder, &q, &experts, &ids).unwrap();
                    encoder.submit().unwrap().wait().unwrap();
                    [y, of_experts].map(|y| y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits))
                };
                let [first, second] = [made(), made()].map(|made| made.map(Vec::from_iter));
                assert_eq!(first, second, "{format:?} on {device:?}");
            }
        }
    }
}

#[test]
fn quantized_rows_of_another_length_or_between_words_are_refused() {
    let shape = quantized_shape();
    for device in devices() {
        let weight = buffer(&device, DType::Block(Format::Q8_0), &[N, K]);
        let memory = Buffer::new(&device, DType::U8, [shape.elements() + 64]).unwrap();
        let mut encoder = CommandEncoder::new(&device);
        let row = shape.last();
        for (start, axes) in [(1, [ROWS, row]), (2, [ROWS, row]), (0, [ROWS, K]), (0, [1, row + 64])] {
            let view = memory.slice(start..start + axes[0] * axes[1]).unwrap().reshape(axes).unwrap();
            linear(&mut encoder, &view, &weight, None).unwrap_err();
        }
        let view = memory.slice(4..4 + ROWS * row).unwrap().reshape([ROWS, row]).unwrap();
        linear(&mut encoder, &view, &weight, None).unwrap();
    }
}
