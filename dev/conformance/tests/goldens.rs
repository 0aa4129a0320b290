//! Golden blocks and groups on devices: every element that a format's WGSL decodes is within one unit in the last place
//! of the reference's.
//!
//! Vulkan lets devices take numbers below the normal range of f32 for zero, so where such a number is expected zero is
//! right too. Everything else is not left to the device: halves below the normal range of f16 are normal as f32.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use safetensors::{Dtype, SafeTensors};
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Isa, Result, Weight};
use silicide_ops::dequantize;
use silicide_quant::{DType, Encoding, Format, MlxFormat, bf16, f16};
use std::path::Path;

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(file))
}

/// Returns the blocks of a format that the reference wrote, and its decoding of them.
fn golden_blocks(format: Format) -> (Vec<u8>, Vec<f32>) {
    let file = read(&format!("ggml/{}.safetensors", format.name().to_uppercase())).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let tensor = |name: &str| tensors.tensor(name).unwrap().data();
    (tensor("enc").to_vec(), floats(tensor("dec")))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect()
}

/// How many floats lie between two, counting the second.
fn ulps(a: f32, b: f32) -> u64 {
    let order = |x: f32| {
        let magnitude = i64::from(x.to_bits() & 0x7fff_ffff);
        if x.is_sign_negative() { -magnitude } else { magnitude }
    };
    order(a).abs_diff(order(b))
}

/// Holds decoded values against what they must be.
#[track_caller]
fn check(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let same = got.is_nan() && expected.is_nan();
        let flushed = expected.is_subnormal() && got == 0.0;
        let near = !got.is_nan() && !expected.is_nan() && ulps(got, expected) <= 1;
        assert!(same || flushed || near, "{what}: element {i} is {got:e}, not {expected:e}");
    }
}

/// Returns a buffer of `bytes`, of type `dtype`, in rows of `last` elements.
fn buffer(device: &Device, bytes: &[u8], dtype: DType, last: usize) -> Result<Buffer> {
    let elements = bytes.len() / dtype.block_bytes() * dtype.block_len();
    let raw = Buffer::from_slice(device, [bytes.len()], bytes)?.reinterpret(dtype)?;
    raw.reshape([elements / last, last])
}

fn decoded(device: &Device, format: Format, bytes: &[u8]) -> Result<Vec<f32>> {
    let x = buffer(device, bytes, format.into(), format.block_len())?;
    let mut encoder = CommandEncoder::new(device);
    let y = dequantize(&mut encoder, &x, DType::F32)?;
    encoder.submit()?.wait()?;
    y.to_vec::<f32>()
}

/// Planes of codes, scales and biases.
type Planes<'a> = [&'a [u8]; 3];

fn mlx_decoded(device: &Device, format: MlxFormat, [packed, scales, biases]: Planes<'_>) -> Result<Vec<f32>> {
    let groups = scales.len() / format.scale_dtype().size();
    let mut planes = vec![
        buffer(device, packed, DType::U32, packed.len() / 4)?,
        buffer(device, scales, format.scale_dtype(), groups)?,
    ];
    if format.has_biases() {
        planes.push(buffer(device, biases, format.scale_dtype(), groups)?);
    }
    let weight = Weight::new(Encoding::Planes(format), planes)?;
    let mut encoder = CommandEncoder::new(device);
    let y = dequantize(&mut encoder, &weight, DType::F32)?;
    encoder.submit()?.wait()?;
    y.to_vec::<f32>()
}

/// Vulkan.
fn vulkan() -> Vec<Device> {
    vec![Device::open("vulkan:0").unwrap()]
}

/// The CPU with every instruction set that it has, one after the other.
fn cpus() -> Vec<Device> {
    let open = |isa: Isa| {
        let mut options = DeviceOptions::default();
        options.isa = Some(isa);
        samples::note_isa(isa.name(), "golden blocks");
        Device::open_with("cpu", &options).unwrap()
    };
    Isa::available().into_iter().map(open).collect()
}

#[test]
fn golden_blocks_are_within_an_ulp_on_vulkan() {
    vulkan().iter().for_each(check_golden_blocks);
}

#[test]
fn golden_blocks_are_within_an_ulp_on_every_instruction_set() {
    cpus().iter().for_each(check_golden_blocks);
}

#[test]
fn golden_groups_are_within_an_ulp_on_vulkan() {
    vulkan().iter().for_each(check_golden_groups);
}

#[test]
fn golden_groups_are_within_an_ulp_on_every_instruction_set() {
    cpus().iter().for_each(check_golden_groups);
}

#[test]
fn scales_of_every_size_are_within_an_ulp_on_vulkan() {
    vulkan().iter().for_each(check_scales);
}

