//! The outputs of a pair have the same bits however many other pairs go to its expert, for every encoding, interleaved or not.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use silicide_core::{Buffer, CommandEncoder, Device, Recorder};
use silicide_ops::case::{Data, Input, Random};
use silicide_ops::expert_linear::ExpertLinear;
use silicide_ops::interleave::{Interleave, TOGETHER, interleaves};
use silicide_quant::{DType, Encoding, Format, MlxFormat, MlxPlanes, RowEncoding, Shape, encode};

const EXPERTS: usize = 2;
/// Outputs: more than a tile of any program has at once where rows are few, and no whole vectors.
const N: usize = 53;
/// Pairs that go to the second expert: one, every switch of the programs, and more than a tile of rows.
const PAIRS: [usize; 14] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 70];

#[test]
fn a_pair_has_the_same_bits_in_any_group() {
    for device in common::devices() {
        check(&device);
    }
}

fn check(device: &Device) {
    let elements = [DType::F32, DType::F16, DType::BF16].map(RowEncoding::Element);
    let blocks = Format::ALL.map(RowEncoding::Block);
    let planes = MlxFormat::all().into_iter().map(RowEncoding::Planes);
    for of in elements.into_iter().chain(blocks).chain(planes) {
        // Deeper than what is decoded at a time, and not a multiple of it.
        let k = 288usize.next_multiple_of(of.group_len());
        let planes = weight(device, of, [EXPERTS, N, k]);
        same_bits(device, of.into(), &planes, [N, k]);
        // Rows of single elements may end after the last whole set.
        let n = if of.group_len() > 1 { 4 * TOGETHER } else { N };
        if interleaves(of, n, k) {
            let plain = weight(device, of, [EXPERTS, n, k]);
            let mut encoder = CommandEncoder::new(device);
            let interleave = |(plane, plain): (usize, &Buffer)| {
                let bytes = plain.as_bytes().unwrap();
                let bytes = bytes.reshape([EXPERTS, n, plain.size() / EXPERTS / n]).unwrap();
                encoder.run_one(Interleave { of, plane }, &[&bytes]).unwrap()
            };
            let weight: Vec<Buffer> = plain.iter().enumerate().map(interleave).collect();
            encoder.submit().unwrap().wait().unwrap();
            let in_place = same_bits(device, of.into(), &plain, [n, k]);
            let encoding = Encoding::Interleaved { of, rows: TOGETHER };
            let interleaved = same_bits(device, encoding, &weight, [n, k]);
            assert!(interleaved == in_place, "{encoding}");
        }
    }
}

/// The planes of a weight `[experts, n, k]`.
fn weight(device: &Device, of: RowEncoding, extents: [usize; 3]) -> Vec<Buffer> {
    let mut random = Random::new(13);
    let values: Vec<f64> = (0..extents.iter().product()).map(|_| random.gaussian()).collect();
    let bytes = match of {
        RowEncoding::Element(dtype) => vec![encode(dtype, &values)],
        RowEncoding::Block(format) => vec![Input::of(DType::Block(format), &extents, Data::Blocks).bytes(7)],
        RowEncoding::Planes(format) => {
            let bytes = format.plane_bytes(values.len()).unwrap();
            let mut planes = [bytes.packed, bytes.scales, bytes.biases].map(|bytes| vec![0; bytes]);
            let [packed, scales, biases] = &mut planes;
            let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            format.encode(&values, MlxPlanes { packed, scales, biases }, 1).unwrap();
            planes.to_vec()
        }
        other => panic!("{other}"),
    };
    let shape = Shape::new(&extents).unwrap();
    let plane = |(i, bytes): (usize, &Vec<u8>)| {
        let plane = Encoding::from(of).plane(i, &shape).unwrap();
        let buffer = Buffer::from_slice(device, bytes.len(), bytes).unwrap();
        buffer.reinterpret(plane.dtype).unwrap().reshape(plane.shape).unwrap()
    };
    bytes.iter().take(Encoding::from(of).planes()).enumerate().map(plane).collect()
}

/// The bits of the outputs of every pair, of which the first goes to the first expert and the others to the second.
fn products(device: &Device, op: ExpertLinear, x: &[f32], planes: &[Buffer], pairs: usize) -> Vec<u32> {
    let k = x.len() / (PAIRS[PAIRS.len() - 1] + 1);
    let ids: Vec<u32> = (0..=pairs).map(|pair| u32::from(pair > 0)).collect();
    let x = Buffer::from_slice(device, [pairs + 1, k], &x[..(pairs + 1) * k]).unwrap();
    let ids = Buffer::from_slice(device, [pairs + 1, 1], &ids).unwrap();
    let inputs: Vec<&Buffer> = std::iter::once(&x).chain(planes).chain([&ids]).collect();
    let mut encoder = CommandEncoder::new(device);
    let y = encoder.run_one(op, &inputs).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Checks that a pair has the same bits in any group. Returns the bits of all pairs, quantized and exact.
fn same_bits(device: &Device, encoding: Encoding, planes: &[Buffer], [n, k]: [usize; 2]) -> [Vec<u32>; 2] {
    let mut random = Random::new(29);
    let x: Vec<f32> = (0..(PAIRS[PAIRS.len() - 1] + 1) * k).map(|_| random.gaussian() as f32).collect();
    [false, true].map(|exact| {
        let op = ExpertLinear::new(encoding).with_exact(exact);
        let all = products(device, op, &x, planes, PAIRS[PAIRS.len() - 1]);
        assert!(all.iter().all(|bits| f32::from_bits(*bits).is_finite()));
        for pairs in PAIRS {
            let some = products(device, op, &x, planes, pairs);
            assert!(some == all[..(pairs + 1) * n], "{encoding}, exact {exact}, {pairs} pairs");
        }
        // A pair alone in its call is not grouped at all.
        let one = Buffer::from_slice(device, [1, k], &x[k..2 * k]).unwrap();
        let id = Buffer::from_slice(device, [1, 1], &[1u32]).unwrap();
        let inputs: Vec<&Buffer> = std::iter::once(&one).chain(planes).chain([&id]).collect();
        let mut encoder = CommandEncoder::new(device);
        let y = encoder.run_one(op, &inputs).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        let alone: Vec<u32> = y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
        assert!(alone == all[n..2 * n], "{encoding}, exact {exact}, a pair alone");
        all
    })
}
