//! `binary` on GPUs. The function is a parameter, so that one pipeline per combination of types serves them all.

use super::Binary;
use crate::elementwise::{fits_gpu, gpu};
use crate::wgsl::{self, spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan, TensorInfo};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use std::ops::Range;

static BODY: Snippet = Snippet { name: "binary", text: include_str!("binary.wgsl") };

/// An invocation for a few elements.
pub(super) struct GpuBinary;

impl Kernel for GpuBinary {
    type Op = Binary;

    fn name(&self) -> &'static str {
        "binary.elements.wgsl"
    }

    fn fits(&self, _op: &Binary, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_gpu(on)
    }

    fn plan(&self, op: &Binary, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (a, b, y) = (io.input(0), io.input(1), io.output(0));
        let mut plan = Plan::default();
        let (Some(load_a), Some(load_b), Some(store)) =
            (wgsl::load(a.dtype), wgsl::load(b.dtype), wgsl::store(y.dtype, &on.features))
        else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(load_a, "a", 0),
            Part::bound(load_b, "b", 1),
            Part::bound(store, "y", 2),
            linear,
            main,
        ];
        let kernel = gpu::sized(WgslKernel::new(self.name(), &parts, 3, 6), on);
        let sizes = [a, b, y].map(|info| info.dtype.size() as u32);
        // SAFETY: `element(i)`, called for `i` below the count, writes element `i` of y, and reads element `i` of each input
        // or, where it has a period, one below that.
        let kernel = unsafe { kernel.unchecked(needs, &sizes) };
        for run in runs(io, on) {
            let (arg_a, start_a, period_a) = window(0, &a, &run, &y, on);
            let (arg_b, start_b, period_b) = window(1, &b, &run, &y, on);
            let size = y.dtype.size();
            let args = [arg_a, arg_b, Arg::slot(2).window(run.start * size, run.len() * size)];
            let params = [run.len() as u32, op.code(), start_a, period_a, start_b, period_b];
            gpu::push(&mut plan, &kernel, &args, &params, on);
        }
        plan
    }
}

/// Facts: bytes of an element of a, b and y.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let count = launch.count(0);
    let input = |needs: Needs, binding: usize, period: usize| {
        let (size, period) = (launch.fact(binding), launch.count(period));
        let elements = if period.0 == 0 { count } else { period };
        needs.read(elements * size, size as usize)
    };
    let y = launch.fact(2);
    let same = |binding: usize, period: usize| launch.fact(binding) == y && launch.param(period) == 0;
    let same = u32::from(same(0, 3)) | u32::from(same(1, 5)) << 1;
    Some(input(input(Needs::new(), 0, 3), 1, 5).write(count * y, y as usize).over(same))
}

/// Runs of output elements whose windows fit. An input that is repeated and itself too large for one binding makes
/// runs end where it ends.
fn runs(io: &Io<'_>, on: &DeviceInfo) -> Vec<Range<usize>> {
    let elements = io.output(0).elements();
    let widest = io.inputs.iter().chain(io.outputs).map(|info| info.dtype.size()).max().unwrap_or(1);
    let period = io.inputs.iter().filter(|input| !fits_whole(input, on)).map(TensorInfo::elements).min();
    let period = period.unwrap_or(elements).max(1);
    (0..elements / period)
        .flat_map(|turn| {
            spans(period, widest, on).map(move |run| run.start + turn * period..run.end + turn * period)
        })
        .collect()
}

fn fits_whole(input: &TensorInfo, on: &DeviceInfo) -> bool {
    spans(input.elements(), input.dtype.size(), on).nth(1).is_none()
}

/// What input `slot` shows of itself to a run, its first element there, and its period.
fn window(
    slot: u8,
    input: &TensorInfo,
    run: &Range<usize>,
    y: &TensorInfo,
    on: &DeviceInfo,
) -> (Arg, u32, u32) {
    let (period, size) = (input.elements().max(1), input.dtype.size());
    let start = run.start % period;
    if period < y.elements() && fits_whole(input, on) {
        (Arg::slot(slot), start as u32, period as u32)
    } else {
        (Arg::slot(slot).window(start * size, run.len() * size), 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::Backend;
    use silicide_quant::{DType, Shape};

    #[test]
    fn windows_fit_and_cover_whatever_is_repeated() {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "small");
        on.limits.max_binding = 4096;
        let info = |dtype, extents: &[usize]| TensorInfo::new(dtype, Shape::new(extents).unwrap());
        for (a, b) in [
            (vec![5000], vec![5000]),
            (vec![7, 999], vec![999]),
            (vec![2, 3000], vec![3000]),
            (vec![], vec![3, 3000]),
        ] {
            let inputs = [info(DType::F32, &a), info(DType::BF16, &b)];
            let y = info(DType::F32, if a.len() >= b.len() { &a } else { &b });
            let io = Io { inputs: &inputs, outputs: &[y] };
            let mut next = 0;
            for run in runs(&io, &on) {
                assert_eq!(run.start, next);
                next = run.end;
                for (slot, input) in inputs.iter().enumerate() {
                    let (arg, start, period) = window(slot as u8, input, &run, &y, &on);
                    let bytes = arg.bytes.min(input.bytes());
                    assert!(bytes + 256 + 4 <= 4096, "{a:?} {b:?}");
                    // The first element that the run meets is the right one.
                    let first = arg.start / input.dtype.size() + start as usize;
                    assert_eq!(first, run.start % input.elements());
                    assert!(period != 0 || run.len() * input.dtype.size() == bytes);
                }
            }
            assert_eq!(next, y.elements());
        }
    }
}
