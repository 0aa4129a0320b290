//! The tensors of a file, which the blocks of a model take by name, with the shape that follows from the settings.
//!
//! A block gets weights with types and shapes, or views of the file. Memory is allocated when the model is known to fit, by
//! [`PendingWeights::load`].

use super::config::{Config, Layout, Names};
use super::{ConfiguredModel, LayerPlacement, TensorBytes};
use crate::error::{Error, Result};
use silicide_core::{
    Buffer, BufferOptions, CommandEncoder, Device, LoadOptions, Loader, Purpose, Recorder, Weight,
};
use silicide_ops::interleave::{Interleave, TOGETHER, interleaves};
use silicide_quant::decode_into;
use silicide_quant::{DType, Encoding, Shape};
use silicide_weights::{Entry, Source, Stored};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
    /// The memory of each device. That for loading is a second copy of the largest weight that is interleaved.
    bytes: Vec<TensorBytes>,
    repack: Repack,
    rearranged: Rearranged,
    /// The work of [`PendingWeights::load`].
    jobs: Vec<LoadJob<'a>>,
}

/// Weights that were taken and are not loaded yet.
pub struct PendingWeights<'a> {
    loaders: Vec<Loader<'a>>,
    jobs: Vec<LoadJob<'a>>,
    rearranged: Rearranged,
}

