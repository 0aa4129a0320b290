//! What each thread streams first in a group: known when the list is planned, so that a thread that waits can have it brought
//! nearer.
//!
//! A plan that is run again and again begins again after its last group, so that is what comes next there. For a list that is
//! run once, that is a hint about the wrong bytes while nothing else is to be done.

use super::{Group, Kind, Plan, Step, Work};
use crate::program::{Stretch, Tile};

/// The part of a core's second cache that is filled ahead of time.
const CACHE_PART: usize = 4;

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
        for group in &self.groups {
            streams.next.push((streams.first.len() / threads.max(1)) as u32);
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
    pub(super) fn ahead(&self, group: usize, me: usize, team: usize) -> [Stretch; 2] {
        let Streams { threads, first, next } = &self.streams;
        if team != *threads || first.is_empty() {
            return Default::default();
        }
        let next = next.get(group + 1).map_or(0, |next| *next as usize * threads);
        first.get(next + me).or_else(|| first.get(me)).copied().unwrap_or_default()
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
        let part = |n: usize| (u64::from(chunks) * n as u64 / threads as u64 * group.chunk).min(group.tiles);
        let mut all = [Stretch::default(); 2];
        for tile in part(me)..part(me + 1) {
            let Some(more) = self.stretches(group, tile, params) else { break };
            let follows =
                |(all, more): (&Stretch, &Stretch)| all.bytes == 0 || all.start + all.bytes == more.start;
            if !all.iter().zip(&more).all(follows) {
                break;
            }
            for (all, more) in all.iter_mut().zip(&more) {
                let start = if all.bytes == 0 { more.start } else { all.start };
                *all = Stretch { start, bytes: all.bytes + more.bytes };
            }
            if all[0].bytes + all[1].bytes >= most {
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
        let stretches = streams(&Tile::new(index, *grid, params, bindings));
        (stretches[0].bytes > 0).then_some(stretches)
    }
}
