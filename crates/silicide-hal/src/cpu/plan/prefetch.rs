//! The address ranges that each thread streams first in a group. They are computed when the list is planned, so that a waiting
//! thread can prefetch them.
//!
//! A replayed plan starts over after its last group, so the ranges after the last group are those of the first one that
//! streams. A list that runs only once then prefetches lines that it never uses, at a time when memory is idle.

use super::{Group, Kind, Launch, Plan, Step, Work};
use crate::cpu::pool::NextRanges;
use crate::program::{PrefetchRange, Tile};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// At most this fraction (one over) of a core's L2 cache is prefetched.
const CACHE_FRACTION: usize = 4;
/// The most tiles of one thread that are examined, so that planning stays quick. Smaller tiles are not limited by memory.
const MOST_TILES: usize = 64;

/// The ranges of all groups that stream.
#[derive(Default)]
pub(super) struct PrefetchPlan {
    threads: usize,
    /// For each group that streams, the ranges of every thread.
    ranges: Vec<[PrefetchRange; 2]>,
    /// For every group, the number of groups before it that stream.
    before: Vec<u32>,
}

impl PrefetchPlan {
    /// Returns whether it was not made for any threads.
    pub(super) fn is_empty(&self) -> bool {
        self.threads == 0
    }
}

/// One thread of a team.
#[derive(Clone, Copy)]
struct Member {
    thread: usize,
    team: usize,
}

impl Plan {
    /// Computes the ranges that `threads` threads stream in each group, with the parameter words `params`. A thread
    /// prefetches a fraction of `l2_bytes` at most.
    pub(super) fn plan_prefetch(&mut self, params: &[u32], threads: usize, l2_bytes: usize) {
        let mut plan = std::mem::take(&mut self.prefetch);
        plan.threads = threads;
        plan.ranges.clear();
        plan.before.clear();
        // A thread alone never waits.
        for group in self.groups.iter().filter(|_| threads > 1) {
            plan.before.push((plan.ranges.len() / threads) as u32);
            if self.streams(group, params) {
                let member = |thread| Member { thread, team: threads };
                let most = l2_bytes / CACHE_FRACTION;
                plan.ranges.extend(
                    (0..threads).map(|thread| self.first_ranges(group, member(thread), params, most)),
                );
            }
        }
        self.prefetch = plan;
    }

    /// Returns the ranges that thread `me` streams first after `group`; none if `team` is smaller than planned for.
    #[inline]
    pub(super) fn next_ranges(&self, group: usize, me: usize, team: usize) -> NextRanges {
        let PrefetchPlan { threads, ranges, before } = &self.prefetch;
        if team != *threads || ranges.is_empty() {
            return NextRanges::default();
        }
        let all = ranges.len() / threads;
        let streamed = |group: usize| before.get(group).map_or(all, |before| *before as usize);
        let (here, next) = (streamed(group), streamed(group + 1));
        let ranges = ranges.get(next % all * threads + me).copied().unwrap_or_default();
        NextRanges { ranges, evicted: here != next }
    }

    /// Returns whether the first tile of a group streams.
    fn streams(&self, group: &Group, params: &[u32]) -> bool {
        matches!(group.kind, Kind::Shared(_)) && self.tile_ranges(group, 0, params).is_some()
    }

    /// Returns the ranges that a thread streams first: those of its first tiles, joined while they are contiguous, and
    /// `most` bytes together at most.
    fn first_ranges(&self, group: &Group, member: Member, params: &[u32], most: usize) -> [PrefetchRange; 2] {
        let Kind::Shared(chunks) = group.kind else { return Default::default() };
        // The same split as the pool's.
        let first_tile = |thread: usize| {
            let chunk = u64::from(chunks) * thread as u64 / member.team as u64;
            chunk.saturating_mul(group.chunk).min(group.tiles)
        };
        let mut joined = [PrefetchRange::default(); 2];
        for tile in (first_tile(member.thread)..first_tile(member.thread + 1)).take(MOST_TILES) {
            let Some(ranges) = self.tile_ranges(group, tile, params) else { break };
            let contiguous = |(joined, range): (&PrefetchRange, &PrefetchRange)| {
                joined.bytes == 0 || joined.start.checked_add(joined.bytes) == Some(range.start)
            };
            if !joined.iter().zip(&ranges).all(contiguous) {
                break;
            }
            for (joined, range) in joined.iter_mut().zip(&ranges) {
                let start = if joined.bytes == 0 { range.start } else { joined.start };
                *joined = PrefetchRange { start, bytes: joined.bytes.saturating_add(range.bytes) };
            }
            if joined[0].bytes.saturating_add(joined[1].bytes) >= most {
                break;
            }
        }
        let [one, two] = joined;
        let streams = 1 + usize::from(one.bytes.min(two.bytes) > 0);
        joined.map(|range| PrefetchRange { bytes: range.bytes.min(most / streams), ..range })
    }

    /// Returns the ranges that a tile streams, or `None` if it streams nothing.
    fn tile_ranges(&self, group: &Group, tile: u64, params: &[u32]) -> Option<[PrefetchRange; 2]> {
        let steps = self.steps.get(group.steps.range())?;
        let step = steps.partition_point(|step| step.first <= tile).checked_sub(1)?;
        let Step { first, work: Work::Launch(launch) } = steps.get(step)? else { return None };
        let Launch { kernel, grid, bindings, .. } = launch;
        // SAFETY: the pipeline is live while its plan is built (`Plan::build`).
        let streams = unsafe { (**kernel).streams }?;
        let [width, height] = [grid[0].max(1), grid[1].max(1)].map(u64::from);
        let (number, row) = (tile - first, (tile - first) / width);
        let index = [number % width, row % height, row / height].map(|i| i as u32);
        // SAFETY: a plan with live launches is examined while its list is being submitted or replayed (`Plan::read_live`).
        let (params, bindings) = (unsafe { launch.params(params) }, self.bindings.get(bindings.range())?);
        let tile = Tile::new(index, *grid, params, bindings);
        // Ranges are only hints: a panic counts as no ranges.
        let ranges = catch_unwind(AssertUnwindSafe(|| streams(&tile))).ok()?;
        (ranges[0].bytes > 0).then_some(ranges)
    }
}

#[cfg(test)]
mod tests;
