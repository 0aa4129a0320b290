//! A command list turned into groups of tiles.
//!
//! The commands between two barriers are a *group*; its tiles form one index space, so that independent commands run
//! side by side. Threads claim *chunks* of consecutive tiles: one tile each up to [`MAX_SHARES`] tiles, evenly longer
//! beyond. Tiles and chunks depend on the list alone, never on threads, so results do not either.
//!
//! A mark is a group of its own that stamps the time: nothing before it is still running, nothing after it has
//! begun. That makes times exact and costs the overlap across the mark. Traced lists also have lanes, in which each thread
//! records times; other lists pay a branch for each command.
//!
//! A live launch reads its parameter words, grid and lengths of bindings from memory ([`LaunchWords`]) when the list starts
//! ([`Plan::read_live`]); groups and chunks follow from them.
//!
//! Invariant: a plan refers to blocks and pipelines by address and is run only while the list it was built from is
//! being submitted or replayed, which is when the contract of [`RawDevice`](crate::RawDevice) keeps them alive.

mod prefetch;

use super::{
    executor::Kernel,
    fault::Fault,
    lanes::Lanes,
    memory,
    pool::{Job, MAX_SHARES, NextRanges},
    workspace::Workspaces,
};
use crate::command::{Binding, Command, CommandList, Dispatch, LaunchWords, Words};
use crate::program::{Tile, TileBinding};
use crate::{DeviceInfo, RawPipeline, Span, ThreadTimes};
use prefetch::PrefetchPlan;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Copies and fills are split into tiles of this many bytes.
const COPY_TILE: usize = 256 << 10;
/// A group of copies and fills of at most this many bytes is not worth a second thread.
const LIGHT_BYTES: usize = 64 << 10;

/// The groups of a list, ready to run. Kept between submissions for its memory.
pub(crate) struct Plan {
    steps: Vec<Step>,
    bindings: Vec<TileBinding>,
    groups: Vec<Group>,
    marks: Vec<Mark>,
    /// The ranges that tiles stream, for prefetch.
    prefetch: PrefetchPlan,
    /// The most bytes of workspace that a tile uses.
    workspace: usize,
    /// Whether any launch is live.
    has_live: bool,
    /// Time 0 of stamps.
    epoch: Instant,
    /// The times of threads, if the list is traced.
    lanes: Option<Lanes>,
}

/// Consecutive steps that may run at once, or a mark.
#[derive(Clone, Copy)]
struct Group {
    steps: Words,
    tiles: u64,
    /// Tiles per chunk.
    chunk: u64,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Run by one thread: one chunk, or too little to share.
    Whole,
    /// This many chunks for all threads.
    Shared(u32),
    /// Stamps this mark.
    Mark(u32),
}

/// A command and the first of its tiles in the group's index space.
struct Step {
    first: u64,
    work: Work,
}

enum Work {
    Launch(Launch),
    Copy { src: *const u8, dst: *mut u8, bytes: usize },
    Fill { dst: *mut u8, bytes: usize, value: u32 },
}

/// A launch of a kernel.
#[derive(Clone, Copy)]
struct Launch {
    kernel: *const Kernel,
    grid: [u32; 3],
    bindings: Words,
    params: Words,
    /// The launch words of a live launch.
    live: Option<*const u32>,
}

impl Launch {
    /// Returns the launch words of a live launch.
    ///
    /// # Safety
    /// The list that the launch belongs to is being submitted or replayed.
    unsafe fn live_words(&self) -> Option<&[u32]> {
        let words = LaunchWords { params: self.params.len as usize, bindings: self.bindings.len as usize };
        // SAFETY: `RawDevice::submit` demands as many words in a live block, which nothing writes while the list runs.
        self.live.map(|start| unsafe { std::slice::from_raw_parts(start, words.count()) })
    }

    /// Returns the parameter words, of which `all` has those of launches that are not live.
    ///
    /// # Safety
    /// The list that the launch belongs to is being submitted or replayed.
    unsafe fn params<'a>(&'a self, all: &'a [u32]) -> &'a [u32] {
        // SAFETY: the list is being submitted or replayed (`# Safety`).
        match unsafe { self.live_words() } {
            Some(words) => words.get(..self.params.len as usize).unwrap_or(&[]),
            None => all.get(self.params.range()).unwrap_or(&[]),
        }
    }

    fn tiles(&self) -> u64 {
        self.grid.iter().fold(1u64, |tiles, n| tiles.saturating_mul(u64::from(*n)))
    }
}

