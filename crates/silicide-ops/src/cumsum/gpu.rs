//! `cumsum` on GPUs: one team of invocations per row.

use super::Cumsum;
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "cumsum", text: include_str!("cumsum.wgsl") };

/// One team of invocations per row.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = Cumsum;

    fn name(&self) -> &'static str {
        "cumsum.rows.wgsl"
    }

    fn fits(&self, _op: &Cumsum, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, _op: &Cumsum, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        let (Some(load), Some(store)) = (wgsl::load(x.dtype), wgsl::store(x.dtype, &on.features)) else {
            return Plan::default();
        };
        let parts = [
            Part::bound(load, "x", 0),
            Part::bound(store, "y", 1),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&PLACE),
            Part::plain(&BODY),
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 2, HEADER);
        plan(kernel, &[Bound::Rows(0), Bound::Rows(1)], io, on, |_| [])
    }
}
