//! `causal_conv` on GPUs: an invocation for a few outputs, then one for a few channels' states. Both are checked programs.

use super::{CausalConv, ConvExtents};
use crate::elementwise::activation::ACTIVATION;
use crate::elementwise::gpu;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::DType;

static OUTPUTS: Snippet = Snippet { name: "causal_conv", text: include_str!("causal_conv.wgsl") };
static STATE: Snippet = Snippet { name: "causal_conv_state", text: include_str!("causal_conv_state.wgsl") };

/// An invocation for a few outputs.
pub(super) struct GpuConv;

impl Kernel for GpuConv {
    type Op = CausalConv;

    fn name(&self) -> &'static str {
        "causal_conv.elements.wgsl"
    }

    fn fits(&self, _op: &CausalConv, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        wgsl::fits_whole(io, on)
    }

    fn plan(&self, op: &CausalConv, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(extents), Some(load), Some(store)) =
            (ConvExtents::of(io), wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let [sequences, tokens, channels, width] = extents.words();
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&OUTPUTS),
            Part::bound(load, "x", 0),
            Part::bound(load, "weights", 1),
            Part::bound(load, "state", 2),
            Part::bound(store, "y", 3),
            Part::plain(&ACTIVATION),
            linear,
            main,
        ];
        let kernel = gpu::sized(WgslKernel::new(self.name(), &parts, 4, 5), on);
        let params = [sequences * tokens * channels, tokens, channels, width, u32::from(op.silu)];
        gpu::push(&mut plan, &kernel, &[0, 1, 2, 3].map(Arg::slot), &params, on);
        let parts = [
            Part::plain(&STATE),
            Part::bound(load, "x", 0),
            Part::bound(load, "state", 1),
            Part::bound(store, "new_state", 2),
            linear,
            main,
        ];
        let kernel = gpu::sized(WgslKernel::new("causal_conv.state.wgsl", &parts, 3, 4), on);
        let params = [sequences * channels, tokens, channels, width];
        gpu::push(&mut plan, &kernel, &[0, 2, 4].map(Arg::slot), &params, on);
        plan
    }
}
