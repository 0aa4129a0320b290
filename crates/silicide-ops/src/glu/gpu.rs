//! `glu` on GPUs. The activation is a parameter, so that one pipeline per type serves them all.

use super::Glu;
use crate::elementwise::activation::ACTIVATION;
use crate::elementwise::{fits_gpu, gpu};
use crate::wgsl::{self, spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static BODY: Snippet = Snippet { name: "glu", text: include_str!("glu.wgsl") };

/// An invocation for a few elements.
pub(super) struct Elements;

impl Kernel for Elements {
    type Op = Glu;

    fn name(&self) -> &'static str {
        "glu.elements.wgsl"
    }

    fn fits(&self, op: &Glu, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if op.quantized { Err(Decline("gives no quantized rows")) } else { fits_gpu(on) }
    }

    fn plan(&self, op: &Glu, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let y = io.output(0);
        let mut plan = Plan::default();
        let (Some(load), Some(store)) = (wgsl::load(y.dtype), wgsl::store(y.dtype, &on.features)) else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "gate", 0),
            Part::bound(load, "up", 1),
            Part::bound(store, "y", 2),
            Part::plain(&ACTIVATION),
            linear,
            main,
        ];
        let kernel = WgslKernel::new(self.name(), &parts, 3, 2);
        let size = y.dtype.size();
        // SAFETY: `element(i)`, called for `i` below the count, touches element `i` of each binding.
        let kernel = unsafe { gpu::sized(kernel, on).unchecked(gpu::each_element, &[size as u32; 3]) };
        for span in spans(y.elements(), size, on) {
            let args = [0, 1, 2].map(|slot| Arg::slot(slot).window(span.start * size, span.len() * size));
            let params = [span.len() as u32, op.activation.code()];
            gpu::push(&mut plan, &kernel, &args, &params, on);
        }
        plan
    }
}
