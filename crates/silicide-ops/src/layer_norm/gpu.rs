//! `layer_norm` on GPUs: one team of invocations per row.

use super::LayerNorm;
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "layer_norm", text: include_str!("layer_norm.wgsl") };

/// One team of invocations per row.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = LayerNorm;

    fn name(&self) -> &'static str {
        "layer_norm.rows.wgsl"
    }

    fn fits(&self, _op: &LayerNorm, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &LayerNorm, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        // Where there is no weight or bias, `x` stands in for it and is not read as one.
        let column = |index: Option<u8>| match index {
            Some(i) => (Bound::Whole(i), wgsl::load(io.input(i as usize).dtype)),
            None => (Bound::Rows(0), wgsl::load(x.dtype)),
        };
        let (weight, load_weight) = column(op.weight_index());
        let (bias, load_bias) = column(op.bias_index());
        let (load, store) = (wgsl::load(x.dtype), wgsl::store(x.dtype, &on.features));
        let (Some(load), Some(load_weight), Some(load_bias), Some(store)) =
            (load, load_weight, load_bias, store)
        else {
            return Plan::default();
        };
        let parts = [
            Part::bound(load, "x", 0),
            Part::bound(load_weight, "weight", 1),
            Part::bound(load_bias, "bias", 2),
            Part::bound(store, "y", 3),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::REDUCE),
            Part::plain(&PLACE),
            Part::plain(&BODY),
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 4, HEADER + 3);
        plan(kernel, &[Bound::Rows(0), weight, bias, Bound::Rows(op.output_index())], io, on, |_| {
            [op.eps.to_bits(), u32::from(op.weighted), u32::from(op.biased)]
        })
    }
}
