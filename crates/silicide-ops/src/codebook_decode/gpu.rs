//! `codebook_decode` on GPUs: an invocation for a few elements. A checked program.

use super::CodebookDecode;
use crate::elementwise::gpu;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "codebook_decode", text: include_str!("codebook_decode.wgsl") };

/// An invocation for a few elements.
pub(super) struct GpuDecode;

impl Kernel for GpuDecode {
    type Op = CodebookDecode;

    fn name(&self) -> &'static str {
        "codebook_decode.elements.wgsl"
    }

    fn fits(&self, _op: &CodebookDecode, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        wgsl::fits_whole(io, on)
    }

    fn plan(&self, op: &CodebookDecode, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(load), Some(store)) = (wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(wgsl::load_bits(DType::U8), "codes", 0),
            Part::bound(load, "norms", 1),
            Part::bound(load, "levels", 2),
            Part::bound(store, "y", 3),
            linear,
            main,
        ];
        let kernel = gpu::sized(WgslKernel::new(self.name(), &parts, 4, 5), on);
        let codebook = &op.codebook;
        let [count, block, levels] =
            [io.output(0).elements(), codebook.block, io.input(2).elements()].map(|word| word as u32);
        let params = [count, block, levels, u32::from(codebook.nibbles), codebook.factor.to_bits()];
        gpu::push(&mut plan, &kernel, &[0, 1, 2, 3].map(Arg::slot), &params, on);
        plan
    }
}
