//! Pairs grouped by expert, and cut in strips: what a tile multiplies with some outputs of one expert. The words of the groups are those
//! of [`group_by_expert`](crate::group_by_expert).
//!
//! A single row of ids needs no grouping: each pair is a strip.
//!
//! Multiplying kernels bind activations ([`ACTIVATIONS`]), places ([`PLACES`]), outputs ([`OUTPUTS`]) and then the planes of the
//! weight ([`WEIGHTS`]).

use super::super::Problem;
use crate::cpu::needs::in_tiles_of;
pub(crate) use crate::group_by_expert::STRIP;
use crate::group_by_expert::{GroupExtents, STRIP_WORDS as WORDS, group_launch};
use silicide_core::kernel::{Access, Arg, Plan, Step};
use silicide_hal::{Count, LaunchShape, NativeKernel, Needs, Program, Tile};

/// The binding of multiplying kernels with the activations, in the order of places.
pub(crate) const ACTIVATIONS: usize = 0;
/// The binding of multiplying kernels with the places of pairs: the groups, or the ids where there are none.
pub(crate) const PLACES: usize = 1;
/// The binding of multiplying kernels with the outputs.
pub(crate) const OUTPUTS: usize = 2;
/// The first binding of multiplying kernels with a plane of the weight; the other planes follow.
pub(crate) const WEIGHTS: usize = 3;

/// The first parameters of multiplying kernels: pairs, experts, pairs that share a row, strips or 0, `n`, `k`, outputs of a tile.
pub(crate) const HEADER: usize = 7;

/// How the pairs of a problem are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The most strips there can be; 0 where each pair is one.
    most: usize,
    pairs: usize,
    experts: usize,
}

impl Cut {
    /// The cut of a problem.
    pub(crate) fn of(problem: &Problem) -> Cut {
        let Problem { pairs, used, experts, .. } = *problem;
        let most = if pairs == used { 0 } else { GroupExtents::new(pairs, experts).strips };
        Cut { most, pairs, experts }
    }

    /// Whether each pair is a strip, and nothing is to be sorted.
    pub(crate) fn is_single(&self) -> bool {
        self.most == 0
    }

    /// Tiles that cover all strips.
    pub(crate) fn tiles(&self) -> usize {
        if self.most == 0 { self.pairs } else { self.most }
    }

    /// Pairs of a strip, about, if rows are spread evenly.
    pub(crate) fn usual(&self) -> usize {
        if self.most == 0 { 1 } else { self.pairs.div_ceil(self.experts) }
    }

    /// The first [`HEADER`] parameters, for tiles of `outputs` outputs.
    pub(crate) fn params(&self, problem: &Problem, outputs: usize) -> [u32; HEADER] {
        let Problem { pairs, sharing, experts, n, k, .. } = *problem;
        [pairs, experts, sharing, self.most, n, k, outputs].map(|extent| extent as u32)
    }
}

/// Activations in the order of their pairs' places, and the places: the first two arguments of a multiplying kernel.
pub(crate) struct Sorted {
    pub(crate) activations: Arg,
    pub(crate) places: Arg,
}

/// A kernel that puts activations in the order of places. Its parameters are the number of pairs, the pairs that share a row, the
/// strips, the rows of a tile, and `extent`; its bindings are activations, groups and the rows that it makes.
pub(crate) struct Order {
    pub(crate) program: &'static NativeKernel,
    /// Bytes of a row that it makes.
    pub(crate) row_bytes: usize,
    /// Its last parameter: what a row has.
    pub(crate) extent: usize,
}

/// The ids of a call, and their groups if it has them.
#[derive(Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) ids: Arg,
    pub(crate) groups: Option<Arg>,
}

/// Adds launches to `plan`: one groups the pairs, unless the call has groups; `order` makes a row of each pair's activations, which are
/// argument 0.
pub(crate) fn sort(plan: &mut Plan, problem: &Problem, ids: Ids, order: &Order) -> Sorted {
    let groups = ids.groups.unwrap_or_else(|| {
        let extents = GroupExtents::new(problem.pairs, problem.experts);
        let scratch = plan.scratch(extents.words() * 4);
        let launch = group_launch(&extents, ids.ids, Arg::scratch(scratch, Access::Write));
        plan.steps.push(Step::Dispatch(launch));
        Arg::scratch(scratch, Access::Read)
    });
    let tile_rows = (ORDER_ELEMENTS / problem.k).max(1);
    let params = [problem.pairs, problem.sharing, Cut::of(problem).most, tile_rows, order.extent];
    let activations = plan.scratch(problem.pairs * order.row_bytes);
    plan.push(
        Program::Native(order.program),
        &[Arg::slot(0), groups, Arg::scratch(activations, Access::Write)],
        &params.map(|extent| extent as u32),
        [problem.pairs.div_ceil(tile_rows) as u32, 1, 1],
    );
    Sorted { activations: Arg::scratch(activations, Access::Read), places: groups }
}

/// Activations that one tile puts in order, about.
const ORDER_ELEMENTS: usize = 16 << 10;

