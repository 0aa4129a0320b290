//! The loader: brings tensors of a source, one by one or all, onto a device.

use super::options::{LoadEvent, LoadOptions, Placement};
use super::staging::Staging;
use super::weight::{Weight, Weights};
use super::window::Windows;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::Request;
use silicide_hal::MemoryKind;
use silicide_quant::{DType, Encoding, MAX_PLANES, Plane, Shape};
use silicide_weights::{Bytes, Entry, FileRegion, Source, Stored};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The most bytes before and after a page that a page fault maps with it: the default of Linux.
const FAULT_AROUND: usize = 64 << 10;

/// Loads tensors of a weight file onto a device.
///
/// A copy may still be in progress when [`Loader::load`] returns; reads of the tensor wait for it, as for any other work
/// of the device. [`Loader::finish`] waits for all copies.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub mod weights { pub use {silicide_core::weights::*, silicide_weights::*}; } }
/// # let path = "../../testdata/models/llama-tied-q8_0.gguf";
/// use silicide::Device;
/// use silicide::weights::{LoadOptions, Loader, Source};
///
/// let source = Source::open(path)?;
/// let options = LoadOptions::default().progress(|event| println!("{} of {}", event.done, event.total));
/// let mut loader = Loader::new(&Device::cpu()?, &source, options);
/// let weights = loader.load_all()?;
/// let report = loader.finish()?;
/// assert_eq!((weights.len(), report.tensors), (source.len(), source.len()));
/// # Ok::<(), silicide::Error>(())
/// ```
pub struct Loader<'a> {
    device: Device,
    source: &'a Source,
    options: LoadOptions,
    windows: Windows,
    staging: Staging,
    loaded: HashSet<String>,
    /// Copies that [`Loader::fill`] makes.
    pending: Vec<PendingCopy<'a>>,
    total: u64,
    report: LoadReport,
}

/// A part of a tensor, and the memory without bytes that it is copied to.
struct PendingCopy<'a> {
    entry: Entry<'a>,
    place: FileRegion,
    to: Buffer,
}

/// How the bytes of the tensors loaded so far got where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Tensors.
    pub tensors: usize,
    /// Bytes that the CPU uses where the file lies in memory.
    pub mapped: u64,
    /// Bytes that another device uses where the file lies in memory.
    pub imported: u64,
    /// Bytes that the host wrote into the device's memory.
    pub copied: u64,
    /// Bytes that the device copied from staging memory.
    pub staged: u64,
}

impl LoadReport {
    /// Bytes loaded in all.
    pub fn bytes(&self) -> u64 {
        self.mapped + self.imported + self.copied + self.staged
    }
}

/// A range of bytes of a tensor, and its destination.
struct Part<'a> {
    entry: Entry<'a>,
    place: FileRegion,
    dtype: DType,
    shape: Shape,
}

/// An error about a tensor, with its name.
fn of_tensor(entry: &Entry<'_>, error: Error) -> Error {
    match error {
        // These say it already, or concern no tensor.
        error @ (Error::Weights(_) | Error::Cancelled { .. }) => error,
        error => Error::Tensor { name: entry.name().to_owned(), source: Arc::new(error) },
    }
}

