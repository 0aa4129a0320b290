//! The tensors of a file, which the blocks of a model take by name, with the shape that follows from the settings.
//!
//! A block gets weights with types and shapes, or views of the file. Memory is allocated when the model is known to fit, by
//! [`PendingWeights::load`].

use super::config::{Config, Layout, Names};
use super::pending::{BATCH, LoadJob, PendingWeights};
use super::{ConfiguredModel, LayerPlacement, TensorBytes};
use crate::error::{Error, Result};
use crate::repack::{RepackedTensor, RepackedWeights};
use silicide_core::{Buffer, BufferOptions, Device, LoadOptions, Loader, Purpose, Weight};
use silicide_ops::interleave::{TOGETHER, interleaves};
use silicide_quant::decode_into;
use silicide_quant::{DType, Encoding, Shape};
use silicide_weights::{Entry, Source, Stored};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The origin of tensors' memory.
enum TensorOrigin<'a> {
    /// None: buffers without memory.
    Plan,
    /// The file, by a loader for each device.
    File(Vec<Loader<'a>>),
}

/// The tensors of a file while a model takes them.
pub struct Tensors<'a> {
    source: &'a Source,
    config: &'a Config,
    architecture: &'static str,
    names: Names,
    /// The number that is added to the weights of norms.
    norm_offset: f32,
    placement: LayerPlacement,
    origin: TensorOrigin<'a>,
    /// The tensors that were taken, with the numbers of their devices.
    taken: HashSet<(String, usize)>,
    vocabulary: usize,
    /// The memory of each device. That for loading is a second copy of the weights that are interleaved together.
    bytes: Vec<TensorBytes>,
    repacking: Repacking,
    rearranged: Rearranged,
    /// The weights that were taken, for locking them in memory.
    buffers: Vec<Buffer>,
    /// The work of [`PendingWeights::load`].
    jobs: Vec<LoadJob<'a>>,
}

/// A matrix that products read, in the encoding of the file.
struct Factor<'n> {
    /// Its name in GGUF.
    name: &'n str,
    encoding: Encoding,
    shape: Shape,
    /// The number of its device.
    device: usize,
}

/// An interleaved weight.
enum Arranged {
    /// Without bytes; a job writes them.
    Empty(Weight),
    /// Mapped from a file of repacked weights.
    Stored(Weight),
}

impl Arranged {
    fn weight(&self) -> &Weight {
        match self {
            Arranged::Empty(weight) | Arranged::Stored(weight) => weight,
        }
    }
}

/// Which weights are interleaved, and those that are interleaved already.
#[derive(Clone, Debug, Default)]
pub struct Repacking {
    /// Which.
    pub(crate) which: Repack,
    /// A file of earlier runs.
    pub(crate) stored: Option<Arc<RepackedWeights>>,
}

impl From<Repack> for Repacking {
    fn from(which: Repack) -> Repacking {
        Repacking { which, stored: None }
    }
}

/// Which weights are interleaved while loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repack {
    /// None.
    #[default]
    None,
    /// Matrices that only products read. They replace the file's own.
    Matrices,
    /// `Matrices`, and a copy of a token embedding that is also the output projection.
    All,
}

/// Weights that were interleaved for products, in addition to the file's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rearranged {
    /// Interleaved bytes.
    pub bytes: u64,
    /// Those of `bytes` that were mapped from a file of repacked weights.
    pub mapped: u64,
    /// Bytes of weights that were not interleaved because memory does not suffice.
    pub not_interleaved: u64,
    /// How long it took.
    pub time: Duration,
}

