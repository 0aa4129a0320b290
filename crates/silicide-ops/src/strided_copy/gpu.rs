//! Strided copies on GPUs: an invocation for a few elements, in the order of the target.

use super::{Axis, Walk};
use crate::elementwise::gpu;
use crate::wgsl;
use silicide_core::kernel::{Arg, Plan};
use silicide_hal::{Count, DeviceInfo, LaunchShape, Needs, Part, Snippet, WgslKernel};
use silicide_quant::{DType, MAX_RANK};
use smallvec::SmallVec;

static BODY: Snippet = Snippet { name: "strided_copy", text: include_str!("strided_copy.wgsl") };

/// Launches that copy along a walk from argument 0 to argument 1, cut so that every part's windows fit a binding.
pub(crate) fn plan(walk: &Walk, dtype: DType, on: &DeviceInfo) -> Plan {
    let size = dtype.size();
    let [linear, main] = gpu::entry();
    let parts = [
        Part::plain(&BODY),
        Part::bound(wgsl::load_bits(dtype), "x", 0),
        Part::bound(wgsl::store_bits(dtype, &on.features), "y", 1),
        linear,
        main,
    ];
    let kernel = WgslKernel::new("strided_copy.strided.wgsl", &parts, 2, 2 + 3 * MAX_RANK as u32);
    // SAFETY: element `i` lies at a turn of each loop, and `needs` states how far all turns reach.
    let kernel = unsafe { gpu::sized(kernel, on).unchecked(needs, &[size as u32]) };
    let mut plan = Plan::default();
    for part in walk.split(wgsl::most(size, on)) {
        let (from, to) = part.reach();
        let args = [
            Arg::slot(0).window(part.from * size, from * size),
            Arg::slot(1).window(part.to * size, to * size),
        ];
        let count = part.elements();
        let column = |number: fn(&Axis) -> usize| {
            let used = part.axes.iter().map(move |axis| number(axis) as u32);
            used.chain(std::iter::repeat(1)).take(MAX_RANK)
        };
        let mut params: SmallVec<[u32; 20]> = SmallVec::from_slice(&[count as u32, part.axes.len() as u32]);
        params.extend(column(|axis| axis.extent));
        params.extend(column(|axis| axis.from));
        params.extend(column(|axis| axis.to));
        gpu::push(&mut plan, &kernel, &args, &params, on);
    }
    plan
}

/// Facts: bytes of an element.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (loops, size) = (launch.param(1) as usize, launch.fact(0));
    if loops > MAX_RANK {
        return None;
    }
    let reach = |strides: usize| {
        (0..loops).try_fold(Count(1), |reach, k| {
            let steps = launch.param(2 + k).checked_sub(1)?;
            Some(reach + Count::from(steps) * launch.param(strides + k))
        })
    };
    let (x, y) = (reach(2 + MAX_RANK)? * size, reach(2 + 2 * MAX_RANK)? * size);
    Some(Needs::new().read(x, size as usize).write(y, size as usize))
}
