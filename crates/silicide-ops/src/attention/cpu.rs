//! Attention on the CPU: one definition, two ways to run it, and the decoded parameters of a call ([`Call`]).
//!
//! ```text
//! block = position / PAGE, group = block / BLOCKS                # absolute positions
//!
//! for a query, for each block with keys that it sees:
//!     score[i]  = scale * (q . k[i])                              # the sum over elements in sequence; then the cap
//!     largest   = max score[i]                                    # of the keys that it sees
//!     weight[i] = exp(score[i] - largest)
//!     sum       = sum weight[i]                                   # 16 lanes, then by halves
//!     values    = sum weight[i] * v[i]                            # in sequence
//! group  = its blocks, folded in order
//! result = the groups, folded in order; then the sink; then divided by the sum
//!
//! fold (a, b):
//!     largest = max (a.largest, b.largest), here = exp(a.largest - largest), there = exp(b.largest - largest)
//!     sum     = fma(b.sum, there, a.sum * here)
//!     values  = fma(b.values, there, fma(a.values, here, 0))
//! ```
//!
//! So the bits of a result depend on the query, on the keys and values that it sees, and on their positions. They do not depend on other
//! rows of the call, on the capacity of the cache, on its layout, on tiles or on threads. Keys that a query does not see are
//! not multiplied into its result.
//!
//! For few queries, items of the work list are tiles, and a second launch folds their parts ([`split`]). For many, a tile is some queries that go
//! through the groups in order ([`tiled`]). Both call [`rows`] for a block: the same microkernels for one row and for many.
//!
//! Microkernels check the extents of what they are given. Here these follow from one checked call, so no microkernel refuses; if one did, the
//! rows of the tile would be NaN, which sampling refuses.

mod needs;
mod page;
mod rows;
mod softmax;
mod split;
mod tiled;

use super::work::{BLOCK_KEYS, GROUP_BLOCKS};
use super::{Attend, Attention, ENTRY_WORDS, Entries, Extents};
use crate::cpu::{Simd, native_kernel};
use crate::elementwise::fits_cpu;
use crate::product::needs::check_alignment;
use rows::{TileWorkspace, most_rows};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::GROUP;
use silicide_hal::{DeviceInfo, Program, Tile};
use smallvec::SmallVec;
use softmax::Softmax;
use split::{fold_quantized, fold_tile, split_keys};
use std::ops::Range;
use tiled::{tile_quantized, tile_queries};

/// Keys of a block.
const PAGE: usize = BLOCK_KEYS;
/// Blocks of a group.
const BLOCKS: usize = GROUP_BLOCKS;

/// Bindings; without sinks, `q` stands in for them.
const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const WORK: usize = 3;
const SINKS: usize = 4;
/// The binding that is written: outputs, or parts of them.
const OUT: usize = 5;
/// The parts that a launch folds.
const PARTS: usize = 6;
/// The quantized outputs of a launch that folds parts.
const QUANTIZED: usize = 7;
/// The quantized outputs of tiles of queries.
const TILED_QUANTIZED: usize = 6;

/// Parameter words that every program has; its own come after them.
const HEADER: usize = 12;

// SAFETY: a tile reads the queries of its rows and the sets of keys and the values that they see, in slots below the capacity, and writes the
// parts of its own blocks and rows.
native_kernel!(unsafe SPLIT, "attention.split.cpu", split_keys::<S>, needs needs::split, workspace size_of::<TileWorkspace>());
// SAFETY: a tile reads the parts of its heads of one token, of items below `items`, and writes their outputs.
native_kernel!(unsafe FOLD, "attention.split.fold.cpu", fold_tile::<S>, needs needs::fold);
// SAFETY: as above; the outputs of a tile are whole groups of its token's row, which it quantizes.
native_kernel!(unsafe FOLD_QUANTIZED, "attention.split.fold.quantized.cpu", fold_quantized::<S>, needs needs::fold_quantized);
// SAFETY: a tile reads the queries of its rows and the sets of keys and the values that they see, in slots below the capacity, and writes
// their outputs.
native_kernel!(unsafe TILED, "attention.tiled.cpu", tile_queries::<S>, needs needs::tiled, workspace size_of::<TileWorkspace>());
// SAFETY: as above; the outputs of a tile are whole groups of its tokens' rows, which it quantizes.
native_kernel!(unsafe TILED_AND_QUANTIZED, "attention.tiled.quantized.cpu", tile_quantized::<S>, needs needs::tiled_quantized, workspace size_of::<TileWorkspace>());

