//! Baked lists: command buffers that are recorded once and submitted again and again.
//!
//! A list without marks is recorded for simultaneous use, so that a replay need not wait for the one before: the
//! barriers at both ends of a command buffer order the two. One with marks writes its timestamps to the same places each
//! time, and waits. Parameter words lie in the command buffer, so values of slots that differ from the last ones mean
//! that it is recorded anew; lists that read what changes from memory have no slots and never are.

use super::record::{Objects, Recording};
use super::submit::Queue;
use super::timeline::Timeline;
use crate::{CommandList, HalError, RawBaked, Result, Ticket};
use ash::vk;

/// A recorded list that stays.
pub(super) struct Baked {
    pub(super) recording: Recording,
    /// The list, where it may have to be recorded anew: as it was recorded last.
    list: Option<CommandList>,
    usage: vk::CommandBufferUsageFlags,
    /// The last ticket it was submitted with.
    last: u64,
}

impl Queue {
    /// See [`RawDevice::bake`](crate::RawDevice::bake).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn bake(&self, list: &CommandList, objects: &Objects<'_>) -> Result<RawBaked> {
        let has_marks = list.commands.iter().any(|command| matches!(command, crate::Command::Mark { .. }));
        let usage = match has_marks {
            true => vk::CommandBufferUsageFlags::empty(),
            false => vk::CommandBufferUsageFlags::SIMULTANEOUS_USE,
        };
        let mut recording = Recording::new(self.gpu())?;
        // SAFETY: the caller's promise; nothing was recorded before.
        let (recorded, complaint) = self.gpu().watched(|| unsafe { recording.record(list, objects, usage) });
        if let Some(error) = recorded.err().or(complaint) {
            return Err(error);
        }
        let list = (!list.slots.is_empty()).then(|| list.clone());
        Ok(RawBaked(self.lock().baked.insert(Baked { recording, list, usage, last: 0 }) as u64))
    }

    /// See [`RawDevice::replay`](crate::RawDevice::replay).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn replay(
        &self,
        (baked, slots): (RawBaked, &[u32]),
        ticket: Ticket,
        objects: &Objects<'_>,
        timeline: &Timeline,
    ) -> Result<()> {
        let key = baked.0 as usize;
        let mut state = self.lock();
        state.make_room(timeline)?;
        let unknown = || HalError::Driver { call: "replay", detail: format!("{baked:?} is no baked list") };
        let entry = state.baked.get_mut(key).ok_or_else(unknown)?;
        let changed = entry.list.as_mut().is_some_and(|list| list.fill_slots(slots));
        let has_marks = entry.recording.timestamps.has_marks();
        let last = entry.last;
        if changed || has_marks {
            // Its marks are read, or its buffer recorded anew: only once the device is through with it.
            state.wait_for(last, timeline)?;
        }
        let entry = state.baked.get_mut(key).ok_or_else(unknown)?;
        match &entry.list {
            Some(list) if changed => {
                let (recording, usage) = (&mut entry.recording, entry.usage);
                // SAFETY: the caller's promise; the device is through with the recording.
                let (recorded, complaint) =
                    self.gpu().watched(|| unsafe { recording.record(list, objects, usage) });
                if let Some(error) = recorded.err().or(complaint) {
                    return Err(error);
                }
            }
            _ if has_marks => entry.recording.timestamps.rearm(),
            _ => {}
        }
        self.fly(entry.recording.buffer, ticket, timeline)?;
        entry.last = ticket.0;
        state.baked_flies(ticket, key);
        Ok(())
    }

    /// See [`RawDevice::unbake`](crate::RawDevice::unbake).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn unbake(&self, baked: RawBaked, timeline: &Timeline) {
        let mut state = self.lock();
        // Its tickets were reached: nothing that is still noted as flying may find another list under its number.
        let last = state.baked.get(baked.0 as usize).map_or(0, |baked| baked.last);
        state.land(timeline.counter().unwrap_or(last));
        let gone = state.baked.try_remove(baked.0 as usize);
        drop(state);
        drop(gone);
    }
}
