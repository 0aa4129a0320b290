//! The CPU pool: what a dispatch and a group cost, what idling costs, and what a busy neighbour takes away.

use crate::machine::{Neighbour, cpu_time};
use crate::measure::repeat;
use crate::nothing::Nothing;
use crate::report::{Report, Target};
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Recorder};
use silicide_quant::DType;
use std::time::{Duration, Instant};

fn device(threads: usize) -> anyhow::Result<Device> {
    let mut options = DeviceOptions::default();
    options.threads = Some(threads);
    Ok(Device::open_with("cpu", &options)?)
}

/// Seconds that `count` dispatches of an op take when submitted as one list: without conflicts (`one_group`), or
/// each conflicting with the one before.
fn list_time(device: &Device, op: Nothing, count: usize, one_group: bool) -> anyhow::Result<(f64, f64)> {
    timed(device, op, count, one_group, Duration::from_millis(300))
}

/// [`list_time`] with another budget.
fn timed(
    device: &Device,
    op: Nothing,
    count: usize,
    one_group: bool,
    budget: Duration,
) -> anyhow::Result<(f64, f64)> {
    let buffers: Vec<Buffer> = (0..if one_group { count } else { 1 })
        .map(|_| Buffer::allocate(device, DType::U32, 1))
        .collect::<Result<_, _>>()?;
    let mut inside = Vec::new();
    let times = repeat(budget, || {
        let mut encoder = CommandEncoder::new(device);
        for i in 0..count {
            if let Some(buffer) = buffers.get(i % buffers.len()) {
                encoder.run_into(op, &[], &[buffer])?;
            }
        }
        let begin = Instant::now();
        encoder.submit()?.wait()?;
        inside.push(begin.elapsed().as_secs_f64());
        Ok(())
    })?;
    let _ = times;
    inside.sort_by(f64::total_cmp);
    let at =
        |fraction: f64| inside.get((inside.len() as f64 * fraction) as usize).copied().unwrap_or(f64::NAN);
    Ok((at(0.5), at(0.75) - at(0.25)))
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.heading("CPU pool");
    const COUNT: usize = 5000;
    let per = |(median, spread): (f64, f64)| (median / COUNT as f64 * 1e6, spread / COUNT as f64 * 1e6);
    for threads in [1, 2] {
        let device = device(threads)?;
        let (value, spread) = per(list_time(&device, Nothing { tiles: 1, steps: 0 }, COUNT, true)?);
        let target = Target::AtMost(0.3);
        report.row(&format!("empty dispatch in one group, {threads} threads"), value, spread, "us", target);
    }
    let two = device(2)?;
    // A tile for each thread shows what passing from group to group costs; more tiles add what claiming them does.
    for (tiles, target) in [(2, Target::AtMost(0.5)), (8, Target::None)] {
        let (value, spread) = per(list_time(&two, Nothing { tiles, steps: 0 }, COUNT, false)?);
        report.row(&format!("empty group of {tiles} tiles, 2 threads"), value, spread, "us", target);
    }

    std::thread::sleep(Duration::from_millis(300));
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let idle = (cpu_time() - before).as_secs_f64() * 1e3;
    report.row("CPU time of idle threads over one second", idle, 0.0, "ms", Target::AtMost(1.0));

    // A list like a token of a small model: many groups of a few microseconds.
    let op = Nothing { tiles: 8, steps: 2500 };
    // Long enough for the pool to detect busy neighbours.
    let steady = Duration::from_secs(3);
    let quiet = timed(&two, op, 300, false, steady)?.0;
    let last_core = std::thread::available_parallelism()?.get() - 1;
    let busy = {
        let _neighbour = Neighbour::start(Some(last_core))?;
        timed(&two, op, 300, false, steady)?.0
    };
    let alone = list_time(&device(1)?, op, 300, false)?.0;
    report.row("small groups, speed of 2 threads over 1", alone / quiet, 0.0, "x", Target::None);
    report.row(
        "small groups, speed kept beside a busy neighbour",
        quiet / busy,
        0.0,
        "x",
        Target::AtLeast(0.5),
    );
    // More threads than most machines have cores: what claiming and stealing cost when threads wait for a core.
    for threads in [8, 16, 32] {
        let op = Nothing { tiles: 4 * threads, steps: 2500 };
        let one = list_time(&device(1)?, op, 100, false)?.0;
        let many = list_time(&device(threads as usize)?, op, 100, false)?.0;
        let what = format!("groups of {} tiles, speed of {threads} threads over 1", op.tiles);
        report.row(&what, one / many, 0.0, "x", Target::None);
    }
    Ok(())
}
