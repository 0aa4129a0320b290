//! Mutations of GGUF files (version 3, little-endian), by the fields of the header.
//!
//! The header is scanned as far as it can be read; what lies behind a broken field is left to byte mutations.

use super::{bytes as any_bytes, number_near};
use fastrand::Rng;

/// The kind of a field of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A count of tensors, keys, elements or dimensions, or the length of a text.
    Count,
    /// The type of a value, an array or a tensor.
    Tag,
    /// A whole number: a setting, an extent, an offset.
    Number,
    /// A float of four bytes.
    Float,
    /// The bytes of a text.
    Text,
}

/// A field: where its bytes lie.
#[derive(Clone, Copy, Debug)]
struct Field {
    kind: Kind,
    at: usize,
    bytes: usize,
}

/// Reads fields one after the other.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    fields: Vec<Field>,
}

impl Scanner<'_> {
    fn number(&mut self, kind: Kind, width: usize) -> Option<u64> {
        let mut number = [0; 8];
        let found = self.bytes.get(self.at..self.at.checked_add(width)?)?;
        number.get_mut(..width)?.copy_from_slice(found);
        self.fields.push(Field { kind, at: self.at, bytes: width });
        self.at += width;
        Some(u64::from_le_bytes(number))
    }

    fn text(&mut self) -> Option<()> {
        let length = usize::try_from(self.number(Kind::Count, 8)?).ok()?;
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len())?;
        self.fields.push(Field { kind: Kind::Text, at: self.at, bytes: length });
        self.at = end;
        Some(())
    }

    fn value(&mut self, tag: u64) -> Option<()> {
        match tag {
            0 | 1 | 7 => self.number(Kind::Number, 1).map(|_| ()),
            2 | 3 => self.number(Kind::Number, 2).map(|_| ()),
            4 | 5 => self.number(Kind::Number, 4).map(|_| ()),
            6 => self.number(Kind::Float, 4).map(|_| ()),
            8 => self.text(),
            9 => {
                let tag = self.number(Kind::Tag, 4).filter(|&tag| tag != 9)?;
                let count = self.number(Kind::Count, 8)?;
                (0..count).try_for_each(|_| self.value(tag))
            }
            10..=12 => self.number(Kind::Number, 8).map(|_| ()),
            _ => None,
        }
    }

    fn header(&mut self) -> Option<()> {
        self.number(Kind::Number, 4)?;
        let tensors = self.number(Kind::Count, 8)?;
        let keys = self.number(Kind::Count, 8)?;
        for _ in 0..keys {
            self.text()?;
            let tag = self.number(Kind::Tag, 4)?;
            self.value(tag)?;
        }
        for _ in 0..tensors {
            self.text()?;
            let dimensions = self.number(Kind::Count, 4)?;
            (0..dimensions.min(16)).try_for_each(|_| self.number(Kind::Number, 8).map(|_| ()))?;
            self.number(Kind::Tag, 4)?;
            self.number(Kind::Number, 8)?;
        }
        Some(())
    }
}

/// The fields of the header. Where an array is long, only its first elements matter: the choice prefers early fields.
fn fields(bytes: &[u8]) -> Vec<Field> {
    let mut scanner = Scanner { bytes, at: 4, fields: Vec::new() };
    let _ = scanner.header();
    scanner.fields
}

/// Changes one field of the header: a number to one near it or at an edge, a tag to another, a text in place or in
/// length, or copies a field over another of its kind.
pub fn gguf(bytes: &mut Vec<u8>, random: &mut Rng) {
    let fields = fields(bytes);
    // Half of the time one of a kind that is rare: texts of the vocabulary would win nearly always.
    let rare = random.bool();
    let candidates: Vec<Field> = fields
        .iter()
        .copied()
        .filter(|field| !rare || !matches!(field.kind, Kind::Text | Kind::Count))
        .collect();
    let Some(field) = random.choice(&candidates).copied() else { return any_bytes(bytes, random) };
    let range = field.at..field.at + field.bytes;
    let Some(place) = bytes.get_mut(range.clone()) else { return };
    if random.u8(..8) == 0 {
        let same: Vec<Field> = fields
            .iter()
            .copied()
            .filter(|other| other.kind == field.kind && other.bytes == field.bytes)
            .collect();
        let from = random.choice(same).map_or(range, |other| other.at..other.at + other.bytes);
        return bytes.copy_within(from, field.at);
    }
    match field.kind {
        Kind::Count | Kind::Number => {
            let mut old = [0; 8];
            old.iter_mut().zip(place.iter()).for_each(|(byte, old)| *byte = *old);
            let new = number_near(u64::from_le_bytes(old), random);
            place.iter_mut().zip(new.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        }
        Kind::Tag => {
            let new = random.u32(..45);
            place.iter_mut().zip(new.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        }
        Kind::Float => {
            let floats =
                [0.0, -0.0, 1.0, -1.0, 1e-38, 1e38, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-6];
            let new = random.choice(floats).unwrap_or(0.0);
            place.iter_mut().zip(new.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        }
        Kind::Text => change_text(bytes, field, random),
    }
}

/// Changes a byte of a text, or cuts or lengthens it with its length put right.
fn change_text(bytes: &mut Vec<u8>, field: Field, random: &mut Rng) {
    let Some(length_at) = field.at.checked_sub(8) else { return };
    let new = match random.u8(..3) {
        0 => random.usize(..=field.bytes),
        1 => field.bytes + random.usize(..20),
        _ => {
            let at = field.at + random.usize(..field.bytes.max(1));
            return bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.u8(..));
        }
    };
    let end = field.at + field.bytes;
    if new <= field.bytes {
        bytes.drain(field.at + new..end);
    } else {
        let more: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(new - field.bytes).collect();
        bytes.splice(end..end, more);
    }
    bytes.iter_mut().skip(length_at).zip((new as u64).to_le_bytes()).for_each(|(byte, new)| *byte = new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::testdata;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn the_scanner_reads_the_whole_header_of_a_model() {
        let bytes = std::fs::read(testdata().join("models/llama-tied-q8_0.gguf")).unwrap();
        let mut scanner = Scanner { bytes: &bytes, at: 4, fields: Vec::new() };
        assert!(scanner.header().is_some());
        assert!(scanner.fields.len() > 100);
        assert!(
            bytes.get(scanner.at..scanner.at.next_multiple_of(32)).unwrap().iter().all(|&byte| byte == 0)
        );
    }
}
