//! `reduce` on GPUs: one team of invocations per row.

use super::{Reduce, Reduction};
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "reduce", text: include_str!("reduce.wgsl") };

/// One team of invocations per row.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = Reduce;

    fn name(&self) -> &'static str {
        "reduce.rows.wgsl"
    }

    fn fits(&self, _op: &Reduce, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &Reduce, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        let (Some(load), Some(store)) = (wgsl::load(x.dtype), wgsl::store(x.dtype, &on.features)) else {
            return Plan::default();
        };
        let parts = [
            Part::bound(load, "x", 0),
            Part::bound(store, "y", 1),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::REDUCE),
            Part::plain(&PLACE),
            Part::plain(&BODY),
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 2, HEADER + 1);
        let reduction = match op.reduction {
            Reduction::Sum => 0,
            Reduction::Max => 1,
        };
        plan(kernel, &[Bound::Rows(0), Bound::Rows(1)], io, on, |_| [reduction])
    }
}
