//! Work lists: which keys each query sees, and how these keys are shared among workgroups.
//!
//! ```text
//! entry      words, u32                                      one for each query, then one for each item
//! query      first position, end, first item, items         sees positions first..end; its items have all of them
//! item       first query, queries, first block, blocks       a block is 128 absolute positions
//! ```
//!
//! The host fills a list for each pass ([`WorkList::set`]), so one recording serves any position and depth: the number of items is the first
//! axis of the list, which may be a live extent. Every query has bounds of its own, so windows, chunks and queries that are not causal are
//! data. Lists for more than [`ITEM_QUERIES`] queries have no items: kernels for many queries read the bounds alone.
//!
//! The device does not trust the words. Bounds are cut to the capacity and to [`MOST_POSITIONS`], items to the queries of the call and to
//! [`GROUP_BLOCKS`] blocks. A query whose items do not have it is NaN.

use silicide_core::{Buffer, Device, Error, Result};
use silicide_hal::DeviceInfo;
use std::ops::Range;

/// Words of an entry.
pub const ENTRY_WORDS: usize = 4;
/// The most queries of an item, and of a list with items.
pub const ITEM_QUERIES: usize = 16;
/// Keys of a block. On the CPU a part of the definition: results have other bits with another number.
pub(super) const BLOCK_KEYS: usize = 128;
/// Blocks of a group: the most blocks of an item. On the CPU a part of the definition.
pub(super) const GROUP_BLOCKS: usize = 8;
/// The last position that is visible is below this, so that sums of positions stay within 32 bits.
pub const MOST_POSITIONS: usize = 1 << 30;

/// Which keys the queries of a sequence see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    /// Whether queries see no position after their own.
    pub causal: bool,
    /// How many positions a query sees back, its own included.
    pub window: Option<u32>,
    /// Slots of the cache: of all positions up to the last query's, it keeps as many.
    pub capacity: usize,
}

impl Visibility {
    /// Causal queries without a window.
    pub const fn causal(capacity: usize) -> Visibility {
        Visibility { causal: true, window: None, capacity }
    }

    /// Returns the positions that each of `tokens` queries sees, which are at positions `start..start + tokens`.
    pub fn ranges(
        &self,
        start: usize,
        tokens: usize,
    ) -> impl ExactSizeIterator<Item = Range<usize>> + Clone + use<> {
        let Visibility { causal, window, capacity } = *self;
        let total = start.saturating_add(tokens);
        (0..tokens).map(move |token| {
            let next = start.saturating_add(token).saturating_add(1);
            let opens = window.map_or(0, |window| next.saturating_sub(window as usize));
            let end = if causal { next } else { total };
            opens.max(total.saturating_sub(capacity)).min(end)..end
        })
    }

    /// Returns the most keys that `tokens` queries see between them.
    fn most_keys(&self, tokens: usize) -> usize {
        let window = self
            .window
            .map_or(usize::MAX, |window| (window as usize).saturating_sub(1).saturating_add(tokens));
        self.capacity.min(window).min(MOST_POSITIONS)
    }
}

/// How keys are shared among items, on a kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    /// Up to this many blocks, an item has `of_fine`; of more, `of_coarse`.
    fine: usize,
    of_fine: usize,
    of_coarse: usize,
}

impl Sharing {
    /// Threads of a CPU are few. GPUs have room for thousands of workgroups.
    pub(super) const CPU: Sharing = Sharing { fine: 32, of_fine: 2, of_coarse: GROUP_BLOCKS };
    pub(super) const GPU: Sharing = Sharing { fine: 128, of_fine: 1, of_coarse: 4 };

    fn of(on: &DeviceInfo) -> Sharing {
        if on.is_gpu() { Sharing::GPU } else { Sharing::CPU }
    }

    /// The most items for `blocks` blocks, which need not begin or end with an item.
    const fn most_items(self, blocks: usize) -> usize {
        let fine = if blocks < self.fine { blocks } else { self.fine };
        let fine = fine.div_ceil(self.of_fine);
        let coarse = blocks.div_ceil(self.of_coarse) + 1;
        if blocks > self.fine && coarse > fine { coarse } else { fine }
    }

    /// The blocks of the item that begins at block `first`, of `count` blocks up to `end` in all.
    fn item(self, first: usize, end: usize, count: usize) -> usize {
        let next = match count <= self.fine {
            true => first + self.of_fine,
            false => (first / self.of_coarse + 1) * self.of_coarse,
        };
        next.min(end) - first
    }
}

/// The most items with two blocks that a list for the CPU has.
pub(super) const MOST_PAIRS: usize = Sharing::CPU.fine / Sharing::CPU.of_fine;

/// A list that the host fills. It keeps its memory, so lists of the same length allocate nothing.
#[derive(Clone, Debug)]
pub struct WorkList {
    capacity: usize,
    sharing: Sharing,
    words: Vec<u32>,
}

impl WorkList {
    /// Creates an empty list for a cache of `capacity` slots.
    pub fn new(capacity: usize, on: &DeviceInfo) -> WorkList {
        WorkList::shared(capacity, Sharing::of(on))
    }

    pub(super) fn shared(capacity: usize, sharing: Sharing) -> WorkList {
        WorkList { capacity, sharing, words: Vec::new() }
    }

