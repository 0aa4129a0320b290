//! Writing GGUF: version 3, little-endian. Tensors are streamed, so a model never has to fit in memory. What is
//! declared goes through the reader's own checks: a file that was written can be read.

use super::encode::{Encode, encode_value};
use super::header;
use super::kind::Kind;
use super::value::{Value, step};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC};
use crate::cursor::{At, Cursor};
use crate::error::{Error, Fault, Result};
use crate::{entry, limits};
use silicide_quant::{DType, Shape};
use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Bytes that are buffered before they are written.
const BUFFER: usize = 1 << 20;

/// Writes a GGUF file: declare everything, then stream the tensors in the order they were declared. The file
/// appears under its name only when it is complete.
#[derive(Debug)]
pub struct GgufWriter {
    path: PathBuf,
    alignment: u64,
    /// Metadata as it will be in the file.
    metadata: Vec<u8>,
    keys: HashSet<String>,
    tensors: Vec<Declared>,
    names: HashSet<String>,
}

/// A tensor to come.
#[derive(Debug)]
struct Declared {
    name: String,
    shape: Shape,
    id: u32,
    bytes: u64,
}

/// A file whose header is written and whose tensors are being streamed.
#[derive(Debug)]
pub struct GgufStream {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    /// Bytes written so far.
    at: u64,
    alignment: u64,
    /// Tensors to come and their missing bytes, last first.
    pending: Vec<(String, u64)>,
}

impl GgufWriter {
    /// Returns a writer for a path.
    pub fn new(path: impl AsRef<Path>) -> GgufWriter {
        let path = path.as_ref();
        GgufWriter {
            path: path.to_owned(),
            alignment: DEFAULT_ALIGNMENT,
            metadata: Vec::new(),
            keys: HashSet::new(),
            tensors: Vec::new(),
            names: HashSet::new(),
        }
    }

    /// Returns the same writer for another path.
    #[must_use]
    pub fn renamed(mut self, path: &Path) -> GgufWriter {
        self.path = path.to_owned();
        self
    }

    /// Adds a metadata entry. `general.alignment` also aligns what is written.
    pub fn meta<T: Encode + ?Sized>(&mut self, key: &str, value: &T) -> Result<()> {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        self.push(key, T::KIND, &bytes)
    }

    /// Adds a metadata entry that was read from another file, with its exact type.
    pub fn copy_meta(&mut self, key: &str, value: &Value<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        self.push(key, value.kind(), &bytes)
    }

    fn push(&mut self, key: &str, kind: Kind, value: &[u8]) -> Result<()> {
        let refused = |fault| Error::malformed(&self.path, 0, fault);
        if self.keys.contains(key) {
            return Err(refused(Fault::Duplicate { what: "key", name: key.to_owned() }));
        }
        if self.keys.len() as u64 >= limits::ENTRIES {
            let (what, limit) = ("the number of metadata entries", limits::ENTRIES);
            return Err(refused(Fault::TooMany { what, got: limit.saturating_add(1), limit }));
        }
        check_name("a key", key).map_err(refused)?;
        step(&mut Cursor::new(value, false), kind, 1).map_err(|(_, fault)| refused(fault))?;
        if key == ALIGNMENT_KEY {
            self.alignment =
                header::alignment_of(Cursor::new(value, false), kind).map_err(|(_, fault)| refused(fault))?;
        }
        key.encode(&mut self.metadata);
        (kind as u32).encode(&mut self.metadata);
        self.metadata.extend(value);
        self.keys.insert(key.to_owned());
        Ok(())
    }

    /// Declares a tensor.
    pub fn tensor(&mut self, name: &str, shape: Shape, dtype: DType) -> Result<()> {
        let refused = |fault| Error::malformed(&self.path, 0, fault);
        if self.names.contains(name) {
            return Err(refused(Fault::Duplicate { what: "tensor", name: name.to_owned() }));
        }
        if self.tensors.len() as u64 >= limits::TENSORS {
            let (what, limit) = ("the number of tensors", limits::TENSORS);
            return Err(refused(Fault::TooMany { what, got: limit.saturating_add(1), limit }));
        }
        let unsupported = || Error::UnsupportedFormat {
            tensor: name.to_owned(),
            stored: dtype.name().to_owned(),
            supported: entry::supported(),
        };
        let id = dtype.ggml().ok_or_else(unsupported)?.0;
        check_name("a tensor's name", name).map_err(refused)?;
        let mut declared = Declared { name: name.to_owned(), shape, id, bytes: 0 };
        let mut description = Vec::new();
        declared.encode(0, &mut description);
        declared.bytes = read_back(&description).map_err(|(_, fault)| refused(fault))?;
        self.tensors.push(declared);
        self.names.insert(name.to_owned());
        Ok(())
    }

