//! `argmax` on GPUs: one team of invocations per row.

use super::Argmax;
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "argmax", text: include_str!("argmax.wgsl") };

/// One team of invocations per row.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = Argmax;

    fn name(&self) -> &'static str {
        "argmax.rows.wgsl"
    }

    fn fits(&self, _op: &Argmax, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, _op: &Argmax, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        let Some(load) = wgsl::load(x.dtype) else { return Plan::default() };
        let parts = [
            Part::bound(load, "x", 0),
            Part::bound(wgsl::store_bits(DType::U32, &on.features), "index", 1),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&PLACE),
            Part::plain(&BODY),
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 2, HEADER);
        plan(kernel, &[Bound::Rows(0), Bound::Rows(1)], io, on, |_| [])
    }
}