impl<'a> Tensors<'a> {
    /// Opens the tensors of a model, which [`PendingWeights::load`] loads by a loader for each device of `placement`.
    pub fn loaded(
        placement: &LayerPlacement,
        model: &'a ConfiguredModel,
        loaders: Vec<Loader<'a>>,
    ) -> Result<Tensors<'a>> {
        let what = "loaders";
        let Some(source) = loaders.first().map(Loader::source) else {
            let what = "there are no loaders; give one for each device of the placement".to_owned();
            return Err(Error::Device(silicide_core::Error::BadParameter { op: "load", what }));
        };
        for (number, device) in placement.devices().iter().enumerate() {
            let loader = loaders.get(number).map(Loader::device);
            if !loader.is_some_and(|loader| loader.is_same(device)) {
                let got = loader.map_or_else(String::new, |loader| loader.info().id.clone());
                let expected = device.info().id.clone();
                return Err(Error::Device(silicide_core::Error::WrongDevice { what, expected, got }));
            }
        }
        Tensors::new(placement, source, model, TensorOrigin::File(loaders))
    }

    /// Opens the tensors of a model without memory.
    pub fn planned(
        placement: &LayerPlacement,
        source: &'a Source,
        model: &'a ConfiguredModel,
    ) -> Result<Tensors<'a>> {
        Tensors::new(placement, source, model, TensorOrigin::Plan)
    }

    fn new(
        placement: &LayerPlacement,
        source: &'a Source,
        model: &'a ConfiguredModel,
        origin: TensorOrigin<'a>,
    ) -> Result<Tensors<'a>> {
        let (config, conventions) = (model.config(), model.conventions());
        let mut tensors = Tensors {
            source,
            config,
            architecture: model.architecture(),
            names: Names::in_source(source, config.layout, &conventions),
            norm_offset: if config.layout == Layout::Checkpoint { conventions.norm_offset } else { 0.0 },
            placement: placement.clone(),
            origin,
            taken: HashSet::new(),
            vocabulary: 0,
            bytes: vec![TensorBytes::default(); placement.devices().len()],
            repacking: Repacking::default(),
            rearranged: Rearranged::default(),
            buffers: Vec::new(),
            jobs: Vec::new(),
        };
        let table = tensors.find("token_embd.weight")?;
        tensors.vocabulary = table.shape().axes().first().copied().unwrap_or(0);
        Ok(tensors)
    }

    /// Sets which weights are interleaved, if their encoding can be.
    pub fn repacked(self, repacking: impl Into<Repacking>) -> Tensors<'a> {
        Tensors { repacking: repacking.into(), ..self }
    }

    /// Returns a loader for each device, of the tensors that were taken for it. They report their progress together.
    pub(super) fn loaders(&self, options: &LoadOptions) -> Vec<Loader<'a>> {
        let devices = self.placement.devices().iter().enumerate();
        let done = Arc::new(devices.clone().map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
        let total = self.taken.iter().filter_map(|(name, _)| self.source.entry(name).ok()?.bytes()).sum();
        let loader = |(number, device): (usize, &Device)| {
            let mut options = options.clone();
            if let Some(progress) = options.progress.take() {
                let done = Arc::clone(&done);
                options.progress = Some(Arc::new(move |event| {
                    if let Some(done) = done.get(number) {
                        done.store(event.done, Ordering::Relaxed);
                    }
                    let mut event = *event;
                    event.done = done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
                    event.total = total;
                    progress(&event);
                }));
            }
            let is_taken = |entry: &Entry<'_>| self.taken.contains(&(entry.name().to_owned(), number));
            Loader::of_tensors(device, self.source, options, is_taken)
        };
        devices.map(loader).collect()
    }

    /// Returns the settings that all decoders have.
    pub fn config(&self) -> &'a Config {
        self.config
    }

    /// Returns the number of tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Returns the bytes of all tensors taken so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.weights).sum()
    }

    /// Returns the memory on each device of all tensors taken so far.
    pub fn bytes_by_device(&self) -> Vec<TensorBytes> {
        self.bytes.clone()
    }

    /// Returns whether the file has the tensor that GGUF calls `name`.
    pub fn has(&self, name: &str) -> bool {
        self.names.in_file(name).is_some_and(|name| self.source.entry(&name).is_ok())
    }

    /// Takes a matrix in the encoding of the file.
    pub fn matrix(&mut self, name: &str, extents: [usize; 2]) -> Result<Weight> {
        let entry = self.take(name, &extents)?;
        let weight = self.place(&entry, self.placement.of_tensor(name))?;
        if let TensorOrigin::Plan = self.origin {
            weight.set_label(name);
        }
        Ok(weight)
    }

    /// Takes the matrices of all experts, `[experts, rows, columns]`, in the encoding of the file. Experts that the file has one by
    /// one are joined: kernels read one tensor.
    pub fn experts(&mut self, name: &str, extents: [usize; 3]) -> Result<Weight> {
        let [count, rows, columns] = extents;
        let first = self.names.of_expert(name, 0).filter(|name| self.source.entry(name).is_ok());
        if self.has(name) || first.is_none() {
            let entry = self.take(name, &extents)?;
            return self.factor_of(name, entry, self.placement.of_tensor(name));
        }
        let device = self.placement.of_tensor(name);
        let shape = Shape::new(&extents)
            .map_err(|source| silicide_core::Error::BadShape { what: "experts", source })?;
        let (mut entries, mut all): (Vec<Entry<'a>>, Option<Weight>) = (Vec::new(), None);
        for expert in 0..count {
            let of_expert = self.names.of_expert(name, expert).unwrap_or_default();
            let entry = self.take_entry(&of_expert, &[rows, columns], device)?;
            let all = match &all {
                Some(all) => all,
                None => all.insert(planned(self.device(device)?, &entry, shape)?),
            };
            if encoding(&entry)? != all.encoding() {
                let (name, own) = (entry.name(), encoding(&entry)?);
                let what = format!("tensor {name:?} is {own}, and those of other experts {}", all.encoding());
                return Err(Error::Device(silicide_core::Error::BadParameter { op: "experts", what }));
            }
            entries.push(entry);
        }
        let all = all.ok_or_else(|| self.missing(name))?;
        let factor = Factor { name, encoding: all.encoding(), shape, device };
        let to = match self.arranged(&factor, Repack::Matrices)? {
            Some(Arranged::Stored(stored)) => return Ok(stored),
            Some(Arranged::Empty(empty)) => Some(empty),
            None => None,
        };
        let weight = to.clone().unwrap_or_else(|| all.clone());
        weight.set_label(name);
        self.keep(&weight);
        self.jobs.push(LoadJob::Joined { device, name: name.to_owned(), entries, all, to });
        Ok(weight)
    }

    /// Takes a matrix that only products read.
    pub fn factor(&mut self, name: &str, extents: [usize; 2]) -> Result<Weight> {
        let entry = self.take(name, &extents)?;
        self.factor_of(name, entry, self.placement.of_tensor(name))
    }

    /// Takes a tensor that only products read.
    fn factor_of(&mut self, name: &str, entry: Entry<'a>, device: usize) -> Result<Weight> {
        let factor = Factor { name, encoding: encoding(&entry)?, shape: entry.shape(), device };
        let weight = match self.arranged(&factor, Repack::Matrices)? {
            Some(Arranged::Empty(to)) => {
                let name = name.to_owned();
                self.jobs.push(LoadJob::Interleaved { device, name, entry, to: to.clone() });
                to
            }
            Some(Arranged::Stored(stored)) => stored,
            None => self.place(&entry, device)?,
        };
        weight.set_label(name);
        Ok(weight)
    }

    /// Returns a token embedding for the products of the output projection: an interleaved copy where weights are repacked so, a copy
    /// on the device of the output projection if the table is on another one, otherwise the table itself.
    pub fn arrange_table(&mut self, table: &Weight) -> Result<Weight> {
        let (name, device) = ("token_embd.weight", self.placement.of_tensor("output.weight"));
        if device != self.placement.of_tensor(name) {
            let entry = self.find(name)?;
            let entry = self.take_entry(entry.name(), entry.shape().axes(), device)?;
            return self.factor_of(name, entry, device);
        }
        let factor = Factor { name, encoding: table.encoding(), shape: table.shape(), device };
        let Some(arranged) = self.arranged(&factor, Repack::All)? else {
            return Ok(table.clone());
        };
        let to = arranged.weight().clone();
        if let Some(name) = table.tensor().and_then(Buffer::label) {
            to.set_label(name);
        }
        if let Some(bytes) = self.bytes.get_mut(device) {
            bytes.weights += to.bytes() as u64;
        }
        if let Arranged::Empty(_) = arranged {
            let (name, from) = (name.to_owned(), table.clone());
            self.jobs.push(LoadJob::Copied { name, from, to: to.clone() });
        }
        Ok(to)
    }

    fn device(&self, number: usize) -> Result<&Device> {
        self.placement.device(number)
    }

    /// Returns the weight of a tensor in the encoding of the file. Bytes that are not used in place are loaded by
    /// [`PendingWeights::load`].
    fn place(&mut self, entry: &Entry<'a>, device: usize) -> Result<Weight> {
        if let TensorOrigin::File(loaders) = &mut self.origin
            && let Some(loader) = loaders.get_mut(device)
        {
            let weight = loader.place_entry(entry)?;
            self.keep(&weight);
            return Ok(weight);
        }
        planned(self.device(device)?, entry, entry.shape())
    }

    /// Returns a factor interleaved, if its encoding can be interleaved and at least `least` is repacked.
    fn arranged(&mut self, factor: &Factor<'_>, least: Repack) -> Result<Option<Arranged>> {
        let &Factor { name, encoding, shape, device } = factor;
        let of = encoding.of();
        let &[.., rows, columns] = shape.axes() else { return Ok(None) };
        if !interleaves(of, rows, columns) || self.device(device)?.info().is_gpu() {
            return Ok(None);
        }
        let bytes = encoding.bytes(&shape).unwrap_or(0) as u64;
        if self.repacking.which != least && self.repacking.which != Repack::All {
            self.rearranged.not_interleaved += bytes;
            return Ok(None);
        }
        let encoding = Encoding::Interleaved { of, rows: TOGETHER };
        if let Some(stored) = &self.repacking.stored {
            let tensor = RepackedTensor { name: name.to_owned(), encoding, shape };
            if let Some(weight) = stored.get(self.device(device)?, &tensor) {
                self.rearranged.bytes += weight.bytes() as u64;
                self.rearranged.mapped += weight.bytes() as u64;
                self.keep(&weight);
                return Ok(Some(Arranged::Stored(weight)));
            }
        }
        if least == Repack::Matrices
            && let Some(of_device) = self.bytes.get_mut(device)
        {
            // A batch is the sum of small tensors, or one that is larger.
            of_device.loading = (of_device.loading + bytes).min(BATCH).max(of_device.loading).max(bytes);
        }
        let options = BufferOptions::default().purpose(Purpose::Weights).zeroed(false);
        let arranged = Weight::with(self.device(device)?, encoding, shape, &options)?;
        self.rearranged.bytes += arranged.bytes() as u64;
        self.keep(&arranged);
        Ok(Some(Arranged::Empty(arranged)))
    }

    /// Keeps the buffers of a weight.
    fn keep(&mut self, weight: &Weight) {
        self.buffers.extend(weight.planes().iter().cloned());
    }

    /// Takes a vector, converted to f32.
    pub fn vector(&mut self, name: &str, length: usize) -> Result<Buffer> {
        let values = self.values(name, length)?;
        self.upload(name, values)
    }

    /// Takes a vector, converted to f32, if the file has it.
    pub fn optional_vector(&mut self, name: &str, length: usize) -> Result<Option<Buffer>> {
        if self.has(name) { self.vector(name, length).map(Some) } else { Ok(None) }
    }

    /// Takes the weights of a norm, and adds the architecture's offset.
    pub fn norm(&mut self, name: &str, length: usize) -> Result<Buffer> {
        let mut values = self.values(name, length)?;
        if self.norm_offset != 0.0 {
            values.iter_mut().for_each(|value| *value += self.norm_offset);
        }
        self.upload(name, values)
    }

    /// Takes a vector, as numbers on the host.
    pub fn values(&mut self, name: &str, length: usize) -> Result<Vec<f32>> {
        let entry = self.take(name, &[length])?;
        let (dtype, data) = (entry.dtype()?, self.source.data(&entry)?);
        let mut values = vec![0.0; length];
        decode_into(dtype, &data, &mut values).map_err(|error| {
            let (expected, got) = (format!("{length} numbers of {dtype}"), error.to_string());
            self.wrong_shape(name, expected, got)
        })?;
        Ok(values)
    }

    /// Takes a vector, as numbers on the host, if the file has it.
    pub fn optional_values(&mut self, name: &str, length: usize) -> Result<Option<Vec<f32>>> {
        if self.has(name) { self.values(name, length).map(Some) } else { Ok(None) }
    }

    /// Returns the source.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// Checks that no tensor of the file is left over. Returns the weights that were taken, to be loaded.
    pub fn finish(self) -> Result<PendingWeights<'a>> {
        let taken: HashSet<&str> = self.taken.iter().map(|(name, _)| name.as_str()).collect();
        let left = |entry: &Entry<'_>| !taken.contains(entry.name()) && !self.names.may_be_left(entry.name());
        let mut unused = self.source.entries().filter(left);
        if let Some(first) = unused.next() {
            return Err(Error::UnusedTensors {
                path: self.source.path().to_owned(),
                tensor: first.name().to_owned(),
                count: 1 + unused.count(),
                architecture: self.architecture,
            });
        }
        drop(unused);
        drop(taken);
        let Tensors { origin, jobs, rearranged, buffers, .. } = self;
        let loaders = if let TensorOrigin::File(loaders) = origin { loaders } else { Vec::new() };
        Ok(PendingWeights { loaders, jobs, rearranged, buffers })
    }

    /// Returns a buffer for numbers from the host, which [`PendingWeights::load`] fills.
    fn upload(&mut self, name: &str, values: Vec<f32>) -> Result<Buffer> {
        let options = BufferOptions::default().purpose(Purpose::Weights).zeroed(false);
        let device = self.device(self.placement.of_tensor(name))?;
        let buffer = Buffer::with(device, DType::F32, [values.len()], &options)?;
        buffer.set_label(name);
        self.buffers.push(buffer.clone());
        self.jobs.push(LoadJob::Values { values, to: buffer.clone() });
        Ok(buffer)
    }

    /// Returns the entry of a tensor that must be there.
    fn find(&self, name: &str) -> Result<Entry<'a>> {
        let in_file = self.names.in_file(name).unwrap_or_else(|| name.to_owned());
        self.source.entry(&in_file).map_err(|_| self.missing(&in_file))
    }

    fn missing(&self, in_file: &str) -> Error {
        Error::MissingTensor {
            path: self.source.path().to_owned(),
            tensor: in_file.to_owned(),
            architecture: self.architecture,
        }
    }

    /// Takes the tensor that GGUF calls `name`, of a shape.
    fn take(&mut self, name: &str, extents: &[usize]) -> Result<Entry<'a>> {
        let in_file = self.names.in_file(name).unwrap_or_else(|| name.to_owned());
        self.take_entry(&in_file, extents, self.placement.of_tensor(name))
    }

    /// Takes a tensor of a shape, by its name in the file, for the device with a number.
    fn take_entry(&mut self, in_file: &str, extents: &[usize], device: usize) -> Result<Entry<'a>> {
        let entry = self.source.entry(in_file).map_err(|_| self.missing(in_file))?;
        if entry.shape().axes() != extents {
            let expected =
                Shape::new(extents).map_or_else(|_| format!("{extents:?}"), |shape| shape.to_string());
            return Err(self.wrong_shape(entry.name(), expected, entry.shape().to_string()));
        }
        if self.taken.insert((entry.name().to_owned(), device))
            && let Some(bytes) = self.bytes.get_mut(device)
        {
            bytes.weights += entry.bytes().unwrap_or(0);
        }
        Ok(entry)
    }

    fn wrong_shape(&self, name: &str, expected: String, got: String) -> Error {
        Error::TensorShape { path: self.source.path().to_owned(), tensor: name.to_owned(), expected, got }
    }
}

/// Returns the encoding of a tensor of the file.
fn encoding(entry: &Entry<'_>) -> Result<Encoding> {
    match entry.stored() {
        Stored::Mlx(format) => Ok(Encoding::Planes(format)),
        _ => Ok(Encoding::from(entry.dtype()?)),
    }
}

/// Returns a weight in the encoding of a tensor of the file, without memory.
fn planned(device: &Device, entry: &Entry<'_>, shape: Shape) -> Result<Weight> {
    Ok(Weight::with(device, encoding(entry)?, shape, &BufferOptions::default())?)
}
