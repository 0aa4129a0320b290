//! One door to all weight files: metadata, entries, bytes.

use crate::bytes::FileReader;
use crate::checkpoint::{Checkpoint, INDEX, QUANTIZATION, SINGLE};
use crate::config::Config;
use crate::entry::{Entry, FileRegion, Stored, Tensor};
use crate::error::{Error, Fault, Result};
use crate::foreign::{Beginning, Foreign};
use crate::gguf::{self, GgufFile, Value};
use crate::mlx::{Quantization, QuantizedWeight};
use crate::safetensors::SafetensorsFile;
use crate::{Bytes, Load, ReadEvent};
use silicide_quant::MlxPlanes;
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

/// The weights of a model, in whatever files they come.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    parts: Parts,
}

/// What kind of files a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Container {
    /// GGUF, in one file or several.
    Gguf,
    /// safetensors, in one file or several.
    Safetensors,
    /// safetensors with MLX's quantisation.
    Mlx,
}

#[derive(Debug)]
enum Parts {
    /// At least one file.
    Gguf(Vec<GgufFile>),
    Checkpoint(Checkpoint),
}

impl Source {
    /// Opens a model, mapping its files: a GGUF file or the first of several, a safetensors file, the index of
    /// several, or a directory that holds one of these.
    pub fn open(path: impl AsRef<Path>) -> Result<Source> {
        Source::open_with(path, Load::Map)
    }

    /// [`Source::open`], mapping or copying.
    pub fn open_with(path: impl AsRef<Path>, load: Load) -> Result<Source> {
        Source::open_watched(path, load, &mut |_| ControlFlow::Continue(()))
    }

