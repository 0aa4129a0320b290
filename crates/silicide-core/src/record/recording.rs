//! A recording: the growing command list with everything it uses, and the stock of empty ones.

use super::hazard::{BufferRange, MemRanges};
use crate::buffer::{Buffer, Storage};
use crate::device::{Device, StorageUse, Tally};
use crate::error::{Error, Result};
use crate::kernel::Access;
use crate::memory::Allocation;
use rustc_hash::FxHashMap;
use silicide_hal::{Binding, Command, CommandList};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// What an encoder fills.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) list: CommandList,
    pub(crate) hazards: MemRanges,
    pub(crate) uses: Vec<StorageUse>,
    /// Where a storage stands in `uses`, by its address (which `uses` keeps alive).
    index: FxHashMap<usize, u32>,
    /// What each argument of each command touches, for the check against host guards.
    pub(crate) touched: Vec<(u32, Range<usize>, Access)>,
    pub(crate) tally: Tally,
    /// Ranges of the command being recorded.
    pub(crate) ranges: Vec<BufferRange>,
    /// Buffers, such as scratch, that live until the recording is submitted.
    pub(crate) kept: Vec<Buffer>,
}

impl Recording {
    /// Notes that the command being recorded touches bytes of a storage.
    pub(crate) fn touch(
        &mut self,
        storage: &Arc<Storage>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        let allocation = storage.allocation()?;
        let start = (allocation.offset + range.start) as u64;
        let end = start + range.len() as u64;
        self.ranges.push(BufferRange { block: allocation.block.0, start, end, access });
        let all = range == (0..storage.bytes());
        let key = Arc::as_ptr(storage) as usize;
        let index = *self.index.entry(key).or_insert_with(|| {
            let storage = Arc::clone(storage);
            self.uses.push(StorageUse { storage, reads: false, writes: false, overwrites: false });
            (self.uses.len() - 1) as u32
        });
        if let Some(used) = self.uses.get_mut(index as usize) {
            let untouched = !used.reads && !used.writes;
            used.overwrites |= untouched && all && access == Access::Write;
            used.reads |= access.reads();
            used.writes |= access.writes();
        }
        self.touched.push((index, range, access));
        Ok(())
    }

    /// Ends the command being recorded: puts a barrier before it if it needs one.
    pub(crate) fn order(&mut self) {
        let first = self.hazards.is_empty();
        if self.hazards.check_and_record(&self.ranges) {
            self.list.commands.push(Command::Barrier);
            self.tally.barriers += 1;
        } else if !first {
            self.tally.concurrent += 1;
        }
        self.ranges.clear();
    }

    fn clear(&mut self) {
        self.list.clear();
        self.hazards.reset();
        self.uses.clear();
        self.index.clear();
        self.touched.clear();
        self.tally.clear();
        self.ranges.clear();
        self.kept.clear();
    }
}

/// The most empty recordings that are kept.
const STOCK: usize = 8;

/// Empty recordings, kept so that recording in a steady state allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Recycler {
    recordings: Mutex<Vec<Recording>>,
    uses: Mutex<Vec<Vec<StorageUse>>>,
}

impl Recycler {
    pub(crate) fn take(&self) -> Recording {
        let mut recording =
            self.recordings.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        if recording.uses.capacity() == 0
            && let Some(uses) = self.uses.lock().unwrap_or_else(PoisonError::into_inner).pop()
        {
            recording.uses = uses;
        }
        recording
    }

    pub(crate) fn give(&self, mut recording: Recording) {
        recording.clear();
        let mut recordings = self.recordings.lock().unwrap_or_else(PoisonError::into_inner);
        if recordings.len() < STOCK {
            recordings.push(recording);
        }
    }

    pub(crate) fn give_uses(&self, uses: Vec<StorageUse>) {
        let mut stock = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if stock.len() < STOCK && uses.is_empty() {
            stock.push(uses);
        }
    }
}

/// Fills memory that the host can't see, before anyone else can use it.
pub(crate) fn fill_block(device: &Device, allocation: &Allocation, value: u32) -> Result<()> {
    let (offset, bytes) = (allocation.offset as u64, allocation.bytes as u64);
    let dst = Binding { block: allocation.block, offset, bytes };
    let mut recording = device.recycler().take();
    recording.list.commands.push(Command::Fill { dst, value });
    let touched = crate::device::Touched { ranges: &[] };
    let submitted = device.timeline().submit(device, &recording.list, &mut recording.uses, &touched);
    device.recycler().give(recording);
    let ticket = submitted?;
    device.timeline().wait(device, ticket, std::time::Duration::MAX)
}

/// The binding of some bytes of a storage.
pub(crate) fn binding(storage: &Storage, range: &Range<usize>) -> Result<Binding> {
    let allocation = storage.allocation()?;
    let offset = (allocation.offset + range.start) as u64;
    Ok(Binding { block: allocation.block, offset, bytes: range.len() as u64 })
}

/// Refuses a buffer of another device.
pub(crate) fn check_device(device: &Device, buffer: &Buffer, what: &'static str) -> Result<()> {
    if buffer.device().is_same(device) {
        return Ok(());
    }
    let (expected, got) = (device.info().id.clone(), buffer.device().info().id.clone());
    Err(Error::WrongDevice { what, expected, got })
}
