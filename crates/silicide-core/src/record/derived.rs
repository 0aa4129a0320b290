//! Scratch that launches derived from inputs alone ([`Plan::derive`](crate::kernel::Plan::derive)), kept for calls that would derive
//! the same.
//!
//! It is valid until its inputs are written. Only the last few are kept: calls that share an input come one after the other,
//! and memory that is kept can't be used for anything else.

use crate::kernel::{Launch, Operand, Plan, Step};
use smallvec::SmallVec;
use std::ops::Range;

/// How many are kept.
const KEPT: usize = 2;

/// Bytes of something that is known by `S`.
pub(super) type Source<S> = (S, Range<usize>);

/// Scratch memory `M`, and how it was made.
#[derive(Debug)]
struct Made<S, M> {
    launch: Launch,
    sources: SmallVec<[Source<S>; 1]>,
    memory: M,
}

/// The last few.
#[derive(Debug)]
pub(super) struct Derived<S, M>(Vec<Made<S, M>>);

impl<S, M> Default for Derived<S, M> {
    fn default() -> Derived<S, M> {
        Derived(Vec::new())
    }
}

impl<S: Copy + PartialEq, M: Clone> Derived<S, M> {
    /// Returns the scratch that the same launch derived from the same bytes.
    pub(super) fn find(&self, launch: &Launch, sources: &[Source<S>]) -> Option<M> {
        let same = |made: &&Made<S, M>| made.sources.as_slice() == sources && is_same(&made.launch, launch);
        self.0.iter().find(same).map(|made| made.memory.clone())
    }

    /// Keeps what a launch made.
    pub(super) fn keep(&mut self, launch: &Launch, sources: SmallVec<[Source<S>; 1]>, memory: M) {
        if self.0.len() >= KEPT {
            self.0.remove(0);
        }
        self.0.push(Made { launch: launch.clone(), sources, memory });
    }

    /// Drops scratch that was derived from `written` bytes of `storage`.
    pub(super) fn forget(&mut self, storage: S, written: &Range<usize>) {
        let hit = |(source, range): &Source<S>| {
            *source == storage && range.start < written.end && written.start < range.end
        };
        self.0.retain(|made| !made.sources.iter().any(hit));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether two launches do the same, wherever their scratch memory is.
pub(crate) fn is_same(one: &Launch, other: &Launch) -> bool {
    let inputs = |launch: &Launch| -> SmallVec<[_; 2]> {
        launch.args.iter().filter(|arg| !matches!(arg.operand, Operand::Scratch(..))).copied().collect()
    };
    one.program == other.program
        && one.params == other.params
        && one.grid == other.grid
        && inputs(one) == inputs(other)
}

/// The launches of a plan that derive something, with the scratch memory that they make.
pub(crate) fn of(plan: &Plan) -> impl Iterator<Item = (&Launch, usize)> {
    plan.steps.iter().zip(&plan.derived).filter_map(|(step, &scratch)| match step {
        Step::Dispatch(launch) => Some((launch, usize::from(scratch))),
        _ => None,
    })
}
