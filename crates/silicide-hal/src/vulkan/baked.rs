//! Baked lists: command buffers that are recorded once and submitted again and again.
//!
//! A list without marks is recorded for simultaneous use, so that a replay need not wait for the one before: the
//! barriers at both ends of a command buffer order the two. One with marks writes its timestamps to the same places each
//! time, and waits.

use super::record::{Objects, Recording};
use super::submit::Queue;
use super::timeline::VulkanTimeline;
use crate::{CommandList, HalError, RawBaked, Result, Ticket};
use ash::vk;

/// A recorded list that stays.
pub(super) struct BakedRecording {
    pub(super) recording: Recording,
    /// The last ticket it was submitted with.
    last: u64,
}

impl Queue {
    /// See [`RawDevice::bake`](crate::RawDevice::bake).
    ///
    /// # Safety
    /// Handles of `list` stay live, and its ranges inside their blocks, until the list is unbaked.
    pub(super) unsafe fn bake(&self, list: &CommandList, objects: &Objects<'_>) -> Result<RawBaked> {
        let has_marks = list.commands.iter().any(|command| matches!(command, crate::Command::Mark { .. }));
        let usage = match has_marks {
            true => vk::CommandBufferUsageFlags::empty(),
            false => vk::CommandBufferUsageFlags::SIMULTANEOUS_USE,
        };
        let mut recording = Recording::new(self.gpu())?;
        // SAFETY: the conditions of `RawDevice::submit` hold for `list` (`# Safety`); nothing was recorded before.
        let (recorded, complaint) = self.gpu().watched(|| unsafe { recording.record(list, objects, usage) });
        if let Some(error) = recorded.err().or(complaint) {
            return Err(error);
        }
        Ok(RawBaked(self.lock().baked.insert(BakedRecording { recording, last: 0 }) as u64))
    }

    /// See [`RawDevice::replay`](crate::RawDevice::replay).
    ///
    /// # Safety
    /// `baked` is live, and `ticket` is greater than every ticket submitted before.
    pub(super) unsafe fn replay(
        &self,
        baked: RawBaked,
        ticket: Ticket,
        timeline: &VulkanTimeline,
    ) -> Result<()> {
        let key = baked.0 as usize;
        let mut state = self.lock();
        state.make_room(timeline)?;
        let unknown = || HalError::Driver { call: "replay", detail: format!("{baked:?} is not live") };
        let entry = state.baked.get(key).ok_or_else(unknown)?;
        let (has_marks, last) = (entry.recording.timestamps.has_marks(), entry.last);
        if has_marks {
            // Timestamps of the last replay are read before this one overwrites them.
            state.wait_for(last, timeline)?;
        }
        let entry = state.baked.get_mut(key).ok_or_else(unknown)?;
        if has_marks {
            entry.recording.timestamps.rearm();
        }
        self.fly(entry.recording.buffer, ticket, timeline)?;
        entry.last = ticket.0;
        state.baked_flies(ticket, key);
        Ok(())
    }

    /// See [`RawDevice::unbake`](crate::RawDevice::unbake).
    ///
    /// # Safety
    /// `baked` is live, and every ticket that it was replayed with was reached.
    pub(super) unsafe fn unbake(&self, baked: RawBaked, timeline: &VulkanTimeline) {
        let mut state = self.lock();
        // Its tickets were reached: nothing that is still noted as flying may find another list under its number.
        let last = state.baked.get(baked.0 as usize).map_or(0, |baked| baked.last);
        state.land(timeline.counter().unwrap_or(last));
        let gone = state.baked.try_remove(baked.0 as usize);
        drop(state);
        drop(gone);
    }
}
