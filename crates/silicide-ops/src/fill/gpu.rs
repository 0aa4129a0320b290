//! `fill` on GPUs, element by element.

use super::Fill;
use crate::elementwise::{fits_gpu, gpu};
use crate::wgsl::{self, params, spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};

static PARAMS: Snippet = Snippet { name: "fill params", text: params!(["y"] ["count" "low" "high"]) };
static NARROW: Snippet = Snippet { name: "fill narrow", text: "fn element(i: u32) { put_y(i, p.low); }" };
static WIDE: Snippet =
    Snippet { name: "fill wide", text: "fn element(i: u32) { put_y(i, vec2<u32>(p.low, p.high)); }" };

/// An invocation for a few elements.
pub(super) struct GpuFill;

impl Kernel for GpuFill {
    type Op = Fill;

    fn name(&self) -> &'static str {
        "fill.elements.wgsl"
    }

    fn fits(&self, _op: &Fill, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits_gpu(on)
    }

    fn plan(&self, op: &Fill, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let y = io.output(0);
        let size = y.dtype.size();
        let [linear, main] = gpu::entry();
        let body = if size == 8 { &WIDE } else { &NARROW };
        let store = Part::bound(wgsl::store_bits(y.dtype, &on.features), "y", 0);
        let parts = [Part::plain(&PARAMS), Part::plain(body), store, linear, main];
        let kernel = WgslKernel::new(self.name(), &parts, 1, 3);
        // SAFETY: `element(i)`, called for `i` below the count, touches element `i` of each binding.
        let kernel = unsafe { gpu::sized(kernel, on).unchecked(gpu::each_element, &[size as u32]) };
        let [low, high] = op.bits();
        let mut plan = Plan::default();
        for span in spans(y.elements(), size, on) {
            let args = [Arg::slot(0).window(span.start * size, span.len() * size)];
            gpu::push(&mut plan, &kernel, &args, &[span.len() as u32, low, high], on);
        }
        plan
    }
}