/// A call, as a tile sees it.
struct Call<'a> {
    tile: &'a Tile<'a>,
    extents: Extents,
    rule: Attention,
    sinks: bool,
    types: [u32; 2],
    work: Entries<'a>,
}

impl<'a> Call<'a> {
    /// # Safety
    /// The tile is of a launch that [`plan_header`] made the first parameters of.
    #[inline(always)]
    unsafe fn of(tile: &'a Tile<'a>) -> Call<'a> {
        let word = |i: usize| tile.param(i) as usize;
        let flags = tile.param(9);
        let extents = Extents {
            tokens: word(0),
            heads: word(1),
            kv_heads: word(2),
            dim: word(3),
            value_dim: word(4),
            capacity: word(5),
            items: word(6),
            in_lanes: flags & 4 != 0,
        };
        let rule =
            Attention { scale: tile.param_f32(7), softcap: Some(tile.param_f32(8)).filter(|&cap| cap > 0.0) };
        let words = (extents.tokens + extents.items) * ENTRY_WORDS;
        // SAFETY: `needs` requires an entry for each query and item.
        let work =
            Entries::new(unsafe { tile.read_part::<u32>(WORK, 0..words) }, extents.tokens, extents.capacity);
        Call { tile, extents, rule, sinks: flags & 2 != 0, types: [tile.param(10), tile.param(11)], work }
    }

    /// The positions that queries `tokens` see between them, without those that the cache can't keep.
    #[inline(always)]
    fn seen(&self, tokens: Range<usize>) -> Range<usize> {
        let seen = rows::hull(tokens.map(|token| {
            let Range { start, end } = self.work.range(token);
            [start, end]
        }));
        seen.start.max(seen.end.saturating_sub(self.extents.capacity))..seen.end
    }

    /// The sink of a head.
    #[inline(always)]
    fn sink(&self, head: usize) -> Option<f32> {
        // SAFETY: where there are sinks, `needs` requires one for each head.
        self.sinks.then(|| unsafe { self.tile.read_part::<f32>(SINKS, head..head + 1) }.first().copied())?
    }
}

impl Call<'_> {
    /// Takes the sink into the softmax of a row, and divides its weighted values `y` by the sum of weights.
    #[inline(always)]
    fn finish<S: Simd>(&self, head: usize, mut total: Softmax, y: &mut [f32]) {
        let here = self.sink(head).map_or(1.0, |sink| total.fold::<S>(Softmax::of_sink::<S>(sink))[0]);
        let share = here * total.share();
        y.iter_mut().for_each(|y| *y *= share);
    }
}

/// Few queries.
pub(super) struct Split;

/// Any number of queries.
pub(super) struct Tiled;

/// Bindings and the first parameter words.
fn plan_header(op: &Attend, io: &Io<'_>, extents: &Extents) -> ([Arg; 5], SmallVec<[u32; 16]>) {
    let Extents { tokens, heads, kv_heads, dim, value_dim, capacity, items, in_lanes } = *extents;
    let Attention { scale, softcap } = op.rule;
    let sinks = if op.sinks { Arg::slot(4) } else { Arg::slot(0) };
    let mut params: SmallVec<[u32; 16]> = [tokens, heads, kv_heads, dim, value_dim, capacity, items]
        .map(|extent| extent as u32)
        .into_iter()
        .collect();
    params.extend([
        scale.to_bits(),
        softcap.unwrap_or(0.0).to_bits(),
        u32::from(op.sinks) << 1 | u32::from(in_lanes) << 2,
        io.input(1).dtype.code(),
        io.input(2).dtype.code(),
    ]);
    ([Arg::slot(0), Arg::slot(1), Arg::slot(2), Arg::slot(3), sinks], params)
}

