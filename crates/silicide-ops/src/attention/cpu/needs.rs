//! The needs of attention's programs: bytes, alignment and access of their bindings.

use super::{HEADER, split, tiled};
use crate::attention::{Attention, MOST_DIM};
use crate::elementwise::is_float;
use crate::needs::{bytes, dtype};
use crate::product::needs as product;
use silicide_gemm::q8::GROUP;
use silicide_hal::{Count, LaunchShape, Needs};

/// The parameters that every program has.
struct Header {
    tokens: Count,
    heads: Count,
    kv_heads: Count,
    /// Heads that share a head of keys.
    group: Count,
    value_dim: Count,
    /// The most keys that all queries see between them.
    most_seen: Count,
    /// Bytes of queries, keys and values, and what the latter are aligned to.
    q: Count,
    caches: [(Count, usize); 2],
    /// Bytes of sinks.
    sinks: Count,
}

impl Header {
    /// Reads and checks them: heads share heads of keys evenly, rows are whole blocks, and `start` has a place.
    fn of(launch: &LaunchShape<'_>) -> Option<Header> {
        let [tokens, heads, kv_heads, dim, value_dim, capacity, limit] =
            [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
        let one_to = |most: Count, count: Count| count >= Count(1) && count <= most;
        let is_shaped = one_to(Count::from(MOST_DIM), dim) && one_to(Count::from(MOST_DIM), value_dim);
        let is_shared = one_to(heads, kv_heads) && heads.0.is_multiple_of(kv_heads.0);
        if !is_shaped || !is_shared || capacity == Count(0) || !one_to(limit, tokens) {
            return None;
        }
        let rule = Attention {
            scale: 0.0,
            causal: false,
            window: Some(launch.param(9)).filter(|window| *window > 0),
            softcap: None,
            limit: launch.param(6),
        };
        let cache = |code: usize, dim: Count| {
            let dtype = dtype(launch.param(code)).filter(|dtype| dtype.is_block() || is_float(*dtype))?;
            Some((kv_heads * capacity * bytes(dtype, dim)?, if dtype.is_block() { 1 } else { dtype.size() }))
        };
        Some(Header {
            tokens,
            heads,
            kv_heads,
            group: Count(heads.0 / kv_heads.0),
            value_dim,
            most_seen: Count::from(rule.most_seen(launch.param(0) as usize, launch.param(5) as usize)),
            q: tokens * heads * dim * 4u32,
            caches: [cache(11, dim)?, cache(12, value_dim)?],
            sinks: if launch.param(10) & 2 == 0 { Count(0) } else { heads * 4u32 },
        })
    }

    /// Queries, keys, values, start, sinks.
    fn inputs(&self) -> Needs {
        let [(keys, key_align), (values, value_align)] = self.caches;
        let needs = Needs::new().read(self.q, 4).read(keys, key_align).read(values, value_align);
        needs.read(4u32, 4).read(self.sinks, 4)
    }

    /// Bytes of the outputs.
    fn out(&self) -> Count {
        self.tokens * self.heads * self.value_dim * 4u32
    }

    /// Returns the bytes of the parts of `splits` runs of keys.
    fn parts(&self, splits: Count) -> Count {
        splits * self.tokens * self.heads * (self.value_dim + 2u32) * 4u32
    }
}

/// The grid: runs of keys, heads of keys, rows of the queries that share one.
pub(super) fn split(launch: &LaunchShape<'_>) -> Option<Needs> {
    let header = Header::of(launch)?;
    let [splits, kv_heads, chunks] = launch.grid.map(Count::from);
    let rows = (header.tokens * header.group).div_ceil(split::ROWS)?;
    let is_covered = kv_heads == header.kv_heads && chunks == rows;
    is_covered.then(|| header.inputs().write(header.parts(splits), 4))
}

/// The grid: tokens, heads of keys. Queries, keys and values are not touched.
pub(super) fn join(launch: &LaunchShape<'_>) -> Option<Needs> {
    let header = Header::of(launch)?;
    let is_covered = launch.plane()? == [header.tokens, header.kv_heads];
    let splits = header.most_seen.div_ceil(split::KEYS)?;
    let unused = Needs::new().read(0u32, 1).read(0u32, 1).read(0u32, 1);
    let needs = unused.read(4u32, 4).read(header.sinks, 4).write(header.out(), 4);
    is_covered.then(|| needs.read(header.parts(splits), 4))
}

/// As [`join`]; the last parameter is the groups of a token's row.
pub(super) fn join_quantized(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (header, groups) = (Header::of(launch)?, launch.param(HEADER));
    let each = header.group * header.value_dim;
    let is_whole =
        each.0.is_multiple_of(GROUP as u64) && header.kv_heads * each == Count::from(groups) * GROUP;
    let quantized = product::quantized(header.tokens, groups);
    join(launch).filter(|_| is_whole).map(|needs| needs.write(quantized, product::ROW_ALIGN))
}

/// The grid: tokens, heads of keys, heads that share one; parameters after the others are the most tokens and heads of a tile.
pub(super) fn tiled(launch: &LaunchShape<'_>) -> Option<Needs> {
    let header = Header::of(launch)?;
    let [tokens, heads] = [0, 1].map(|i| launch.count(HEADER + i));
    let grid = [header.tokens.div_ceil(tokens)?, header.kv_heads, header.group.div_ceil(heads)?];
    let is_covered = launch.grid.map(Count::from) == grid && tokens * heads <= Count::from(tiled::ROWS);
    is_covered.then(|| header.inputs().write(header.out(), 4))
}