/// For a tile of an ordering kernel ([`sort`]): each of its places, and the row of activations that goes there.
///
/// # Safety
///
/// The parameters and bindings are those that [`sort`] returns.
#[inline(always)]
pub(crate) unsafe fn places<'a>(tile: &Tile<'a>) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let [pairs, sharing, most, tile_rows] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * tile_rows;
    let end = (first + tile_rows).min(pairs);
    let start = 1 + WORDS * most;
    // SAFETY: the groups have a word for every pair, which no launch writes now.
    let order = unsafe { tile.read_part::<u32>(1, start + first..start + end) };
    // Groups may hold any words: what is no pair has no row.
    let rows = order.iter().map(move |&pair| (pair as usize) < pairs).zip(order);
    (first..end)
        .zip(rows)
        .filter_map(move |(place, (is_pair, &pair))| is_pair.then_some((place, pair as usize / sharing)))
}

/// The needs of an ordering kernel ([`sort`]), which makes `to` bytes of the `from` bytes of a row.
pub(crate) fn order_need(launch: &LaunchShape<'_>, from: Count, to: Count, align: usize) -> Option<Needs> {
    let [pairs, sharing, most, tile_rows] = [0, 1, 2, 3].map(|i| launch.count(i));
    in_tiles_of(launch, pairs, tile_rows)?;
    let needs = Needs::new().read(pairs.div_ceil(sharing)? * from, 4);
    Some(needs.read((most * WORDS + pairs + 1u32) * 4u32, 4).write(pairs * to, align))
}

/// The needs of a multiplying kernel, without the planes of its weight. Rows of activations have `row` bytes.
pub(crate) fn multiply_need(launch: &LaunchShape<'_>, row: Count, row_align: usize) -> Option<Needs> {
    let [pairs, _, sharing, most, n, _, outputs] = [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let [x, y] = launch.plane()?;
    let is_single = most == Count(0);
    let rows = if is_single { pairs.div_ceil(sharing)? } else { pairs };
    let places = if is_single { pairs * 4u32 } else { (most * WORDS + pairs * 2u32 + 1u32) * 4u32 };
    let needs = Needs::new().read(rows * row, row_align).read(places, 4).write(pairs * n * 4u32, 4);
    let covers = x == n.div_ceil(outputs)? && y == if is_single { pairs } else { most };
    covers.then_some(needs)
}

/// Pairs that a tile multiplies with outputs of one expert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strip<'a> {
    /// The expert; none where there is no such expert.
    pub(crate) expert: Option<usize>,
    /// The first row of activations; the others follow.
    pub(crate) row: usize,
    /// The pairs whose outputs these are.
    pairs: Pairs<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Pairs<'a> {
    One(usize),
    Many(&'a [u32]),
}

impl<'a> Strip<'a> {
    /// The strip of a tile, if there is one left for it.
    ///
    /// # Safety
    ///
    /// The parameters begin with [`HEADER`], and binding [`PLACES`] is what they say.
    #[inline(always)]
    pub(crate) unsafe fn of(tile: &Tile<'a>) -> Option<Strip<'a>> {
        let [pairs, experts, sharing, most] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
        let number = tile.index[1] as usize;
        let known = |expert: u32| Some(expert as usize).filter(|&expert| expert < experts);
        // SAFETY: `PLACES` has the words that the parameters state, by the caller; no tile of this launch writes them.
        unsafe {
            if most == 0 {
                let id = *tile.read_part::<u32>(PLACES, number..number + 1).first()?;
                return Some(Strip { expert: known(id), row: number / sharing, pairs: Pairs::One(number) });
            }
            let words = tile.read_part::<u32>(PLACES, 0..1 + WORDS * most + 2 * pairs);
            let (count, words) = words.split_first()?;
            let (strips, words) = words.split_at_checked(WORDS * most)?;
            let (order, homes) = words.split_at_checked(pairs)?;
            let strips = strips.as_chunks::<WORDS>().0.get(..*count as usize)?;
            let [expert, first, pairs] = *strips.get(number)?;
            let first = first as usize;
            let pairs = order.get(first..first + pairs as usize)?;
            // The words may be any: a strip whose pairs are not all its own would write what another tile writes.
            let is_own = |pair: &u32| homes.get(*pair as usize).is_some_and(|home| *home as usize == number);
            if pairs.is_empty() || pairs.len() > STRIP || !pairs.iter().all(is_own) {
                return None;
            }
            Some(Strip { expert: known(expert), row: first, pairs: Pairs::Many(pairs) })
        }
    }

    /// The number of pairs.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self.pairs {
            Pairs::One(_) => 1,
            Pairs::Many(pairs) => pairs.len(),
        }
    }

    /// The pairs, in the order of rows of activations.
    #[inline(always)]
    pub(crate) fn pairs(&self) -> impl Iterator<Item = usize> + use<'a> {
        let (one, many) = match self.pairs {
            Pairs::One(pair) => (Some(pair), &[][..]),
            Pairs::Many(pairs) => (None, pairs),
        };
        one.into_iter().chain(many.iter().map(|&pair| pair as usize))
    }
}
