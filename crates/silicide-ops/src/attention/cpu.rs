//! Attention on the CPU: two kernels, and the decoded parameters of a call ([`Call`]).
//!
//! For few queries the keys are split in runs of fixed length, each a tile of its own that streams its part of the cache
//! once for all queries that share it; a second launch joins the parts ([`split`]). For many, a tile is a block of queries
//! that goes through the keys a block at a time, with an online softmax between two matrix products ([`tiled`]). Where
//! runs and blocks begin depends on the call and on `start` alone, so the bits do not depend on the number of threads.

mod needs;
mod split;
mod store;
mod tiled;
mod weigh;

use super::{Attend, Attention, Extents};
use crate::cpu::native_kernel;
use crate::elementwise::fits_cpu;
use crate::product::needs::check_alignment;
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::GROUP;
use silicide_hal::{DeviceInfo, Program, Tile};
use silicide_quant::DType;
use smallvec::SmallVec;
use split::{join_parts, join_quantized, split_keys};
use std::ops::Range;
use store::Cache;
use tiled::tile_queries;

/// Bindings; without sinks, `q` stands in for them.
const Q: usize = 0;
const K: usize = 1;
const V: usize = 2;
const START: usize = 3;
const SINKS: usize = 4;
/// The binding that is written: outputs, or parts of them.
const OUT: usize = 5;
/// The parts that a joining launch reads.
const PARTS: usize = 6;
/// The quantized outputs of a joining launch.
const QUANTIZED: usize = 7;

/// Parameter words that every program has; its own come after them.
const HEADER: usize = 13;

/// Queries at most for which keys are split.
const FEW_TOKENS: usize = 8;

// SAFETY: a tile reads the queries of its rows and the keys and values that they see, in slots below the capacity, and writes the
// parts of its own run of keys and rows.
native_kernel!(unsafe SPLIT, "attention.split.cpu", split_keys::<S>, needs needs::split, workspace size_of::<split::SplitWorkspace>());
// SAFETY: a tile reads the parts of its heads of one token, at most as many as keys can be seen, and writes their outputs.
native_kernel!(unsafe JOIN, "attention.split.join.cpu", join_parts::<S>, needs needs::join);
// SAFETY: as above; the outputs of a tile are whole groups of its token's row, which it quantizes.
native_kernel!(unsafe JOIN_QUANTIZED, "attention.split.join.quantized.cpu", join_quantized::<S>, needs needs::join_quantized);
// SAFETY: a tile reads the queries of its rows and the keys and values that they see, in slots below the capacity, and writes their
// outputs.
native_kernel!(unsafe TILED, "attention.tiled.cpu", tile_queries::<S>, needs needs::tiled, workspace size_of::<tiled::TiledWorkspace>());

/// A call, as a tile sees it.
struct Call<'a> {
    tile: &'a Tile<'a>,
    extents: Extents,
    rule: Attention,
    sinks: bool,
    types: [u32; 2],
    /// The position of the first query.
    start: usize,
}

impl<'a> Call<'a> {
    /// # Safety
    /// The tile is of a launch that [`plan_header`] made the first parameters of.
    #[inline(always)]
    unsafe fn of(tile: &'a Tile<'a>) -> Call<'a> {
        let word = |i: usize| tile.param(i) as usize;
        let extents = Extents {
            tokens: word(0),
            heads: word(1),
            kv_heads: word(2),
            dim: word(3),
            value_dim: word(4),
            capacity: word(5),
        };
        let flags = tile.param(10);
        let rule = Attention {
            scale: tile.param_f32(7),
            causal: flags & 1 != 0,
            window: Some(tile.param(9)).filter(|&window| window > 0),
            softcap: Some(tile.param_f32(8)).filter(|&cap| cap > 0.0),
            limit: tile.param(6),
        };
        // SAFETY: `needs` requires one word. One that is negative counts as too large.
        let start = unsafe { tile.read_part::<u32>(START, 0..1) }.first().copied().unwrap_or(0) as usize;
        let start = start.min(rule.limit as usize - extents.tokens);
        Call { tile, extents, rule, sinks: flags & 2 != 0, types: [tile.param(11), tile.param(12)], start }
    }

    /// The positions of the keys that queries `tokens` see between them.
    #[inline(always)]
    fn seen(&self, tokens: Range<usize>) -> Range<usize> {
        let total = self.start + self.extents.tokens;
        let (first, last) = (self.start + tokens.start, self.start + tokens.end.max(1) - 1);
        self.rule.seen(first, last, total, self.extents.capacity)
    }

    /// Where keys and values are.
    #[inline(always)]
    fn caches(&self) -> [Cache; 2] {
        let (Extents { dim, value_dim, .. }, [keys, values]) = (self.extents, self.types);
        [(K, keys, dim), (V, values, value_dim)].map(|(binding, code, dim)| Cache { binding, code, dim })
    }

    /// Returns the first run of at most `most` of `positions` that is contiguous in the cache: the slot of the first, and how many.
    #[inline(always)]
    fn together(&self, positions: &Range<usize>, most: usize) -> (usize, usize) {
        let slot = positions.start % self.extents.capacity;
        (slot, positions.len().min(most).min(self.extents.capacity - slot))
    }

    /// The sink of a head.
    #[inline(always)]
    fn sink(&self, head: usize) -> Option<f32> {
        // SAFETY: where there are sinks, `needs` requires one for each head.
        self.sinks.then(|| unsafe { self.tile.read_part::<f32>(SINKS, head..head + 1) }.first().copied())?
    }
}

