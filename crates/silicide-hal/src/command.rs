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
        self.commands.push(Command::Dispatch(Dispatch { pipeline, grid, bindings: bound, params: words }));
    }

    /// Removes everything and keeps the memory.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.bindings.clear();
        self.params.clear();
        self.traced = false;
    }
}
