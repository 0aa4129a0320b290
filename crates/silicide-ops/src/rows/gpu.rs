//! Row-wise kernels on GPUs: one team of invocations per row, calls split by rows where an argument exceeds a
//! binding.
//!
//! The number of rows changes no bits: the size of a team is decided by the length of the rows alone.

use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Plan};
use silicide_hal::{DeviceInfo, Program, Snippet, WgslKernel};
use smallvec::SmallVec;
use std::ops::Range;

/// `place` gives an invocation its row, `run_end` the order of sums. Kernels take it after [`wgsl::LINEAR`]; their
/// parameters have `rows`, `k` and `team` after the offsets.
pub(crate) static PLACE: Snippet = Snippet { name: "rows.place", text: include_str!("place.wgsl") };

/// The number of parameter words that [`plan`] adds.
pub(crate) const HEADER: u32 = 3;

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

/// Invocations that share a row of `k` elements, a power of two: about four elements each, up to a workgroup.
fn team(k: usize, on: &DeviceInfo) -> u32 {
    let most = wgsl::workgroup(on);
    u32::try_from(k.div_ceil(4)).map_or(most, |wanted| wanted.min(most).next_power_of_two())
}

/// One launch of `kernel` per run of rows. `params` gives the kernel's own parameter words for a run.
pub(crate) fn plan<const N: usize>(
    kernel: WgslKernel,
    bound: &[Bound],
    io: &Io<'_>,
    on: &DeviceInfo,
    params: impl Fn(&Range<usize>) -> [u32; N],
) -> Plan {
    let x = io.input(0);
    let (rows, k) = (x.shape.rows(), x.shape.last());
    let (team, workgroup) = (team(k, on), wgsl::workgroup(on));
    let kernel = kernel.constant("WG", workgroup);
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
        let header: [u32; HEADER as usize] = [run.len() as u32, k as u32, team];
        let words: SmallVec<[u32; 16]> = header.into_iter().chain(params(&run)).collect();
        let groups = run.len().div_ceil((workgroup / team).max(1) as usize);
        plan.push(Program::Wgsl(kernel.clone()), &args, &words, wgsl::grid(groups, on));
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
    fn teams_follow_the_row_length() {
        let on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        for (k, size) in [(1, 1), (4, 1), (5, 2), (128, 32), (576, 256), (1 << 30, 256)] {
            assert_eq!(team(k, &on), size, "{k}");
        }
    }

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