// SAFETY: the addresses are of blocks and pipelines that outlive the run (see the module). Tiles of one group touch
// disjoint bytes or only read them: `RawDevice::submit` demands barriers between hazards.
unsafe impl Sync for Plan {}
// SAFETY: the addresses are valid on every thread; none is of a thread's own memory.
unsafe impl Send for Plan {}

struct Mark {
    label: &'static str,
    /// Nanoseconds from the epoch.
    stamp: AtomicU64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            steps: Vec::new(),
            bindings: Vec::new(),
            groups: Vec::new(),
            marks: Vec::new(),
            prefetch: PrefetchPlan::default(),
            workspace: 0,
            has_live: false,
            epoch: Instant::now(),
            lanes: None,
        }
    }
}

impl Plan {
    /// Replaces the plan by one of `list`, for the pool of the device `on`.
    ///
    /// # Safety
    /// Handles of `list` are live and its ranges lie in their blocks, until the plan has run for the last time.
    pub(crate) unsafe fn build(&mut self, list: &CommandList, on: &DeviceInfo) {
        self.steps.clear();
        self.bindings.clear();
        self.groups.clear();
        self.marks.clear();
        self.workspace = 0;
        self.has_live = false;
        let mut open = Opened::default();
        for command in &list.commands {
            match command {
                Command::Barrier => self.close(&mut open),
                Command::Mark { label } => {
                    self.close(&mut open);
                    self.mark(label);
                }
                // SAFETY: the handles of `list` are live, so those of its dispatch are.
                Command::Dispatch(dispatch) => unsafe { self.launch(&mut open, list, dispatch) },
                Command::Copy { src, dst } => {
                    let bytes = dst.bytes as usize;
                    // SAFETY: both blocks are live, and `RawDevice::submit` demands ranges inside them.
                    let (src, dst) = unsafe { (address(src), address(dst)) };
                    self.transfer(&mut open, bytes, Work::Copy { src, dst, bytes });
                }
                Command::Fill { dst, value } => {
                    let bytes = dst.bytes as usize;
                    // SAFETY: the block is live, and `RawDevice::submit` demands a range inside it.
                    let dst = unsafe { address(dst) };
                    self.transfer(&mut open, bytes, Work::Fill { dst, bytes, value: *value });
                }
            }
        }
        self.close(&mut open);
        let traced = list.traced && !self.marks.is_empty();
        self.lanes = traced.then(|| Lanes::new(on.threads, self.steps.len()));
        match self.has_live {
            // Ranges follow from launch words, which need not be there yet.
            true => self.plan_prefetch(&list.params, 0, 0),
            false => self.plan_prefetch(&list.params, on.threads, on.core_cache),
        }
    }

    /// Takes over the launch words of live launches. `params` are the parameter words of the list that was built.
    ///
    /// # Safety
    /// The list is being submitted or replayed.
    pub(crate) unsafe fn read_live(&mut self, params: &[u32], on: &DeviceInfo) {
        if !self.has_live {
            return;
        }
        let mut has_changed = false;
        for step in &mut self.steps {
            let Work::Launch(launch) = &mut step.work else { continue };
            let layout =
                LaunchWords { params: launch.params.len as usize, bindings: launch.bindings.len as usize };
            // SAFETY: the list is being submitted or replayed (`# Safety`).
            let Some(words) = (unsafe { launch.live_words() }) else { continue };
            let grid = layout.grid(words).unwrap_or(launch.grid);
            let bindings = self.bindings.get_mut(launch.bindings.range()).unwrap_or(&mut []);
            for (i, binding) in bindings.iter_mut().enumerate() {
                let bytes = layout.length(words, i).map_or(binding.bytes, |bytes| bytes as usize);
                has_changed |= binding.bytes != bytes;
                binding.bytes = bytes;
            }
            has_changed |= launch.grid != grid;
            launch.grid = grid;
        }
        if has_changed || self.prefetch.is_empty() {
            self.regroup();
            self.plan_prefetch(params, on.threads, on.core_cache);
        }
    }

