//! The format of a file of repacked weights, which is a safetensors file: reading and writing.
//!
//! ```text
//! 8 bytes              length of the header
//! header, padded       {"__metadata__": {format, layout, isa, model, identity, checksum}, "NAME/PLANE ENCODING": {"dtype": "U8", ...}, ...}
//! page-aligned data    the planes of every repacked weight, each padded to a cache line by a tensor "pad/N"
//! ```
//!
//! The parser proves that tensors lie in the file without gaps. The checksum covers names and data of all of them, so that a file with a
//! hole, which a full disk or a crash can leave, is refused as well.

use super::{RepackCache, checksum, identity, is_remote};
use crate::store::space::available;
use serde_json::json;
use silicide_core::{Buffer, Device, Weight};
use silicide_quant::{Encoding, Shape};
use silicide_weights::safetensors::SafetensorsFile;
use silicide_weights::{Bytes, Load, MappedFile, Source};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The extension of a whole file.
pub(super) const EXTENSION: &str = "repacked";
/// The end of the name of a file that is being written.
pub(super) const UNFINISHED: &str = ".part";
const FORMAT: &str = "silicide-repacked-1";
/// Data begins at a page, planes at a cache line.
const PAGE: usize = 4096;
const LINE: usize = 64;

/// What a file was made from and for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepackKey {
    /// The file or folder of the model.
    pub(super) model: PathBuf,
    /// The identity of the model's files.
    identity: String,
    /// The instruction set of the device.
    pub(super) isa: &'static str,
}

impl RepackKey {
    /// Returns the key of a model's weights on a device, or why they can't be stored.
    pub(crate) fn of(source: &Source, device: &Device) -> Result<RepackKey, String> {
        let model = source.path().canonicalize().unwrap_or_else(|_| source.path().to_owned());
        let isa = device.info().isa.map_or("portable", |isa| isa.name());
        Ok(RepackKey { model, identity: identity::of(source)?, isa })
    }

    /// Whether the model's files are identified by their hashes.
    pub(super) fn is_hashed(&self) -> bool {
        self.identity.starts_with(identity::HASHED)
    }