/// A weight that is made from tensors of the file.
enum LoadJob<'a> {
    /// Numbers from the host.
    Values { values: Vec<f32>, to: Buffer },
    /// A tensor, interleaved.
    Interleaved { device: usize, entry: Entry<'a>, to: Weight },
    /// An interleaved copy of a weight that stays.
    Copied { from: Weight, to: Weight },
    /// Experts that the file has one by one, joined into `all`, and interleaved into `to`.
    Joined { device: usize, entries: Vec<Entry<'a>>, all: Weight, to: Option<Weight> },
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
            repack: Repack::None,
            rearranged: Rearranged::default(),
            jobs: Vec::new(),
        };
        let table = tensors.find("token_embd.weight")?;
        tensors.vocabulary = table.shape().axes().first().copied().unwrap_or(0);
        Ok(tensors)
    }

    /// Sets which weights are interleaved, if their encoding can be.
    pub fn repacked(self, repack: Repack) -> Tensors<'a> {
        Tensors { repack, ..self }
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
        let to = self.arranged(all.encoding(), shape, Repack::Matrices, device)?;
        let weight = to.clone().unwrap_or_else(|| all.clone());
        weight.set_label(name);
        self.jobs.push(LoadJob::Joined { device, entries, all, to });
        Ok(weight)
    }

    /// Takes a matrix that only products read.
    pub fn factor(&mut self, name: &str, extents: [usize; 2]) -> Result<Weight> {
        let entry = self.take(name, &extents)?;
        self.factor_of(name, entry, self.placement.of_tensor(name))
    }

    /// Takes a tensor that only products read.
    fn factor_of(&mut self, name: &str, entry: Entry<'a>, device: usize) -> Result<Weight> {
        let to = self.arranged(encoding(&entry)?, entry.shape(), Repack::Matrices, device)?;
        let weight = match to {
            Some(to) => {
                self.jobs.push(LoadJob::Interleaved { device, entry, to: to.clone() });
                to
            }
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
        let Some(to) = self.arranged(table.encoding(), table.shape(), Repack::All, device)? else {
            return Ok(table.clone());
        };
        if let Some(name) = table.tensor().and_then(Buffer::label) {
            to.set_label(name);
        }
        if let Some(bytes) = self.bytes.get_mut(device) {
            bytes.weights += to.bytes() as u64;
        }
        self.jobs.push(LoadJob::Copied { from: table.clone(), to: to.clone() });
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
            return Ok(loader.place_entry(entry)?);
        }
        planned(self.device(device)?, entry, entry.shape())
    }

    /// Returns an interleaved weight without bytes, if the encoding can be interleaved and `repack` is at least `least`.
    fn arranged(
        &mut self,
        encoding: Encoding,
        shape: Shape,
        least: Repack,
        device: usize,
    ) -> Result<Option<Weight>> {
        let of = encoding.of();
        let &[.., rows, columns] = shape.axes() else { return Ok(None) };
        if !interleaves(of, rows, columns) || self.device(device)?.info().is_gpu() {
            return Ok(None);
        }
        let bytes = encoding.bytes(&shape).unwrap_or(0) as u64;
        if self.repack != least && self.repack != Repack::All {
            self.rearranged.not_interleaved += bytes;
            return Ok(None);
        }
        if least == Repack::Matrices
            && let Some(of_device) = self.bytes.get_mut(device)
        {
            of_device.loading = of_device.loading.max(bytes);
        }
        let encoding = Encoding::Interleaved { of, rows: TOGETHER };
        let options = BufferOptions::default().purpose(Purpose::Weights).zeroed(false);
        let arranged = Weight::with(self.device(device)?, encoding, shape, &options)?;
        self.rearranged.bytes += arranged.bytes() as u64;
        Ok(Some(arranged))
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
        let Tensors { origin, jobs, rearranged, .. } = self;
        let loaders = if let TensorOrigin::File(loaders) = origin { loaders } else { Vec::new() };
        Ok(PendingWeights { loaders, jobs, rearranged })
    }

    /// Returns a buffer for numbers from the host, which [`PendingWeights::load`] fills.
    fn upload(&mut self, name: &str, values: Vec<f32>) -> Result<Buffer> {
        let options = BufferOptions::default().purpose(Purpose::Weights).zeroed(false);
        let device = self.device(self.placement.of_tensor(name))?;
        let buffer = Buffer::with(device, DType::F32, [values.len()], &options)?;
        buffer.set_label(name);
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

impl PendingWeights<'_> {
    /// Loads all weights that were taken.
    pub fn load(self) -> Result<Rearranged> {
        let PendingWeights { mut loaders, jobs, mut rearranged } = self;
        if loaders.is_empty() {
            return Ok(rearranged);
        }
        loaders.iter_mut().try_for_each(Loader::fill)?;
        for job in jobs {
            let begin = Instant::now();
            match job {
                LoadJob::Values { values, to } => {
                    to.copy_in(&values)?;
                    continue;
                }
                LoadJob::Interleaved { device, entry, to } => {
                    let Some(loader) = loaders.get_mut(device) else { continue };
                    interleave(&loader.load_entry(&entry)?, &to)?;
                    loader.release(&entry);
                }
                LoadJob::Copied { from, to } => interleave(&from, &to)?,
                LoadJob::Joined { device, entries, all, to } => {
                    let Some(loader) = loaders.get_mut(device) else { continue };
                    for (expert, entry) in entries.iter().enumerate() {
                        let part = loader.load_entry(entry)?;
                        for (all, part) in all.planes().iter().zip(part.planes()) {
                            let bytes = part.size();
                            all.as_bytes()?.view(expert * bytes, bytes)?.copy_from(&part.as_bytes()?)?;
                        }
                        loader.release(entry);
                    }
                    if let Some(to) = to {
                        interleave(&all, &to)?;
                    }
                }
            }
            rearranged.time += begin.elapsed();
        }
        for loader in &mut loaders {
            loader.finish()?;
        }
        Ok(rearranged)
    }
}

/// Writes the interleaved rows of `from` to `to`.
fn interleave(from: &Weight, to: &Weight) -> Result<()> {
    let Some(first) = from.planes().first() else { return Ok(()) };
    let mut encoder = CommandEncoder::new(first.device());
    for (plane, (plain, bytes)) in from.planes().iter().zip(to.planes()).enumerate() {
        let rows = plain.as_bytes()?.reshape(bytes.shape())?;
        encoder.run_into(Interleave { of: from.encoding().of(), plane }, &[&rows], &[bytes])?;
    }
    encoder.submit()?.wait()?;
    Ok(())
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