    /// Returns the bytes that the file will have: the header, the tensors, and the padding between them.
    pub fn bytes(&self) -> u64 {
        let padded = |bytes: u64| bytes.checked_next_multiple_of(self.alignment).unwrap_or(u64::MAX);
        let mut header = Vec::new();
        self.tensors.iter().for_each(|tensor| tensor.encode(0, &mut header));
        // Magic number, version, and the two counts.
        let fixed = 4u64.saturating_add(4).saturating_add(8 + 8);
        let header = fixed.saturating_add(self.metadata.len() as u64).saturating_add(header.len() as u64);
        let data = self.tensors.iter().fold(0u64, |sum, tensor| sum.saturating_add(padded(tensor.bytes)));
        padded(header).saturating_add(data)
    }

    /// Writes the header; tensors follow.
    pub fn begin(self) -> Result<GgufStream> {
        let mut header = MAGIC.to_vec();
        3u32.encode(&mut header);
        (self.tensors.len() as u64).encode(&mut header);
        (self.keys.len() as u64).encode(&mut header);
        header.extend(&self.metadata);
        let mut offset = 0u64;
        for tensor in &self.tensors {
            tensor.encode(offset, &mut header);
            let end =
                offset.checked_add(tensor.bytes).and_then(|end| end.checked_next_multiple_of(self.alignment));
            let overflow = || Fault::Overflow { tensor: tensor.name.clone() };
            offset = end.ok_or_else(|| Error::malformed(&self.path, 0, overflow()))?;
        }
        let io = |error: std::io::Error| Error::io(&self.path, &error);
        let file = BufWriter::with_capacity(BUFFER, crate::unfinished(&self.path).map_err(io)?);
        let pending = self.tensors.into_iter().rev().map(|tensor| (tensor.name, tensor.bytes)).collect();
        let mut stream = GgufStream { path: self.path, file, at: 0, alignment: self.alignment, pending };
        stream.append(&header)?;
        stream.pad()?;
        // A full disk shows before any tensor is converted.
        stream.file.flush().map_err(|error| Error::io(&stream.path, &error))?;
        Ok(stream)
    }
}

impl Declared {
    fn encode(&self, offset: u64, to: &mut Vec<u8>) {
        self.name.encode(to);
        (self.shape.rank() as u32).encode(to);
        // The file counts the fastest axis first.
        self.shape.axes().iter().rev().for_each(|&extent| (extent as u64).encode(to));
        self.id.encode(to);
        offset.encode(to);
    }
}

/// Returns the bytes of a described tensor, as the reader sees them.
fn read_back(description: &[u8]) -> At<u64> {
    header::tensor(&mut Cursor::new(description, false)).map(|tensor| tensor.bytes)
}

fn check_name(what: &'static str, name: &str) -> Result<(), Fault> {
    let (got, limit) = (name.len() as u64, limits::NAME_BYTES);
    if got > limit { Err(Fault::TooMany { what, got, limit }) } else { Ok(()) }
}

impl GgufStream {
    /// Writes the next bytes of the tensor whose turn it is: all of them, or a piece.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let got = bytes.len() as u64;
        let Some((tensor, missing)) = self.pending.last_mut() else {
            let tensor = String::new();
            return Err(Error::WrongLength { path: self.path.clone(), tensor, expected: 0, got });
        };
        let Some(rest) = missing.checked_sub(got) else {
            let (path, tensor, expected) = (self.path.clone(), tensor.clone(), *missing);
            return Err(Error::WrongLength { path, tensor, expected, got });
        };
        *missing = rest;
        self.append(bytes)?;
        if rest == 0 {
            self.pending.pop();
            self.pad()?;
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io(&self.path, &error))?;
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(())
    }

    fn pad(&mut self) -> Result<()> {
        let end = self.at.checked_next_multiple_of(self.alignment).unwrap_or(self.at);
        self.append(&vec![0; end.saturating_sub(self.at) as usize])
    }

    /// Puts the complete file in its place.
    pub fn finish(self) -> Result<()> {
        self.complete()?.persist()
    }

    /// Writes everything to the disk, but leaves the file without its name. So the files of a split model can
    /// appear together.
    pub fn complete(self) -> Result<CompleteGguf> {
        if let Some((tensor, expected)) = self.pending.last() {
            let (path, tensor) = (self.path, tensor.clone());
            return Err(Error::WrongLength { path, tensor, expected: *expected, got: 0 });
        }
        let file = self.file.into_inner().map_err(|error| Error::io(&self.path, error.error()))?;
        file.as_file().sync_all().map_err(|error| Error::io(&self.path, &error))?;
        Ok(CompleteGguf { path: self.path, file })
    }
}

/// A complete file that has no name yet. It is deleted on drop.
#[derive(Debug)]
pub struct CompleteGguf {
    path: PathBuf,
    file: NamedTempFile,
}

impl CompleteGguf {
    /// Puts the file in its place.
    pub fn persist(self) -> Result<()> {
        self.file.persist(&self.path).map_err(|error| Error::io(&self.path, &error.error))?;
        Ok(())
    }
}
