//! Finding things by name, and finding names that occur twice. Only numbers are kept; the names stay where they are.
//! The hash is keyed at random, so no file can be made to collide.

use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// The numbers `0..count` of things, by their names.
#[derive(Debug)]
pub(crate) struct NameIndex {
    table: HashTable<u32>,
    state: RandomState,
}

impl NameIndex {
    /// Indexes `count` names. The error is the number of the first thing whose name an earlier one has.
    pub(crate) fn build<'a>(count: usize, name: impl Fn(u32) -> &'a [u8]) -> Result<NameIndex, u32> {
        let state = RandomState::new();
        let mut table = HashTable::with_capacity(count);
        for number in (0..).take(count) {
            let text = name(number);
            let hash = state.hash_one(text);
            if table.find(hash, |&other| name(other) == text).is_some() {
                return Err(number);
            }
            table.insert_unique(hash, number, |&other| state.hash_one(name(other)));
        }
        Ok(NameIndex { table, state })
    }

    /// Returns the number of the thing called `text`.
    pub(crate) fn find<'a>(&self, text: &[u8], name: impl Fn(u32) -> &'a [u8]) -> Option<u32> {
        self.table.find(self.state.hash_one(text), |&number| name(number) == text).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_and_doubles() {
        let names: [&[u8]; 4] = [b"a", b"", b"token", b"b"];
        let index = NameIndex::build(names.len(), |number| names[number as usize]).unwrap();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(index.find(name, |number| names[number as usize]), Some(number as u32));
        }
        assert_eq!(index.find(b"c", |number| names[number as usize]), None);
        let doubled: [&[u8]; 3] = [b"a", b"b", b"a"];
        assert_eq!(NameIndex::build(3, |number| doubled[number as usize]).unwrap_err(), 2);
    }
}
