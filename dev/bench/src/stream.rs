//! Streaming ops on 16M elements against the machine's copy bandwidth, measured in alternation.

use crate::measure::{alternate, ratio};
use crate::report::{Report, Target};
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Recorder, Result};
use silicide_ops::binary::Binary;
use silicide_ops::unary::{Activation, Unary};
use silicide_ops::{glu, rms_norm, softmax};
use silicide_quant::DType;
use std::time::Duration;

const ROWS: usize = 4096;
const COLUMNS: usize = 4096;

/// One op to measure: what to call it, how many tensors it moves, and how to record it.
type Record<'a> = &'a dyn Fn(&mut CommandEncoder) -> Result<()>;

/// The yardstick: each thread copies its half with the standard library's `copy_from_slice`.
fn copy(to: &mut [f32], from: &[f32], threads: usize) {
    let part = from.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (to, from) in to.chunks_mut(part).zip(from.chunks(part)) {
            scope.spawn(move || to.copy_from_slice(from));
        }
    });
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    for threads in [1, 2] {
        let mut options = DeviceOptions::default();
        options.threads = Some(threads);
        let device = Device::open_with("cpu", &options)?;
        let buffer = || Buffer::allocate(&device, DType::F32, [ROWS, COLUMNS]);
        let (a, b, y) = (buffer()?, buffer()?, buffer()?);
        let weight = Buffer::allocate(&device, DType::F32, COLUMNS)?;
        for (i, value) in a.write::<f32>()?.iter_mut().enumerate() {
            *value = (i % 97) as f32 / 50.0 - 1.0;
        }
        b.copy_from(&a)?;
        weight.write::<f32>()?.fill(1.5);
        let (from, mut to) = (vec![1f32; ROWS * COLUMNS], vec![2f32; ROWS * COLUMNS]);

        report.heading(&format!("Streaming ops, {ROWS} x {COLUMNS} f32, {threads} threads"));
        let ops: [(&str, f64, Record<'_>); 6] = [
            ("rms_norm", 2.0, &|encoder| rms_norm::rms_norm_into(encoder, &a, Some(&weight), 1e-5, &y)),
            ("softmax", 2.0, &|encoder| softmax::softmax_into(encoder, &a, None, 1.0, &y)),
            ("silu", 2.0, &|encoder| encoder.run_into(Unary::Activate(Activation::Silu), &[&a], &[&y])),
            ("gelu", 2.0, &|encoder| encoder.run_into(Unary::Activate(Activation::GeluTanh), &[&a], &[&y])),
            ("add", 3.0, &|encoder| encoder.run_into(Binary::Add, &[&a, &b], &[&y])),
            ("silu * mul", 3.0, &|encoder| glu::glu_into(encoder, Activation::Silu, &a, &b, &y)),
        ];
        let bytes = (ROWS * COLUMNS * 4) as f64;
        for (name, tensors, record) in ops {
            let mut op = || {
                let mut encoder = CommandEncoder::new(&device);
                record(&mut encoder)?;
                Ok(encoder.submit()?.wait()?)
            };
            let mut yardstick = || {
                copy(&mut to, &from, threads);
                Ok(())
            };
            let times = alternate(Duration::from_secs(1), &mut [&mut yardstick, &mut op])?;
            let [copied, ran] = times.as_slice() else { continue };
            let (slower, spread) = ratio(copied, ran);
            // Copying moves two tensors.
            report.row(
                &format!("{name}, of copy bandwidth"),
                slower * tensors / 2.0,
                spread,
                "x",
                Target::AtLeast(0.8),
            );
            report.row(name, tensors * bytes / ran.median() / 1e9, 0.0, "GB/s", Target::None);
        }
    }
    Ok(())
}