    /// Replaces the list by that of queries which see these positions. Positions that the cache no longer keeps, and ranges that end
    /// before they begin or after [`MOST_POSITIONS`], are errors; the list is then empty.
    pub fn set(&mut self, rows: impl ExactSizeIterator<Item = Range<usize>> + Clone) -> Result<()> {
        self.words.clear();
        let mut hull: Option<Range<usize>> = None;
        for (row, range) in rows.clone().enumerate() {
            let refuse = |why: &str| {
                let what = format!("work list: query {row} sees {range:?}, {why}");
                Err(Error::BadParameter { op: "attention", what })
            };
            if range.start > range.end || range.end > MOST_POSITIONS {
                return refuse(&format!("not a range of positions up to {MOST_POSITIONS}"));
            }
            if range.is_empty() {
                continue;
            }
            let all =
                hull.take().map_or(range.clone(), |all| all.start.min(range.start)..all.end.max(range.end));
            if all.len() > self.capacity {
                let (end, capacity) = (all.end, self.capacity);
                return refuse(&format!("and a cache with positions up to {end} keeps {capacity}"));
            }
            hull = Some(all);
        }
        let blocks = hull.map_or(0..0, |hull| hull.start / BLOCK_KEYS..hull.end.div_ceil(BLOCK_KEYS));
        let queries = rows.len();
        for range in rows {
            self.words.extend([range.start as u32, range.end as u32, 0, 0]);
        }
        if queries > ITEM_QUERIES {
            return Ok(());
        }
        let mut first = blocks.start;
        let mut items = 0;
        // A list for few queries has an item, even if none sees a key.
        while first < blocks.end || items == 0 {
            let count = self.sharing.item(first, blocks.end, blocks.len());
            self.words.extend([0, queries as u32, first as u32, count as u32]);
            (first, items) = (first + count, items + 1);
        }
        for row in self.words.as_chunks_mut::<ENTRY_WORDS>().0.iter_mut().take(queries) {
            *row = [row[0], row[1], 0, items];
        }
        Ok(())
    }

    /// Its words, [`ENTRY_WORDS`] for each entry.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Entries: queries and items.
    pub fn entries(&self) -> usize {
        self.words.len() / ENTRY_WORDS
    }

    /// Returns the most entries of lists for up to `tokens` queries.
    pub fn most_entries(rule: &Visibility, tokens: usize, on: &DeviceInfo) -> usize {
        if tokens > ITEM_QUERIES {
            return tokens;
        }
        // Keys that do not begin a block reach into one more.
        let blocks = rule.most_keys(tokens).div_ceil(BLOCK_KEYS) + 1;
        tokens + Sharing::of(on).most_items(blocks).max(1)
    }

    /// Returns a buffer with the list of one call, `[entries, 4]` of u32: `tokens` queries, the first at position `start`.
    pub fn buffer(device: &Device, rule: &Visibility, start: usize, tokens: usize) -> Result<Buffer> {
        let mut list = WorkList::new(rule.capacity, device.info());
        list.set(rule.ranges(start, tokens))?;
        Buffer::from_slice(device, [list.entries(), ENTRY_WORDS], list.words())
    }
}

/// The entries of a list, as devices read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'a> {
    entries: &'a [[u32; ENTRY_WORDS]],
    queries: usize,
    capacity: usize,
}

/// How many keys the queries of a call see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenKeys {
    /// From the first key that any query sees to the last one.
    pub(super) read: usize,
    /// The sum over all queries.
    pub(super) seen: usize,
}

/// An item: some queries, some blocks of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) queries: Range<usize>,
    pub(super) blocks: Range<usize>,
}

impl<'a> Entries<'a> {
    /// Reads the words of a list for `queries` queries.
    #[inline(always)]
    pub(super) fn new(words: &'a [u32], queries: usize, capacity: usize) -> Entries<'a> {
        Entries { entries: words.as_chunks().0, queries, capacity }
    }

    /// The positions that a query sees: at most `capacity`, below [`MOST_POSITIONS`].
    #[inline(always)]
    pub(super) fn range(&self, query: usize) -> Range<usize> {
        let [first, end, ..] = self.entries.get(query).copied().unwrap_or_default();
        let end = (end as usize).min(MOST_POSITIONS);
        (first as usize).max(end.saturating_sub(self.capacity)).min(end)..end
    }

    /// Returns how many keys the queries see.
    pub(super) fn seen(&self) -> SeenKeys {
        let ranges = || (0..self.queries).map(|query| self.range(query)).filter(|range| !range.is_empty());
        let first = ranges().map(|range| range.start).min().unwrap_or(0);
        let end = ranges().map(|range| range.end).max().unwrap_or(0);
        SeenKeys { read: (end - first).min(self.capacity), seen: ranges().map(|range| range.len()).sum() }
    }

    /// The items of a query.
    #[inline(always)]
    pub(super) fn items_of(&self, query: usize) -> Range<usize> {
        let [.., first, count] = self.entries.get(query).copied().unwrap_or_default();
        let all = self.entries.len().saturating_sub(self.queries);
        let first = (first as usize).min(all);
        first..first + (count as usize).min(all - first)
    }

    /// Item `item`: queries of the call, and at most [`GROUP_BLOCKS`] blocks.
    #[inline(always)]
    pub(super) fn item(&self, item: usize) -> Item {
        let words = self.entries.get(self.queries + item).copied().unwrap_or_default();
        let [first, count, block, blocks] = words.map(|word| word as usize);
        let (first, block) = (first.min(self.queries), block.min(MOST_POSITIONS / BLOCK_KEYS));
        Item {
            queries: first..first + count.min(ITEM_QUERIES).min(self.queries - first),
            blocks: block..block + blocks.min(GROUP_BLOCKS),
        }
    }
}

/// Estimates the keys of `items` items.
pub(super) fn keys_of(items: usize) -> usize {
    let blocks = if items <= MOST_PAIRS { Sharing::CPU.of_fine } else { GROUP_BLOCKS };
    items.saturating_mul(blocks * BLOCK_KEYS)
}
