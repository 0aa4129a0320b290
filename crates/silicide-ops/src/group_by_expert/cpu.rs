//! `group_by_expert` on the CPU: one tile counts the pairs of each group, then puts them in their places.

use super::{GroupByExpert, GroupExtents, STRIP, STRIP_WORDS};
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use silicide_core::kernel::{Arg, Cost, Decline, Io, Kernel, Launch, Plan, Step};
use silicide_hal::{DeviceInfo, LaunchShape, Needs, Program, Tile};
use smallvec::smallvec;

// SAFETY: there is one tile; it writes the words of the groups through slices.
native_kernel!(unsafe GROUP, "group_by_expert.cpu", group, needs needs);

/// Parameters: pairs, experts, the most strips.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [pairs, experts, strips] = [0, 1, 2].map(|i| launch.count(i));
    let words = strips * STRIP_WORDS + pairs * 2u32 + experts + 2u32;
    (launch.grid == [1; 3]).then(|| Needs::new().read(pairs * 4u32, 4).write(words * 4u32, 4))
}

/// The launch that groups `ids`.
pub(crate) fn group_launch(extents: &GroupExtents, ids: Arg, groups: Arg) -> Launch {
    let GroupExtents { pairs, experts, strips } = *extents;
    Launch {
        program: Program::Native(&GROUP),
        args: smallvec![ids, groups],
        params: [pairs, experts, strips].into_iter().map(|extent| extent as u32).collect(),
        grid: [1, 1, 1],
    }
}

/// The kernel.
pub(super) struct OneTile;

impl Kernel for OneTile {
    type Op = GroupByExpert;

    fn name(&self) -> &'static str {
        GROUP.name
    }

    fn fits(&self, _: &GroupByExpert, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let fits = u32::try_from(io.output(0).elements()).is_ok();
        if fits { fits_cpu(on) } else { Err(Decline("takes extents of at most 32 bits")) }
    }

    fn plan(&self, op: &GroupByExpert, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let extents = GroupExtents::new(io.input(0).elements(), op.experts as usize);
        let launch = group_launch(&extents, Arg::slot(0), Arg::slot(1));
        Plan { steps: smallvec![Step::Dispatch(launch)], ..Plan::default() }
    }
}

/// Groups all pairs. Bindings: ids, groups.
///
/// # Safety
///
/// The bindings have the extents of the parameters.
#[inline(always)]
unsafe fn group(tile: &Tile<'_>) {
    let [pairs, experts, strips] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let all = GroupExtents { pairs, experts, strips }.words();
    // SAFETY: `needs` states these words, and there is one tile.
    let (ids, words) = unsafe { (tile.read_part::<u32>(0, 0..pairs), tile.write::<u32>(1, 0..all)) };
    let Some((count, words)) = words.split_first_mut() else { return };
    let Some((strips, words)) = words.split_at_mut_checked(STRIP_WORDS * strips) else { return };
    let Some((order, words)) = words.split_at_mut_checked(pairs) else { return };
    let Some((homes, next)) = words.split_at_mut_checked(pairs) else { return };
    // Negative ids are above all experts, as numbers without sign.
    let group_of = |id: u32| (id as usize).min(experts);
    strips.fill(0);
    next.fill(0);
    for id in ids {
        if let Some(pairs) = next.get_mut(group_of(*id)) {
            *pairs += 1;
        }
    }
    let (mut first, mut made) = (0, 0);
    let mut places = strips.as_chunks_mut::<STRIP_WORDS>().0.iter_mut();
    for (expert, next) in next.iter_mut().enumerate() {
        let pairs = std::mem::replace(next, first);
        // Nearly equal parts.
        let parts = u64::from(pairs).div_ceil(STRIP as u64);
        let start = |part: u64| (part * u64::from(pairs) / parts) as u32;
        for (part, strip) in (0..parts).zip(&mut places) {
            *strip = [expert as u32, first + start(part), start(part + 1) - start(part)];
            made += 1;
        }
        first += pairs;
    }
    *count = made;
    // Pairs with an id out of range have no strip.
    homes.fill(u32::MAX);
    for (pair, id) in ids.iter().enumerate() {
        let Some(next) = next.get_mut(group_of(*id)) else { continue };
        if let Some(place) = order.get_mut(*next as usize) {
            *place = pair as u32;
        }
        *next += 1;
    }
    for (number, &[_, first, pairs]) in (0..made).zip(strips.as_chunks::<STRIP_WORDS>().0) {
        let pairs = order.get(first as usize..(first + pairs) as usize).unwrap_or_default();
        for pair in pairs {
            if let Some(home) = homes.get_mut(*pair as usize) {
                *home = number;
            }
        }
    }
}
