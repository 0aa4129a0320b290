//! What each thread streams first in a group: known when the list is planned, so that a thread that waits can have it brought
//! nearer.
//!
//! A plan that is run again and again begins again after its last group, so that is what comes next there. For a list that is
//! run once, that is a hint about the wrong bytes while nothing else is to be done.

use super::{Group, Kind, Plan, Step, Work};
use crate::cpu::pool::Next;
use crate::program::{Stretch, Tile};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The part of a core's second cache that is filled ahead of time.
const CACHE_PART: usize = 4;
/// The most tiles that are looked at for a thread: more are so small that others are the limit, and planning must be quick.
const MOST_TILES: usize = 64;

/// What threads stream, group by group.
#[derive(Default)]
pub(super) struct Streams {
    threads: usize,
    /// For each group that streams, those of every thread.
    first: Vec<[Stretch; 2]>,
    /// For every group, the next that streams, counted among those that do.
    next: Vec<u32>,
}

impl Plan {
    /// Finds out what threads stream in the groups of a list with these parameter words; at most a part of so large a cache.
    pub(super) fn find_streams(&mut self, params: &[u32], threads: usize, cache: usize) {
        let mut streams = std::mem::take(&mut self.streams);
        streams.threads = threads;
        streams.first.clear();
        streams.next.clear();
        // A thread alone never waits.
        for group in self.groups.iter().filter(|_| threads > 1) {
            streams.next.push((streams.first.len() / threads) as u32);
            if self.streams_at(group, params) {
                let first = (0..threads)
                    .map(|me| self.first_stretches(group, (me, threads), params, cache / CACHE_PART));
                streams.first.extend(first);
            }
        }
        self.streams = streams;
    }

    /// What a thread streams first after a group, if the whole team takes part.
    #[inline]
    pub(super) fn ahead(&self, group: usize, me: usize, team: usize) -> Next {
        let Streams { threads, first, next } = &self.streams;
        if team != *threads || first.is_empty() {
            return Next::default();
        }
        let all = first.len() / threads;
        let after = |group: usize| next.get(group).map_or(all, |next| *next as usize);
        let (here, next) = (after(group), after(group + 1));
        let stretches = first.get(next % all * threads + me).copied().unwrap_or_default();
        Next { stretches, anew: here != next }
    }

    /// Whether the first tile of a group streams.
    fn streams_at(&self, group: &Group, params: &[u32]) -> bool {
        matches!(group.kind, Kind::Shared(_)) && self.stretches(group, 0, params).is_some()
    }

    /// What thread `me` streams first, as far as it lies side by side and is no more than `most` bytes.
    fn first_stretches(
        &self,
        group: &Group,
        (me, threads): (usize, usize),
        params: &[u32],
        most: usize,
    ) -> [Stretch; 2] {
        let Kind::Shared(chunks) = group.kind else { return Default::default() };
        // As the pool deals them out.
        let part = |n: usize| {
            (u64::from(chunks) * n as u64 / threads as u64).saturating_mul(group.chunk).min(group.tiles)
        };
        let mut all = [Stretch::default(); 2];
        for tile in (part(me)..part(me + 1)).take(MOST_TILES) {
            let Some(more) = self.stretches(group, tile, params) else { break };
            let follows = |(all, more): (&Stretch, &Stretch)| {
                all.bytes == 0 || all.start.checked_add(all.bytes) == Some(more.start)
            };
            if !all.iter().zip(&more).all(follows) {
                break;
            }
            for (all, more) in all.iter_mut().zip(&more) {
                let start = if all.bytes == 0 { more.start } else { all.start };
                *all = Stretch { start, bytes: all.bytes.saturating_add(more.bytes) };
            }
            if all[0].bytes.saturating_add(all[1].bytes) >= most {
                break;
            }
        }
        let [one, two] = all;
        all.map(|all| Stretch {
            bytes: all.bytes.min(most / (1 + usize::from(one.bytes.min(two.bytes) > 0))),
            ..all
        })
    }

    /// What a tile streams, if it does.
    fn stretches(&self, group: &Group, tile: u64, params: &[u32]) -> Option<[Stretch; 2]> {
        let steps = self.steps.get(group.steps.range())?;
        let step = steps.partition_point(|step| step.first <= tile).checked_sub(1)?;
        let Step { first, work: Work::Launch { kernel, grid, bindings, params: words } } = steps.get(step)?
        else {
            return None;
        };
        // SAFETY: the pipeline is live (see the module above).
        let streams = unsafe { (**kernel).streams }?;
        let [width, height] = [grid[0].max(1), grid[1].max(1)].map(u64::from);
        let (number, row) = (tile - first, (tile - first) / width);
        let index = [number % width, row % height, row / height].map(|i| i as u32);
        let (params, bindings) = (params.get(words.range())?, self.bindings.get(bindings.range())?);
        let tile = Tile::new(index, *grid, params, bindings);
        // Anyone's code: one that panics streams nothing.
        let stretches = catch_unwind(AssertUnwindSafe(|| streams(&tile))).ok()?;
        (stretches[0].bytes > 0).then_some(stretches)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kernel, Opened, Words};
    use super::*;

