//! The choice of the layers that run on the CPU.

use super::memory::{self, AvailableMemory};
use super::options::ModelOptions;
use super::passes::{Passes, PlannedModel};
use crate::error::{Error, Result};
use crate::model::{ConfiguredModel, LayerPlacement, Repacking, Split, describe_source};
use silicide_core::Device;
use silicide_core::hal::Backend;
use silicide_weights::Source;

/// The devices that options name, and a model.
pub(super) struct SplitChoice<'a> {
    source: &'a Source,
    configured: &'a ConfiguredModel,
    options: &'a ModelOptions,
    device: Device,
    layers: usize,
}

impl<'a> SplitChoice<'a> {
    /// Opens the device of `options`.
    pub(super) fn new(
        source: &'a Source,
        configured: &'a ConfiguredModel,
        options: &'a ModelOptions,
    ) -> Result<SplitChoice<'a>> {
        let device = match &options.device {
            Some(device) => device.clone(),
            None if options.gpu_layers == Some(0) => options.cpu.clone().map_or_else(Device::cpu, Ok)?,
            None => Device::best()?,
        };
        let layers = configured.config().layers;
        Ok(SplitChoice { source, configured, options, device, layers })
    }

    /// Whether the memory of the device decides how many layers it has.
    pub(super) fn is_by_memory(&self) -> bool {
        self.options.gpu_layers.is_none() && self.device.info().backend != Backend::Cpu
    }

    /// Whether `id` names the device, which is not the CPU of a split.
    pub(super) fn is_its_device(&self, id: &str) -> bool {
        self.device.info().id == id
    }

    /// Returns the devices of the model's parts as options say; the device for all layers if its memory decides.
    pub(super) fn first(&self) -> Result<LayerPlacement> {
        if self.device.info().backend == Backend::Cpu {
            return Ok(LayerPlacement::single(&self.device));
        }
        let cpu_experts = self.options.cpu_experts.unwrap_or(0);
        match self.options.gpu_layers {
            Some(0) => Ok(LayerPlacement::single(&self.cpu()?)),
            Some(count) => {
                // The output projection is the last of them.
                let cpu_layers = (self.layers + 1).saturating_sub(count).min(self.layers);
                self.of(Split { cpu_layers, cpu_experts })
            }
            None => self.of(Split { cpu_layers: 0, cpu_experts }),
        }
    }

    /// Returns the devices of the model's parts: as options say, or by the device's memory.
    pub(super) fn placement(&self) -> Result<LayerPlacement> {
        let first = self.first()?;
        if !self.is_by_memory() || self.fits(first.cpu_part())? { Ok(first) } else { self.by_memory() }
    }

    fn cpu(&self) -> Result<Device> {
        Ok(self.options.cpu.clone().map_or_else(Device::cpu, Ok)?)
    }

    /// Returns the placement of a split. Experts that the model does not have, or whose layers are on the CPU, are no part of it.
    fn of(&self, split: Split) -> Result<LayerPlacement> {
        let Split { cpu_layers, cpu_experts } = split;
        let cpu_experts = match cpu_experts.min(self.layers) {
            experts if experts > cpu_layers && self.has_experts()? => experts,
            _ => 0,
        };
        if (cpu_layers, cpu_experts) == (0, 0) {
            return Ok(LayerPlacement::single(&self.device));
        }
        Ok(LayerPlacement::split(&self.device, &self.cpu()?, Split { cpu_layers, cpu_experts }))
    }

    /// Whether a layer has experts.
    fn has_experts(&self) -> Result<bool> {
        let split = Split { cpu_layers: 0, cpu_experts: self.layers };
        let placement = LayerPlacement::split(&self.device, &self.cpu()?, split);
        let described =
            describe_source(&placement, self.source, self.configured, &Repacking::default(), None)?;
        Ok(described.description.tensor_bytes.get(1).is_some_and(|cpu| cpu.weights > 0))
    }

    /// Returns the placement with the least on the CPU that fits the device's memory, if all layers do not fit. Experts leave first:
    /// they are large, and each token reads few of them.
    pub(super) fn by_memory(&self) -> Result<LayerPlacement> {
        let given = self.options.cpu_experts.map(|count| count.min(self.layers));
        let most = match given {
            Some(count) => count,
            None if self.has_experts()? => self.layers,
            None => 0,
        };
        let experts = given.map_or(1, |count| count + 1)..=most;
        let experts = experts.map(|cpu_experts| Split { cpu_layers: 0, cpu_experts });
        let layers = (1..=self.layers).map(|cpu_layers| Split { cpu_layers, cpu_experts: most });
        // Each takes less of the device's memory than the one before.
        let candidates: Vec<Split> = experts.chain(layers).collect();
        let (mut low, mut high) = (0, candidates.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match candidates.get(middle) {
                Some(split) if self.fits(*split)? => high = middle,
                _ => low = middle + 1,
            }
        }
        match candidates.get(low) {
            Some(split) => self.of(*split),
            None => Ok(LayerPlacement::single(&self.cpu()?)),
        }
    }

    /// Whether the part of a split that is on the device fits its memory.
    fn fits(&self, split: Split) -> Result<bool> {
        let placement = self.of(split)?;
        let described =
            describe_source(&placement, self.source, self.configured, &Repacking::default(), None)?;
        let cache = self.options.cache(&described.description)?;
        let planned =
            PlannedModel { description: &described.description, decoder: &*described.decoder, cache: &cache };
        match memory::count(planned, &Passes::default(), &AvailableMemory::of(&placement)) {
            Ok(estimates) => Ok(estimates.first().is_some_and(|of| of.needed() <= of.available)),
            // A buffer that the device can't have.
            Err(Error::Device(silicide_core::Error::TooLarge { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
