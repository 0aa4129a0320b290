//! `rms_norm` on GPUs: one team of invocations per row.

use super::RmsNorm;
use crate::rows::gpu::{Bound, HEADER, PLACE, fits, plan};
use crate::wgsl;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::DType;
use smallvec::{SmallVec, smallvec};

static PLAIN: Snippet = Snippet { name: "rms_norm.plain", text: include_str!("plain.wgsl") };
static RESIDUAL: Snippet = Snippet { name: "rms_norm.residual", text: include_str!("residual.wgsl") };
static BODY: Snippet = Snippet { name: "rms_norm", text: include_str!("rms_norm.wgsl") };

/// `rounded(v)`: a sum as it is once stored. `narrow_sum` comes with the 16-bit stores of `sum`.
static ROUND_F32: Snippet = Snippet { name: "round.f32", text: "fn rounded(v: f32) -> f32 { return v; }" };
static ROUND_F16: Snippet = Snippet {
    name: "round.f16",
    text: "fn rounded(v: f32) -> f32 { return unpack2x16float(narrow_sum(v)).x; }",
};
static ROUND_BF16: Snippet = Snippet {
    name: "round.bf16",
    text: "fn rounded(v: f32) -> f32 { return bitcast<f32>(narrow_sum(v) << 16u); }",
};

/// One team of invocations per row.
pub(super) struct Rows;

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Rows {
    type Op = RmsNorm;

    fn name(&self) -> &'static str {
        "rms_norm.rows.wgsl"
    }

    fn fits(&self, _op: &RmsNorm, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        fits(io, on)
    }

    fn plan(&self, op: &RmsNorm, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let x = io.input(0);
        // Without a weight, `x` stands in for it and is not read as one.
        let weight = op.weight_index().unwrap_or(0);
        let (load, store) = (wgsl::load(x.dtype), wgsl::store(x.dtype, &on.features));
        let load_weight = wgsl::load(io.input(weight as usize).dtype);
        let (Some(load), Some(store), Some(load_weight)) = (load, store, load_weight) else {
            return Plan::default();
        };
        let y = op.first_output();
        let mut bound: SmallVec<[Bound; 5]> = smallvec![
            Bound::Rows(0),
            if op.weighted { Bound::Whole(weight) } else { Bound::Rows(0) },
            Bound::Rows(y),
        ];
        let mut parts: SmallVec<[Part; 11]> = smallvec![
            Part::bound(load, "x", 0),
            Part::bound(load_weight, "weight", 1),
            Part::bound(store, "y", 2),
            Part::plain(&wgsl::LINEAR),
            Part::plain(&wgsl::REDUCE),
            Part::plain(&PLACE),
        ];
        if op.residual {
            bound.extend([Bound::Rows(1), Bound::Rows(y + 1)]);
            let round = match x.dtype {
                DType::F16 => &ROUND_F16,
                DType::BF16 => &ROUND_BF16,
                _ => &ROUND_F32,
            };
            parts.extend([
                Part::bound(load, "residual", 3),
                Part::bound(store, "sum", 4),
                Part::plain(round),
                Part::plain(&RESIDUAL),
            ]);
        } else {
            parts.push(Part::plain(&PLAIN));
        }
        parts.push(Part::plain(&BODY));
        let kernel = WgslKernel::new(self.name(), &parts, bound.len() as u32, HEADER + 2);
        plan(kernel, &bound, io, on, |_| [op.eps.to_bits(), u32::from(op.weighted)])
    }
}
