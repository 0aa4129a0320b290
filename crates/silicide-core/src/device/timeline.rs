//! The timeline: numbering submissions, holding what they use until they are done, and passing failures on.
//!
//! Two laws are kept here. *A storage outlives the last ticket that used it*: flights hold it. *No failure is
//! lost*: a flight that failed, or that read poisoned storages, poisons the storages that it wrote.
//!
//! A flight is *settled* when it is done and the storages that it wrote are poisoned or healed. Settling happens under
//! the queue's lock, in the order of tickets; `settled` publishes the progress for readers without the lock.
//! A ticket whose submission failed is *void*: it is given out, but never on the device. Storages never keep one,
//! because a submission withdraws its claims before it releases the lock.

use super::Device;
use crate::buffer::{Storage, StorageState};
use crate::error::{Error, Result};
use crate::record::{BakedList, Touch};
use silicide_hal::{CommandList, HalError, RawDevice, Ticket};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Failures that are kept for later waits; the oldest are dropped first. Storages that failed lists should have written stay
/// poisoned for good.
const FAILURES_KEPT: usize = 1024;

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
    held: HeldUses,
}

/// The resources that a flight keeps alive.
#[derive(Debug)]
enum HeldUses {
    /// The storages of a list that is run once.
    Once(Vec<StorageUse>),
    /// A list that is run again and again.
    Baked(Arc<BakedList>),
}

impl Flight {
    fn uses(&self) -> &[StorageUse] {
        match &self.held {
            HeldUses::Once(uses) => uses,
            HeldUses::Baked(baked) => &baked.uses,
        }
    }
}

/// Flights that were settled, on their way out of the queue. There is rarely more than one.
type Done = SmallVec<[Flight; 4]>;

/// The order of a device's submissions.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    queue: Mutex<Queue>,
    /// The last ticket that was settled.
    settled: AtomicU64,
    /// Whether anything ever failed.
    failed: AtomicBool,
    failures: Mutex<BTreeMap<u64, Arc<Error>>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The last ticket given out.
    last: u64,
    /// The last ticket that the device has.
    submitted: u64,
    flights: VecDeque<Flight>,
}

impl Timeline {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Error>>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a list that uses some storages, numbered by their place in `uses`. On failure nothing has changed.
    pub(crate) fn submit(
        &self,
        device: &Device,
        list: &CommandList,
        uses: &mut Vec<StorageUse>,
        touches: &[Touch],
    ) -> Result<Ticket> {
        let mut queue = self.queue();
        let ticket = queue.claim(uses, touches)?;
        // SAFETY: the list was recorded by an encoder, which keeps the constitution: handles live in `uses` and
        // the registry, ranges were checked, barriers separate hazards. The queue's lock orders submissions.
        if let Err(error) = unsafe { device.raw().submit(list, ticket) } {
            return Err(refused(device, uses, ticket, error));
        }
        self.fly(device, queue, Flight { ticket, held: HeldUses::Once(std::mem::take(uses)) });
        Ok(ticket)
    }

    /// Submits a baked list. On failure nothing has changed. Allocates nothing.
    pub(crate) fn replay(&self, device: &Device, baked: &Arc<BakedList>) -> Result<Ticket> {
        let mut queue = self.queue();
        let ticket = queue.claim(&baked.uses, &baked.touches)?;
        // SAFETY: `BakedList::new` has baked a recorded list, which keeps the constitution. The flight below keeps the baked list,
        // and it keeps all that it uses. The queue's lock orders submissions.
        if let Err(error) = unsafe { device.raw().replay(baked.raw, ticket) } {
            return Err(refused(device, &baked.uses, ticket, error));
        }
        self.fly(device, queue, Flight { ticket, held: HeldUses::Baked(Arc::clone(baked)) });
        Ok(ticket)
    }

    /// Notes a list that the device has taken.
    fn fly(&self, device: &Device, mut queue: MutexGuard<'_, Queue>, flight: Flight) {
        queue.submitted = flight.ticket.0;
        queue.flights.push_back(flight);
        // Backends that run a list at once have finished it: a later wait for it need not take the lock.
        let done = self.take_done(device.raw(), &mut queue);
        drop(queue);
        retire(device, done);
    }

