//! `top_k` on GPUs: a workgroup per row. It finds the key of the k-th element digit by digit and, of elements equal to it, the
//! last place that is among the best k; then it takes the best k and sorts them.

use super::TopK;
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "top_k", text: include_str!("top_k.wgsl") };

/// A workgroup per row.
pub(super) struct GpuTopK;

impl Kernel for GpuTopK {
    type Op = TopK;

    fn name(&self) -> &'static str {
        "top_k.rows.wgsl"
    }

    fn fits(&self, _op: &TopK, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs"));
        }
        let x = io.input(0);
        let spans = row_spans(x.shape.rows(), x.shape.last(), 4, on);
        spans.map(|_| Cost::GOOD).ok_or(Decline("a row exceeds the largest binding"))
    }

    fn plan(&self, op: &TopK, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (x, mut plan) = (io.input(0), Plan::default());
        let (Some(load), Some(store)) = (wgsl::load(x.dtype), wgsl::store(DType::F32, &on.features)) else {
            return plan;
        };
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "x", 0),
            Part::bound(store, "values", 1),
            Part::bound(wgsl::store_bits(DType::U32, &on.features), "indices", 2),
            Part::plain(&wgsl::ORDER),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::ROW_MAIN),
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 3, 3)
            .constant("WG", wgsl::workgroup(on))
            .constant("ROOM", op.k.next_power_of_two() as u32)
            .writes(0b110);
        // SAFETY: a workgroup reads its row and writes `k` places of each output. As a row has at least `k` elements, as many
        // are found, and `best`, of `ROOM` places, holds them.
        let kernel =
            unsafe { kernel.unchecked(needs, &[x.dtype.size() as u32, op.k.next_power_of_two() as u32]) };
        let columns = x.shape.last();
        // A row of x is at least as long as those of the outputs.
        for span in row_spans(x.shape.rows(), columns, 4, on).into_iter().flatten() {
            let window = |slot, bytes: usize| Arg::slot(slot).window(span.start * bytes, span.len() * bytes);
            let args = [window(0, columns * x.dtype.size()), window(1, op.k * 4), window(2, op.k * 4)];
            let params = [span.len(), columns, op.k].map(|word| word as u32);
            plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(span.len(), on));
        }
        plan
    }
}

/// Facts: bytes of an element of x, and `ROOM`.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, columns, k] = [0, 1, 2].map(|i| launch.count(i));
    let (size, room) = (launch.fact(0), Count::from(launch.fact(1)));
    let kept = rows * k * 4u32;
    let needs = Needs::new().read(rows * columns * size, size as usize).write(kept, 4).write(kept, 4);
    (k <= columns && k <= room).then_some(needs)
}