    /// Counts tiles and chunks of all groups anew.
    fn regroup(&mut self) {
        for group in &mut self.groups {
            if matches!(group.kind, Kind::Mark(_)) {
                continue;
            }
            let steps = self.steps.get_mut(group.steps.range()).unwrap_or(&mut []);
            let has_live = |step: &Step| matches!(&step.work, Work::Launch(launch) if launch.live.is_some());
            if !steps.iter().any(has_live) {
                continue;
            }
            let mut tiles = 0u64;
            for step in steps {
                step.first = tiles;
                tiles = tiles.saturating_add(match &step.work {
                    Work::Launch(launch) => launch.tiles(),
                    Work::Copy { bytes, .. } | Work::Fill { bytes, .. } => bytes.div_ceil(COPY_TILE) as u64,
                });
            }
            let (chunk, chunks) = chunks(tiles);
            let kind = if chunks <= 1 { Kind::Whole } else { Kind::Shared(chunks) };
            *group = Group { tiles, chunk, kind, ..*group };
        }
    }

    /// Returns the bytes of workspace that every thread needs to run the plan.
    pub(crate) fn workspace(&self) -> usize {
        self.workspace
    }

    /// Removes the times of the last run.
    pub(crate) fn begin(&self) {
        if let Some(lanes) = &self.lanes {
            lanes.clear();
        }
    }

    /// Adds a dispatch of `list` to the group that is being filled.
    ///
    /// # Safety
    /// The pipeline and the blocks of `dispatch` are live, and its bindings lie in their blocks.
    unsafe fn launch(&mut self, open: &mut Opened, list: &CommandList, dispatch: &Dispatch) {
        let Dispatch { pipeline: RawPipeline(kernel), grid, params, .. } = *dispatch;
        let start = self.bindings.len() as u32;
        for binding in list.bindings_of(dispatch) {
            // SAFETY: the block is live and the binding lies in it (`# Safety`).
            let start = unsafe { address(binding) };
            self.bindings.push(TileBinding { start, bytes: binding.bytes as usize });
        }
        let bindings = Words { start, len: self.bindings.len() as u32 - start };
        let kernel = std::ptr::with_exposed_provenance::<Kernel>(kernel as usize);
        // SAFETY: a live pipeline is the exposed address of a leaked box (`compile`).
        self.workspace = self.workspace.max(unsafe { (*kernel).workspace });
        // SAFETY: the block of the words is live, and the words lie in it (`# Safety`).
        let live = dispatch.live.map(|words| unsafe { address(&words) }.cast_const().cast::<u32>());
        self.has_live |= live.is_some();
        let launch = Launch { kernel, grid, bindings, params, live };
        self.steps.push(Step { first: open.tiles, work: Work::Launch(launch) });
        open.launches = true;
        open.tiles = open.tiles.saturating_add(launch.tiles());
    }

    fn transfer(&mut self, open: &mut Opened, bytes: usize, work: Work) {
        self.steps.push(Step { first: open.tiles, work });
        open.bytes = open.bytes.saturating_add(bytes);
        open.tiles = open.tiles.saturating_add(bytes.div_ceil(COPY_TILE) as u64);
    }

    /// Ends the group that is being filled, unless there is nothing in it.
    fn close(&mut self, open: &mut Opened) {
        let Opened { first_step, tiles, bytes, launches } = *open;
        let (chunk, chunks) = chunks(tiles);
        let whole = chunks == 1 || (!launches && bytes <= LIGHT_BYTES);
        let steps = Words { start: first_step, len: self.steps.len() as u32 - first_step };
        if tiles > 0 {
            let kind = if whole { Kind::Whole } else { Kind::Shared(chunks) };
            self.groups.push(Group { steps, tiles, chunk, kind });
        }
        *open = Opened { first_step: self.steps.len() as u32, ..Opened::default() };
    }

    fn mark(&mut self, label: &'static str) {
        let kind = Kind::Mark(self.marks.len() as u32);
        self.marks.push(Mark { label, stamp: AtomicU64::new(0) });
        self.groups.push(Group { steps: Words { start: 0, len: 0 }, tiles: 0, chunk: 1, kind });
    }

    /// Returns the spans between the marks of a list that has just run to its end.
    pub(crate) fn spans(&self) -> Vec<Span> {
        if self.marks.is_empty() {
            return Vec::new();
        }
        let stamps = self.marks.iter().map(|mark| mark.stamp.load(Ordering::Relaxed));
        let ends = stamps.clone().skip(1).chain([self.now()]);
        let first = stamps.clone().next().unwrap_or(0);
        let spans = self.marks.iter().zip(stamps.zip(ends)).map(|(mark, (start, end))| Span {
            label: mark.label,
            start_ns: start.saturating_sub(first),
            duration_ns: end.saturating_sub(start),
        });
        spans.collect()
    }

