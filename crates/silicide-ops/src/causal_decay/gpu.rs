//! `causal_decay` on GPUs: an invocation for a few outputs. A checked program.

use super::{CausalDecay, DecayExtents};
use crate::elementwise::gpu;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "causal_decay", text: include_str!("causal_decay.wgsl") };

/// An invocation for a few outputs.
pub(super) struct GpuDecay;

impl Kernel for GpuDecay {
    type Op = CausalDecay;

    fn name(&self) -> &'static str {
        "causal_decay.elements.wgsl"
    }

    fn fits(&self, _op: &CausalDecay, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        wgsl::fits_whole(io, on)
    }

    fn plan(&self, op: &CausalDecay, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(extents), Some(load), Some(store)) =
            (DecayExtents::of(io), wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "x", 0),
            Part::bound(load, "g", 1),
            Part::bound(store, "y", 2),
            linear,
            main,
        ];
        let kernel = gpu::sized(WgslKernel::new(self.name(), &parts, 3, 5), on);
        let [_, groups, heads, n] = extents.words();
        let params = [io.output(0).elements() as u32, groups, heads, n, u32::from(op.diagonal)];
        gpu::push(&mut plan, &kernel, &[0, 1, 2].map(Arg::slot), &params, on);
        plan
    }
}
