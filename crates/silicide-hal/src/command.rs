//! The command list: the commands of a submission as flat data.
//!
//! Bindings and parameter words of all dispatches lie in two shared vectors, so that a list of thousands of
//! dispatches takes few allocations and can be kept, cloned, sent and compared.

use crate::{RawBlock, RawPipeline};

/// A byte range of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The block.
    pub block: RawBlock,
    /// First byte, from the start of the block.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Consecutive entries of one of the list's shared vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// First index.
    pub start: u32,
    /// Number of entries.
    pub len: u32,
}

impl Words {
    /// Returns the entries as indices.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// One kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The compiled kernel.
    pub pipeline: RawPipeline,
    /// Workgroups on a GPU, tiles on the CPU. None is 0.
    pub grid: [u32; 3],
    /// Its bindings in [`CommandList::bindings`].
    pub bindings: Words,
    /// Its parameter words in [`CommandList::params`].
    pub params: Words,
    /// Where a live dispatch has its launch words ([`LaunchWords`]). `grid` and `params` then have the largest launch.
    pub live: Option<Binding>,
}

/// The launch words of a live dispatch: words of a shared block that hold its parameter words, then its grid, then the length of each
/// binding in bytes (two words, low word first). The host writes them; the device reads them when the list runs.
///
/// There are [`LaunchWords::count`] words, at a multiple of four bytes. The grid is within the device's limits, lengths are at most those
/// of the list's bindings, and the bindings keep what the program needs for these parameters. The program of a live dispatch is [`Program::live`](crate::Program::live).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchWords {
    /// Parameter words of the dispatch.
    pub params: usize,
    /// Bindings of the dispatch.
    pub bindings: usize,
}

impl LaunchWords {
    /// Returns the layout of the words of `dispatch`.
    pub fn of(dispatch: &Dispatch) -> LaunchWords {
        LaunchWords { params: dispatch.params.len as usize, bindings: dispatch.bindings.len as usize }
    }

    /// Returns how many words there are.
    pub fn count(self) -> usize {
        self.params + 3 + 2 * self.bindings
    }

    /// Returns the byte offset of the grid.
    pub fn grid_offset(self) -> usize {
        self.params * 4
    }

    /// Appends the words of a launch to `words`.
    pub fn write(
        params: &[u32],
        grid: [u32; 3],
        lengths: impl IntoIterator<Item = u64>,
        words: &mut Vec<u32>,
    ) {
        words.extend_from_slice(params);
        words.extend(grid);
        words.extend(lengths.into_iter().flat_map(|bytes| [bytes as u32, (bytes >> 32) as u32]));
    }

    /// Returns the grid in `words`, or `None` if there are too few.
    pub fn grid(self, words: &[u32]) -> Option<[u32; 3]> {
        let grid = words.get(self.params..)?.first_chunk::<3>()?;
        Some(*grid)
    }

    /// Returns the length of binding `i` in `words`, or `None` if there are too few.
    pub fn length(self, words: &[u32], i: usize) -> Option<u64> {
        let [low, high] = words.get(self.params + 3 + 2 * i..)?.first_chunk::<2>()?;
        Some(u64::from(*low) | u64::from(*high) << 32)
    }
}

/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Launch a kernel.
    Dispatch(Dispatch),
    /// Copy bytes. Source and destination have the same length and do not overlap. A copy is slower if an offset or the length
    /// is not a multiple of 4.
    Copy {
        /// The source.
        src: Binding,
        /// The destination.
        dst: Binding,
    },
    /// Fill with a repeated 32-bit word. Offset and length are multiples of 4.
    Fill {
        /// The bytes to fill.
        dst: Binding,
        /// The word.
        value: u32,
    },
    /// Everything before happens, and is visible, before anything after.
    Barrier,
    /// Opens a timed span.
    Mark {
        /// Its name.
        label: &'static str,
    },
}

/// A recorded list of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandList {
    /// The commands, in order.
    pub commands: Vec<Command>,
    /// Bindings of all dispatches.
    pub bindings: Vec<Binding>,
    /// Parameter words of all dispatches.
    pub params: Vec<u32>,
    /// Whether the CPU device records the times of each thread, if the list has marks.
    pub traced: bool,
}

impl CommandList {
    /// Returns the bindings of a dispatch of this list.
    pub fn bindings_of(&self, dispatch: &Dispatch) -> &[Binding] {
        self.bindings.get(dispatch.bindings.range()).unwrap_or(&[])
    }

    /// Returns the parameter words of a dispatch of this list.
    pub fn params_of(&self, dispatch: &Dispatch) -> &[u32] {
        self.params.get(dispatch.params.range()).unwrap_or(&[])
    }

    /// Appends a dispatch.
    pub fn dispatch(&mut self, pipeline: RawPipeline, grid: [u32; 3], bindings: &[Binding], params: &[u32]) {
        let bound = Words { start: self.bindings.len() as u32, len: bindings.len() as u32 };
        let words = Words { start: self.params.len() as u32, len: params.len() as u32 };
        self.bindings.extend_from_slice(bindings);
        self.params.extend_from_slice(params);
        let dispatch = Dispatch { pipeline, grid, bindings: bound, params: words, live: None };
        self.commands.push(Command::Dispatch(dispatch));
    }

    /// Makes the last command, a dispatch, live: its launch words lie in `words`.
    pub fn make_live(&mut self, words: Binding) {
        if let Some(Command::Dispatch(dispatch)) = self.commands.last_mut() {
            dispatch.live = Some(words);
        }
    }

    /// Removes everything and keeps the memory.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.bindings.clear();
        self.params.clear();
        self.traced = false;
    }
}