    fn metadata(&self, checksum: u64) -> BTreeMap<String, String> {
        let pairs = [
            ("format", FORMAT.to_owned()),
            ("layout", silicide_ops::interleave::LAYOUT.to_string()),
            ("isa", self.isa.to_owned()),
            ("model", self.model.display().to_string()),
            ("identity", self.identity.clone()),
            ("checksum", format!("{checksum:016x}")),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// A weight to be stored.
#[derive(Clone, Debug)]
pub(crate) struct RepackedTensor {
    /// The name of the weight.
    pub(crate) name: String,
    /// Its encoding.
    pub(crate) encoding: Encoding,
    /// Its shape.
    pub(crate) shape: Shape,
}

/// A file of repacked weights, mapped.
#[derive(Debug)]
pub(crate) struct RepackedWeights {
    file: MappedFile,
    places: HashMap<String, Range<usize>>,
}

impl RepackedWeights {
    /// Opens the weights of a key. Returns `None` if there are none, and the reason where a file is not used.
    pub(crate) fn open(cache: &RepackCache, key: &RepackKey, threads: usize) -> Result<Option<Self>, String> {
        let path = cache.path_of(key);
        if !path.exists() {
            return Ok(None);
        }
        if is_remote(&path) {
            return Err("the folder is on a network file system".to_owned());
        }
        let bytes = Bytes::load(&path, Load::Map).map_err(|error| error.to_string())?;
        let Bytes::Mapped(file) = &bytes else { return Err("it is not mapped".to_owned()) };
        let file = file.clone();
        let parsed = SafetensorsFile::parse(bytes).map_err(|error| format!("it is damaged: {error}"))?;
        let mut metadata = parsed.metadata();
        let stored = metadata.remove("checksum").unwrap_or_default();
        let mut expected = key.metadata(0);
        expected.remove("checksum");
        if metadata != expected {
            let what = match metadata.get("format").map(String::as_str) {
                Some(FORMAT) if metadata.get("identity") != expected.get("identity") => {
                    "the model has changed"
                }
                Some(FORMAT) => "it is of another version",
                _ => "it is another kind of file",
            };
            return Err(what.to_owned());
        }
        let mut places = Vec::new();
        for entry in parsed.entries() {
            let place = entry.place().map_err(|error| error.to_string())?;
            places.push((entry.name().to_owned(), place.range()));
        }
        if format!("{:016x}", checksum_of(file.bytes(), &places, threads)) != stored {
            return Err("it is damaged: its checksum is wrong".to_owned());
        }
        Ok(Some(RepackedWeights { file, places: places.into_iter().collect() }))
    }

    /// Returns a weight where the file is mapped, if the file has it.
    pub(crate) fn get(&self, device: &Device, tensor: &RepackedTensor) -> Option<Weight> {
        let RepackedTensor { encoding, shape, .. } = tensor;
        let plane = |index: usize| {
            let plane = encoding.plane(index, shape).ok()?;
            let range = self.places.get(&plane_name(tensor, index))?.clone();
            Buffer::from_mapped(device, &self.file, range, plane.dtype, plane.shape).ok()
        };
        let planes: Option<Vec<Buffer>> = (0..encoding.planes()).map(plane).collect();
        Weight::new(*encoding, planes?).ok()
    }
}

/// Returns the model that the file at `path` names, if its header is whole.
pub(super) fn model_of(path: &Path) -> Option<PathBuf> {
    if is_remote(path) {
        return None;
    }
    let file = SafetensorsFile::open(path).ok()?;
    let metadata = file.metadata();
    (metadata.get("format")? == FORMAT).then(|| metadata.get("model").map(PathBuf::from))?
}

/// Returns the checksum of names and data, on `threads` threads.
fn checksum_of(bytes: &[u8], places: &[(String, Range<usize>)], threads: usize) -> u64 {
    let of_place = |(name, range): &(String, Range<usize>)| {
        let data = checksum::of(bytes.get(range.clone()).unwrap_or_default());
        checksum::combine(&[checksum::of(name.as_bytes()), data], 0)
    };
    let sums = std::thread::scope(|scope| {
        let parts = places.chunks(places.len().div_ceil(threads.max(1)).max(1));
        let of_part = |part: &[(String, Range<usize>)]| part.iter().map(of_place).collect::<Vec<u64>>();
        let running: Vec<_> = parts
            .map(|part| {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || of_part(part));
                (part, thread.ok())
            })
            .collect();
        let sums =
            running.into_iter().map(|(part, thread)| match thread.map(std::thread::ScopedJoinHandle::join) {
                Some(Ok(sums)) => sums,
                // A thread that could not be had.
                _ => of_part(part),
            });
        sums.collect::<Vec<_>>().concat()
    });
    checksum::combine(&sums, places.len() as u64)
}

/// Returns the name of a plane in the file. It has the encoding, so that a weight is found only as it is needed.
fn plane_name(tensor: &RepackedTensor, index: usize) -> String {
    format!("{}/{index} {}", tensor.name, tensor.encoding)
}

/// Writes the weights of a key under a temporary name, then renames the file.
pub(crate) struct RepackWriter<'a> {
    path: PathBuf,
    unfinished: Unfinished,
    key: &'a RepackKey,
    /// Names and lengths of all tensors, in their order.
    planned: Vec<(String, usize)>,
    header_bytes: usize,
    sums: Vec<u64>,
}

/// A file that is deleted when it is dropped before it has its name.
struct Unfinished {
    path: PathBuf,
    file: File,
    is_whole: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl<'a> RepackWriter<'a> {
    /// Begins a file of `tensors`.
    pub(crate) fn begin(
        cache: &RepackCache,
        key: &'a RepackKey,
        tensors: &[RepackedTensor],
    ) -> io::Result<RepackWriter<'a>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        std::fs::create_dir_all(cache.directory())?;
        let path = cache.path_of(key);
        if is_remote(cache.directory()) {
            return Err(io::Error::other("the folder is on a network file system"));
        }
        cache.remove_abandoned(&path);
        let mut planned = Vec::new();
        for tensor in tensors {
            let RepackedTensor { encoding, shape, .. } = tensor;
            for index in 0..encoding.planes() {
                let plane = encoding.plane(index, shape).map_err(io::Error::other)?;
                let bytes = plane.shape.bytes(plane.dtype).map_err(io::Error::other)?;
                planned.push((plane_name(tensor, index), bytes));
                let pad = bytes.next_multiple_of(LINE) - bytes;
                if pad > 0 {
                    planned.push((format!("pad/{}", planned.len()), pad));
                }
            }
        }
        let needed: usize = planned.iter().map(|(_, bytes)| bytes).sum();
        if let Some(free) = available(cache.directory()).filter(|&free| free < needed as u64) {
            let what = format!("{needed} bytes are needed on its disk, and {free} are free");
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}-{number}{UNFINISHED}", std::process::id()));
        let file = File::options().write(true).create_new(true).open(&unfinished)?;
        let unfinished = Unfinished { path: unfinished, file, is_whole: false };
        // Not all file systems have locks. Without one the file may be taken for abandoned, and renaming fails then.
        let _ = unfinished.file.try_lock();
        let mut writer = RepackWriter { path, unfinished, key, planned, header_bytes: 0, sums: Vec::new() };
        let header = writer.header(0)?;
        writer.header_bytes = header.len();
        writer.unfinished.file.write_all(&header)?;
        Ok(writer)
    }

