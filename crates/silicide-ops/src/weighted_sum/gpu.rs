//! `weighted_sum` on GPUs: an invocation for a few outputs.

use super::{WeightedSum, WeightedSumExtents};
use crate::elementwise::gpu;
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "weighted_sum", text: include_str!("weighted_sum.wgsl") };

/// An invocation for a few outputs.
pub(super) struct GpuWeightedSum;

impl Kernel for GpuWeightedSum {
    type Op = WeightedSum;

    fn name(&self) -> &'static str {
        "weighted_sum.elements.wgsl"
    }

    fn fits(&self, _op: &WeightedSum, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs only"));
        }
        let WeightedSumExtents { count, n, .. } = WeightedSumExtents::of(io);
        let spans = row_spans(1, count.saturating_mul(n), 4, on);
        spans.map(|_| Cost::GOOD).ok_or(Decline("the rows of a sum exceed the largest binding"))
    }

    fn plan(&self, _op: &WeightedSum, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (WeightedSumExtents { sums, count, n }, mut plan) = (WeightedSumExtents::of(io), Plan::default());
        let (Some(load), Some(store)) = (wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "x", 0),
            Part::bound(load, "weights", 1),
            Part::bound(store, "y", 2),
            linear,
            main,
        ];
        let kernel = gpu::sized(WgslKernel::new(self.name(), &parts, 3, 3), on);
        // SAFETY: output `i`, below the count, is of sum `i / n`, which reads column `i % n` of its rows and their weights.
        let kernel = unsafe { kernel.unchecked(needs, &[]) };
        for span in row_spans(sums, count * n, 4, on).into_iter().flatten() {
            let window =
                |slot, row: usize| Arg::slot(slot).window(span.start * row * 4, span.len() * row * 4);
            let outputs = span.len() * n;
            let params = [outputs, count, n].map(|word| word as u32);
            gpu::push(
                &mut plan,
                &kernel,
                &[window(0, count * n), window(1, count), window(2, n)],
                &params,
                on,
            );
        }
        plan
    }
}

fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [outputs, count, n] = [0, 1, 2].map(|i| launch.count(i));
    let rows = outputs.div_ceil(n)? * count;
    Some(Needs::new().read(rows * n * 4u32, 4).read(rows * 4u32, 4).write(outputs * 4u32, 4))
}
