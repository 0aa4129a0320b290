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
use silicide_core::{Buffer, BufferOptions, CommandEncoder, Device, DeviceOptions, Weight};
use silicide_hal::cpu::Isa;
use silicide_ops::interleave::{self, Interleave};
use silicide_ops::linear::Linear;
use silicide_quant::{DType, Encoding, Format, MlxFormat, MlxMode, RowEncoding, Shape};
use std::time::Duration;

const COLUMNS: usize = 8192;
const DEPTH: usize = 2048;
/// Bytes of all copies of a weight, where there are few rows: more than the largest caches have.
const DISTINCT: usize = 600 << 20;
/// From this many rows on, one copy does: reading it is a small part.
const MANY: usize = 64;
/// Time for one figure.
const BUDGET: Duration = Duration::from_millis(300);

/// A measured weight, by name: a type of elements, `mlx4`, `mlx8`... for affine codes of that number of bits in groups of 64; `q4_0x16`,
/// `mlx4x16` for one that is interleaved; with `-exact` for activations that are not rounded.
#[derive(Clone, Copy)]
struct Kind {
    encoding: Encoding,
    exact: bool,
}

impl Kind {
    fn of(name: &str) -> anyhow::Result<Kind> {
        if let Some(name) = name.strip_suffix("-exact") {
            return Ok(Kind { exact: true, ..Kind::of(name)? });
        }
        let plain = name.strip_suffix("x16").unwrap_or(name);
        let of = if let Some(bits) = plain.strip_prefix("mlx") {
            RowEncoding::Planes(MlxFormat::new(MlxMode::Affine, bits.parse()?, 64, DType::BF16)?)
        } else {
            DType::from_name(plain)
                .map(RowEncoding::from)
                .ok_or_else(|| anyhow::anyhow!("no format {name}"))?
        };
        let encoding = match plain == name {
            true => of.into(),
            false if interleave::interleaves(of, COLUMNS, DEPTH) => {
                Encoding::Interleaved { of, rows: interleave::TOGETHER }
            }
            false => anyhow::bail!("{name} can't be interleaved"),
        };
        Ok(Kind { encoding, exact: false })
    }

    /// Bytes of a weight.
    fn bytes(&self) -> anyhow::Result<usize> {
        Ok(self.encoding.bytes(&Shape::new(&[COLUMNS, DEPTH])?)?)
    }

    /// A weight on a device: a few columns again and again, as encoding takes longer than measuring.
    fn weight(&self, device: &Device) -> anyhow::Result<Weight> {
        let plane = |some: &[u8], dtype: DType| -> anyhow::Result<Buffer> {
            let rows = 8;
            let bytes: Vec<u8> = some.iter().copied().cycle().take(some.len() / rows * COLUMNS).collect();
            let all = Buffer::from_slice(device, bytes.len(), &bytes)?.reinterpret(dtype)?;
            let columns = all.elements() / COLUMNS;
            Ok(all.reshape([COLUMNS, columns])?)
        };
        let some: Vec<f64> = (0..8 * DEPTH).map(|i| ((i * 53) % 211) as f64 / 211.0 - 0.5).collect();
        let plain = match self.encoding.of() {
            RowEncoding::Planes(format) => {
                let words = DEPTH * format.bits() / 32;
                let packed: Vec<u8> = (0..8 * words * 4).map(|i| (i * 97 % 251) as u8).collect();
                let scales = silicide_quant::encode(DType::BF16, &vec![0.01; 8 * DEPTH / format.group()]);
                let scale = || plane(&scales, DType::BF16);
                Weight::new(Encoding::Planes(format), [plane(&packed, DType::U32)?, scale()?, scale()?])?
            }
            other => {
                let dtype = Encoding::from(other).dtype();
                let dtype = dtype.ok_or_else(|| anyhow::anyhow!("no weight of {other}"))?;
                plane(&silicide_quant::encode(dtype, &some), dtype)?.into()
            }
        };
        let Encoding::Interleaved { of, .. } = self.encoding else { return Ok(plain) };
        let weight =
            Weight::with(device, self.encoding, Shape::new(&[COLUMNS, DEPTH])?, &BufferOptions::default())?;
        let mut encoder = CommandEncoder::new(device);
        for (index, (from, to)) in plain.planes().iter().zip(weight.planes()).enumerate() {
            let rows = from.as_bytes()?.reshape(to.shape())?;
            encoder.run_into(Interleave { of, plane: index }, &[&rows], &[to])?;
        }
        encoder.submit()?.wait()?;
        Ok(weight)
    }
}

