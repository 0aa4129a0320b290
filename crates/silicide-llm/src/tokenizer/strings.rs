//! Many byte strings in one allocation, numbered in the order they came, found by their bytes. The hash is keyed at
//! random, so no file can be made to collide.

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
    /// Room for `count` strings.
    pub(crate) fn with_capacity(count: usize) -> Strings {
        Strings {
            bytes: Vec::with_capacity(count.saturating_mul(8)),
            ends: Vec::with_capacity(count),
            index: HashTable::with_capacity(count),
            ..Strings::default()
        }
    }

    /// Adds a string under the next number. If an earlier one has the same bytes, it is no longer found, and the
    /// answer is its number.
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

    /// The number of a string, which is added if it is new.
    pub(crate) fn intern(&mut self, text: &[u8]) -> u32 {
        self.find(text).unwrap_or_else(|| {
            let number = self.ends.len() as u32;
            self.push(text);
            number
        })
    }

    /// The number of a string.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        // Nothing is that long: no need to hash it.
        if text.len() > self.longest {
            return None;
        }
        let hash = self.state.hash_one(text);
        self.index.find(hash, |&other| slice(&self.bytes, &self.ends, other) == text).copied()
    }

    /// The string of a number; empty if there is none.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, number)
    }

    /// The bytes of the longest one.
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
