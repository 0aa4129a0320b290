//! `route` on GPUs: a workgroup per row. The number of experts that come before an expert is its place.

use super::{Gate, Route};
use crate::elementwise::activation::ACTIVATION;
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "route", text: include_str!("route.wgsl") };

/// Invocations of a workgroup, which there are few experts for.
const WORKGROUP: u32 = 64;

/// The codes of gates, as in `route.wgsl`.
const _: () =
    assert!(Gate::Softmax.code() == 0 && Gate::Sigmoid.code() == 1 && Gate::SoftmaxOfChosen.code() == 2);

/// A workgroup per row.
pub(super) struct GpuRoute;

impl Kernel for GpuRoute {
    type Op = Route;

    fn name(&self) -> &'static str {
        "route.rows.wgsl"
    }

    fn fits(&self, _op: &Route, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs"));
        }
        let logits = io.input(0).shape;
        let spans = row_spans(logits.rows(), logits.last(), 4, on);
        spans.map(|_| Cost::GOOD).ok_or(Decline("a row exceeds the largest binding"))
    }

    fn plan(&self, op: &Route, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (logits, mut plan) = (io.input(0).shape, Plan::default());
        let bias = if op.biased { io.input(1).dtype } else { DType::F32 };
        let (Some(load), Some(load_bias)) = (wgsl::load(DType::F32), wgsl::load(bias)) else { return plan };
        let Some(store) = wgsl::store(DType::F32, &on.features) else { return plan };
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "logits", 0),
            Part::bound(load_bias, "bias", 1),
            Part::bound(wgsl::store_bits(DType::U32, &on.features), "ids", 2),
            Part::bound(store, "weights", 3),
            Part::plain(&ACTIVATION),
            Part::plain(&wgsl::ORDER),
            Part::plain(&wgsl::WEIGHT),
            Part::plain(&wgsl::REDUCE),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::ROW_MAIN),
        ];
        let experts = logits.last();
        let kernel = WgslKernel::new(self.name(), &parts, 4, 7)
            .constant("WG", WORKGROUP.min(wgsl::workgroup(on)))
            .constant("ROOM", experts.next_power_of_two() as u32)
            .writes(0b1100);
        let facts = [bias.size() as u32, experts.next_power_of_two() as u32];
        // SAFETY: a workgroup reads its row and writes `used` places of each output. Ranks of experts are all different and
        // `used` is at most their number, so each place of `chosen` is an expert; arrays have `ROOM` places.
        let kernel = unsafe { kernel.unchecked(needs, &facts) };
        // Without a bias, the logits stand in for it.
        let (bias, ids) = if op.biased { (1, 2) } else { (0, 1) };
        // A row of logits is at least as long as those of the outputs.
        for span in row_spans(logits.rows(), experts, 4, on).into_iter().flatten() {
            let window =
                |slot, row: usize| Arg::slot(slot).window(span.start * row * 4, span.len() * row * 4);
            let bias = if op.biased { Arg::slot(bias) } else { window(0, experts) };
            let args = [window(0, experts), bias, window(ids, op.used), window(ids + 1, op.used)];
            let [rows, experts, used] = [span.len(), experts, op.used].map(|word| word as u32);
            let [gate, normalized, biased, scale] = op.words();
            let params = [rows, experts, used, gate, normalized, biased, scale];
            plan.push(Program::Wgsl(kernel.clone()), &args, &params, wgsl::grid(span.len(), on));
        }
        plan
    }
}

/// Facts: bytes of an element of the bias, and `ROOM`.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, experts, used] = [0, 1, 2].map(|i| launch.count(i));
    let (bias, room) = (launch.fact(0), Count::from(launch.fact(1)));
    let chosen = rows * used * 4u32;
    let needs = Needs::new().read(rows * experts * 4u32, 4).read(experts * bias, bias as usize);
    (used <= experts && experts <= room).then(|| needs.write(chosen, 4).write(chosen, 4))
}
