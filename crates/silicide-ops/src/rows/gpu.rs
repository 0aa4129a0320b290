//! Row-wise kernels on GPUs: one team of invocations per row, calls split by rows where an argument exceeds a
//! binding.
//!
//! The number of rows changes no bits: the size of a team is decided by the length of the rows alone.

use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Plan, TensorInfo};
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

/// Whether a row-wise call can run: on a GPU, every row within a binding, and so everything that is bound whole.
pub(crate) fn fits(io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
    let x = io.input(0);
    let fits = |info: &TensorInfo| {
        let bound = if info.elements() == x.elements() { x.shape.last() } else { info.elements() };
        bound <= wgsl::most(info.dtype.size(), on)
    };
    if !on.is_gpu() {
        Err(Decline("runs on GPUs"))
    } else if !io.inputs.iter().all(fits) {
        Err(Decline("a row, weight or mask exceeds the largest binding"))
    } else {
        Ok(Cost::GOOD)
    }
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
    let row_bytes = |i: u8| argument(i).bytes() / rows.max(1);
    let widest = bound.iter().map(|bound| match bound {
        Bound::Rows(i) => row_bytes(*i).div_ceil(k.max(1)),
        Bound::Whole(_) => 1,
    });
    let mut plan = Plan::default();
    for run in wgsl::row_spans(rows, k, widest.max().unwrap_or(1), on).into_iter().flatten() {
        let args: SmallVec<[Arg; 6]> = bound
            .iter()
            .map(|bound| match bound {
                Bound::Rows(i) => {
                    let bytes = row_bytes(*i);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rms_norm::RmsNorm;
    use crate::softmax::Softmax;
    use silicide_core::kernel::{DynOp, Step};
    use silicide_hal::Backend;
    use silicide_quant::{DType, Shape};

    /// Every window of every argument of a plan, with the rows its launch says it has.
    fn windows(op: &dyn DynOp, inputs: &[TensorInfo], on: &DeviceInfo) -> Vec<(u32, Vec<(usize, usize)>)> {
        let outputs = op.infer(inputs).unwrap();
        let io = Io { inputs, outputs: &outputs };
        let kernel = (0..op.kernel_count()).find(|&i| op.kernel_fits(i, &io, on).is_ok()).unwrap();
        let launches = op.kernel_plan(kernel, &io, on).steps.into_iter().map(|step| match step {
            Step::Dispatch(launch) => (
                *launch.params.first().unwrap(),
                launch.args.iter().map(|arg| (arg.start, arg.bytes)).collect(),
            ),
            other => panic!("{other:?}"),
        });
        launches.collect()
    }

    #[test]
    fn calls_are_cut_by_rows() {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        on.limits.max_binding = 4096;
        let info = |dtype, extents: &[usize]| TensorInfo::new(dtype, Shape::new(extents).unwrap());
        let (x, weight) = (info(DType::F16, &[5, 700]), info(DType::F32, &[700]));
        let op = RmsNorm::with_residual(1e-6, true);
        let whole = (0, usize::MAX);
        let cut = |start: usize, rows: usize| (start * 1400, rows * 1400);
        assert_eq!(
            windows(&op, &[x, x, weight], &on),
            [
                (2, vec![cut(0, 2), whole, cut(0, 2), cut(0, 2), cut(0, 2)]),
                (2, vec![cut(2, 2), whole, cut(2, 2), cut(2, 2), cut(2, 2)]),
                (1, vec![cut(4, 1), whole, cut(4, 1), cut(4, 1), cut(4, 1)]),
            ]
        );
        let op = Softmax { scale: 1.0, masked: true };
        let launches = windows(&op, &[x, x], &on);
        assert_eq!(launches[1], (2, vec![cut(2, 2), cut(2, 2), cut(2, 2)]));
        let launches = windows(&op, &[x, info(DType::F16, &[700])], &on);
        assert_eq!(launches[1], (2, vec![cut(2, 2), whole, cut(2, 2)]));
        on.limits.max_binding = 1400;
        assert!(gpu_declines(&op, &[x, x], &on));
    }

    fn gpu_declines(op: &dyn DynOp, inputs: &[TensorInfo], on: &DeviceInfo) -> bool {
        let outputs = op.infer(inputs).unwrap();
        let io = Io { inputs, outputs: &outputs };
        (0..op.kernel_count()).all(|i| op.kernel_fits(i, &io, on).is_err())
    }

    #[test]
    fn teams_follow_the_row_length() {
        let on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        for (k, size) in [(1, 1), (4, 1), (5, 2), (128, 32), (576, 256), (1 << 30, 256)] {
            assert_eq!(team(k, &on), size, "{k}");
        }
    }
}
