//! `softmax` on GPUs: one team of invocations per row.

use super::Softmax;
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "softmax", text: include_str!("softmax.wgsl") };

/// One team of invocations per row.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = Softmax;

    fn name(&self) -> &'static str {
        "softmax.rows.wgsl"
    }

    fn fits(&self, _op: &Softmax, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &Softmax, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        let k = x.shape.last();
        // A mask as large as `x` is cut with it. Without a mask, `x` stands in for it and is not read as one.
        let (mask, mask_info) = match (op.masked, io.input(1)) {
            (false, _) => (Bound::Rows(0), x),
            (true, info) if info.elements() == x.elements() => (Bound::Rows(1), info),
            (true, info) => (Bound::Whole(1), info),
        };
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
        let mask_rows = mask_info.elements() / k.max(1);
        let bound = [Bound::Rows(0), mask, Bound::Rows(1 + u8::from(op.masked))];
        plan(kernel, &bound, io, on, |run| {
            let (first, mask_rows) = match mask {
                Bound::Rows(_) => (0, if op.masked { run.len() } else { 0 }),
                // Only the remainder matters, and it fits where the row's number may not.
                Bound::Whole(_) => (run.start % mask_rows.max(1), mask_rows),
            };
            [op.scale.to_bits(), first as u32, mask_rows as u32]
        })
    }
}
