//! A recording: the growing command list with everything it uses, and the stock of empty ones.

use super::hazard::{MemRanges, Touch};
use crate::buffer::{Buffer, Storage};
use crate::device::{Device, StorageUse, Tally};
use crate::error::Result;
use crate::kernel::Access;
use crate::memory::{Allocation, Purpose, Request};
use silicide_hal::{Binding, Command, CommandList, MemoryKind};
use silicide_quant::{DType, Shape};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The list that an encoder fills, with the resources that it uses.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) list: CommandList,
    /// Numbers storages as they stand in `uses`.
    hazards: MemRanges,
    pub(crate) uses: Vec<StorageUse>,
    /// The ranges that each argument of each command touches.
    pub(crate) touches: Vec<Touch>,
    /// Where those of the command being recorded begin.
    ordered: usize,
    pub(crate) tally: Tally,
    /// A mark that the next command gets before it, unless it has one.
    pub(crate) next_mark: Option<&'static str>,
}

/// Bytes that a command touches.
#[derive(Debug)]
pub(crate) struct BufferRegion<'a> {
    pub(crate) storage: &'a Arc<Storage>,
    pub(crate) allocation: &'a Allocation,
    /// In the storage.
    pub(crate) range: Range<usize>,
    pub(crate) access: Access,
    /// Whether this use of the storage, by itself or with others of the same op, replaces all of its bytes.
    pub(crate) replaces: bool,
}

impl<'a> BufferRegion<'a> {
    /// Returns all bytes of a buffer.
    pub(crate) fn of(buffer: &'a Buffer, access: Access) -> Result<BufferRegion<'a>> {
        let (storage, allocation, range) = (buffer.storage(), buffer.allocation()?, buffer.range());
        let replaces = access == Access::Write && range == (0..storage.bytes());
        Ok(BufferRegion { storage, allocation, range, access, replaces })
    }

    /// Returns the same bytes with another access.
    pub(crate) fn accessed(self, access: Access) -> BufferRegion<'a> {
        BufferRegion { access, replaces: self.replaces && access == Access::Write, ..self }
    }

    pub(crate) fn binding(&self) -> Binding {
        let offset = (self.allocation.offset + self.range.start) as u64;
        Binding { block: self.allocation.block, offset, bytes: self.range.len() as u64 }
    }

    /// Bytes of the storage that lie behind these.
    pub(crate) fn behind(&self) -> usize {
        self.storage.bytes().saturating_sub(self.range.end)
    }

    pub(crate) fn overlaps(&self, other: &BufferRegion<'_>) -> bool {
        Arc::ptr_eq(self.storage, other.storage)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

impl Recording {
    /// The number of a storage in this recording, which holds it from now on.
    fn number(&mut self, storage: &Arc<Storage>) -> u32 {
        let number = self.hazards.number(storage.id());
        if self.uses.len() <= number as usize {
            let storage = Arc::clone(storage);
            self.uses.push(StorageUse { storage, reads: false, writes: false, overwrites: false });
        }
        number
    }

    /// Notes that the command being recorded touches some bytes.
    pub(crate) fn touch(&mut self, place: &BufferRegion<'_>) {
        let number = self.number(place.storage);
        if let Some(used) = self.uses.get_mut(number as usize) {
            let untouched = !used.reads && !used.writes;
            used.overwrites |= untouched && place.replaces;
            used.reads |= place.access.reads();
            used.writes |= place.access.writes();
        }
        let (start, end) = (place.range.start as u64, place.range.end as u64);
        self.touches.push(Touch { storage: number, access: place.access, start, end });
    }

    /// Ends the command being recorded: puts a barrier before it if it needs one.
    pub(crate) fn order(&mut self) {
        if let Some(label) = self.next_mark.take()
            && !matches!(self.list.commands.last(), Some(Command::Mark { .. }))
        {
            self.list.commands.push(Command::Mark { label });
        }
        let first = self.hazards.is_empty();
        let touches = self.touches.get(self.ordered..).unwrap_or(&[]);
        if self.hazards.check_and_record_touches(touches) {
            self.list.commands.push(Command::Barrier);
            self.tally.barriers += 1;
        } else if !first {
            self.tally.concurrent += 1;
        }
        self.ordered = self.touches.len();
    }

    /// Records a copy between places of the same length that share no bytes.
    pub(crate) fn copy(&mut self, from: &BufferRegion<'_>, to: &BufferRegion<'_>) {
        self.touch(from);
        self.touch(to);
        self.order();
        self.list.commands.push(Command::Copy { src: from.binding(), dst: to.binding() });
        self.tally.transfers += 1;
    }

    /// Records a fill of whole words.
    pub(crate) fn fill(&mut self, to: &BufferRegion<'_>, value: u32) {
        self.touch(to);
        self.order();
        self.list.commands.push(Command::Fill { dst: to.binding(), value });
        self.tally.transfers += 1;
    }

    /// Returns whether the list can take one more command with `bindings` bindings and `words` parameter words: positions in it
    /// are 32 bits wide.
    pub(crate) fn has_room(&self, bindings: usize, words: usize) -> bool {
        let fits = |len: usize, more: usize| len.saturating_add(more) <= u32::MAX as usize;
        // A command may bring a barrier and a mark.
        let list = &self.list;
        fits(list.commands.len(), 3) && fits(list.bindings.len(), bindings) && fits(list.params.len(), words)
    }

    fn clear(&mut self) {
        self.list.clear();
        self.hazards.forget();
        self.uses.clear();
        self.touches.clear();
        self.ordered = 0;
        self.tally.clear();
        self.next_mark = None;
    }
}

/// Returns a buffer with unspecified contents from the device's pool, for outputs and scratch. A list keeps it once a command uses it.
pub(super) fn temporary(device: &Device, dtype: DType, shape: Shape, bytes: usize) -> Result<Buffer> {
    let request = Request { bytes, purpose: Purpose::Activations, kind: MemoryKind::Shared, zeroed: false };
    let shelf = Arc::<_>::clone(device.shelf()) as _;
    let buffer = Buffer::from_request(device, shelf, dtype, shape, request)?;
    buffer.ensure_allocated()?;
    Ok(buffer)
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
pub(crate) fn fill_block(device: &Device, allocation: Allocation, value: u32) -> Result<Allocation> {
    let (offset, bytes) = (allocation.offset as u64, allocation.bytes as u64);
    let dst = Binding { block: allocation.block, offset, bytes };
    let mut recording = device.recycler().take();
    recording.list.commands.push(Command::Fill { dst, value });
    let submitted = device.timeline().submit(device, &recording.list, &mut recording.uses, &[]);
    device.recycler().give(recording);
    let ticket = submitted?;
    match device.timeline().wait(device, ticket, Duration::MAX) {
        Ok(()) => Ok(allocation),
        Err(error) => {
            if !device.timeline().is_settled(ticket) {
                // It is unknown when the device will be done with it: it is never used again.
                std::mem::forget(allocation);
            }
            Err(error)
        }
    }
}
