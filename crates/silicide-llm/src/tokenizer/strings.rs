//! Byte strings in one allocation, numbered in the order of insertion, found by their bytes. The hash has a random key, so
//! no file can cause collisions.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Numbered byte strings, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    /// Where each string ends; it begins where the one before ends.
    ends: Vec<usize>,
    index: HashTable<u32>,
    state: RandomState,
    longest: usize,
}

impl Strings {
    /// Returns an empty set with capacity for `count` strings.
    pub(crate) fn with_capacity(count: usize) -> Strings {
        Strings {
            bytes: Vec::with_capacity(count.saturating_mul(8)),
            ends: Vec::with_capacity(count),
            index: HashTable::with_capacity(count),
            ..Strings::default()
        }
    }

    /// Adds a string under the next number. An earlier string with the same bytes is no longer found; its number is
    /// returned.
    pub(crate) fn push(&mut self, text: &[u8]) -> Option<u32> {
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        self.longest = self.longest.max(text.len());
        let hash = self.state.hash_one(text);
        let (bytes, ends) = (&self.bytes, &self.ends);
        if let Some(earlier) = self.index.find_mut(hash, |&other| slice(bytes, ends, other) == text) {
            return Some(std::mem::replace(earlier, number));
        }
        self.index.insert_unique(hash, number, |&other| self.state.hash_one(slice(bytes, ends, other)));
        None
    }

    /// Returns the number of a string, which is added if it is new.
    pub(crate) fn intern(&mut self, text: &[u8]) -> u32 {
        self.find(text).unwrap_or_else(|| {
            let number = self.ends.len() as u32;
            self.push(text);
            number
        })
    }

    /// Returns the number of a string.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        // No string is that long, so no hash is needed.
        if text.len() > self.longest {
            return None;
        }
        let hash = self.state.hash_one(text);
        self.index.find(hash, |&other| slice(&self.bytes, &self.ends, other) == text).copied()
    }

    /// Returns the string of a number; empty if there is none.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, number)
    }

    /// Returns the length of the longest string, in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(number).and_then(|&end| bytes.get(start..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_finds() {
        let mut strings = Strings::with_capacity(2);
        assert_eq!(strings.push(b"a"), None);
        assert_eq!(strings.push(b""), None);
        assert_eq!(strings.push(b"a"), Some(0));
        assert_eq!((strings.find(b"a"), strings.find(b""), strings.find(b"ab")), (Some(2), Some(1), None));
        assert_eq!((strings.intern(b"a"), strings.intern(b"ab")), (2, 3));
        assert_eq!((strings.get(0), strings.get(3), strings.get(4)), (&b"a"[..], &b"ab"[..], &b""[..]));
        assert_eq!(strings.longest(), 2);
    }
}