    /// Waits for the list of a ticket that was submitted and says how it went.
    pub(crate) fn wait(&self, device: &Device, ticket: Ticket, timeout: Duration) -> Result<()> {
        device.counter_set().wait_called();
        let settled = self.is_settled(ticket);
        if !settled {
            device.counter_set().waited();
            let waited = device.raw().wait(ticket, timeout);
            self.collect(device);
            if !self.is_settled(ticket) {
                return waited.map_err(|error| Error::device(&device.info().id, error));
            }
        }
        self.outcome(ticket)
    }

    /// Waits until the device is done with a storage's ticket, which `last` reads. How the work went shows as poison.
    pub(crate) fn wait_until_done(&self, device: &Device, last: impl Fn() -> Ticket) -> Result<Ticket> {
        device.counter_set().wait_called();
        let ticket = last();
        if self.is_settled(ticket) {
            return Ok(ticket);
        }
        // A submission under way may yet be taken back. With the lock, what the storage says is true.
        let ticket = {
            let _queue = self.queue();
            last()
        };
        if self.is_settled(ticket) {
            return Ok(ticket);
        }
        device.counter_set().waited();
        let waited = device.raw().wait(ticket, Duration::MAX);
        self.collect(device);
        match waited {
            Err(error) if !self.is_settled(ticket) => Err(Error::device(&device.info().id, error)),
            _ => Ok(ticket),
        }
    }

