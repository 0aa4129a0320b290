//! The header of a GGUF file: walked once, every claim checked, and only positions kept.

use super::kind::Kind;
use super::value::{Value, step};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC};
use crate::cursor::{At, Cursor};
use crate::entry::{self, Stored};
use crate::error::{self, Fault};
use crate::limits;
use crate::names::NameIndex;
use silicide_quant::Shape;

/// A header, checked.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) big_endian: bool,
    pub(super) alignment: u64,
    pub(super) keys: Vec<Key>,
    pub(super) key_index: NameIndex,
    pub(super) tensors: Vec<GgufTensor>,
    pub(super) tensor_index: NameIndex,
    /// Where the tensor data begins.
    pub(super) data: u64,
}

/// Where a name lies in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextSpan {
    pub(super) start: usize,
    pub(super) length: usize,
}

/// Where a metadata entry lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: TextSpan,
    pub(super) kind: Kind,
    pub(super) value: usize,
}

/// A tensor's description.
#[derive(Clone, Copy, Debug)]
pub(super) struct GgufTensor {
    pub(super) name: TextSpan,
    pub(super) shape: Shape,
    pub(super) id: u32,
    /// First byte, counted from the start of the data.
    pub(super) offset: u64,
    /// Length in bytes; 0 if the type is unknown.
    pub(super) bytes: u64,
}

impl TextSpan {
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start..self.start.saturating_add(self.length)).unwrap_or_default()
    }

    /// Returns where the string begins whose characters these are: at its length.
    pub(super) fn declared(self) -> u64 {
        self.start.saturating_sub(8) as u64
    }

    fn text(self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(self.of(bytes)).into_owned()
    }
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> At<Header> {
        let mut cursor = Cursor::new(bytes, false);
        let magic = cursor.take(4, error::MAGIC_NUMBER)?;
        if magic != MAGIC {
            return Err((0, Fault::Magic { format: "GGUF", got: magic.to_vec() }));
        }
        let (version, big_endian) = version(&mut cursor)?;
        let mut cursor = Cursor::at(bytes, cursor.position(), big_endian);
        // A tensor takes at least a name's length, its axes, its type and its offset.
        let tensors = cursor.count("the number of tensors", limits::TENSORS, 8 + 4 + 4 + 8)?;
        // An entry takes at least a key's length, a type and one byte.
        let keys = cursor.count("the number of metadata entries", limits::ENTRIES, 8 + 4 + 1)?;
        let keys = repeat(keys, || key(&mut cursor))?;
        let name = |number: u32| keys.get(number as usize).map_or(&[][..], |key| key.name.of(bytes));
        let key_index = NameIndex::build(keys.len(), name)
            .map_err(|number| twice("key", bytes, keys.get(number as usize).map(|key| key.name)))?;
        let alignment = alignment(bytes, &keys, big_endian)?;
        let tensors = repeat(tensors, || tensor(&mut cursor))?;
        let name = |number: u32| tensors.get(number as usize).map_or(&[][..], |tensor| tensor.name.of(bytes));
        let tensor_index = NameIndex::build(tensors.len(), name).map_err(|number| {
            twice("tensor", bytes, tensors.get(number as usize).map(|tensor| tensor.name))
        })?;
        let data = cursor.offset().checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let header = Header { version, big_endian, alignment, keys, key_index, tensors, tensor_index, data };
        header.check_ranges(bytes)?;
        Ok(header)
    }

    /// Refuses tensors that are misaligned, leave the file, or share bytes.
    fn check_ranges(&self, bytes: &[u8]) -> At<()> {
        let (alignment, size) = (self.alignment, bytes.len() as u64);
        for tensor in &self.tensors {
            let (at, name) = (tensor.name.declared(), || tensor.name.text(bytes));
            if tensor.offset.checked_rem(alignment) != Some(0) {
                return Err((at, Fault::Misaligned { tensor: name(), got: tensor.offset, alignment }));
            }
            let start = self.data.checked_add(tensor.offset);
            let range = start.and_then(|start| Some((start, start.checked_add(tensor.bytes)?)));
            match range {
                None => return Err((at, Fault::Overflow { tensor: name() })),
                Some((start, end)) if end > size => {
                    return Err((at, Fault::OutsideFile { tensor: name(), start, end, size }));
                }
                Some(_) => (),
            }
        }
        let mut order: Vec<&GgufTensor> = self.tensors.iter().collect();
        order.sort_by_key(|tensor| tensor.offset);
        for (first, second) in order.iter().zip(order.iter().skip(1)) {
            if first.offset.saturating_add(first.bytes) > second.offset {
                let fault = Fault::Overlap { first: first.name.text(bytes), second: second.name.text(bytes) };
                return Err((second.name.declared(), fault));
            }
        }
        Ok(())
    }
}

