//! `unary` on GPUs. The function is a parameter, so that one pipeline per type serves them all.

use super::Unary;
use crate::elementwise::activation::ACTIVATION;
use crate::elementwise::{fits_gpu, gpu};
use crate::wgsl::{self, spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "unary", text: include_str!("unary.wgsl") };

/// An invocation for a few elements.
pub(super) struct GpuUnary;

impl Kernel for GpuUnary {
    type Op = Unary;

    fn name(&self) -> &'static str {
        "unary.elements.wgsl"
    }

    fn fits(&self, _op: &Unary, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_gpu(on)
    }

    fn plan(&self, op: &Unary, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        let mut plan = Plan::default();
        let (Some(load), Some(store)) = (wgsl::load(x.dtype), wgsl::store(x.dtype, &on.features)) else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "x", 0),
            Part::bound(store, "y", 1),
            Part::plain(&ACTIVATION),
            linear,
            main,
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 2, 4);
        let size = x.dtype.size();
        // SAFETY: `element(i)`, called for `i` below the count, touches element `i` of each binding.
        let kernel = unsafe { gpu::sized(kernel, on).unchecked(gpu::each_element, &[size as u32; 2]) };
        for span in spans(x.elements(), size, on) {
            let args = [0, 1].map(|slot| Arg::slot(slot).window(span.start * size, span.len() * size));
            let params = [span.len() as u32, op.code(), op.parameter().to_bits(), f32::NAN.to_bits()];
            gpu::push(&mut plan, &kernel, &args, &params, on);
        }
        plan
    }
}
