//! `codebook_encode` on GPUs: a workgroup for a block makes its norm and its codes. A checked program.

use super::CodebookEncode;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "codebook_encode", text: include_str!("codebook_encode.wgsl") };

/// A workgroup for a block.
pub(super) struct GpuEncode;

impl Kernel for GpuEncode {
    type Op = CodebookEncode;

    fn name(&self) -> &'static str {
        "codebook_encode.blocks.wgsl"
    }

    fn fits(&self, op: &CodebookEncode, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if op.codebook.nibbles && !op.codebook.block.is_multiple_of(2) {
            return Err(Decline("takes bytes of one block only"));
        }
        wgsl::fits_whole(io, on)
    }

    fn plan(&self, op: &CodebookEncode, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(load), Some(store)) = (wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "x", 0),
            Part::bound(load, "levels", 1),
            Part::bound(wgsl::store_bits(DType::U8, &on.features), "codes", 2),
            Part::bound(store, "norms", 3),
            Part::plain(&wgsl::REDUCE),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::ROW_MAIN),
        ];
        let kernel =
            WgslKernel::new(self.name(), &parts, 4, 6).constant("WG", wgsl::workgroup(on)).writes(0b1100);
        let codebook = &op.codebook;
        let blocks = io.input(0).elements() / codebook.block;
        let [rows, block, levels] = [blocks, codebook.block, io.input(1).elements()].map(|word| word as u32);
        let flags = [u32::from(codebook.mean), u32::from(codebook.nibbles)];
        let params = [rows, block, levels, flags[0], flags[1], codebook.factor.to_bits()];
        plan.push(Program::Wgsl(kernel), &[0, 1, 2, 3].map(Arg::slot), &params, wgsl::grid(blocks, on));
        plan
    }
}
