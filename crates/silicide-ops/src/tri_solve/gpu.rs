//! `tri_solve` on GPUs: an invocation for a column of a system. A checked program.

use super::{Systems, TriSolve};
use crate::elementwise::gpu;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "tri_solve", text: include_str!("tri_solve.wgsl") };

/// An invocation for a column.
pub(super) struct GpuTriSolve;

impl Kernel for GpuTriSolve {
    type Op = TriSolve;

    fn name(&self) -> &'static str {
        "tri_solve.columns.wgsl"
    }

    fn fits(&self, _op: &TriSolve, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        wgsl::fits_whole(io, on)
    }

    fn plan(&self, _op: &TriSolve, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(extents), Some(load), Some(store)) =
            (Systems::of(io), wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "l", 0),
            Part::bound(load, "b", 1),
            Part::bound(store, "x", 2),
            linear,
            main,
        ];
        let kernel = gpu::sized(WgslKernel::new(self.name(), &parts, 3, 4), on);
        let [systems, n, columns, shared] = extents.words();
        let params = [systems * columns, n, columns, shared];
        gpu::push(&mut plan, &kernel, &[0, 1, 2].map(Arg::slot), &params, on);
        plan
    }
}
