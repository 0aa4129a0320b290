//! `dequantize` on GPUs: an element at a time, through the format's WGSL.

use super::Dequantize;
use crate::elementwise::{fits_gpu, gpu};
use crate::needs::{TypedNeeds, dtype};
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Access, DeviceInfo, LaunchShape, Needs, Part, WgslKernel};
use silicide_quant::DType;

/// Any format.
pub(super) struct Elements;

impl Kernel for Elements {
    type Op = Dequantize;

    fn name(&self) -> &'static str {
        "dequantize.elements.wgsl"
    }

    fn fits(&self, op: &Dequantize, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if wgsl::load(io.input(0).dtype).is_none() || wgsl::store(op.to, &on.features).is_none() {
            return Err(Decline("has no WGSL for these types"));
        }
        fits_gpu(on)
    }

    fn plan(&self, op: &Dequantize, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let (x, mut plan) = (io.input(0), Plan::default());
        let (Some(load), Some(store)) = (wgsl::load(x.dtype), wgsl::store(op.to, &on.features)) else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let [params, convert] = gpu::convert();
        let parts = [params, convert, Part::bound(load, "x", 0), Part::bound(store, "y", 1), linear, main];
        let kernel = WgslKernel::new("dequantize.elements.wgsl", &parts, 2, 1);
        let kernel = gpu::sized(wgsl::with_table(kernel, x.dtype, "x"), on);
        // SAFETY: `element(i)`, called for `i` below the count, reads the block of element `i` and writes element `i` of y.
        let kernel = unsafe { kernel.unchecked(needs, &[x.dtype.code(), op.to.code()]) };
        // Windows of whole blocks: values take at least as many bytes as blocks do, so they decide.
        let (block_len, block_bytes) = (x.dtype.block_len(), x.dtype.block_bytes());
        let blocks = x.elements() / block_len;
        for run in wgsl::spans(blocks, (block_len * DType::F32.size()).max(block_bytes), on) {
            let values = run.start * block_len * op.to.size();
            let from = Arg::slot(0).window(run.start * block_bytes, run.len() * block_bytes);
            let to = Arg::slot(1).window(values, run.len() * block_len * op.to.size());
            let count = run.len() * block_len;
            gpu::push(&mut plan, &kernel, &wgsl::bind(&[from, to], x.dtype), (count, &[count as u32]), on);
        }
        plan
    }
}

/// Facts: codes of both types.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (from, to, count) = (dtype(launch.fact(0))?, dtype(launch.fact(1))?, launch.count(0));
    Some(Needs::new().elements(Access::Read, from, count)?.elements(Access::Write, to, count)?.table(from))
}
