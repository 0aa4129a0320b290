//! The timeline: numbering submissions, holding what they use until they are done, and passing failures on.
//!
//! Two laws are kept here. *A storage outlives the last ticket that used it*: flights hold it. *No failure is
//! lost*: a flight that failed, or that read what a failed one should have written, poisons what it wrote.

use super::Device;
use crate::buffer::{Storage, StorageState};
use crate::error::{Error, Result};
use crate::kernel::Access;
use silicide_hal::{CommandList, HalError, Ticket};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a submission uses one storage.
#[derive(Debug)]
pub(crate) struct StorageUse {
    pub(crate) storage: Arc<Storage>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Whether every byte is overwritten before any is read.
    pub(crate) overwrites: bool,
}

/// A submission that was not seen to finish.
#[derive(Debug)]
struct Flight {
    ticket: Ticket,
    uses: Vec<StorageUse>,
}

/// The order of a device's submissions.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    queue: Mutex<Queue>,
    /// The last ticket seen reached, to skip asking the device.
    reached: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    /// The last ticket given out.
    last: u64,
    /// The last ticket that the device has.
    submitted: u64,
    flights: VecDeque<Flight>,
}

/// What a list touches, for the check against host guards.
pub(crate) struct Touched<'a> {
    /// (index into `uses`, byte range in the storage, access), one per argument of each command.
    pub(crate) ranges: &'a [(u32, Range<usize>, Access)],
}

impl Timeline {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a list that uses some storages. On failure nothing has changed.
    pub(crate) fn submit(
        &self,
        device: &Device,
        list: &CommandList,
        uses: &mut Vec<StorageUse>,
        touched: &Touched<'_>,
    ) -> Result<Ticket> {
        // Storages that die here give memory back, which may take the queue's lock: let them go after it.
        let done = self.take_done(device, &mut self.queue());
        retire(device, done);

        let mut queue = self.queue();
        queue.last += 1;
        let ticket = Ticket(queue.last);
        claim(uses, touched, ticket)?;
        // SAFETY: the list was recorded by an encoder, which keeps the constitution: handles live in `uses` and
        // the registry, ranges were checked, barriers separate hazards. The queue's lock orders submissions.
        if let Err(error) = unsafe { device.raw().submit(list, ticket) } {
            for used in uses.iter() {
                used.storage.state().unclaim(ticket);
            }
            return Err(Error::device(&device.info().id, error));
        }
        queue.submitted = ticket.0;
        queue.flights.push_back(Flight { ticket, uses: std::mem::take(uses) });
        Ok(ticket)
    }

    /// Waits for a ticket and says how its list went.
    pub(crate) fn wait(&self, device: &Device, ticket: Ticket, timeout: Duration) -> Result<()> {
        if ticket.0 == 0 {
            return Ok(());
        }
        if self.reached.load(Ordering::Acquire) < ticket.0 {
            // A ticket that was given out but never submitted has nothing to wait for. Taking the lock also waits
            // for a submission under way.
            if ticket.0 > self.queue().submitted {
                return Ok(());
            }
            device.counter_set().waited();
        }
        let result = device.raw().wait(ticket, timeout);
        self.collect(device);
        result.map_err(|error| Error::device(&device.info().id, error))
    }

    /// Whether a ticket was reached.
    pub(crate) fn poll(&self, device: &Device, ticket: Ticket) -> Result<bool> {
        if self.reached.load(Ordering::Acquire) < ticket.0 {
            let reached = device.raw().reached().map_err(|error| Error::device(&device.info().id, error))?;
            if reached < ticket {
                return Ok(false);
            }
        }
        self.wait(device, ticket, Duration::ZERO).map(|()| true)
    }

    /// Waits for everything submitted; says the first failure.
    pub(crate) fn drain(&self, device: &Device) -> Result<()> {
        let tickets: Vec<Ticket> = self.queue().flights.iter().map(|flight| flight.ticket).collect();
        let mut first = Ok(());
        for ticket in tickets {
            first = first.and(self.wait(device, ticket, Duration::MAX));
        }
        first
    }

    /// Lets go of what finished submissions used, and poisons what failed ones wrote.
    pub(crate) fn collect(&self, device: &Device) {
        let done = self.take_done(device, &mut self.queue());
        retire(device, done);
    }

    fn take_done(&self, device: &Device, queue: &mut Queue) -> Vec<Flight> {
        let Some(first) = queue.flights.front() else { return Vec::new() };
        let reached = match device.raw().reached() {
            Ok(reached) => reached,
            // A lost device runs nothing any more: all flights have ended.
            Err(_) => Ticket(u64::MAX),
        };
        if reached < first.ticket {
            return Vec::new();
        }
        if reached.0 != u64::MAX {
            self.reached.fetch_max(reached.0, Ordering::AcqRel);
        }
        let count = queue.flights.iter().take_while(|flight| flight.ticket <= reached).count();
        let done: Vec<Flight> = queue.flights.drain(..count).collect();
        // Poison in order, before anyone can look: readers wait for their ticket through this lock.
        for flight in &done {
            settle(device, flight);
        }
        done
    }
}

/// Marks every storage of a list with its ticket, after checking guards and poison; all or nothing.
fn claim(uses: &[StorageUse], touched: &Touched<'_>, ticket: Ticket) -> Result<()> {
    let mut refused = None;
    let mut claimed = 0;
    for (index, used) in uses.iter().enumerate() {
        let mut state = used.storage.state();
        if let Err(error) = check(index, used, &state, touched) {
            refused = Some(error);
            break;
        }
        state.claim(ticket, used.writes);
        claimed = index + 1;
    }
    let Some(error) = refused else { return Ok(()) };
    for used in uses.iter().take(claimed) {
        used.storage.state().unclaim(ticket);
    }
    Err(error)
}

fn check(index: usize, used: &StorageUse, state: &StorageState, touched: &Touched<'_>) -> Result<()> {
    if let Some(cause) = state.poison().filter(|_| used.reads && !used.overwrites) {
        return Err(Error::Poisoned { what: "submit", cause: Arc::clone(cause) });
    }
    if !state.is_held() {
        return Ok(());
    }
    for (_, range, access) in touched.ranges.iter().filter(|(storage, ..)| *storage as usize == index) {
        state.check_guards("submit", used.storage.id(), range, access.writes())?;
    }
    Ok(())
}

/// Poisons or heals what a finished flight wrote.
fn settle(device: &Device, flight: &Flight) {
    let failure = match device.raw().wait(flight.ticket, Duration::ZERO) {
        Ok(()) => {
            let tainted = flight.uses.iter().filter(|used| used.reads && !used.overwrites);
            tainted.map(|used| used.storage.state().poison().cloned()).find(Option::is_some).flatten()
        }
        Err(HalError::Timeout { .. }) => None,
        Err(error) => Some(Arc::new(Error::device(&device.info().id, error))),
    };
    for used in flight.uses.iter().filter(|used| used.writes) {
        let mut state = used.storage.state();
        match &failure {
            Some(cause) => state.set_poison(Arc::clone(cause)),
            None if used.overwrites => state.heal(),
            None => {}
        }
    }
}

/// Drops storages outside the queue's lock, and keeps the vectors for later recordings.
fn retire(device: &Device, done: Vec<Flight>) {
    for mut flight in done {
        flight.uses.clear();
        device.recycler().give_uses(flight.uses);
    }
}
