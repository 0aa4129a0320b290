//! The needs of attention's programs: bytes, alignment and access of their bindings.

use super::rows::most_rows;
use super::{HEADER, split};
use crate::attention::{ENTRY_WORDS, ITEM_QUERIES, MOST_DIM, MOST_KEY_DIM};
use crate::cache_write::cache_bytes;
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
    dim: Count,
    value_dim: Count,
    items: Count,
    /// Bytes of queries, keys and values, and what the latter are aligned to.
    q: Count,
    caches: [(Count, usize); 2],
    /// Bytes of sinks.
    sinks: Count,
}

impl Header {
    /// Reads and checks them: heads share heads of keys evenly, rows are whole blocks, and only lists for few queries have items.
    fn of(launch: &LaunchShape<'_>) -> Option<Header> {
        let [tokens, heads, kv_heads, dim, value_dim, capacity, items] =
            [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
        let one_to = |most: Count, count: Count| count >= Count(1) && count <= most;
        let is_shaped = one_to(Count::from(MOST_KEY_DIM), dim) && one_to(Count::from(MOST_DIM), value_dim);
        let is_shared = one_to(heads, kv_heads) && heads.0.is_multiple_of(kv_heads.0);
        let is_listed = items == Count(0) || tokens <= Count::from(ITEM_QUERIES);
        if !is_shaped || !is_shared || !is_listed || capacity == Count(0) || tokens == Count(0) {
            return None;
        }
        let in_lanes = launch.param(9) & 4 != 0;
        Some(Header {
            tokens,
            heads,
            kv_heads,
            group: Count(heads.0 / kv_heads.0),
            dim,
            value_dim,
            items,
            q: tokens * heads * dim * 4u32,
            caches: [
                cache_bytes(launch.param(10), in_lanes, [kv_heads, capacity, dim])?,
                cache_bytes(launch.param(11), false, [kv_heads, capacity, value_dim])?,
            ],
            sinks: if launch.param(9) & 2 == 0 { Count(0) } else { heads * 4u32 },
        })
    }

    /// Bytes of the work list.
    fn work(&self) -> Count {
        (self.tokens + self.items) * (ENTRY_WORDS * 4)
    }

    /// Queries, keys, values, work list, sinks.
    fn inputs(&self) -> Needs {
        let [(keys, key_align), (values, value_align)] = self.caches;
        let needs = Needs::new().read(self.q, 4).read(keys, key_align).read(values, value_align);
        needs.read(self.work(), 4).read(self.sinks, 4)
    }

    /// Bytes of the outputs.
    fn out(&self) -> Count {
        self.tokens * self.heads * self.value_dim * 4u32
    }

    /// Rows that a tile has room for.
    fn most_rows(&self) -> usize {
        most_rows(self.dim.0 as usize, self.value_dim.0 as usize)
    }

    /// Returns the bytes of all parts.
    fn parts(&self) -> Count {
        let parts = Count::from(split::most_parts(self.items.0 as usize));
        parts * self.tokens * self.heads * (self.value_dim + 2u32) * 4u32
    }

    /// Whether tiles of `heads` heads, and all heads of a head of keys, have whole groups of 32, of which a token's row has `groups`.
    fn is_whole(&self, heads: Count, groups: u32) -> bool {
        let is_whole = |heads: Count| (heads * self.value_dim).0.is_multiple_of(GROUP as u64);
        let has_all = self.heads * self.value_dim == Count::from(groups) * GROUP;
        is_whole(self.group) && (heads >= self.group || is_whole(heads)) && has_all
    }
}

/// The grid: items, heads of keys, rows of the queries that share one.
pub(super) fn split(launch: &LaunchShape<'_>) -> Option<Needs> {
    let header = Header::of(launch)?;
    let rows = (header.tokens * header.group).div_ceil(header.most_rows())?;
    let is_covered = launch.grid.map(Count::from) == [header.items, header.kv_heads, rows];
    is_covered.then(|| header.inputs().write(header.parts(), 4))
}

/// The grid: tokens, heads of keys. Queries, keys and values are not touched.
pub(super) fn fold(launch: &LaunchShape<'_>) -> Option<Needs> {
    let header = Header::of(launch)?;
    let is_covered = launch.plane()? == [header.tokens, header.kv_heads];
    let unused = Needs::new().read(0u32, 1).read(0u32, 1).read(0u32, 1);
    let needs = unused.read(header.work(), 4).read(header.sinks, 4).write(header.out(), 4);
    is_covered.then(|| needs.read(header.parts(), 4))
}

/// As [`fold`]; the last parameter is the groups of a token's row.
pub(super) fn fold_quantized(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (header, groups) = (Header::of(launch)?, launch.param(HEADER));
    let needs = fold(launch).filter(|_| header.is_whole(header.group, groups))?;
    Some(needs.write(product::quantized(header.tokens, groups), product::ROW_ALIGN))
}

/// The grid: tokens, heads of keys, heads that share one; parameters after the others are the most tokens and heads of a tile.
pub(super) fn tiled(launch: &LaunchShape<'_>) -> Option<Needs> {
    let header = Header::of(launch)?;
    let [tokens, heads] = [0, 1].map(|i| launch.count(HEADER + i));
    let grid = [header.tokens.div_ceil(tokens)?, header.kv_heads, header.group.div_ceil(heads)?];
    let is_covered =
        launch.grid.map(Count::from) == grid && tokens * heads <= Count::from(header.most_rows());
    is_covered.then(|| header.inputs().write(header.out(), 4))
}

/// As [`tiled`]; the last parameter is the groups of a token's row.
pub(super) fn tiled_quantized(launch: &LaunchShape<'_>) -> Option<Needs> {
    let (header, groups) = (Header::of(launch)?, launch.param(HEADER + 2));
    let needs = tiled(launch).filter(|_| header.is_whole(launch.count(HEADER + 1), groups))?;
    Some(needs.write(product::quantized(header.tokens, groups), product::ROW_ALIGN))
}
