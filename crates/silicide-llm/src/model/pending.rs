//! Loading the weights that a model has taken: interleaving, joining experts, and storing interleaved weights in a file.

use super::weights::Rearranged;
use crate::error::Result;
use crate::repack::{RepackWriter, RepackedTensor};
use silicide_core::{Buffer, BufferOptions, CommandEncoder, Loader, Purpose, Recorder, Weight};
use silicide_ops::interleave::Interleave;
use silicide_weights::Entry;
use std::time::Instant;

/// The most bytes of tensors that are interleaved by one submission, unless one tensor is larger: that much of the file is in memory twice.
pub(super) const BATCH: u64 = 16 << 20;

/// Weights that were taken and are not loaded yet.
pub struct PendingWeights<'a> {
    pub(super) loaders: Vec<Loader<'a>>,
    pub(super) jobs: Vec<LoadJob<'a>>,
    pub(super) rearranged: Rearranged,
    pub(super) buffers: Vec<Buffer>,
}

/// A weight that is made from tensors of the file.
pub(super) enum LoadJob<'a> {
    /// Numbers from the host.
    Values { values: Vec<f32>, to: Buffer },
    /// A tensor, interleaved.
    Interleaved { device: usize, name: String, entry: Entry<'a>, to: Weight },
    /// An interleaved copy of a weight that stays.
    Copied { name: String, from: Weight, to: Weight },
    /// Experts that the file has one by one, joined into `all`, and interleaved into `to`.
    Joined { device: usize, name: String, entries: Vec<Entry<'a>>, all: Weight, to: Option<Weight> },
}

impl<'a> PendingWeights<'a> {
    /// Returns the buffers of all weights that were taken.
    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Loads all weights that were taken.
    pub fn load(self) -> Result<Rearranged> {
        let PendingWeights { mut loaders, jobs, mut rearranged, .. } = self;
        if loaders.is_empty() {
            return Ok(rearranged);
        }
        loaders.iter_mut().try_for_each(Loader::fill)?;
        let begin = Instant::now();
        let mut batch = Batch::default();
        for job in &jobs {
            match job {
                LoadJob::Values { values, to } => to.copy_in(values)?,
                LoadJob::Interleaved { device, entry, to, .. } => {
                    let bytes = to.bytes() as u64;
                    if batch.bytes + bytes > BATCH
                        || batch.parts.first().is_some_and(|of| of.device != *device)
                    {
                        std::mem::take(&mut batch).run(&loaders)?;
                    }
                    let Some(loader) = loaders.get_mut(*device) else { continue };
                    batch.bytes += bytes;
                    batch.parts.push(BatchPart {
                        device: *device,
                        entry,
                        from: loader.load_entry(entry)?,
                        to,
                    });
                }
                LoadJob::Copied { .. } | LoadJob::Joined { .. } => {
                    job.arrange(&mut loaders, job.arranged())?
                }
            }
        }
        batch.run(&loaders)?;
        if !jobs.is_empty() {
            rearranged.time = begin.elapsed();
        }
        for loader in &mut loaders {
            loader.finish()?;
        }
        Ok(rearranged)
    }

    /// Returns the weights that are interleaved, in the order in which [`PendingWeights::store`] writes them.
    pub(crate) fn to_store(&self) -> Vec<RepackedTensor> {
        let of_job = |job: &LoadJob<'a>| {
            let (name, to) = (job.name()?.to_owned(), job.arranged()?);
            Some(RepackedTensor { name, encoding: to.encoding(), shape: to.shape() })
        };
        self.jobs.iter().filter_map(of_job).collect()
    }

    /// Interleaves the weights and writes them to a file, one at a time, so that one of them is in memory. Returns the error of the file
    /// as a value.
    pub(crate) fn store(self, writer: &mut RepackWriter<'_>) -> Result<std::io::Result<()>> {
        let PendingWeights { mut loaders, jobs, .. } = self;
        loaders.iter_mut().try_for_each(Loader::fill)?;
        let options = BufferOptions::default().purpose(Purpose::Weights).zeroed(false);
        for job in jobs {
            let Some((to, device)) = job.arranged().and_then(|to| Some((to, to.planes().first()?.device())))
            else {
                continue;
            };
            let filled = Weight::with(device, to.encoding(), to.shape(), &options)?;
            job.arrange(&mut loaders, Some(&filled))?;
            if let Err(error) = writer.write(&filled) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

/// Tensors that are interleaved by one submission. Small tensors are few tiles each: together they keep all threads busy.
#[derive(Default)]
struct Batch<'j, 'a> {
    parts: Vec<BatchPart<'j, 'a>>,
    bytes: u64,
}

struct BatchPart<'j, 'a> {
    /// The number of the device, the same for the whole batch.
    device: usize,
    entry: &'j Entry<'a>,
    from: Weight,
    to: &'j Weight,
}

impl Batch<'_, '_> {
    /// Interleaves the tensors, and releases their pages of the file.
    fn run(self, loaders: &[Loader<'_>]) -> Result<()> {
        let Some(loader) = self.parts.first().and_then(|first| loaders.get(first.device)) else {
            return Ok(());
        };
        let mut encoder = CommandEncoder::new(loader.device());
        for part in &self.parts {
            record_interleave(&mut encoder, &part.from, part.to)?;
        }
        encoder.submit()?.wait()?;
        for part in &self.parts {
            loader.release(part.entry);
        }
        Ok(())
    }
}

impl<'a> LoadJob<'a> {
    /// Returns the interleaved weight that the job writes.
    fn arranged(&self) -> Option<&Weight> {
        match self {
            LoadJob::Values { .. } => None,
            LoadJob::Interleaved { to, .. } | LoadJob::Copied { to, .. } => Some(to),
            LoadJob::Joined { to, .. } => to.as_ref(),
        }
    }

    /// Returns the name of the weight in GGUF.
    fn name(&self) -> Option<&str> {
        match self {
            LoadJob::Values { .. } => None,
            LoadJob::Interleaved { name, .. }
            | LoadJob::Copied { name, .. }
            | LoadJob::Joined { name, .. } => Some(name),
        }
    }

    /// Joins experts, and writes interleaved rows to `to`.
    fn arrange(&self, loaders: &mut [Loader<'a>], to: Option<&Weight>) -> Result<()> {
        match (self, to) {
            (LoadJob::Interleaved { device, entry, .. }, Some(to)) => {
                let Some(loader) = loaders.get_mut(*device) else { return Ok(()) };
                interleave(&loader.load_entry(entry)?, to)?;
                loader.release(entry);
            }
            (LoadJob::Copied { from, .. }, Some(to)) => interleave(from, to)?,
            (LoadJob::Joined { device, entries, all, .. }, to) => {
                let Some(loader) = loaders.get_mut(*device) else { return Ok(()) };
                for (expert, entry) in entries.iter().enumerate() {
                    let part = loader.load_entry(entry)?;
                    for (all, part) in all.planes().iter().zip(part.planes()) {
                        let bytes = part.size();
                        all.as_bytes()?.view(expert * bytes, bytes)?.copy_from(&part.as_bytes()?)?;
                    }
                    loader.release(entry);
                }
                if let Some(to) = to {
                    interleave(all, to)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Writes the interleaved rows of `from` to `to`.
fn interleave(from: &Weight, to: &Weight) -> Result<()> {
    let Some(first) = from.planes().first() else { return Ok(()) };
    let mut encoder = CommandEncoder::new(first.device());
    record_interleave(&mut encoder, from, to)?;
    encoder.submit()?.wait()?;
    Ok(())
}

/// Records the interleaving of `from` into `to`, plane by plane.
fn record_interleave(encoder: &mut CommandEncoder, from: &Weight, to: &Weight) -> Result<()> {
    for (plane, (plain, bytes)) in from.planes().iter().zip(to.planes()).enumerate() {
        let rows = plain.as_bytes()?.reshape(bytes.shape())?;
        encoder.run_into(Interleave { of: from.encoding().of(), plane }, &[&rows], &[bytes])?;
    }
    Ok(())
}