    /// Returns the length and the header, padded to a page.
    fn header(&self, checksum: u64) -> io::Result<Vec<u8>> {
        let mut fields = serde_json::Map::new();
        fields.insert("__metadata__".to_owned(), json!(self.key.metadata(checksum)));
        let mut end = 0;
        for (name, bytes) in &self.planned {
            let start = end;
            end += bytes;
            fields
                .insert(name.clone(), json!({"dtype": "U8", "shape": [bytes], "data_offsets": [start, end]}));
        }
        let mut text = serde_json::to_vec(&fields).map_err(io::Error::other)?;
        text.resize((8 + text.len()).next_multiple_of(PAGE) - 8, b' ');
        Ok([(text.len() as u64).to_le_bytes().as_slice(), &text].concat())
    }

    /// Appends a weight, which is the next of those that were planned.
    pub(crate) fn write(&mut self, weight: &Weight) -> io::Result<()> {
        for plane in weight.planes() {
            let bytes = plane.as_bytes().map_err(io::Error::other)?;
            let bytes = bytes.read::<u8>().map_err(io::Error::other)?;
            self.append(&bytes)?;
            let next = self.planned.get(self.sums.len());
            if let Some(pad) = next.filter(|(name, _)| name.starts_with("pad/")).map(|(_, bytes)| *bytes) {
                self.append(&vec![0; pad])?;
            }
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((name, _)) =
            self.planned.get(self.sums.len()).filter(|(_, planned)| *planned == bytes.len())
        else {
            return Err(io::Error::other("a weight is not the one that was planned"));
        };
        self.sums.push(checksum::combine(&[checksum::of(name.as_bytes()), checksum::of(bytes)], 0));
        self.unfinished.file.write_all(bytes)
    }

    /// Completes the file and gives it its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if self.sums.len() != self.planned.len() {
            return Err(io::Error::other("weights are missing"));
        }
        let header = self.header(checksum::combine(&self.sums, self.sums.len() as u64))?;
        if header.len() != self.header_bytes {
            return Err(io::Error::other("the length of the header has changed"));
        }
        let file = &mut self.unfinished.file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header)?;
        // A crash after renaming must not leave a file with holes.
        file.sync_all()?;
        std::fs::rename(&self.unfinished.path, &self.path)?;
        self.unfinished.is_whole = true;
        Ok(())
    }
}
