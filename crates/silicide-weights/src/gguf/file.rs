//! An opened GGUF file: proven entries, and metadata read on demand.

use super::endian;
use super::header::{GgufTensor, Header, Key};
use super::value::Value;
use crate::cursor::Cursor;
use crate::entry::{Data, Entry, FileRegion, Stored};
use crate::error::{Error, Fault, Result};
use crate::{Bytes, Load};
use silicide_quant::DType;
use std::borrow::Cow;
use std::path::Path;

/// An opened GGUF file. Opening walks the header once and keeps positions; names, texts and arrays stay in the file.
#[derive(Debug)]
pub struct GgufFile {
    bytes: Bytes,
    header: Header,
    /// Its number among the files of a model.
    number: u32,
}

impl GgufFile {
    /// Maps and checks a file.
    pub fn open(path: impl AsRef<Path>) -> Result<GgufFile> {
        let path = path.as_ref();
        GgufFile::parse(Bytes::load(path, Load::Map)?)
    }

    /// Checks a file that is in memory or mapped already.
    pub fn parse(bytes: Bytes) -> Result<GgufFile> {
        let malformed = |(offset, fault)| Error::malformed(bytes.path(), offset, fault);
        let header = Header::parse(bytes.as_slice()).map_err(malformed)?;
        Ok(GgufFile { bytes, header, number: 0 })
    }

    pub(super) fn numbered(self, number: u32) -> GgufFile {
        GgufFile { number, ..self }
    }

    /// Returns the version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.header.version
    }

    /// Returns whether numbers are stored with the highest byte first.
    pub fn is_big_endian(&self) -> bool {
        self.header.big_endian
    }

    /// Tensor data begins at multiples of this many bytes.
    pub fn alignment(&self) -> u64 {
        self.header.alignment
    }

    /// Returns the file.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the tensors, in the order of the file.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.header.tensors.iter().map(|tensor| self.view(tensor))
    }

    /// Returns the tensor of a name.
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.tensor(name).map(|tensor| self.view(tensor))
    }

    /// Returns where in the file a tensor is described.
    pub(super) fn declared(&self, name: &str) -> Option<u64> {
        self.tensor(name).map(|tensor| tensor.name.declared())
    }

    fn tensor(&self, name: &str) -> Option<&GgufTensor> {
        let (tensors, file) = (&self.header.tensors, self.bytes.as_slice());
        let text = |number: u32| tensors.get(number as usize).map_or(&[][..], |tensor| tensor.name.of(file));
        tensors.get(self.header.tensor_index.find(name.as_bytes(), text)? as usize)
    }

    /// Returns the data of a tensor of this file, with the lowest byte of every number first: the file's own bytes, or a
    /// swapped copy if the file is big-endian.
    pub fn data(&self, entry: &Entry<'_>) -> Result<Cow<'_, [u8]>> {
        let dtype = entry.dtype()?;
        let range = entry.place()?.range();
        let (offset, end, size) = (range.start as u64, range.end as u64, self.bytes.as_slice().len() as u64);
        // Only an entry of another file can fail here.
        let bytes = self.bytes.as_slice().get(range).ok_or_else(|| {
            let fault = Fault::OutsideFile { tensor: entry.name().to_owned(), start: offset, end, size };
            Error::malformed(self.bytes.path(), offset, fault)
        })?;
        Ok(if self.header.big_endian {
            Cow::Owned(endian::swapped(dtype, bytes))
        } else {
            Cow::Borrowed(bytes)
        })
    }

    /// Turns bytes that were copied from this file into the form of [`GgufFile::data`]: whole elements or blocks.
    pub(crate) fn correct(&self, dtype: DType, bytes: &mut [u8]) {
        if self.header.big_endian {
            endian::swap(dtype, bytes);
        }
    }

    /// Metadata keys and values, in the order of the file.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.header
            .keys
            .iter()
            .filter_map(|key| Some((self.text(key.name.of(self.bytes.as_slice())), self.value(key)?)))
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.value(self.key(key)?)
    }

    /// Returns where in the file the value of a key is.
    pub(super) fn offset_of(&self, key: &str) -> Option<u64> {
        self.key(key).map(|key| key.value as u64)
    }

    fn key(&self, key: &str) -> Option<&Key> {
        let (keys, file) = (&self.header.keys, self.bytes.as_slice());
        let text = |number: u32| keys.get(number as usize).map_or(&[][..], |key| key.name.of(file));
        keys.get(self.header.key_index.find(key.as_bytes(), text)? as usize)
    }

    fn value(&self, key: &Key) -> Option<Value<'_>> {
        let mut cursor = Cursor::at(self.bytes.as_slice(), key.value, self.header.big_endian);
        Value::read(&mut cursor, key.kind).ok()
    }

    /// Returns a name that was UTF-8 when the file was opened.
    fn text<'a>(&self, bytes: &'a [u8]) -> &'a str {
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn view(&self, tensor: &GgufTensor) -> Entry<'_> {
        let file = self.bytes.as_slice();
        let stored = Stored::from_ggml(tensor.id);
        let start = self.header.data.saturating_add(tensor.offset);
        let data = match (stored, FileRegion::new(self.number, start, tensor.bytes, file.len())) {
            (Stored::As(_), Some(place)) => Data::One(place),
            _ => Data::Unknown,
        };
        Entry { name: self.text(tensor.name.of(file)), shape: tensor.shape, stored, data }
    }
}
