//! The cursor: the only reader of untrusted bytes. It counts the bytes that remain, and compares each length
//! with them before use.

use crate::error::Fault;

/// A fault and where it is.
pub(crate) type At<T> = std::result::Result<T, (u64, Fault)>;

/// A position in untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], big_endian: bool) -> Cursor<'a> {
        Cursor { bytes, at: 0, big_endian }
    }

    /// Returns a cursor at another position; past the end, nothing remains.
    pub(crate) fn at(bytes: &'a [u8], at: usize, big_endian: bool) -> Cursor<'a> {
        Cursor { bytes, at: at.min(bytes.len()), big_endian }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.bytes.len().saturating_sub(self.at) as u64
    }

    /// Returns the fault `fault` at this position.
    pub(crate) fn fault<T>(&self, fault: Fault) -> At<T> {
        Err((self.offset(), fault))
    }

    /// Returns the next `count` bytes.
    pub(crate) fn take(&mut self, count: u64, what: &'static str) -> At<&'a [u8]> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let Some((taken, end)) = end.and_then(|end| Some((self.bytes.get(self.at..end)?, end))) else {
            return self.fault(Fault::Truncated { what, needed: count, remaining: self.remaining() });
        };
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> At<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        if self.big_endian {
            array.reverse();
        }
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> At<u8> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> At<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> At<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> At<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Returns a count that must not pass a limit, nor need more bytes than remain at `each` bytes apiece.
    pub(crate) fn count(&mut self, what: &'static str, limit: u64, each: u64) -> At<u64> {
        let start = *self;
        let count = self.u64(what)?;
        if count > limit {
            return start.fault(Fault::TooMany { what, got: count, limit });
        }
        match count.checked_mul(each) {
            Some(needed) if needed <= self.remaining() => Ok(count),
            needed => {
                let needed = needed.unwrap_or(u64::MAX);
                start.fault(Fault::Truncated { what, needed, remaining: self.remaining() })
            }
        }
    }

    /// Returns a string with its length before it, as the bytes that are there.
    pub(crate) fn text(&mut self, what: &'static str, limit: u64) -> At<&'a [u8]> {
        let length = self.count(what, limit, 1)?;
        self.take(length, what)
    }

    /// Returns a string that must be UTF-8.
    pub(crate) fn utf8(&mut self, what: &'static str, limit: u64) -> At<&'a str> {
        let start = *self;
        std::str::from_utf8(self.text(what, limit)?).or_else(|_| start.fault(Fault::Utf8 { what }))
    }
}
