//! `l2_norm` on GPUs: one team of invocations per row.

use super::L2Norm;
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "l2_norm", text: include_str!("l2_norm.wgsl") };

/// One team of invocations per row.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = L2Norm;

    fn name(&self) -> &'static str {
        "l2_norm.rows.wgsl"
    }

    fn fits(&self, _op: &L2Norm, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &L2Norm, io: &Io<'_>, on: &DeviceInfo) -> Plan {
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
        plan(kernel, &[Bound::Rows(0), Bound::Rows(1)], io, on, |_| [op.eps.to_bits()])
    }
}