    /// Returns the times of each thread in a list that has just run to its end, from its first mark on.
    pub(crate) fn thread_times(&self) -> ThreadTimes {
        let (Some(lanes), Some(first)) = (&self.lanes, self.marks.first()) else {
            return ThreadTimes::default();
        };
        lanes.times(first.stamp.load(Ordering::Relaxed), |step| self.name(step as usize))
    }

    /// Returns the name of a step's command, for traces.
    fn name(&self, step: usize) -> &'static str {
        match self.steps.get(step).map(|step| &step.work) {
            // SAFETY: the pipeline is live while its plan runs (see the module).
            Some(Work::Launch(launch)) => unsafe { (*launch.kernel).name },
            Some(Work::Copy { .. }) => "copy",
            _ => "fill",
        }
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn group(&self, index: usize) -> Group {
        const NOTHING: Group =
            Group { steps: Words { start: 0, len: 0 }, tiles: 0, chunk: 1, kind: Kind::Whole };
        self.groups.get(index).copied().unwrap_or(NOTHING)
    }
}

/// The group that is being filled.
#[derive(Default)]
struct Opened {
    first_step: u32,
    tiles: u64,
    /// Bytes of copies and fills.
    bytes: usize,
    launches: bool,
}

/// Returns the tiles of a chunk, and how many chunks `tiles` tiles are.
fn chunks(tiles: u64) -> (u64, u32) {
    let chunk = tiles.div_ceil(u64::from(MAX_SHARES)).max(1);
    (chunk, tiles.div_ceil(chunk) as u32)
}

/// Returns the address of a binding's first byte.
///
/// # Safety
/// The block of `binding` is live, and the binding lies in it.
unsafe fn address(binding: &Binding) -> *mut u8 {
    // SAFETY: the block is live, and the offset does not leave its bytes.
    unsafe { memory::resolve(binding.block).start.as_ptr().add(binding.offset as usize) }
}

/// A plan with the parameter words of its list, while it runs.
pub(crate) struct Run<'a> {
    pub plan: &'a Plan,
    pub params: &'a [u32],
    pub workspaces: &'a Workspaces,
    pub fault: &'a Fault,
}

impl Run<'_> {
    /// Runs tiles of a group as thread `me`. `current` holds the step that runs, for the report of a panic.
    fn run_tiles(&self, group: Group, tiles: Range<u64>, me: usize, current: &Cell<usize>) {
        let steps = self.plan.steps.get(group.steps.range()).unwrap_or(&[]);
        let mut at = steps.partition_point(|step| step.first <= tiles.start).saturating_sub(1);
        let mut tile = tiles.start;
        while tile < tiles.end
            && let Some(step) = steps.get(at)
        {
            current.set(group.steps.start as usize + at);
            if let Some(lanes) = &self.plan.lanes {
                lanes.enter(me, group.steps.start + at as u32, || self.plan.now());
            }
            let end = steps.get(at + 1).map_or(group.tiles, |next| next.first).min(tiles.end);
            self.run_step(&step.work, tile - step.first..end - step.first, me);
            tile = end;
            at += 1;
        }
    }

    /// Runs tiles of one step as thread `me`.
    fn run_step(&self, work: &Work, tiles: Range<u64>, me: usize) {
        match *work {
            Work::Launch(ref launch) => {
                let Launch { kernel, grid, bindings, .. } = *launch;
                let bindings = self.plan.bindings.get(bindings.range()).unwrap_or(&[]);
                // SAFETY: the list is being submitted or replayed (see the module).
                let params = unsafe { launch.params(self.params) };
                // SAFETY: the pipeline is live while its plan runs (see the module).
                let entry = unsafe { (*kernel).entry };
                let workspace = self.workspaces.of(me);
                for index in indices(grid, tiles) {
                    let tile = Tile::new(index, grid, params, bindings);
                    // SAFETY: each thread of the pool owns its workspace (`workspaces`), and runs one tile at a time.
                    let tile = unsafe { tile.with_workspace(workspace) };
                    // SAFETY: `compile` chose an entry for an instruction set of this machine. `RawDevice::compile` and
                    // `submit` demand a kernel that stays inside its bindings and barriers between hazards.
                    unsafe { entry(&tile) };
                }
            }
            Work::Copy { src, dst, bytes } => {
                let (start, len) = byte_range(bytes, tiles);
                // SAFETY: inside both bindings, which are live and do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(src.add(start), dst.add(start), len) };
            }
            Work::Fill { dst, bytes, value } => {
                let (start, len) = byte_range(bytes, tiles);
                for offset in (start..start + len).step_by(4) {
                    // SAFETY: inside the binding; imported memory may begin at any address.
                    unsafe { dst.add(offset).cast::<u32>().write_unaligned(value) };
                }
            }
        }
    }

    /// Runs tiles, unless the submission has failed, and keeps a panic.
    fn guarded(&self, group: Group, tiles: Range<u64>, me: usize) {
        if self.fault.is_set() {
            return;
        }
        let current = Cell::new(0);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.run_tiles(group, tiles, me, &current))) {
            let label = match self.plan.steps.get(current.get()) {
                // SAFETY: the pipeline is live while its plan runs (see the module).
                Some(Step { work: Work::Launch(launch), .. }) => unsafe { &(*launch.kernel).label },
                _ => "copy",
            };
            self.fault.record(label, payload);
        }
    }
}