/// Reads `count` things, a number that was compared with the bytes that they take at least.
fn repeat<T>(count: u64, mut read: impl FnMut() -> At<T>) -> At<Vec<T>> {
    let mut things = Vec::with_capacity(count as usize);
    for _ in 0..count {
        things.push(read()?);
    }
    Ok(things)
}

fn twice(what: &'static str, bytes: &[u8], name: Option<TextSpan>) -> (u64, Fault) {
    let name = name.unwrap_or(TextSpan { start: 0, length: 0 });
    (name.declared(), Fault::Duplicate { what, name: name.text(bytes) })
}

/// Reads the version; a version that makes sense only byte-swapped means that the whole file is.
fn version(cursor: &mut Cursor<'_>) -> At<(u32, bool)> {
    let start = *cursor;
    let version = cursor.u32("the version")?;
    match (version, version.swap_bytes()) {
        (2 | 3, _) => Ok((version, false)),
        (_, swapped @ (2 | 3)) => Ok((swapped, true)),
        _ => start.fault(Fault::Version { got: version }),
    }
}

/// Reads a name and says where its characters are.
fn span<'a>(cursor: &mut Cursor<'a>, what: &'static str) -> At<(&'a str, TextSpan)> {
    let text = cursor.utf8(what, limits::NAME_BYTES)?;
    Ok((text, TextSpan { start: cursor.position().saturating_sub(text.len()), length: text.len() }))
}

fn key(cursor: &mut Cursor<'_>) -> At<Key> {
    let (_, name) = span(cursor, "a key")?;
    let kind = Kind::read(cursor)?;
    let value = cursor.position();
    step(cursor, kind, 1)?;
    Ok(Key { name, kind, value })
}

fn alignment(bytes: &[u8], keys: &[Key], big_endian: bool) -> At<u64> {
    match keys.iter().find(|key| key.name.of(bytes) == ALIGNMENT_KEY.as_bytes()) {
        Some(key) => alignment_of(Cursor::at(bytes, key.value, big_endian), key.kind),
        None => Ok(DEFAULT_ALIGNMENT),
    }
}

/// Reads the value of `general.alignment`.
pub(super) fn alignment_of(cursor: Cursor<'_>, kind: Kind) -> At<u64> {
    let limit = limits::ALIGNMENT;
    match Value::read(&mut cursor.clone(), kind)?.as_u64() {
        Some(got) if got.is_power_of_two() && got <= limit => Ok(got),
        Some(got) => cursor.fault(Fault::Alignment { got, limit }),
        None => {
            let key = ALIGNMENT_KEY.to_owned();
            cursor.fault(Fault::ValueType { key, got: kind.name(), expected: "a positive integer" })
        }
    }
}

pub(super) fn tensor(cursor: &mut Cursor<'_>) -> At<GgufTensor> {
    let start = *cursor;
    let (text, name) = span(cursor, "a tensor's name")?;
    let axes = *cursor;
    let rank = cursor.u32("a tensor's number of axes")?;
    if rank > limits::AXES {
        let (got, limit) = (rank.into(), limits::AXES.into());
        return axes.fault(Fault::TooMany { what: "a tensor's number of axes", got, limit });
    }
    let mut extents = [0; limits::AXES as usize];
    let extents = extents.get_mut(..rank as usize).unwrap_or_default();
    for extent in extents.iter_mut() {
        *extent = cursor.u64("a tensor's extent")?;
    }
    if extents.contains(&0) {
        return start.fault(Fault::EmptyTensor { tensor: text.to_owned() });
    }
    // The file counts the fastest axis first, shapes here the slowest.
    extents.reverse();
    let id = cursor.u32("a tensor's type")?;
    let offset = cursor.u64("a tensor's offset")?;
    let shape = entry::shape(text, extents).or_else(|fault| start.fault(fault))?;
    let bytes = match Stored::from_ggml(id) {
        Stored::As(dtype) => entry::bytes(text, &shape, dtype).or_else(|fault| start.fault(fault))?,
        _ => 0,
    };
    Ok(GgufTensor { name, shape, id, offset, bytes })
}