    /// [`Source::open_with`], which calls `watch` for each piece of a file that is read into memory. `Break` cancels the
    /// reading, and the result is an error then. Mapped files are not read, and have no events.
    pub fn open_watched(
        path: impl AsRef<Path>,
        load: Load,
        watch: &mut dyn FnMut(&ReadEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Source> {
        let (path, mut reader) = (path.as_ref(), FileReader { load, watch });
        let parts = if path.is_dir() {
            open_directory(path, &mut reader)?
        } else if path.file_name().is_some_and(|name| name == INDEX) {
            open_directory(path.parent().unwrap_or(Path::new("")), &mut reader)?
        } else {
            open_file(path, &mut reader)?
        };
        Ok(Source { path: path.to_owned(), parts })
    }

    /// Returns a source of GGUF bytes that are there already.
    pub fn from_gguf(bytes: Bytes) -> Result<Source> {
        Ok(Source { path: bytes.path().to_owned(), parts: Parts::Gguf(vec![GgufFile::parse(bytes)?]) })
    }

    /// Returns a source of safetensors bytes that are there already, with the text of their `config.json`.
    pub fn from_safetensors(files: Vec<Bytes>, config: Option<Config>) -> Result<Source> {
        let path = files.first().map(|bytes| bytes.path().to_owned()).unwrap_or_default();
        let files = files.into_iter().map(SafetensorsFile::parse).collect::<Result<Vec<_>>>()?;
        Ok(Source { path, parts: Parts::Checkpoint(Checkpoint::assemble(files, config, None)?) })
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kind of the files.
    pub fn container(&self) -> Container {
        match &self.parts {
            Parts::Gguf(_) => Container::Gguf,
            Parts::Checkpoint(Checkpoint { quantization: Some(_), .. }) => Container::Mlx,
            Parts::Checkpoint(_) => Container::Safetensors,
        }
    }

    /// Returns the files; places count them from 0.
    pub fn files(&self) -> Vec<&Bytes> {
        match &self.parts {
            Parts::Gguf(files) => files.iter().map(GgufFile::bytes).collect(),
            Parts::Checkpoint(checkpoint) => checkpoint.files.iter().map(SafetensorsFile::bytes).collect(),
        }
    }

    /// Returns the GGUF files, the first of which has the metadata; empty for other kinds.
    pub fn gguf(&self) -> &[GgufFile] {
        if let Parts::Gguf(files) = &self.parts { files } else { &[] }
    }

    /// Returns the safetensors files; empty for other kinds.
    pub fn safetensors(&self) -> &[SafetensorsFile] {
        if let Parts::Checkpoint(checkpoint) = &self.parts { &checkpoint.files } else { &[] }
    }

    /// Returns the value of a GGUF key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.gguf().first()?.get(key)
    }

    /// Returns the `config.json` of a checkpoint.
    pub fn config(&self) -> Option<&Config> {
        if let Parts::Checkpoint(checkpoint) = &self.parts { checkpoint.config.as_ref() } else { None }
    }

    /// Returns the quantization settings of an MLX checkpoint: of its `config.json`, or of a `quantization_config.json` beside it.
    /// [`Quantization::of_tensor`] looks a tensor up.
    pub fn quantization(&self) -> Option<&Quantization> {
        if let Parts::Checkpoint(checkpoint) = &self.parts { checkpoint.quantization.as_ref() } else { None }
    }

    /// Returns all tensors, in the order of the files.
    pub fn entries(&self) -> Box<dyn Iterator<Item = Entry<'_>> + '_> {
        match &self.parts {
            Parts::Gguf(files) => Box::new(files.iter().flat_map(GgufFile::entries)),
            Parts::Checkpoint(checkpoint) => Box::new(checkpoint.tensors.iter().map(Tensor::entry)),
        }
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        match &self.parts {
            Parts::Gguf(files) => files.iter().map(|file| file.entries().len()).sum(),
            Parts::Checkpoint(checkpoint) => checkpoint.tensors.len(),
        }
    }

    /// Returns whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tensor of a name.
    pub fn entry(&self, name: &str) -> Result<Entry<'_>> {
        let found = match &self.parts {
            Parts::Gguf(files) => files.iter().find_map(|file| file.entry(name)),
            Parts::Checkpoint(checkpoint) => checkpoint.find(name).map(Tensor::entry),
        };
        let missing = || Error::Missing { path: self.path.clone(), what: "tensor", name: name.to_owned() };
        found.ok_or_else(missing)
    }

    /// Returns the data of a tensor that is in one piece, little-endian: the file's own bytes, or a swapped copy of those
    /// of a big-endian GGUF file.
    pub fn data(&self, entry: &Entry<'_>) -> Result<Cow<'_, [u8]>> {
        let place = entry.place()?;
        match self.gguf().get(place.file()) {
            Some(file) => file.data(entry),
            None => self.slice(entry, place).map(Cow::Borrowed),
        }
    }

    /// Returns the planes of a quantised MLX weight.
    pub fn quantized(&self, entry: &Entry<'_>) -> Result<QuantizedWeight<'_>> {
        let (Stored::Mlx(format), Some(planes)) = (entry.stored(), entry.planes()) else {
            return Err(entry.unsupported("weights in planes".to_owned()));
        };
        let planes = MlxPlanes {
            packed: self.slice(entry, planes.packed)?,
            scales: self.slice(entry, planes.scales)?,
            biases: self.slice(entry, planes.biases)?,
        };
        Ok(QuantizedWeight { format, shape: entry.shape(), planes })
    }

    /// Returns the file that a place of this source lies in.
    pub fn file(&self, place: FileRegion) -> Option<&Bytes> {
        match &self.parts {
            Parts::Gguf(files) => files.get(place.file()).map(GgufFile::bytes),
            Parts::Checkpoint(checkpoint) => checkpoint.files.get(place.file()).map(SafetensorsFile::bytes),
        }
    }

    /// Returns whether the bytes of a place are what they mean, numbers with the lowest byte first, just as they lie there.
    pub fn is_plain(&self, place: FileRegion) -> bool {
        !self.gguf().get(place.file()).is_some_and(GgufFile::is_big_endian)
    }

    /// Copies bytes of one of a tensor's places, from byte `offset` of it on, with the lowest byte of every number
    /// first. Offset and length are whole elements or blocks.
    pub fn copy_out(
        &self,
        entry: &Entry<'_>,
        place: FileRegion,
        offset: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let all = self.slice(entry, place)?;
        let end = offset.saturating_add(out.len());
        let part = all.get(offset..end).ok_or_else(|| self.outside(entry, offset..end, all.len()))?;
        out.copy_from_slice(part);
        if let Some(file) = self.gguf().get(place.file()) {
            file.correct(entry.dtype()?, out);
        }
        Ok(())
    }

    fn slice(&self, entry: &Entry<'_>, place: FileRegion) -> Result<&[u8]> {
        let bytes = self.file(place).map(Bytes::as_slice).unwrap_or_default();
        // Only an entry of another source can fail here.
        bytes.get(place.range()).ok_or_else(|| self.outside(entry, place.range(), bytes.len()))
    }

    fn outside(&self, entry: &Entry<'_>, range: Range<usize>, size: usize) -> Error {
        let (tensor, size) = (entry.name().to_owned(), size as u64);
        let (start, end) = (range.start as u64, range.end as u64);
        Error::malformed(&self.path, start, Fault::OutsideFile { tensor, start, end, size })
    }
}

/// Opens a file by its first bytes, and by its name where they say nothing.
fn open_file(path: &Path, reader: &mut FileReader<'_>) -> Result<Parts> {
    let beginning = Beginning::read(path).map_err(|error| Error::io(path, &error))?;
    if beginning.is_gguf() {
        return gguf::open_all(path, reader).map(Parts::Gguf);
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let (gguf, safetensors) = (extension == "gguf", extension == "safetensors");
    match beginning.foreign() {
        // The parsers say of an empty file with the right name that it is empty.
        Some(_) if (gguf || safetensors) && std::fs::metadata(path).is_ok_and(|data| data.len() == 0) => {}
        Some(Foreign { kind, advice }) => {
            return Err(Error::Foreign { path: path.to_owned(), kind, advice });
        }
        None if !gguf && !safetensors && !beginning.is_safetensors() => {
            let detail =
                format!("neither GGUF nor safetensors; it begins with the bytes {}", beginning.hexadecimal());
            return Err(Error::NotAModel { path: path.to_owned(), detail });
        }
        None => {}
    }
    if gguf {
        // Not one, but its error says why.
        return Ok(Parts::Gguf(vec![GgufFile::parse(reader.open(path)?)?]));
    }
    let read = |name: &'static str| Config::read(&path.with_file_name(name), name);
    let (config, settings) = (read("config.json")?, read(QUANTIZATION)?);
    let file = SafetensorsFile::parse(reader.open(path)?)?;
    Ok(Parts::Checkpoint(Checkpoint::assemble(vec![file], config, settings.as_ref())?))
}

fn open_directory(directory: &Path, reader: &mut FileReader<'_>) -> Result<Parts> {
    if let Some(checkpoint) = Checkpoint::open(directory, reader)? {
        return Ok(Parts::Checkpoint(checkpoint));
    }
    let io = |error: std::io::Error| Error::io(directory, &error);
    let mut models = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let first = gguf::position(&path).is_none_or(|position| position.number == 1);
        if path.extension().is_some_and(|extension| extension == "gguf") && first {
            models.push(path);
        }
    }
    models.sort();
    if let [model] = models.as_slice() {
        return gguf::open_all(model, reader).map(Parts::Gguf);
    }
    let detail = if models.is_empty() {
        format!("the directory has no {SINGLE}, no {INDEX} and no GGUF file")
    } else {
        let names = models.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy());
        format!("the directory has several models: {}", names.collect::<Vec<_>>().join(", "))
    };
    Err(Error::NotAModel { path: directory.to_owned(), detail })
}
