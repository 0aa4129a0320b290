//! Matmul by weight format and number of rows, 8192 columns by a depth of 2048: bytes of weights in a second for few rows,
//! and the part of the machine's peak for many; both limits are measured in the same run.
//!
//! Weights are copies that lie apart, taken in turn, of [`DISTINCT`] bytes together: no cache holds them all. On one thread
//! times are the process's CPU time, which neighbours disturb less than they do the clock.

use crate::limits::{self, Peaks};
use crate::measure::quickest;
use crate::report::{Report, Target};
use serde_json::json;
use silicide_core::Recorder;
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions};
use silicide_ops::matmul::Matmul;
use silicide_ops::mlx::MlxOperands;
use silicide_ops::{interleave, interleaved_matmul, matmul, mlx_matmul};
use silicide_quant::{DType, Format, MlxFormat, MlxMode};
use std::time::Duration;

const COLUMNS: usize = 8192;
const DEPTH: usize = 2048;
/// Bytes of all copies of a weight, where there are few rows: more than the largest caches have.
const DISTINCT: usize = 600 << 20;
/// From this many rows on, one copy does: reading it is a small part.
const MANY: usize = 64;
/// Time for one figure.
const BUDGET: Duration = Duration::from_millis(300);

/// A weight: one tensor, or planes.
enum Weight {
    One(Buffer),
    Exact(Buffer),
    Interleaved(Format, Buffer),
    Planes(MlxFormat, Box<[Buffer; 3]>),
}

/// What is measured, by name: a type of elements, `q4_0-exact` for one that is decoded and multiplied as it is, `q4_0x16` for one
/// that is interleaved, or `mlx4`, `mlx8`... for affine codes of so many bits in groups of 64.
enum Kind {
    One(DType),
    Exact(DType),
    Interleaved(Format),
    Planes(MlxFormat),
}

impl Kind {
    fn of(name: &str) -> anyhow::Result<Kind> {
        if let Some(bits) = name.strip_prefix("mlx") {
            return Ok(Kind::Planes(MlxFormat::new(MlxMode::Affine, bits.parse()?, 64, DType::BF16)?));
        }
        if let Some(dtype) = name.strip_suffix("-exact").and_then(DType::from_name) {
            return Ok(Kind::Exact(dtype));
        }
        if let Some(format) = name.strip_suffix("x16") {
            let format =
                Format::from_name(format).filter(|format| interleave::interleaves(*format, COLUMNS, DEPTH));
            return format
                .map(Kind::Interleaved)
                .ok_or_else(|| anyhow::anyhow!("{name} can't be interleaved"));
        }
        DType::from_name(name).map(Kind::One).ok_or_else(|| anyhow::anyhow!("no format {name}"))
    }

    /// Bytes of a weight.
    fn bytes(&self) -> usize {
        match self {
            Kind::One(dtype) | Kind::Exact(dtype) => {
                COLUMNS * DEPTH / dtype.block_len() * dtype.block_bytes()
            }
            Kind::Interleaved(format) => Kind::One(DType::Block(*format)).bytes(),
            Kind::Planes(format) => {
                COLUMNS * DEPTH * format.bits() / 8 + COLUMNS * DEPTH / format.group() * 4
            }
        }
    }

    /// A weight on a device: a few columns again and again, as encoding takes longer than measuring.
    fn weight(&self, device: &Device) -> anyhow::Result<Weight> {
        let again = |some: &[u8], rows: usize| -> Vec<u8> {
            some.iter().copied().cycle().take(some.len() / rows * COLUMNS).collect()
        };
        let some: Vec<f64> = (0..8 * DEPTH).map(|i| ((i * 53) % 211) as f64 / 211.0 - 0.5).collect();
        match *self {
            Kind::One(dtype) => {
                let bytes = again(&silicide_quant::encode(dtype, &some), 8);
                let b = Buffer::from_slice(device, bytes.len(), &bytes)?;
                Ok(Weight::One(b.reinterpret(dtype)?.reshape([COLUMNS, DEPTH])?))
            }
            Kind::Exact(dtype) => match Kind::One(dtype).weight(device)? {
                Weight::One(weight) => Ok(Weight::Exact(weight)),
                other => Ok(other),
            },
            Kind::Interleaved(format) => {
                let Weight::One(plain) = Kind::One(DType::Block(format)).weight(device)? else {
                    anyhow::bail!("no weight of {format}");
                };
                let plain = plain.as_bytes()?.reshape([COLUMNS, self.bytes() / COLUMNS])?;
                let mut encoder = CommandEncoder::new(device);
                let weight = Buffer::allocate(device, DType::U8, plain.shape())?;
                interleave::interleave_into(&mut encoder, &plain, format, &weight)?;
                encoder.submit()?.wait()?;
                Ok(Weight::Interleaved(format, weight))
            }
            Kind::Planes(format) => {
                let words = DEPTH * format.bits() / 32;
                let packed: Vec<u8> = (0..8 * words * 4).map(|i| (i * 97 % 251) as u8).collect();
                let packed = again(&packed, 8);
                let scales = silicide_quant::encode(DType::BF16, &[0.01; DEPTH]);
                let scales = again(scales.get(..DEPTH / format.group() * 2).unwrap_or_default(), 1);
                let plane = |bytes: &[u8], dtype: DType, columns: usize| -> anyhow::Result<Buffer> {
                    Ok(Buffer::from_slice(device, bytes.len(), bytes)?
                        .reinterpret(dtype)?
                        .reshape([COLUMNS, columns])?)
                };
                let groups = DEPTH / format.group();
                let scale = || plane(&scales, DType::BF16, groups);
                Ok(Weight::Planes(format, Box::new([plane(&packed, DType::U32, words)?, scale()?, scale()?])))
            }
        }
    }
}