/// Few queries.
pub(super) struct Split;

/// Any number of queries.
pub(super) struct Tiled;

/// Bindings and the first parameter words.
fn plan_header(op: &Attend, io: &Io<'_>, extents: &Extents) -> ([Arg; 5], SmallVec<[u32; 16]>) {
    let Extents { tokens, heads, kv_heads, dim, value_dim, capacity } = *extents;
    let Attention { scale, causal, window, softcap, limit } = op.rule;
    let sinks = if op.sinks { Arg::slot(4) } else { Arg::slot(0) };
    let mut params: SmallVec<[u32; 16]> =
        [tokens, heads, kv_heads, dim, value_dim, capacity].map(|extent| extent as u32).into_iter().collect();
    params.extend([
        limit,
        scale.to_bits(),
        softcap.unwrap_or(0.0).to_bits(),
        window.unwrap_or(0),
        u32::from(causal) | u32::from(op.sinks) << 1,
        io.input(1).dtype.code(),
        io.input(2).dtype.code(),
    ]);
    ([Arg::slot(0), Arg::slot(1), Arg::slot(2), Arg::slot(3), sinks], params)
}

/// The output's slot.
fn output(op: &Attend) -> Arg {
    Arg::slot(4 + u8::from(op.sinks))
}

fn check(io: &Io<'_>, on: &DeviceInfo) -> Result<Extents, Decline> {
    fits_cpu(on)?;
    let extents = Extents::of(io).ok_or(Decline("takes three axes"))?;
    let counted = [extents.tokens, extents.heads, extents.capacity].iter().all(|&n| u32::try_from(n).is_ok());
    if counted { Ok(extents) } else { Err(Decline("takes extents of at most 32 bits")) }
}

impl Kernel for Split {
    type Op = Attend;

    fn name(&self) -> &'static str {
        "attention.split.cpu"
    }

    fn fits(&self, op: &Attend, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let extents = check(io, on)?;
        if op.quantized {
            check_alignment(&io.output(1))?;
            if !(extents.group() * extents.value_dim).is_multiple_of(GROUP) {
                return Err(Decline("quantizes whole groups of 32 in a tile"));
            }
        }
        if extents.tokens > FEW_TOKENS {
            return Err(Decline("is for few queries"));
        }
        let rows = extents.tokens * extents.group();
        Ok(if extents.tokens == 1 || rows <= split::ROWS { Cost::BEST } else { Cost::FALLBACK })
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = Extents::of(io) else { return Plan::default() };
        let rows = extents.tokens * extents.group();
        let splits = op.rule.most_seen(extents.tokens, extents.capacity).div_ceil(split::KEYS).max(1);
        let mut plan = Plan::default();
        let parts = plan.scratch(splits * extents.kv_heads * rows * split::part_words(extents.value_dim) * 4);
        let ([q, k, v, start, sinks], params) = plan_header(op, io, &extents);
        let grid = [splits, extents.kv_heads, rows.div_ceil(split::ROWS)].map(|n| n as u32);
        let out = Arg::scratch(parts, Access::Write);
        plan.push(Program::Native(&SPLIT), &[q, k, v, start, sinks, out], &params, grid);
        // Joining reads neither queries nor keys.
        let y = output(op);
        let parts = Arg::scratch(parts, Access::Read);
        let grid = [extents.tokens as u32, extents.kv_heads as u32, 1];
        if op.quantized {
            let args = [start, start, start, start, sinks, y, parts, Arg::slot(5 + u8::from(op.sinks))];
            let mut params = params;
            params.push((extents.heads * extents.value_dim / GROUP) as u32);
            plan.push(Program::Native(&JOIN_QUANTIZED), &args, &params, grid);
        } else {
            plan.push(Program::Native(&JOIN), &[start, start, start, start, sinks, y, parts], &params, grid);
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
        if op.quantized {
            return Err(Decline("gives no quantized rows"));
        }
        check(io, on).map(|_| Cost::GOOD)
    }

    fn plan(&self, op: &Attend, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let Some(extents) = Extents::of(io) else { return Plan::default() };
        let ([q, k, v, start, sinks], mut params) = plan_header(op, io, &extents);
        let heads = extents.group().min(tiled::MOST_HEADS);
        let tokens = (tiled::ROWS / heads).min(extents.tokens);
        params.extend([tokens as u32, heads as u32]);
        let grid = [extents.tokens.div_ceil(tokens), extents.kv_heads, extents.group().div_ceil(heads)];
        Plan::launch(
            Program::Native(&TILED),
            &[q, k, v, start, sinks, output(op)],
            &params,
            grid.map(|n| n as u32),
        )
    }
}

const _: () = assert!(DType::F32.code() == 0);
