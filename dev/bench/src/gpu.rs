//! The GPU: host time to record and submit a dispatch, and what a steady state allocates (nothing).

use crate::measure::repeat;
use crate::nothing::Nothing;
use crate::report::{Report, Target};
use silicide_core::{Buffer, CommandEncoder, Device, Recorder};
use silicide_quant::DType;
use std::time::{Duration, Instant};

const COUNT: usize = 1000;

/// The GPU of this system.
pub(crate) const NAME: &str = if cfg!(target_vendor = "apple") { "metal:0" } else { "vulkan:0" };

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let device = Device::open(NAME)?;
    let info = device.info();
    report.heading(&format!("{}: {} ({})", info.backend, info.name, info.driver));
    let buffers: Vec<Buffer> =
        (0..16).map(|_| Buffer::allocate(&device, DType::U32, 64)).collect::<Result<_, _>>()?;
    let op = Nothing { tiles: 1, steps: 0 };
    let record = || -> anyhow::Result<CommandEncoder> {
        let mut encoder = CommandEncoder::new(&device);
        for i in 0..COUNT {
            if let Some(buffer) = buffers.get(i % buffers.len()) {
                encoder.run_into(op, &[], &[buffer])?;
            }
        }
        Ok(encoder)
    };
    let per = |seconds: f64| seconds / COUNT as f64 * 1e6;

    let recording = repeat(Duration::from_millis(500), || record().map(drop))?;
    report.row("recording a dispatch", per(recording.median()), per(recording.spread()), "us", Target::None);
    let mut submitting = Vec::new();
    repeat(Duration::from_secs(1), || {
        let encoder = record()?;
        let begin = Instant::now();
        let submission = encoder.submit()?;
        submitting.push(begin.elapsed().as_secs_f64());
        Ok(submission.wait()?)
    })?;
    submitting.sort_by(f64::total_cmp);
    let submitted = submitting.get(submitting.len() / 2).copied().unwrap_or(f64::NAN);
    report.row(
        "putting a recorded dispatch into the command buffer",
        per(submitted),
        0.0,
        "us",
        Target::None,
    );
    let both = per(recording.median() + submitted);
    report.row("both", both, 0.0, "us", Target::AtMost(2.0));

    let before = device.usage();
    for _ in 0..1000 {
        let mut encoder = CommandEncoder::new(&device);
        if let Some(buffer) = buffers.first() {
            encoder.run_into(op, &[], &[buffer])?;
        }
        encoder.submit()?.wait()?;
    }
    let after = device.usage();
    let grown = (after.reserved - before.reserved) as f64;
    report.row("device bytes allocated by 1000 more submissions", grown, 0.0, "bytes", Target::AtMost(0.0));
    Ok(())
}
