//! `hadamard` on GPUs: a workgroup per row, which it transforms in shared memory.

use super::Hadamard;
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "hadamard", text: include_str!("hadamard.wgsl") };

/// Invocations of a workgroup.
const WORKGROUP: u32 = 64;

/// A workgroup per row.
pub(super) struct GpuHadamard;

impl Kernel for GpuHadamard {
    type Op = Hadamard;

    fn name(&self) -> &'static str {
        "hadamard.rows.wgsl"
    }

    fn fits(&self, _op: &Hadamard, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs"));
        }
        let x = io.input(0);
        let spans = row_spans(x.shape.rows(), x.shape.last(), 4, on);
        spans.map(|_| Cost::GOOD).ok_or(Decline("a row exceeds the largest binding"))
    }

    fn plan(&self, op: &Hadamard, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (x, mut plan) = (io.input(0), Plan::default());
        let (Some(load), Some(store)) = (wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "x", 0),
            Part::bound(store, "y", 1),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::ROW_MAIN),
        ];
        let dim = x.shape.last();
        let kernel = WgslKernel::new(self.name(), &parts, 2, 1)
            .constant("WG", WORKGROUP)
            .constant("DIM", dim as u32)
            .constant("INVERSE", u32::from(op.inverse));
        // SAFETY: a workgroup has a row below their number, and indexes `cells` and its row below `DIM`. Where y is x, the row is read
        // before it is written.
        let kernel = unsafe { kernel.unchecked(needs, &[dim as u32]) };
        for span in row_spans(x.shape.rows(), dim, 4, on).into_iter().flatten() {
            let window = |slot| Arg::slot(slot).window(span.start * dim * 4, span.len() * dim * 4);
            let grid = wgsl::grid(span.len(), on);
            plan.push(Program::Wgsl(kernel.clone()), &[window(0), window(1)], &[span.len() as u32], grid);
        }
        plan
    }
}

/// Facts: elements of a row.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let bytes = launch.count(0) * launch.fact(0) * 4u32;
    Some(Needs::new().read(bytes, 4).write(bytes, 4).over(0b1))
}
