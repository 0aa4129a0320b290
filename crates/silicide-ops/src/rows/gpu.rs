//! Row-wise kernels on GPUs: one workgroup per row, calls split by rows where an argument exceeds a binding.
//!
//! Bits do not depend on the split: a row is always the work of one workgroup of a size that its length alone decides.

use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Plan};
use silicide_hal::{DeviceInfo, Program, Snippet, WgslKernel};
use smallvec::SmallVec;
use std::ops::Range;

/// `run_end(start, k)`: kernels sum in two levels, runs of 16 elements per invocation and then the runs, which
/// keeps the rounding of long rows small.
pub(crate) static RUNS: Snippet = Snippet { name: "RUNS", text: include_str!("runs.wgsl") };

/// An argument of a row-wise launch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// As many rows as the launch: cut where the call is cut.
    Rows(u8),
    /// All of it, whatever the rows: a weight, a mask.
    Whole(u8),
}

/// The largest number of elements in one launch: indices and offsets are `u32` in kernels.
const MOST_ELEMENTS: usize = 1 << 30;

/// Whether a row-wise call can run: on a GPU, every row within a binding, and so everything that is bound whole.
pub(crate) fn fits(io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
    let x = io.input(0);
    let (rows, k) = (x.shape.rows(), x.shape.last());
    let room = on.limits.max_binding.saturating_sub(on.limits.binding_alignment + 4);
    let widest = io.inputs.iter().map(|info| match info.elements() == x.elements() {
        true => row_bytes(info.bytes(), rows),
        false => info.bytes(),
    });
    if !on.is_gpu() {
        Err(Decline("runs on GPUs"))
    } else if k > MOST_ELEMENTS || widest.max().unwrap_or(0) > room {
        Err(Decline("a row, weight or mask exceeds the largest binding"))
    } else {
        Ok(Cost::GOOD)
    }
}

fn row_bytes(bytes: usize, rows: usize) -> usize {
    bytes / rows.max(1)
}

/// The workgroup size for rows of `k` elements, a power of two: a short row keeps few invocations busy.
pub(crate) fn workgroup(k: usize, on: &DeviceInfo) -> u32 {
    if k <= 256 { wgsl::workgroup(on).min(32) } else { wgsl::workgroup(on) }
}

/// One launch of `kernel` per run of rows. `params` gives the parameter words of a run, offsets not counted.
pub(crate) fn plan<const N: usize>(
    kernel: WgslKernel,
    bound: &[Bound],
    io: &Io<'_>,
    on: &DeviceInfo,
    params: impl Fn(&Range<usize>) -> [u32; N],
) -> Plan {
    let x = io.input(0);
    let (rows, k) = (x.shape.rows(), x.shape.last());
    let kernel = kernel.constant("WG", workgroup(k, on));
    let argument = |i: u8| {
        let i = i as usize;
        if i < io.inputs.len() { io.input(i) } else { io.output(i - io.inputs.len()) }
    };
    let widest = bound.iter().map(|bound| match bound {
        Bound::Rows(i) => row_bytes(argument(*i).bytes(), rows),
        Bound::Whole(_) => 0,
    });
    let mut plan = Plan::default();
    for run in runs(rows, k, widest.max().unwrap_or(1), on) {
        let args: SmallVec<[Arg; 6]> = bound
            .iter()
            .map(|bound| match bound {
                Bound::Rows(i) => {
                    let bytes = row_bytes(argument(*i).bytes(), rows);
                    Arg::slot(*i).window(run.start * bytes, run.len() * bytes)
                }
                Bound::Whole(i) => Arg::slot(*i),
            })
            .collect();
        plan.push(Program::Wgsl(kernel.clone()), &args, &params(&run), wgsl::grid(run.len(), on));
    }
    plan
}

/// Runs of rows that together are `0..rows`, each within a binding and within what kernels can index.
fn runs(rows: usize, k: usize, widest: usize, on: &DeviceInfo) -> impl Iterator<Item = Range<usize>> {
    let most = (MOST_ELEMENTS / k.max(1)).max(1);
    wgsl::spans(rows, widest, on).flat_map(move |run| {
        let end = run.end;
        run.step_by(most).map(move |start| start..(start + most).min(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::Backend;

    #[test]
    fn runs_tile_the_rows_and_fit() {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        on.limits.max_binding = 1 << 20;
        for (rows, k) in [(1, 5), (70_000, 3), (100, 4096), (3, 200_000)] {
            let mut next = 0;
            for run in runs(rows, k, k * 4, &on) {
                assert_eq!(run.start, next);
                assert!(run.len() * k * 4 <= 1 << 20);
                next = run.end;
            }
            assert_eq!(next, rows);
        }
        on.limits.max_binding = usize::MAX;
        let runs: Vec<_> = runs(3, MOST_ELEMENTS / 2, MOST_ELEMENTS * 2, &on).collect();
        assert_eq!(runs, [0..2, 2..3]);
    }
}