impl Job for Run<'_> {
    fn groups(&self) -> usize {
        self.plan.groups.len()
    }

    #[inline]
    fn shares(&self, group: usize) -> u32 {
        match self.plan.group(group).kind {
            Kind::Shared(chunks) => chunks,
            Kind::Whole | Kind::Mark(_) => 1,
        }
    }

    fn run_whole(&self, group: usize, me: usize) {
        let group = self.plan.group(group);
        if let Kind::Mark(mark) = group.kind {
            if let Some(mark) = self.plan.marks.get(mark as usize) {
                mark.stamp.store(self.plan.now(), Ordering::Relaxed);
            }
        } else {
            self.guarded(group, 0..group.tiles, me);
            self.leave(me);
        }
    }

    fn run_share(&self, group: usize, share: u32, me: usize) {
        let group = self.plan.group(group);
        let from = u64::from(share).saturating_mul(group.chunk);
        self.guarded(group, from..from.saturating_add(group.chunk).min(group.tiles), me);
    }

    #[inline]
    fn leave(&self, me: usize) {
        if let Some(lanes) = &self.plan.lanes {
            lanes.leave(me, || self.plan.now());
        }
    }

    #[inline]
    fn next_ranges(&self, group: usize, me: usize, team: usize) -> NextRanges {
        self.plan.next_ranges(group, me, team)
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.fault.is_set()
    }
}

/// Returns the bytes of some tiles of a copy or fill: start and length.
fn byte_range(bytes: usize, tiles: Range<u64>) -> (usize, usize) {
    let start = tiles.start as usize * COPY_TILE;
    (start, (tiles.end as usize * COPY_TILE).min(bytes).saturating_sub(start))
}

/// Iterates over positions of a grid, x fastest.
fn indices(grid: [u32; 3], tiles: Range<u64>) -> impl Iterator<Item = [u32; 3]> {
    let [width, height] = [u64::from(grid[0].max(1)), u64::from(grid[1].max(1))];
    let row = tiles.start / width;
    let mut index = [(tiles.start % width) as u32, (row % height) as u32, (row / height) as u32];
    tiles.map(move |_| {
        let here = index;
        index[0] += 1;
        if index[0] >= grid[0] {
            index[0] = 0;
            index[1] += 1;
            if index[1] >= grid[1] {
                index[1] = 0;
                index[2] += 1;
            }
        }
        here
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_walk_the_grid_from_anywhere() {
        let grid = [3, 2, 4];
        let all: Vec<[u32; 3]> = indices(grid, 0..24).collect();
        let expected: Vec<[u32; 3]> =
            (0..4).flat_map(|z| (0..2).flat_map(move |y| (0..3).map(move |x| [x, y, z]))).collect();
        assert_eq!(all, expected);
        for from in 0..24 {
            assert_eq!(indices(grid, from..24).collect::<Vec<_>>(), &expected[from as usize..]);
        }
    }

    #[test]
    fn a_copy_is_cut_without_gaps() {
        let bytes = 2 * COPY_TILE + 12;
        assert_eq!(byte_range(bytes, 0..1), (0, COPY_TILE));
        assert_eq!(byte_range(bytes, 1..3), (COPY_TILE, COPY_TILE + 12));
        assert_eq!(byte_range(bytes, 2..3), (2 * COPY_TILE, 12));
    }
}