#[test]
fn scales_of_every_size_are_within_an_ulp_on_every_instruction_set() {
    cpus().iter().for_each(check_scales);
}

#[test]
fn mlx_scales_of_every_size_are_within_an_ulp_on_vulkan() {
    vulkan().iter().for_each(check_mlx_scales);
}

#[test]
fn mlx_scales_of_every_size_are_within_an_ulp_on_every_instruction_set() {
    cpus().iter().for_each(check_mlx_scales);
}

fn check_golden_blocks(device: &Device) {
    for format in Format::ALL {
        let (blocks, expected) = golden_blocks(format);
        check(format.name(), &decoded(device, format, &blocks).unwrap(), &expected);
    }
}

fn check_golden_groups(device: &Device) {
    let mut seen = 0;
    for format in MlxFormat::all() {
        let dtype = if format.has_biases() { format.scale_dtype() } else { DType::F32 };
        let file = read(&format!("mlx/mlx_{}_{dtype}.safetensors", format.mode())).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let tensor = |field: &str| tensors.tensor(&format!("b{}_g{}.{field}", format.bits(), format.group()));
        let (packed, scales, biases) = (tensor("wq").unwrap(), tensor("scales").unwrap(), tensor("biases"));
        let bytes = matches!(scales.dtype(), Dtype::U8);
        assert_eq!(bytes, format.scale_dtype() == DType::U8);
        let biases = biases.as_ref().map_or(&[][..], |biases| biases.data());
        let got = mlx_decoded(device, format, [packed.data(), scales.data(), biases]).unwrap();
        check(&format.to_string(), &got, &floats(tensor("deq_f32").unwrap().data()));
        seen += 1;
    }
    assert_eq!(seen, 57);
}

/// Blocks of pseudo-random bytes, with every pair of bytes in turn replaced by halves of all kinds: wherever a format
/// keeps its scales, they are there.
fn check_scales(device: &Device) {
    let halves = [0x0001u16, 0x8001, 0x0203, 0x03ff, 0x0400, 0x0000, 0x8000, 0x7bff, 0x3c01];
    for format in Format::ALL {
        let (golden, _) = golden_blocks(format);
        let block = &golden[golden.len() - format.block_bytes()..];
        let mut blocks = Vec::new();
        for at in (0..block.len() - 1).step_by(2) {
            for half in halves {
                let start = blocks.len();
                blocks.extend_from_slice(block);
                blocks[start + at..start + at + 2].copy_from_slice(&half.to_le_bytes());
            }
        }
        let mut expected = vec![0.0; blocks.len() / format.block_bytes() * format.block_len()];
        format.decode(&blocks, &mut expected).unwrap();
        check(format.name(), &decoded(device, format, &blocks).unwrap(), &expected);
    }
    // Every exponent of the formats that have one as a byte.
    for exponent in 0..=255 {
        let (mut block, _) = golden_blocks(Format::Mxfp4);
        block.truncate(Format::Mxfp4.block_bytes());
        block[0] = exponent;
        let mut expected = vec![0.0; 32];
        Format::Mxfp4.decode(&block, &mut expected).unwrap();
        check(&format!("mxfp4, 2^{exponent}"), &decoded(device, Format::Mxfp4, &block).unwrap(), &expected);
    }
}

fn check_mlx_scales(device: &Device) {
    for format in MlxFormat::all() {
        // One group for each byte, or for each of some floats.
        let some = [1e-7f32, -6e-8, 3e-5, 0.0, 1.0, -1.5, 60_000.0, 1e-20, 1.2e-38, 3e38];
        let scales: Vec<u8> = match format.scale_dtype() {
            DType::F16 => {
                some.iter().flat_map(|&x| f16::from_f32(x.clamp(-6e4, 6e4)).to_le_bytes()).collect()
            }
            DType::BF16 => some.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
            DType::F32 => some.iter().flat_map(|&x| x.to_le_bytes()).collect(),
            _ => (0..=255).collect(),
        };
        let groups = scales.len() / format.scale_dtype().size();
        let biases: Vec<u8> =
            if format.has_biases() { scales.iter().rev().copied().collect() } else { Vec::new() };
        let sizes = format.plane_bytes(groups * format.group()).unwrap();
        let packed: Vec<u8> = (0..sizes.packed).map(|i| (i * 37 + i / 251 * 11) as u8).collect();
        let mut expected = vec![0.0; groups * format.group()];
        let planes = silicide_quant::MlxPlanes { packed: &packed[..], scales: &scales, biases: &biases };
        format.decode(planes, &mut expected).unwrap();
        let got = mlx_decoded(device, format, [&packed, &scales, &biases]).unwrap();
        check(&format.to_string(), &got, &expected);
    }
}
