//! Dense matmul `A · Bᵀ` against the `gemm` crate, alternating, on one and two threads.

use crate::measure::{alternate, ratio};
use crate::report::{Report, Target};
use gemm::Parallelism;
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions};
use silicide_ops::{cast, matmul};
use silicide_quant::DType;
use std::time::Duration;

/// `y = a · bᵀ`, all square, through the `gemm` crate.
fn peer(size: usize, a: &[f32], b: &[f32], y: &mut [f32], threads: usize) {
    let parallelism = if threads == 1 { Parallelism::None } else { Parallelism::Rayon(threads) };
    let stride = size as isize;
    // SAFETY: the three slices have `size * size` elements, and the strides stay inside: `b` is read transposed.
    unsafe {
        gemm::gemm(
            size,
            size,
            size,
            y.as_mut_ptr(),
            1,
            stride,
            false,
            a.as_ptr(),
            1,
            stride,
            b.as_ptr(),
            stride,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

pub(crate) fn run(report: &mut Report, size: usize) -> anyhow::Result<()> {
    for threads in [1, 2] {
        let mut options = DeviceOptions::default();
        options.threads = Some(threads);
        let device = Device::open_with("cpu", &options)?;
        let values: Vec<f32> = (0..size * size).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
        let a = Buffer::from_slice(&device, [size, size], &values)?;
        let b = Buffer::from_slice(&device, [size, size], &values)?;
        let y = Buffer::allocate(&device, DType::F32, [size, size])?;
        let convert = |dtype| -> anyhow::Result<Buffer> {
            let mut encoder = CommandEncoder::new(&device);
            let converted = cast::cast(&mut encoder, &b, dtype)?;
            encoder.submit()?.wait()?;
            Ok(converted)
        };
        let (half, brain) = (convert(DType::F16)?, convert(DType::BF16)?);
        let mut theirs = vec![0f32; size * size];

        report.heading(&format!("Dense matmul, {size} cubed, {threads} threads"));
        let multiply = |b: &Buffer| {
            let mut encoder = CommandEncoder::new(&device);
            matmul::matmul_into(&mut encoder, &a, b, &y)?;
            anyhow::Ok(encoder.submit()?.wait()?)
        };
        let times = alternate(
            Duration::from_secs(3),
            &mut [
                &mut || {
                    peer(size, &values, &values, &mut theirs, threads);
                    Ok(())
                },
                &mut || multiply(&b),
                &mut || multiply(&brain),
                &mut || multiply(&half),
            ],
        )?;
        let [gemm, single, brain, half] = times.as_slice() else { continue };
        let flops = 2.0 * (size as f64).powi(3);
        let (speed, spread) = ratio(gemm, single);
        report.row("f32, of the gemm crate's speed", speed, spread, "x", Target::AtLeast(0.9));
        let (speed, spread) = ratio(single, brain);
        report.row("bf16 weights, of our f32 speed", speed, spread, "x", Target::None);
        let (speed, spread) = ratio(single, half);
        report.row("f16 weights, of our f32 speed", speed, spread, "x", Target::None);
        report.row("f32", flops / single.median() / 1e9, 0.0, "GFLOP/s", Target::None);
        report.row("gemm crate, f32", flops / gemm.median() / 1e9, 0.0, "GFLOP/s", Target::None);
    }
    Ok(())
}
