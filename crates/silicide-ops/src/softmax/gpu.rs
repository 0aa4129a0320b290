//! `softmax` on GPUs: one team of invocations per row.

use super::Softmax;
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "softmax", text: include_str!("softmax.wgsl") };

/// One team of invocations per row.
pub(super) struct Rows;

impl Kernel for Rows {
    type Op = Softmax;

    fn name(&self) -> &'static str {
        "softmax.rows.wgsl"
    }

    fn fits(&self, _op: &Softmax, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &Softmax, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        // Without a mask, `x` stands in for it and is not read as one.
        let (mask, mask_info) = if op.masked { (Bound::Whole(1), io.input(1)) } else { (Bound::Rows(0), x) };
        let (load, store) = (wgsl::load(x.dtype), wgsl::store(x.dtype, &on.features));
        let (Some(load), Some(load_mask), Some(store)) = (load, wgsl::load(mask_info.dtype), store) else {
            return Plan::default();
        };
        let parts = [
            Part::bound(load, "x", 0),
            Part::bound(load_mask, "mask", 1),
            Part::bound(store, "y", 2),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::REDUCE),
            Part::plain(&PLACE),
            Part::plain(&BODY),
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 3, HEADER + 3);
        let k = x.shape.last();
        let mask_rows = if op.masked { mask_info.elements() / k.max(1) } else { 0 };
        let bound = [Bound::Rows(0), mask, Bound::Rows(1 + u8::from(op.masked))];
        plan(kernel, &bound, io, on, |run| {
            // Only the remainder matters, and it fits where the row's number may not.
            let first = run.start % mask_rows.max(1);
            [op.scale.to_bits(), first as u32, mask_rows as u32]
        })
    }
}