pub(crate) fn run(
    report: &mut Report,
    formats: &[String],
    rows: &[usize],
    threads: &[usize],
) -> anyhow::Result<()> {
    for &threads in threads {
        let mut options = DeviceOptions::default();
        options.threads = Some(threads);
        let device = Device::open_with("cpu", &options)?;
        report.heading(&format!("Matmul by rows, {COLUMNS} columns by {DEPTH}, {threads} threads"));
        let peaks = limits::report(report, threads)?;
        for name in formats {
            one_format(report, &device, name, (rows, threads, peaks))?;
        }
    }
    Ok(())
}

fn one_format(
    report: &mut Report,
    device: &Device,
    name: &str,
    (rows, threads, peaks): (&[usize], usize, Peaks),
) -> anyhow::Result<()> {
    let kind = Kind::of(name)?;
    let copies = if rows.iter().any(|&rows| rows < MANY) { DISTINCT.div_ceil(kind.bytes()) } else { 1 };
    let weights: anyhow::Result<Vec<Weight>> = (0..copies).map(|_| kind.weight(device)).collect();
    let weights = weights?;
    for &m in rows {
        let values: Vec<f32> = (0..m * DEPTH).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
        let a = Buffer::from_slice(device, [m, DEPTH], &values)?;
        let y = Buffer::allocate(device, DType::F32, [m, COLUMNS])?;
        let mut turn = weights.iter().cycle();
        let seconds = quickest(BUDGET, threads, || {
            let mut encoder = CommandEncoder::new(device);
            match turn.next() {
                Some(Weight::One(b)) => matmul::matmul_into(&mut encoder, &a, b, &y)?,
                Some(Weight::Exact(b)) => encoder.run_into(Matmul { exact: true }, &[&a, b], &[&y])?,
                Some(Weight::Interleaved(format, b)) => {
                    interleaved_matmul::interleaved_matmul_into(&mut encoder, (&a, b), *format, &y)?;
                }
                Some(Weight::Planes(format, planes)) => {
                    let [packed, scales, biases] = planes.as_ref();
                    let weight = MlxOperands { format: *format, packed, scales, biases: Some(biases) };
                    mlx_matmul::mlx_matmul_into(&mut encoder, &a, &weight, &y)?;
                }
                None => {}
            }
            Ok(encoder.submit()?.wait()?)
        })?;
        let speed = (2 * m * COLUMNS * DEPTH) as f64 / seconds;
        let peak = match kind {
            Kind::One(DType::BF16 | DType::F16) if peaks.halves.is_finite() => peaks.halves,
            Kind::One(dtype) if !dtype.is_block() => peaks.floats,
            Kind::Exact(_) => peaks.floats,
            _ => peaks.integers,
        };
        let bandwidth = kind.bytes() as f64 / seconds;
        let about = json!({
            "format": name, "rows": m, "threads": threads, "bytes_per_second": bandwidth, "operations_per_second": speed,
            "of_memory": bandwidth / peaks.memory, "of_peak": speed / peak,
        });
        report.about(about).row(
            &format!("{name}, {m} rows: {:.1} GB/s, {:.0} GOP/s, of the peak", bandwidth / 1e9, speed / 1e9),
            speed / peak,
            0.0,
            "x",
            Target::None,
        );
    }
    Ok(())
}

/// What is measured unless told otherwise.
pub(crate) fn formats() -> Vec<String> {
    let blocks = Format::ALL.into_iter().filter(|format| !matches!(format, Format::Q8_1 | Format::Q8K));
    let interleaved =
        Format::ALL.into_iter().filter(|format| interleave::interleaves(*format, COLUMNS, DEPTH));
    let interleaved = interleaved.map(|format| format!("{format}x16"));
    blocks
        .map(|format| format.name().to_owned())
        .chain(interleaved)
        .chain(["mlx2", "mlx3", "mlx4", "mlx5", "mlx6", "mlx8", "f16", "bf16", "f32"].map(str::to_owned))
        .collect()
}
