//! Whether the cheapest kernel by its own account is the fastest: every kernel that fits is timed on a grid of shapes, in turns, and the
//! one that is picked may be a tenth slower than the best, no more.

use crate::report::{Report, Target};
use silicide_core::kernel::{Cost, DynOp, Io, TensorInfo};
use silicide_core::{Buffer, CommandEncoder, Device, EncoderOptions};
use silicide_ops::attention::{Attend, Attention, Visibility, WorkList};
use silicide_ops::case::{Data, Input};
use silicide_ops::matmul::Matmul;
use silicide_ops::rms_norm::RmsNorm;
use silicide_ops::softmax::Softmax;
use silicide_quant::{DType, Format};
use std::time::{Duration, Instant};

/// Numbers of rows, at the seams between kernels and away from them.
const ROWS: [usize; 8] = [1, 2, 4, 8, 16, 17, 48, 256];
/// Columns and depths of weights.
const WEIGHTS: [[usize; 2]; 2] = [[2048, 2048], [576, 1536]];
/// Time for each kernel and shape.
const BUDGET: Duration = Duration::from_millis(60);
/// How much slower than the best a pick may be.
const ALLOWED: f64 = 1.10;

/// A call to try.
struct Subject {
    label: String,
    op: Box<dyn DynOp>,
    inputs: Vec<Buffer>,
}

/// Times every kernel on the whole grid.
pub(crate) fn run(report: &mut Report, device: &str) -> anyhow::Result<()> {
    let device = Device::open(device)?;
    report.heading(&format!("Kernels that are picked against the fastest, on {}", device.info().id));
    let formats = [Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K, Format::Iq2Xs].map(DType::Block);
    for dtype in [DType::F32, DType::F16, DType::BF16].into_iter().chain(formats) {
        for [n, k] in WEIGHTS {
            let weights = buffer(&device, dtype, &[n, k])?;
            for m in ROWS {
                let inputs = vec![buffer(&device, DType::F32, &[m, k])?, weights.clone()];
                let label = format!("matmul {dtype}, {m} rows by {n} of {k}");
                compare(report, &device, &Subject { label, op: Box::new(Matmul::default()), inputs })?;
            }
        }
    }
    for (tokens, keys) in [(1, 256), (1, 4096), (4, 1024), (32, 1024), (256, 1024)] {
        let (heads, kv_heads, dim) = (9, 3, 64);
        let work = WorkList::buffer(&device, &Visibility::causal(keys), keys - tokens, tokens)?;
        let cache = || buffer(&device, DType::F16, &[kv_heads, keys, dim]);
        let inputs = vec![buffer(&device, DType::F32, &[tokens, heads, dim])?, cache()?, cache()?, work];
        let rule = Attention { scale: 0.125, softcap: None };
        let op = Attend::new(rule, false);
        let label = format!("attention, {tokens} tokens over {keys}");
        compare(report, &device, &Subject { label, op: Box::new(op), inputs })?;
    }
    for (rows, length) in [(1, 576), (1, 8192), (64, 2048), (512, 576)] {
        let x = buffer(&device, DType::F32, &[rows, length])?;
        let label = format!("softmax, {rows} rows of {length}");
        compare(
            report,
            &device,
            &Subject { label, op: Box::new(Softmax { scale: 1.0, masked: false }), inputs: vec![x.clone()] },
        )?;
        let weight = buffer(&device, DType::F32, &[length])?;
        let label = format!("rms_norm, {rows} rows of {length}");
        compare(
            report,
            &device,
            &Subject { label, op: Box::new(RmsNorm::new(1e-5, true)), inputs: vec![x, weight] },
        )?;
    }
    Ok(())
}

fn buffer(device: &Device, dtype: DType, extents: &[usize]) -> anyhow::Result<Buffer> {
    let data = if dtype.is_block() { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
    // A few rows again and again: making blocks takes longer than measuring.
    let some = Input::of(dtype, &[16, extents.last().copied().unwrap_or(1)], data).bytes(1);
    let elements: usize = extents.iter().product();
    let bytes = elements / dtype.block_len() * dtype.block_bytes();
    let all: Vec<u8> = some.iter().copied().cycle().take(bytes).collect();
    Ok(Buffer::from_slice(device, bytes, &all)?.reinterpret(dtype)?.reshape(extents)?)
}

/// Times the kernels that fit in turns; the pick's time over the best one's is the figure.
fn compare(report: &mut Report, device: &Device, subject: &Subject) -> anyhow::Result<()> {
    let infos: Vec<TensorInfo> =
        subject.inputs.iter().map(|input| TensorInfo::new(input.dtype(), input.shape())).collect();
    let outputs = subject.op.infer(&infos)?;
    let io = Io { inputs: &infos, outputs: &outputs };
    let mut fitting: Vec<(Cost, &'static str)> = (0..subject.op.kernel_count())
        .filter_map(|i| {
            Some((subject.op.kernel_fits(i, &io, device.info()).ok()?, subject.op.kernel_name(i)))
        })
        .collect();
    // The first of the cheapest is the one that is picked.
    fitting.sort_by_key(|(cost, _)| *cost);
    if fitting.len() < 2 {
        return Ok(());
    }
    let mut times = vec![Vec::new(); fitting.len()];
    let begin = Instant::now();
    while times.iter().any(|times| times.len() < 5) || begin.elapsed() < BUDGET * fitting.len() as u32 {
        for ((_, kernel), times) in fitting.iter().zip(&mut times) {
            times.push(once(device, subject, kernel)?);
        }
    }
    let quick: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 4).copied().unwrap_or(f64::NAN)
        })
        .collect();
    let (best, seconds) =
        quick.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::NAN));
    let picked = quick.first().copied().unwrap_or(f64::NAN);
    let name = |i: usize| fitting.get(i).map_or("", |(_, name)| *name);
    let what = match best {
        0 => format!("{}: {}", subject.label, name(0)),
        other => format!("{}: {}, best {}", subject.label, name(0), name(other)),
    };
    report.row(&what, picked / seconds, 0.0, "x", Target::AtMost(ALLOWED));
    Ok(())
}

/// Seconds of one call with a kernel.
fn once(device: &Device, subject: &Subject, kernel: &'static str) -> anyhow::Result<f64> {
    let mut options = EncoderOptions::default();
    options.kernel = Some(kernel);
    let mut encoder = CommandEncoder::with(device, options);
    let inputs: Vec<&Buffer> = subject.inputs.iter().collect();
    let outputs = encoder.record(&*subject.op, &inputs)?;
    let begin = Instant::now();
    encoder.submit()?.wait()?;
    drop(outputs);
    Ok(begin.elapsed().as_secs_f64())
}