pub(crate) fn run(
    report: &mut Report,
    formats: &[String],
    rows: &[usize],
    threads: &[usize],
    isa: Isa,
) -> anyhow::Result<()> {
    for &threads in threads {
        let device = Device::open_with("cpu", &DeviceOptions::default().threads(threads).isa(isa))?;
        let (columns, name) = (COLUMNS, isa.name());
        report.heading(&format!("Matmul by rows, {columns} columns by {DEPTH}, {threads} threads, {name}"));
        let peaks = limits::report(report, isa, threads)?;
        for name in formats {
            one_format(report, &device, name, &Sweep { rows, threads, peaks })?;
        }
    }
    Ok(())
}

/// The numbers of rows that one format is measured with, and the limits of the machine with `threads` threads.
struct Sweep<'a> {
    rows: &'a [usize],
    threads: usize,
    peaks: Peaks,
}

fn one_format(report: &mut Report, device: &Device, name: &str, sweep: &Sweep<'_>) -> anyhow::Result<()> {
    let &Sweep { rows, threads, peaks } = sweep;
    let kind = Kind::of(name)?;
    let copies = if rows.iter().any(|&rows| rows < MANY) { DISTINCT.div_ceil(kind.bytes()?) } else { 1 };
    let weights: anyhow::Result<Vec<Weight>> = (0..copies).map(|_| kind.weight(device)).collect();
    let weights = weights?;
    for &m in rows {
        let values: Vec<f32> = (0..m * DEPTH).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
        let a = Buffer::from_slice(device, [m, DEPTH], &values)?;
        let y = Buffer::allocate(device, DType::F32, [m, COLUMNS])?;
        let mut turn = weights.iter().cycle();
        let seconds = quickest(BUDGET, threads, || {
            let mut encoder = CommandEncoder::new(device);
            if let Some(weight) = turn.next() {
                let inputs: Vec<&Buffer> = std::iter::once(&a).chain(weight.planes()).collect();
                let op = Linear { exact: kind.exact, ..Linear::from(kind.encoding) };
                encoder.run_into(op, &inputs, &[&y])?;
            }
            Ok(encoder.submit()?.wait()?)
        })?;
        let speed = (2 * m * COLUMNS * DEPTH) as f64 / seconds;
        let peak = match kind.encoding.of() {
            RowEncoding::Element(DType::BF16 | DType::F16) if peaks.halves.is_finite() => peaks.halves,
            RowEncoding::Element(_) => peaks.floats,
            _ if kind.exact => peaks.floats,
            // Where signs take instructions, that is the peak of codes of 8 bits.
            RowEncoding::Block(Format::Q8_0) if peaks.signed.is_finite() => peaks.signed,
            _ => peaks.integers,
        };
        let bandwidth = kind.bytes()? as f64 / seconds;
        let about = json!({
            "format": name, "rows": m, "threads": threads, "bytes_per_second": bandwidth, "operations_per_second": speed,
            "of_memory": bandwidth / peaks.memory, "of_peak": peak.is_finite().then(|| speed / peak),
        });
        let shown = format!("{name}, {m} rows: {:.1} GB/s, {:.0} GOP/s", bandwidth / 1e9, speed / 1e9);
        // Some instruction sets have no probe of their peak.
        let (what, value, unit) = match peak.is_finite() {
            true => (format!("{shown}, of the peak"), speed / peak, "x"),
            false => (shown, speed / 1e9, "GOP/s"),
        };
        report.about(about).row(&what, value, 0.0, unit, Target::None);
    }
    Ok(())
}

/// Returns the formats that are measured by default.
pub(crate) fn formats() -> Vec<String> {
    let blocks = Format::ALL.into_iter().filter(|format| !matches!(format, Format::Q8_1 | Format::Q8K));
    let interleaved =
        Format::ALL.into_iter().filter(|format| interleave::interleaves(*format, COLUMNS, DEPTH));
    let interleaved = interleaved.map(|format| format!("{format}x16"));
    blocks
        .map(|format| format.name().to_owned())
        .chain(interleaved)
        .chain(["mlx2", "mlx3", "mlx4", "mlx5", "mlx6", "mlx8", "mlx4x16", "mlx8x16"].map(str::to_owned))
        .chain(["f16", "bf16", "f32", "f16x16", "bf16x16", "f32x16"].map(str::to_owned))
        .collect()
}
