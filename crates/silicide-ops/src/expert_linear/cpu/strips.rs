//! Pairs grouped by expert, and cut in strips: what a tile multiplies with some outputs of one expert.
//!
//! Grouping is one pass over the ids to count and one to place them, so that the pairs of an expert stay in order; pairs whose id no
//! expert has form a last group of their own. Groups are cut in strips of at most [`STRIP`] pairs. The words that say so are
//! derived from the ids alone, so that calls with the same ids share them.
//!
//! A single row of ids needs no grouping: each pair is a strip.
//!
//! Multiplying kernels bind activations ([`ACTIVATIONS`]), places ([`PLACES`]), outputs ([`OUTPUTS`]) and then the planes of the
//! weight ([`WEIGHTS`]).

use super::super::Problem;
use crate::cpu::native_kernel;
use crate::cpu::needs::in_tiles_of;
use silicide_core::kernel::{Access, Arg, Launch, Plan};
use silicide_hal::{Count, LaunchShape, NativeKernel, Needs, Program, Tile};
use smallvec::smallvec;

/// The most pairs of a strip: their outputs stay in the caches until they are put where they belong.
pub(crate) const STRIP: usize = 128;

/// Words that describe a strip: expert, first place, pairs.
const WORDS: usize = 3;

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
        let most = if pairs == used { 0 } else { pairs.min(experts + 1) + pairs / STRIP };
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

    /// Words of the groups: how many strips, the strips, pairs by place, the strip of each pair, and where the next pair of each
    /// group goes.
    fn words(&self) -> usize {
        1 + WORDS * self.most + 2 * self.pairs + self.experts + 1
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
/// strips, the rows of a tile, and `extent`; its bindings are activations, ids, groups and the rows that it makes.
pub(crate) struct Order {
    pub(crate) program: &'static NativeKernel,
    /// Bytes of a row that it makes.
    pub(crate) row_bytes: usize,
    /// Its last parameter: what a row has.
    pub(crate) extent: usize,
}

/// Adds two launches to `plan`: one groups the pairs of the argument `ids`, and `order` makes a row of each pair's activations,
/// which are argument 0.
pub(crate) fn sort(plan: &mut Plan, problem: &Problem, ids: Arg, order: &Order) -> Sorted {
    let cut = Cut::of(problem);
    let group = Launch {
        program: Program::Native(&GROUP),
        args: smallvec![ids],
        params: [cut.pairs, cut.experts, cut.most].into_iter().map(|extent| extent as u32).collect(),
        grid: [1, 1, 1],
    };
    let groups = Arg::scratch(plan.derive(cut.words() * 4, group), Access::Read);
    let tile_rows = (ORDER_ELEMENTS / problem.k).max(1);
    let params = [problem.pairs, problem.sharing, cut.most, tile_rows, order.extent];
    let launch = Launch {
        program: Program::Native(order.program),
        // Scratch is derived from inputs alone: the ids stand for the groups, which are derived from them.
        args: smallvec![Arg::slot(0), ids, groups],
        params: params.into_iter().map(|extent| extent as u32).collect(),
        grid: [problem.pairs.div_ceil(tile_rows) as u32, 1, 1],
    };
    let activations = plan.derive(problem.pairs * order.row_bytes, launch);
    Sorted { activations: Arg::scratch(activations, Access::Read), places: groups }
}

/// Activations that one tile puts in order, about.
const ORDER_ELEMENTS: usize = 16 << 10;

/// For a tile of an ordering kernel ([`sort`]): each of its places, and the row of activations that goes there.
///
/// # Safety
///
/// The parameters and bindings are those that [`sort`] gives.
#[inline(always)]
pub(crate) unsafe fn places<'a>(tile: &Tile<'a>) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let [pairs, sharing, most, tile_rows] = [0, 1, 2, 3].map(|i| tile.param(i) as usize);
    let first = tile.index[0] as usize * tile_rows;
    let end = (first + tile_rows).min(pairs);
    let start = 1 + WORDS * most;
    // SAFETY: the groups have a word for every pair, which no launch writes now.
    let order = unsafe { tile.read_part::<u32>(2, start + first..start + end) };
    // Groups may hold any words: what is no pair has no row.
    let rows = order.iter().map(move |&pair| (pair as usize) < pairs).zip(order);
    (first..end)
        .zip(rows)
        .filter_map(move |(place, (is_pair, &pair))| is_pair.then_some((place, pair as usize / sharing)))
}

// SAFETY: there is one tile; it writes the words of the groups through slices.
native_kernel!(unsafe GROUP, "expert_linear.group.cpu", group, needs group_need);

fn group_need(launch: &LaunchShape<'_>) -> Option<Needs> {
    let pairs = launch.count(0);
    let needs =
        Needs::new().read(pairs * 4u32, 4).write(group_words(launch.count(2), pairs, launch.count(1)), 4);
    (launch.grid == [1; 3]).then_some(needs)
}

/// Returns the bytes of the groups of `pairs` pairs, cut in at most `most` strips.
fn group_words(most: Count, pairs: Count, experts: Count) -> Count {
    (most * WORDS + pairs * 2u32 + experts + 2u32) * 4u32
}

/// The needs of an ordering kernel ([`sort`]), which makes `to` bytes of the `from` bytes of a row.
pub(crate) fn order_need(launch: &LaunchShape<'_>, from: Count, to: Count, align: usize) -> Option<Needs> {
    let [pairs, sharing, most, tile_rows] = [0, 1, 2, 3].map(|i| launch.count(i));
    in_tiles_of(launch, pairs, tile_rows)?;
    let needs = Needs::new().read(pairs.div_ceil(sharing)? * from, 4).read(0u32, 4);
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

/// Groups all pairs. Bindings: ids, groups. Parameters: pairs, experts, the most strips.
///
/// # Safety
///
/// The bindings have the extents of the parameters.
#[inline(always)]
unsafe fn group(tile: &Tile<'_>) {
    let [pairs, experts, most] = [0, 1, 2].map(|i| tile.param(i) as usize);
    let cut = Cut { most, pairs, experts };
    // SAFETY: the planner made room for these words, and there is one tile.
    let (ids, words) = unsafe { (tile.read_part::<u32>(0, 0..pairs), tile.write::<u32>(1, 0..cut.words())) };
    let Some((count, words)) = words.split_first_mut() else { return };
    let Some((strips, words)) = words.split_at_mut_checked(WORDS * most) else { return };
    let Some((order, words)) = words.split_at_mut_checked(pairs) else { return };
    let Some((homes, next)) = words.split_at_mut_checked(pairs) else { return };
    // Negative ids are above all experts, as numbers without sign.
    let group_of = |id: u32| (id as usize).min(experts);
    next.fill(0);
    for id in ids {
        if let Some(pairs) = next.get_mut(group_of(*id)) {
            *pairs += 1;
        }
    }
    let (mut first, mut made) = (0, 0);
    let mut places = strips.as_chunks_mut::<WORDS>().0.iter_mut();
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
    // `u32::MAX` marks a pair that is in no strip.
    homes.fill(u32::MAX);
    for (pair, id) in ids.iter().enumerate() {
        let Some(next) = next.get_mut(group_of(*id)) else { continue };
        if let Some(place) = order.get_mut(*next as usize) {
            *place = pair as u32;
        }
        *next += 1;
    }
    for (number, &[_, first, pairs]) in (0..made).zip(strips.as_chunks::<WORDS>().0) {
        let pairs = order.get(first as usize..(first + pairs) as usize).unwrap_or_default();
        for pair in pairs {
            if let Some(home) = homes.get_mut(*pair as usize) {
                *home = number;
            }
        }
    }
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
