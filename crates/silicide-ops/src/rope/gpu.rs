//! `rope` on GPUs: an invocation for a few pairs, or elements that are passed on. Whole pairs, so that y may be x.

use super::{Rope, RopeExtents, RopeStyle};
use crate::elementwise::gpu;
use crate::wgsl::{self, row_spans};
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use silicide_quant::DType;

static BODY: Snippet = Snippet { name: "rope", text: include_str!("rope.wgsl") };

/// An invocation for a few pairs.
pub(super) struct GpuRope;

impl Kernel for GpuRope {
    type Op = Rope;

    fn name(&self) -> &'static str {
        "rope.pairs.wgsl"
    }

    fn fits(&self, _op: &Rope, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if !on.is_gpu() {
            return Err(Decline("runs on GPUs only"));
        }
        let spans =
            RopeExtents::of(io).and_then(|RopeExtents { heads, dim, .. }| row_spans(1, heads * dim, 4, on));
        spans.map(|_| Cost::GOOD).ok_or(Decline("a token is larger than a binding"))
    }

    fn plan(&self, op: &Rope, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let (Some(extents), Some(load), Some(store)) =
            (RopeExtents::of(io), wgsl::load(DType::F32), wgsl::store(DType::F32, &on.features))
        else {
            return plan;
        };
        let RopeExtents { tokens, heads, dim, pairs } = extents;
        let [linear, main] = gpu::entry();
        let parts = [
            Part::plain(&BODY),
            Part::bound(load, "x", 0),
            Part::bound(load, "table", 1),
            Part::bound(store, "y", 2),
            linear,
            main,
        ];
        let halves = usize::from(op.style == RopeStyle::Halves);
        let facts = [heads, dim, pairs].map(|extent| extent as u32);
        let kernel = gpu::sized(WgslKernel::new(self.name(), &parts, 3, 1), on)
            .constant("HEADS", heads as u32)
            .constant("DIM", dim as u32)
            .constant("PAIRS", pairs as u32)
            .constant("HALVES", halves as u32);
        // SAFETY: item `i`, below the count, is of head `i / items`; pairs lie in their head, and are read before they are
        // written.
        let kernel = unsafe { kernel.unchecked(needs, &facts) };
        for span in row_spans(tokens, heads * dim, 4, on).into_iter().flatten() {
            let window =
                |slot, row: usize| Arg::slot(slot).window(span.start * row * 4, span.len() * row * 4);
            let args = [window(0, heads * dim), window(1, pairs * 2), window(2, heads * dim)];
            // Of each head, the pairs and then what is passed on.
            let count = span.len() * heads * (dim - pairs);
            gpu::push(&mut plan, &kernel, &args, &[count as u32], on);
        }
        plan
    }
}

/// Facts: heads of a token, and elements and pairs of a head.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let count = launch.count(0);
    let [heads, dim, pairs] = [0, 1, 2].map(|i| Count::from(launch.fact(i)));
    if pairs * 2u32 > dim {
        return None;
    }
    let rows = count.div_ceil(Count(dim.0 - pairs.0))?;
    let (bytes, tokens) = (rows * dim * 4u32, rows.div_ceil(heads)?);
    Some(Needs::new().read(bytes, 4).read(tokens * pairs * 8u32, 4).write(bytes, 4).over(0b1))
}
