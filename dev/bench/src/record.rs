//! Recording: 20,000 dispatches over 500 buffers, kernels chosen and barriers placed, nothing run.

use crate::measure::repeat;
use crate::report::{Report, Target};
use silicide_core::{Buffer, CommandEncoder, Device, Recorder};
use silicide_ops::binary::Binary;
use silicide_quant::DType;
use std::time::Duration;

const DISPATCHES: usize = 20_000;
const BUFFERS: usize = 500;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    report.heading("Recording");
    let device = Device::open("null")?;
    for device in [Device::cpu()?, device] {
        let buffers: Vec<Buffer> =
            (0..BUFFERS).map(|_| Buffer::allocate(&device, DType::F32, 64)).collect::<Result<_, _>>()?;
        let mut barriers = 0;
        let times = repeat(Duration::from_secs(1), || {
            let mut encoder = CommandEncoder::new(&device);
            let mut at = 1usize;
            for _ in 0..DISPATCHES {
                // A fixed walk through the buffers, so that some dispatches conflict and some do not.
                at = (at * 1_103_515_245 + 12_345) % 2_147_483_648;
                let (a, b, y) = (at % BUFFERS, (at / BUFFERS) % BUFFERS, (at / 7) % BUFFERS);
                let (Some(a), Some(b), Some(y)) = (buffers.get(a), buffers.get(b), buffers.get(y)) else {
                    continue;
                };
                if y.storage_id() != a.storage_id() && y.storage_id() != b.storage_id() {
                    encoder.run_into(Binary::Add, &[a, b], &[y])?;
                }
            }
            let commands = &encoder.list().commands;
            barriers =
                commands.iter().filter(|command| matches!(command, silicide_hal::Command::Barrier)).count();
            Ok(())
        })?;
        let id = &device.info().id;
        let what = format!("{DISPATCHES} dispatches over {BUFFERS} buffers, {barriers} barriers, {id}");
        report.row(&what, times.median() * 1e3, times.spread() * 1e3, "ms", Target::AtMost(20.0));
    }
    Ok(())
}
