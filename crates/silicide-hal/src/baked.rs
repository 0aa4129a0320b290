//! Lists kept for replay, by backends that have no better form for them than the list itself.

use crate::{CommandList, HalError, RawBaked, Result};
use slab::Slab;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lists by their handles.
#[derive(Debug, Default)]
pub struct BakedLists(Mutex<Slab<CommandList>>);

impl BakedLists {
    /// Keeps a list.
    pub fn bake(&self, list: &CommandList) -> RawBaked {
        RawBaked(self.lists().insert(list.clone()) as u64)
    }

    /// Calls `run` with a list. A handle that is not live is an error.
    pub fn with<T>(&self, baked: RawBaked, run: impl FnOnce(&CommandList) -> Result<T>) -> Result<T> {
        let lists = self.lists();
        let Some(list) = lists.get(baked.0 as usize) else {
            return Err(HalError::Driver { call: "replay", detail: format!("{baked:?} is not live") });
        };
        run(list)
    }

    /// Removes a list.
    pub fn unbake(&self, baked: RawBaked) {
        self.lists().try_remove(baked.0 as usize);
    }

    /// Returns how many lists are kept.
    pub fn len(&self) -> usize {
        self.lists().len()
    }

    /// Returns whether no list is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lists(&self) -> MutexGuard<'_, Slab<CommandList>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