impl<'a> Loader<'a> {
    /// A loader of a source's tensors. Nothing is loaded yet.
    pub fn new(device: &Device, source: &'a Source, options: LoadOptions) -> Loader<'a> {
        Loader::of_tensors(device, source, options, |_| true)
    }

    /// A loader of the tensors that `is_loaded` accepts, where other loaders bring the rest to other devices. It takes files in
    /// place only where these tensors lie.
    pub fn of_tensors(
        device: &Device,
        source: &'a Source,
        options: LoadOptions,
        is_loaded: impl Fn(&Entry<'_>) -> bool,
    ) -> Loader<'a> {
        let entries = || source.entries().filter(|entry| is_loaded(entry));
        Loader {
            device: device.clone(),
            source,
            windows: Windows::plan(device, source, &is_loaded),
            staging: Staging::new(options.staging_bytes),
            options,
            loaded: HashSet::new(),
            pending: Vec::new(),
            total: entries().filter_map(|entry| entry.bytes()).sum(),
            report: LoadReport::default(),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The source.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// Loads the tensor of a name.
    pub fn load(&mut self, name: &str) -> Result<Weight> {
        self.load_entry(&self.source.entry(name)?)
    }

    /// Loads the tensor of a name, if there is one.
    pub fn load_optional(&mut self, name: &str) -> Result<Option<Weight>> {
        match self.source.entry(name) {
            Ok(entry) => self.load_entry(&entry).map(Some),
            Err(silicide_weights::Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Loads a tensor of the source.
    pub fn load_entry(&mut self, entry: &Entry<'a>) -> Result<Weight> {
        let before = self.pending.len();
        let weight = self.place_entry(entry)?;
        self.fill_from(before)?;
        Ok(weight)
    }

    /// Returns the weight of a tensor whose bytes may come later: it lies in the file, or in memory that [`Loader::fill`]
    /// allocates and fills.
    pub fn place_entry(&mut self, entry: &Entry<'a>) -> Result<Weight> {
        let weight = self.bring(entry).map_err(|error| of_tensor(entry, error))?;
        self.report.tensors += 1;
        self.loaded.insert(entry.name().to_owned());
        Ok(weight)
    }

    /// Copies the bytes of tensors that were [placed](Loader::place_entry).
    pub fn fill(&mut self) -> Result<()> {
        self.fill_from(0)
    }

    /// Makes the copies from number `first` on.
    fn fill_from(&mut self, first: usize) -> Result<()> {
        for copy in self.pending.split_off(first.min(self.pending.len())) {
            self.copy(&copy).map_err(|error| of_tensor(&copy.entry, error))?;
        }
        Ok(())
    }

    /// Releases the resident pages of a tensor whose file is mapped, after it was copied elsewhere. A later access reads them
    /// from the file again. Pages beside the tensor, which page faults mapped with it, are released too.
    pub fn release(&self, entry: &Entry<'_>) {
        let planes = entry.planes().map(|planes| [planes.packed, planes.scales, planes.biases]);
        let places = planes.map_or_else(|| [entry.place().ok(), None, None], |planes| planes.map(Some));
        for place in places.into_iter().flatten() {
            if let Some(Bytes::Mapped(file)) = self.source.file(place) {
                let range = place.range();
                file.release(
                    range.start.saturating_sub(FAULT_AROUND)..range.end.saturating_add(FAULT_AROUND),
                );
            }
        }
    }

    /// Loads every tensor, in the order of the files, and waits until they are there.
    pub fn load_all(&mut self) -> Result<Weights> {
        let source = self.source;
        let mut named = BTreeMap::new();
        for entry in source.entries() {
            named.insert(entry.name().to_owned(), self.load_entry(&entry)?);
        }
        self.finish()?;
        Ok(Weights::new(source.path().to_owned(), named))
    }

    /// Waits until everything loaded so far is there; says how it got there. Errors of copies show here at the
    /// latest.
    pub fn finish(&mut self) -> Result<LoadReport> {
        self.staging.finish()?;
        Ok(self.report)
    }

    /// Returns the counts of tensors and bytes that were loaded so far.
    pub fn report(&self) -> LoadReport {
        self.report
    }

    /// Returns the names of tensors that were not loaded, in the order of the files.
    pub fn unused(&self) -> impl Iterator<Item = &'a str> {
        let source = self.source;
        source.entries().map(|entry| entry.name()).filter(|&name| !self.loaded.contains(name))
    }

    fn bring(&mut self, entry: &Entry<'a>) -> Result<Weight> {
        let shape = entry.shape();
        let (Stored::Mlx(format), Some(places)) = (entry.stored(), entry.planes()) else {
            let (place, dtype) = (entry.place()?, entry.dtype()?);
            return self.bring_part(&Part { entry: *entry, place, dtype, shape }).map(Weight::from);
        };
        let encoding = Encoding::Planes(format);
        let mut planes: SmallVec<[Buffer; MAX_PLANES]> = SmallVec::new();
        let places = [places.packed, places.scales, places.biases].into_iter().take(encoding.planes());
        for (index, place) in places.enumerate() {
            let plane = encoding.plane(index, &shape);
            let Plane { dtype, shape } = plane.map_err(|error| Error::bad_plane("weight", error))?;
            planes.push(self.bring_part(&Part { entry: *entry, place, dtype, shape })?);
        }
        Weight::new(encoding, planes)
    }

    fn bring_part(&mut self, part: &Part<'a>) -> Result<Buffer> {
        self.options.cancel.check("loading")?;
        if self.options.placement == Placement::InPlace
            && let Some(buffer) = self.use_in_place(part)?
        {
            let bytes = part.place.bytes() as u64;
            match self.device.info().is_gpu() {
                true => self.report.imported += bytes,
                false => self.report.mapped += bytes,
            }
            self.tell(&part.entry);
            return Ok(buffer);
        }
        let Part { entry, place, dtype, shape } = *part;
        let (bytes, purpose) = (place.bytes(), self.options.purpose);
        let request = Request { bytes, purpose, kind: MemoryKind::Private, zeroed: false };
        let memory = Arc::<_>::clone(self.device.memory()) as _;
        let to = Buffer::from_request(&self.device, memory, dtype, shape, request)?;
        self.pending.push(PendingCopy { entry, place, to: to.clone() });
        Ok(to)
    }

    /// A view of the file, unless the device can't have it, or not as elements of this type.
    fn use_in_place(&mut self, part: &Part<'_>) -> Result<Option<Buffer>> {
        let Some(file) = self.source.file(part.place).filter(|_| self.source.is_plain(part.place)) else {
            return Ok(None);
        };
        let found = self.windows.find(&self.device, file, part.place, self.options.purpose)?;
        let Some((window, offset)) = found else { return Ok(None) };
        if (window.allocation()?.alignment(offset) as usize) < part.dtype.alignment() {
            return Ok(None);
        }
        window.view(offset, part.place.bytes())?.reinterpret(part.dtype)?.reshape(part.shape).map(Some)
    }

    /// Copies the bytes of a part, or sends a copy on its way.
    fn copy(&mut self, copy: &PendingCopy<'_>) -> Result<()> {
        let PendingCopy { entry, place, to: buffer } = copy;
        let (place, bytes) = (*place, place.bytes());
        let staged = self.options.placement == Placement::Staged || !buffer.is_host_visible()?;
        let to = buffer.as_bytes()?;
        let block = buffer.dtype().block_bytes();
        let piece = (self.staging.piece() / block).max(1) * block;
        for start in (0..bytes).step_by(piece) {
            self.options.cancel.check("loading")?;
            let count = piece.min(bytes - start);
            let to = to.view(start, count)?;
            let source = self.source;
            let fill = |out: &mut [u8]| source.copy_out(entry, place, start, out).map_err(Error::from);
            if staged {
                self.staging.send(&self.device, &to, fill)?;
                self.report.staged += count as u64;
            } else {
                fill(&mut to.write::<u8>()?)?;
                self.report.copied += count as u64;
            }
            if let Some(Bytes::Mapped(file)) = source.file(place) {
                // Or a file larger than the memory would push everything else out.
                let first = place.range().start + start;
                file.release(first..first + count);
            }
            self.tell(entry);
        }
        Ok(())
    }

    fn tell(&self, entry: &Entry<'_>) {
        if let Some(progress) = &self.options.progress {
            let (tensor, tensor_bytes) = (entry.name(), entry.bytes().unwrap_or(0));
            progress(&LoadEvent { tensor, tensor_bytes, done: self.report.bytes(), total: self.total });
        }
    }
}
