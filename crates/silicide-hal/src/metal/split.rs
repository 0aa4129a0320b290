//! A list cut into passes and command buffers.
//!
//! Usually a list is one pass in one command buffer. It is cut where the device should tell the time (marks, when they
//! are timed), and before a command buffer has so much work that the desktop would stutter: the system draws between
//! command buffers. Passes are ordered by a fence, so a cut is a barrier, and cutting anywhere is right; after a barrier of
//! the list it is also free.

use crate::{Command, CommandList};
use std::ops::Range;

/// The most command buffers of a list. All are made before the first one starts, and a queue holds this many.
const MOST_BUFFERS: usize = 256;

/// The most passes of a list: as many as one buffer of counter samples holds.
pub(super) const MOST_PASSES: usize = 2048;

/// A command buffer is never cut before it has this many dispatches, copies and fills: starting one has its price.
const LEAST_COMMANDS: usize = 16;

/// How marks cut a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkRule {
    /// Nothing.
    Name,
    /// Opens a pass.
    Pass,
    /// Opens a command buffer.
    Buffer,
}

/// Commands that are encoded into one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Which commands of the list. Barriers and marks at its start say nothing any more.
    pub(super) commands: Range<usize>,
    /// The mark that opens the piece, when marks cut.
    pub(super) label: Option<&'static str>,
    /// Which command buffer of the list, from 0 on.
    pub(super) buffer: usize,
    /// Its work, in the units of the caller of [`cut`].
    pub(super) weight: u64,
}

/// Cuts a list. There is at least one piece; pieces follow each other, and so do their command buffers.
pub(super) fn cut(
    list: &CommandList,
    rule: MarkRule,
    limit: u64,
    weigh: impl Fn(&Command) -> u64,
) -> Vec<Piece> {
    let mut pieces = vec![Piece { commands: 0..0, label: None, buffer: 0, weight: 0 }];
    // Work in the command buffer so far.
    let (mut weight, mut commands) = (0u64, 0usize);
    for (index, command) in list.commands.iter().enumerate() {
        let heavy = weight >= limit && commands >= LEAST_COMMANDS;
        let (opens, label) = match command {
            Command::Mark { label } => (rule, Some(*label)),
            Command::Barrier if heavy => (MarkRule::Buffer, None),
            // A group without end is cut too, but later.
            _ if heavy && weight >= limit.saturating_mul(2) => (MarkRule::Buffer, None),
            _ => (MarkRule::Name, None),
        };
        let passes = pieces.len();
        if let Some(piece) = pieces.last_mut() {
            piece.commands.end = index;
            let opens = match opens {
                // A pass that would be empty is not worth having.
                _ if label.is_none() && piece.commands.is_empty() => MarkRule::Name,
                _ if passes >= MOST_PASSES => MarkRule::Name,
                MarkRule::Buffer if piece.buffer + 1 >= MOST_BUFFERS => MarkRule::Pass,
                other => other,
            };
            if opens != MarkRule::Name {
                let buffer = piece.buffer + usize::from(opens == MarkRule::Buffer);
                if buffer != piece.buffer {
                    (weight, commands) = (0, 0);
                }
                pieces.push(Piece { commands: index..index, label, buffer, weight: 0 });
            }
        }
        if let Some(piece) = pieces.last_mut() {
            let own = weigh(command);
            (piece.weight, weight) = (piece.weight.saturating_add(own), weight.saturating_add(own));
            commands += usize::from(!matches!(command, Command::Barrier | Command::Mark { .. }));
            piece.commands.end = index + 1;
        }
    }
    pieces
}

/// Learns from finished command buffers how much work takes how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Nanoseconds per unit of work; 0 until something was seen.
    per_unit: f64,
}

/// How long a command buffer should take: a few frames at most, and much longer than it takes to start one.
const TARGET_NS: f64 = 40e6;

/// Work that is too short to measure the pace: mostly the time to start.
const LEAST_WEIGHT: u64 = 1 << 16;

/// The work of a command buffer before any time was measured.
const FIRST_LIMIT: u64 = 1 << 28;

impl Default for Pace {
    fn default() -> Pace {
        Pace { per_unit: 0.0 }
    }
}

impl Pace {
    /// Takes the time of a finished command buffer into account.
    pub(super) fn observe(&mut self, weight: u64, nanoseconds: f64) {
        if weight < LEAST_WEIGHT || !nanoseconds.is_finite() || nanoseconds <= 0.0 {
            return;
        }
        let seen = nanoseconds / weight as f64;
        // Slower work counts at once, faster work little by little: stutter is worse than a few more command buffers.
        self.per_unit = match seen > self.per_unit {
            true => seen,
            false => self.per_unit + (seen - self.per_unit) / 8.0,
        };
    }

    /// Returns the work that a command buffer should hold.
    pub(super) fn limit(&self) -> u64 {
        if self.per_unit <= 0.0 {
            return FIRST_LIMIT;
        }
        // Out of range in either direction, the conversion saturates.
        ((TARGET_NS / self.per_unit) as u64).max(LEAST_WEIGHT)
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