    /// Whether a list is done; its failure if it failed.
    pub(crate) fn poll(&self, device: &Device, ticket: Ticket) -> Result<bool> {
        if !self.is_settled(ticket) {
            self.collect(device);
        }
        if self.is_settled(ticket) { self.outcome(ticket).map(|()| true) } else { Ok(false) }
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

    /// Releases the storages of finished submissions, and poisons those that failed ones wrote.
    pub(crate) fn collect(&self, device: &Device) {
        let done = self.take_done(device.raw(), &mut self.queue());
        retire(device, done);
    }

    /// The same, unless another thread is submitting, which does it anyway.
    pub(crate) fn collect_now(&self, device: &Device) {
        let mut queue = match self.queue.try_lock() {
            Ok(queue) => queue,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let done = self.take_done(device.raw(), &mut queue);
        drop(queue);
        retire(device, done);
    }

    /// Waits for all submissions and releases their storages, for a device that is dropped.
    pub(crate) fn finish(&mut self, raw: &dyn RawDevice) {
        let queue = self.queue.get_mut().unwrap_or_else(PoisonError::into_inner);
        while let Some(flight) = queue.flights.pop_front() {
            // A failure of the list can't be reported any more: the device is being dropped.
            let waited = raw.wait(flight.ticket, Duration::MAX);
            let ended =
                raw.reached().map_or_else(|error| is_loss(&error), |reached| reached >= flight.ticket);
            if waited.is_err() && !ended {
                // The device can't say whether it still runs. What it may be using must never be used again.
                std::mem::forget(flight);
            }
        }
    }

    pub(crate) fn is_settled(&self, ticket: Ticket) -> bool {
        self.settled.load(Ordering::Acquire) >= ticket.0
    }

    /// How a settled list went.
    pub(crate) fn outcome(&self, ticket: Ticket) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.failures().get(&ticket.0).map_or(Ok(()), |error| Err(Error::clone(error)))
    }

    /// Settles the flights that are done.
    fn take_done(&self, raw: &dyn RawDevice, queue: &mut Queue) -> Done {
        let Some(first) = queue.flights.front() else { return Done::new() };
        let reached = match raw.reached() {
            Ok(reached) => reached,
            // A lost device runs nothing any more: all flights have ended.
            Err(error) if is_loss(&error) => Ticket(u64::MAX),
            // Any other trouble says nothing about the flights: they are polled again later.
            Err(_) => return Done::new(),
        };
        if reached < first.ticket {
            return Done::new();
        }
        let count = queue.flights.iter().take_while(|flight| flight.ticket <= reached).count();
        let done: Done = queue.flights.drain(..count).collect();
        for flight in &done {
            if let Some(failure) = settle(raw, flight) {
                self.remember(flight.ticket, failure);
            }
            self.settled.store(flight.ticket.0, Ordering::Release);
        }
        done
    }

    fn remember(&self, ticket: Ticket, failure: Arc<Error>) {
        let mut failures = self.failures();
        if failures.len() == FAILURES_KEPT {
            failures.pop_first();
        }
        failures.insert(ticket.0, failure);
        self.failed.store(true, Ordering::Release);
    }
}

impl Queue {
    /// The next ticket, with which all storages of a list are marked.
    fn claim(&mut self, uses: &[StorageUse], touches: &[Touch]) -> Result<Ticket> {
        self.last += 1;
        let ticket = Ticket(self.last);
        claim(uses, touches, ticket)?;
        Ok(ticket)
    }
}

/// Takes the claims of a list back that the device has refused.
fn refused(device: &Device, uses: &[StorageUse], ticket: Ticket, error: HalError) -> Error {
    for used in uses {
        used.storage.state().unclaim(ticket);
    }
    Error::device(&device.info().id, error)
}

/// Marks every storage of a list with its ticket, after checking guards and poison; all or nothing.
fn claim(uses: &[StorageUse], touches: &[Touch], ticket: Ticket) -> Result<()> {
    for (index, used) in uses.iter().enumerate() {
        let mut state = used.storage.state();
        if let Err(error) = check(index, used, &state, touches) {
            drop(state);
            for used in uses.iter().take(index) {
                used.storage.state().unclaim(ticket);
            }
            return Err(error);
        }
        state.claim(ticket, used.writes);
    }
    Ok(())
}

fn check(index: usize, used: &StorageUse, state: &StorageState, touches: &[Touch]) -> Result<()> {
    if let Some(cause) = state.poison().filter(|_| used.reads && !used.overwrites) {
        return Err(Error::Poisoned { what: "submit", cause: Arc::clone(cause) });
    }
    if !state.is_held() {
        return Ok(());
    }
    for touch in touches.iter().filter(|touch| touch.storage as usize == index) {
        let range = touch.start as usize..touch.end as usize;
        state.check_guards("submit", used.storage.id(), &range, touch.access.writes())?;
    }
    Ok(())
}

fn is_loss(error: &HalError) -> bool {
    matches!(error, HalError::DeviceLost { .. })
}

/// Poisons or heals the storages that a finished flight wrote. Returns why it failed, if it did: by itself, or because it read
/// poisoned storages.
fn settle(raw: &dyn RawDevice, flight: &Flight) -> Option<Arc<Error>> {
    let failure = match raw.wait(flight.ticket, Duration::ZERO) {
        Ok(()) => {
            let tainted = flight.uses().iter().filter(|used| used.reads && !used.overwrites);
            let cause = tainted.map(|used| used.storage.state().poison().cloned()).find(Option::is_some);
            cause
                .flatten()
                .map(|cause| (Arc::clone(&cause), Arc::new(Error::Poisoned { what: "submission", cause })))
        }
        Err(error) => {
            let error = Arc::new(Error::device(&raw.info().id, error));
            Some((Arc::clone(&error), error))
        }
    };
    let (cause, failure) = failure.unzip();
    for used in flight.uses().iter().filter(|used| used.writes) {
        let mut state = used.storage.state();
        match &cause {
            Some(cause) => state.set_poison(Arc::clone(cause)),
            None if used.overwrites => state.heal(),
            None => {}
        }
    }
    failure
}

/// Drops storages outside the queue's lock, and keeps the vectors for later recordings.
fn retire(device: &Device, done: Done) {
    for flight in done {
        if let HeldUses::Once(mut uses) = flight.held {
            uses.clear();
            device.recycler().give_uses(uses);
        }
    }
}
