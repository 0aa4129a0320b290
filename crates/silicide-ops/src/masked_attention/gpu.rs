//! `masked_attention` on GPUs: a workgroup for a query of a head. Invocations are keys, then elements of values. A checked program.

use super::{MOST_VALUE_DIM, MaskedAttention, MaskedExtents};
use crate::elementwise::activation::ACTIVATION;
use crate::wgsl;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Program, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "masked_attention", text: include_str!("masked_attention.wgsl") };
static ADDED: Snippet = Snippet {
    name: "masked_attention.added",
    text: "fn shown(i: u32) -> bool { return bitcast<u32>(load_mask(i)) != 0xff800000u; }
fn added(i: u32) -> f32 { return load_mask(i); }",
};
static BYTES: Snippet = Snippet {
    name: "masked_attention.bytes",
    text: "fn shown(i: u32) -> bool { return get_mask(i) != 0u; }
fn added(i: u32) -> f32 { return 0.0; }",
};
static SINK: Snippet = Snippet {
    name: "masked_attention.sink",
    text: "const HAS_SINK: bool = true;
fn sink(head: u32) -> f32 { return load_sinks(head); }",
};
static NO_SINK: Snippet = Snippet {
    name: "masked_attention.no_sink",
    text: "const HAS_SINK: bool = false;
fn sink(head: u32) -> f32 { return 0.0; }",
};
static OFFSETS: Snippet = Snippet {
    name: "masked_attention.offsets",
    text: "struct Params {
    q_offset: u32,
    k_offset: u32,
    v_offset: u32,
    mask_offset: u32,",
};
static SINKS_OFFSET: Snippet =
    Snippet { name: "masked_attention.sinks_offset", text: "    sinks_offset: u32," };

/// A workgroup for a query of a head.
pub(super) struct GpuMasked;

impl Kernel for GpuMasked {
    type Op = MaskedAttention;

    fn name(&self) -> &'static str {
        "masked_attention.queries.wgsl"
    }

    fn fits(&self, _op: &MaskedAttention, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if (wgsl::workgroup(on) as usize) * 8 < MOST_VALUE_DIM {
            return Err(Decline("needs workgroups of 64"));
        }
        wgsl::fits_whole(io, on)
    }

    fn plan(&self, op: &MaskedAttention, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let [k, v, mask] = [1, 2, 3].map(|i| io.input(i).dtype);
        let (Some(extents), Some(plain), Some(keys), Some(values), Some(store)) = (
            MaskedExtents::of(io),
            wgsl::load(DType::F32),
            wgsl::load(k),
            wgsl::load(v),
            wgsl::store(DType::F32, &on.features),
        ) else {
            return plan;
        };
        let bytes = mask == DType::U8;
        let masks = if bytes { wgsl::load_bits(mask) } else { wgsl::load(mask).unwrap_or(plain) };
        let mut parts = vec![Part::plain(&OFFSETS)];
        parts.extend(op.sinks.then(|| Part::plain(&SINKS_OFFSET)));
        parts.extend([
            Part::plain(&BODY),
            Part::bound(plain, "q", 0),
            Part::bound(keys, "k", 1),
            Part::bound(values, "v", 2),
            Part::bound(masks, "mask", 3),
            Part::plain(if bytes { &BYTES } else { &ADDED }),
            Part::plain(if op.sinks { &SINK } else { &NO_SINK }),
            Part::plain(&ACTIVATION),
            Part::plain(&wgsl::WEIGHT),
            Part::plain(&wgsl::REDUCE),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::ROW_MAIN),
        ]);
        parts.extend(op.sinks.then(|| Part::bound(plain, "sinks", 4)));
        let slots: u8 = if op.sinks { 6 } else { 5 };
        parts.push(Part::bound(store, "y", u32::from(slots) - 1));
        let kernel =
            WgslKernel::new(self.name(), &parts, u32::from(slots), 10).constant("WG", wgsl::workgroup(on));
        let rows = extents.tokens * extents.heads;
        let params: Vec<u32> =
            [rows as u32].into_iter().chain(extents.words()).chain([op.scale.to_bits()]).collect();
        let args: Vec<Arg> = (0..slots).map(Arg::slot).collect();
        plan.push(Program::Wgsl(kernel), &args, &params, wgsl::grid(rows, on));
        plan
    }
}