    /// A tile is 64 bytes; with a parameter, of each of two weights that lie apart.
    fn streams(tile: &Tile<'_>) -> [Stretch; 2] {
        let at = |start: usize| Stretch { start: start + 64 * tile.index[0] as usize, bytes: 64 };
        [at(1000), if tile.param(0) > 0 { at(9000) } else { Stretch::default() }]
    }

    unsafe fn nothing(_: &Tile<'_>) {}

    /// A group for each kernel, of so many tiles, with so many parameters.
    fn plan(groups: &[(&Kernel, u32, u32)], cache: usize) -> Plan {
        let mut plan = Plan::default();
        for (kernel, tiles, params) in groups {
            let none = Words { start: 0, len: 0 };
            let work = Work::Launch {
                kernel: *kernel,
                grid: [*tiles, 1, 1],
                bindings: none,
                params: Words { start: 0, len: *params },
            };
            let first_step = plan.steps.len() as u32;
            plan.steps.push(Step { first: 0, work });
            plan.close(&mut Opened { first_step, tiles: u64::from(*tiles), bytes: 0, launches: true });
        }
        plan.find_streams(&[1], 2, cache);
        plan
    }

    #[test]
    fn threads_know_the_first_of_their_part_in_the_next_group_that_streams() {
        let kernel =
            |streams| Kernel { entry: nothing, name: "", label: String::new(), streams, workspace: 0 };
        let (weights, other) = (kernel(Some(streams as crate::StreamFn)), kernel(None));
        let stretch = |start, bytes| Stretch { start, bytes };
        let none = Stretch::default();
        let plan =
            plan(&[(&other, 4, 0), (&weights, 8, 0), (&other, 1, 0), (&other, 4, 0), (&weights, 4, 1)], 1024);
        // Four tiles each are as much as a quarter of the cache.
        assert_eq!(plan.ahead(0, 0, 2).stretches, [stretch(1000, 256), none]);
        assert_eq!(plan.ahead(0, 1, 2).stretches, [stretch(1256, 256), none]);
        for group in 1..4 {
            assert_eq!(
                plan.ahead(group, 1, 2).stretches,
                [stretch(1128, 128), stretch(9128, 128)],
                "after group {group}"
            );
        }
        assert_eq!(plan.ahead(4, 0, 2).stretches, [stretch(1000, 256), none], "it begins again");
        assert_eq!(
            [0, 1, 2, 3, 4].map(|group| plan.ahead(group, 0, 2).anew),
            [false, true, false, false, true]
        );
        assert_eq!(plan.ahead(0, 0, 1), Next::default(), "a smaller team has other parts");
    }

    #[test]
    fn no_more_is_asked_for_than_a_part_of_the_cache() {
        let kernel =
            Kernel { entry: nothing, name: "", label: String::new(), streams: Some(streams), workspace: 0 };
        let [one, two] = plan(&[(&kernel, 64, 1)], 1024).ahead(0, 0, 2).stretches;
        assert_eq!((one.bytes, two.bytes), (128, 128));
        let [one, two] = plan(&[(&kernel, 64, 0)], 1024).ahead(0, 1, 2).stretches;
        assert_eq!((one, two.bytes), (Stretch { start: 1000 + 64 * 32, bytes: 256 }, 0));
    }

    #[test]
    fn small_tiles_are_not_all_looked_at_and_panics_stream_nothing() {
        let kernel = |streams| Kernel {
            entry: nothing,
            name: "",
            label: String::new(),
            streams: Some(streams),
            workspace: 0,
        };
        let [one, _] = plan(&[(&kernel(streams), 4000, 0)], 1 << 30).ahead(0, 0, 2).stretches;
        assert_eq!(one.bytes, 64 * MOST_TILES);
        fn panics(tile: &Tile<'_>) -> [Stretch; 2] {
            [Stretch { start: tile.params[7] as usize, bytes: 1 }; 2]
        }
        assert_eq!(plan(&[(&kernel(panics), 8, 0)], 1024).ahead(0, 0, 2), Next::default());
        // Nor does nonsense do harm.
        fn endless(_: &Tile<'_>) -> [Stretch; 2] {
            [Stretch { start: usize::MAX, bytes: usize::MAX }; 2]
        }
        let [one, two] = plan(&[(&kernel(endless), 8, 0)], 1024).ahead(0, 0, 2).stretches;
        assert_eq!((one.bytes, two.bytes), (128, 128));
    }
}