/// The output's slot.
fn output(op: &Attend) -> Arg {
    Arg::slot(4 + u8::from(op.sinks))
}

fn check(op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Extents, Decline> {
    fits_cpu(on)?;
    let extents = Extents::of(io).ok_or(Decline("takes three axes, or keys in lanes"))?;
    if io.input(3).shape.axes().first().is_none_or(|&entries| entries < extents.tokens) {
        return Err(Decline("takes a work list with an entry for each query"));
    }
    let counted = [extents.tokens, extents.heads, extents.capacity, extents.items]
        .iter()
        .all(|&n| u32::try_from(n).is_ok());
    if !counted {
        return Err(Decline("takes extents of at most 32 bits"));
    }
    if op.quantized {
        check_alignment(&io.output(1))?;
        if !(extents.group() * extents.value_dim).is_multiple_of(GROUP) {
            return Err(Decline("quantizes whole groups of 32 in a tile"));
        }
    }
    Ok(extents)
}

/// The quantized output's slot, and the groups of a token's row.
fn quantized(op: &Attend, extents: &Extents) -> (Arg, u32) {
    (Arg::slot(5 + u8::from(op.sinks)), (extents.heads * extents.value_dim / GROUP) as u32)
}

impl Kernel for Split {
    type Op = Attend;

    fn name(&self) -> &'static str {
        "attention.split.cpu"
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let extents = check(op, io, on)?;
        if extents.items == 0 {
            return Err(Decline("is for work lists with items"));
        }
        Ok(Cost::BEST)
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = Extents::of(io) else { return Plan::default() };
        let rows = extents.tokens * extents.group();
        let mut plan = Plan::default();
        let part_bytes = split::part_words(extents.value_dim) * 4;
        let parts = plan.scratch(split::most_parts(extents.items) * extents.kv_heads * rows * part_bytes);
        let ([q, k, v, work, sinks], params) = plan_header(op, io, &extents);
        let chunks = rows.div_ceil(most_rows(extents.dim, extents.value_dim));
        let grid = [extents.items, extents.kv_heads, chunks].map(|n| n as u32);
        let out = Arg::scratch(parts, Access::Write);
        plan.push(Program::Native(&SPLIT), &[q, k, v, work, sinks, out], &params, grid);
        // Folding reads neither queries nor keys.
        let y = output(op);
        let parts = Arg::scratch(parts, Access::Read);
        let grid = [extents.tokens as u32, extents.kv_heads as u32, 1];
        if op.quantized {
            let (quantized, groups) = quantized(op, &extents);
            let mut params = params;
            params.push(groups);
            let args = [work, work, work, work, sinks, y, parts, quantized];
            plan.push(Program::Native(&FOLD_QUANTIZED), &args, &params, grid);
        } else {
            plan.push(Program::Native(&FOLD), &[work, work, work, work, sinks, y, parts], &params, grid);
        }
        plan
    }
}

impl Kernel for Tiled {
    type Op = Attend;

    fn name(&self) -> &'static str {
        "attention.tiled.cpu"
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check(op, io, on).map(|_| Cost::GOOD)
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = Extents::of(io) else { return Plan::default() };
        let ([q, k, v, work, sinks], mut params) = plan_header(op, io, &extents);
        let heads = extents.group().min(tiled::MOST_HEADS);
        let tokens = (most_rows(extents.dim, extents.value_dim) / heads).min(extents.tokens);
        params.extend([tokens as u32, heads as u32]);
        let grid = [extents.tokens.div_ceil(tokens), extents.kv_heads, extents.group().div_ceil(heads)];
        let grid = grid.map(|n| n as u32);
        if op.quantized {
            let (quantized, groups) = quantized(op, &extents);
            params.push(groups);
            let args = [q, k, v, work, sinks, output(op), quantized];
            return Plan::launch(Program::Native(&TILED_AND_QUANTIZED), &args, &params, grid);
        }
        Plan::launch(Program::Native(&TILED), &[q, k, v, work, sinks, output(op)], &params, grid)
    }
}
