//! Arguments of dispatches, copies and fills other than buffers. Plain arithmetic.

use crate::{Binding, Command};
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

/// Threads in a threadgroup of a copy or fill.
pub(super) const TRANSFER_THREADS: u64 = 256;

/// The most threadgroups of a copy or fill: its threads take several elements each.
const TRANSFER_GROUPS: u64 = 4096;

/// Elements that a thread of a copy or fill should have before there are more threads.
const TRANSFER_EACH: u64 = 4;

/// The parameters of `transfer.metal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Transfer {
    pub(super) count: u64,
    pub(super) first: u32,
    pub(super) second: u32,
}

/// Which function of `transfer.metal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferKind {
    CopyWords,
    CopyBytes,
    FillWords,
}

impl TransferKind {
    pub(super) const ALL: [TransferKind; 3] =
        [TransferKind::CopyWords, TransferKind::CopyBytes, TransferKind::FillWords];

    /// Its name in the text.
    pub(super) const fn entry(self) -> &'static str {
        match self {
            TransferKind::CopyWords => "copy_words",
            TransferKind::CopyBytes => "copy_bytes",
            TransferKind::FillWords => "fill_words",
        }
    }
}

impl Transfer {
    /// How a copy is done. Buffers are bound at [`bind_offset`].
    pub(super) fn copy(from: &Binding, to: &Binding) -> (TransferKind, Transfer) {
        match (from.offset | to.offset | from.bytes).is_multiple_of(4) {
            true => (TransferKind::CopyWords, Transfer { count: from.bytes / 4, first: 0, second: 0 }),
            false => {
                let within = |binding: &Binding| (binding.offset - bind_offset(binding)) as u32;
                let transfer = Transfer { count: from.bytes, first: within(from), second: within(to) };
                (TransferKind::CopyBytes, transfer)
            }
        }
    }

    /// How a fill is done.
    pub(super) fn fill(to: &Binding, value: u32) -> Transfer {
        Transfer { count: to.bytes / 4, first: value, second: 0 }
    }

    /// Threadgroups that it takes.
    pub(super) fn groups(&self) -> u64 {
        self.count.div_ceil(TRANSFER_THREADS * TRANSFER_EACH).clamp(1, TRANSFER_GROUPS)
    }
}

/// Returns the offset at which the buffer of a copy or fill is bound: a whole word, as Metal requires.
pub(super) fn bind_offset(binding: &Binding) -> u64 {
    binding.offset / 4 * 4
}

/// Returns the sizes that a kernel is given, in its order.
pub(super) fn sizes(sized: &[u32], bindings: &[Binding]) -> SmallVec<[u32; 8]> {
    let bytes = |binding: &u32| bindings.get(*binding as usize).map_or(0, |binding| binding.bytes);
    // No binding is longer than the limit that the device reports.
    sized.iter().map(|binding| u32::try_from(bytes(binding)).unwrap_or(u32::MAX)).collect()
}

/// How much work a command is: threads, or words moved. `threads` are those of a dispatch's workgroup.
pub(super) fn weight(command: &Command, threads: u64) -> u64 {
    match command {
        Command::Dispatch(dispatch) => {
            dispatch.grid.iter().fold(threads, |product, axis| product.saturating_mul(u64::from(*axis)))
        }
        Command::Copy { src, .. } => src.bytes / 4,
        Command::Fill { dst, .. } => dst.bytes / 4,
        Command::Barrier | Command::Mark { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dispatch, RawBlock, RawPipeline, Words};

    fn at(offset: u64, bytes: u64) -> Binding {
        Binding { block: RawBlock(0), offset, bytes }
    }

    #[test]
    fn whole_words_are_copied_by_word_and_the_rest_by_byte() {
        assert_eq!(
            Transfer::copy(&at(8, 12), &at(4, 12)),
            (TransferKind::CopyWords, Transfer { count: 3, first: 0, second: 0 })
        );
        for (from, to) in [(at(9, 12), at(4, 12)), (at(8, 12), at(6, 12)), (at(8, 13), at(4, 13))] {
            let (kind, transfer) = Transfer::copy(&from, &to);
            assert_eq!((kind, transfer.count), (TransferKind::CopyBytes, from.bytes));
            assert_eq!(bind_offset(&from) + u64::from(transfer.first), from.offset);
            assert_eq!(bind_offset(&to) + u64::from(transfer.second), to.offset);
            assert!(bind_offset(&from).is_multiple_of(4) && bind_offset(&to).is_multiple_of(4));
        }
        assert_eq!(Transfer::fill(&at(4, 8), 7), Transfer { count: 2, first: 7, second: 0 });
    }

    #[test]
    fn transfers_have_threads_for_their_size() {
        let groups = |count| Transfer { count, first: 0, second: 0 }.groups();
        assert_eq!([0, 1, 1024, 1025, u64::MAX].map(groups), [1, 1, 1, 2, 4096]);
    }

    #[test]
    fn every_transfer_is_in_the_text() {
        let text = include_str!("transfer.metal");
        for kind in TransferKind::ALL {
            assert!(text.contains(&format!("kernel void {}(", kind.entry())), "{kind:?}");
        }
    }

    #[test]
    fn sizes_come_in_the_order_of_the_kernel() {
        let bindings = [at(0, 10), at(0, 20), at(0, u64::MAX)];
        assert_eq!(sizes(&[1, 0], &bindings).as_slice(), [20, 10]);
        assert_eq!(sizes(&[2, 9], &bindings).as_slice(), [u32::MAX, 0]);
    }

    #[test]
    fn work_is_counted_in_threads_and_words() {
        let none = Words { start: 0, len: 0 };
        let dispatch = |grid| {
            let pipeline = RawPipeline(0);
            Command::Dispatch(Dispatch { pipeline, grid, bindings: none, params: none, live: None })
        };
        assert_eq!(weight(&dispatch([2, 3, 4]), 64), 24 * 64);
        assert_eq!(weight(&dispatch([u32::MAX; 3]), 1024), u64::MAX);
        assert_eq!(weight(&Command::Fill { dst: at(0, 40), value: 0 }, 1), 10);
        assert_eq!(weight(&Command::Copy { src: at(0, 40), dst: at(40, 40) }, 1), 10);
        assert_eq!(weight(&Command::Barrier, 1), 0);
    }
}
