//! The devices of a model's parts, by the names of their tensors.

use crate::error::{Error, Result};
use silicide_core::Device;
use std::ops::Range;

/// How much of a model runs on its device. The rest runs on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The first layers, as many as this, run on the CPU, and so does the token embedding if there is one.
    pub cpu_layers: usize,
    /// The experts of the first layers, as many as this, run on the CPU.
    pub cpu_experts: usize,
}

impl Split {
    /// Everything runs on the device.
    pub const NONE: Split = Split { cpu_layers: 0, cpu_experts: 0 };
}

/// The devices of the parts of a model: one, or one and the CPU.
///
/// The output projection runs on the device, the first layers on the CPU. The token embedding runs where the first layer runs.
#[derive(Clone, Debug)]
pub struct LayerPlacement {
    /// The device, and the CPU if it has a part.
    devices: Vec<Device>,
    split: Split,
}

impl LayerPlacement {
    /// All of a model on one device.
    pub fn single(device: &Device) -> LayerPlacement {
        LayerPlacement { devices: vec![device.clone()], split: Split::NONE }
    }

    /// A model on `device` and on `cpu`.
    pub fn split(device: &Device, cpu: &Device, split: Split) -> LayerPlacement {
        if split == Split::NONE || device.is_same(cpu) {
            return LayerPlacement::single(device);
        }
        LayerPlacement { devices: vec![device.clone(), cpu.clone()], split }
    }

    /// The devices: the one that computes the logits, then the CPU if it has a part.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Whether the model has parts on two devices.
    pub fn is_split(&self) -> bool {
        self.devices.len() > 1
    }

    /// The parts on the CPU, if the model has parts on two devices.
    pub fn cpu_part(&self) -> Split {
        self.split
    }

    /// Returns the layers on the CPU, of a model that is split.
    pub fn cpu_layers(&self) -> Range<usize> {
        0..self.split.cpu_layers
    }

    /// Returns the number in [`LayerPlacement::devices`] of the device of a layer: of its attention, its norms and its cache.
    pub fn of_layer(&self, layer: usize) -> usize {
        self.cpu_if(self.cpu_layers().contains(&layer))
    }

    /// Returns the number in [`LayerPlacement::devices`] of the device of a tensor, by its name in GGUF.
    pub fn of_tensor(&self, name: &str) -> usize {
        let in_layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let in_layer = in_layer.and_then(|(layer, rest)| Some((layer.parse::<usize>().ok()?, rest)));
        match in_layer {
            Some((layer, rest)) => {
                let is_expert = rest.starts_with("ffn_") && rest.contains("exps");
                let experts = is_expert && layer < self.split.cpu_experts;
                self.cpu_if(experts || self.cpu_layers().contains(&layer))
            }
            None => self.cpu_if(name.starts_with("token_embd") && !self.cpu_layers().is_empty()),
        }
    }

    /// Returns the device with a number.
    pub(crate) fn device(&self, number: usize) -> Result<&Device> {
        self.devices.get(number).ok_or_else(|| Error::missing("a device of the model"))
    }

    /// Returns the number of a device.
    pub(crate) fn number_of(&self, device: &Device) -> Result<usize> {
        let number = self.devices.iter().position(|known| known.is_same(device));
        number.ok_or_else(|| Error::missing("a device of the model"))
    }

    fn cpu_if(&self, on_cpu: bool) -> usize {
        usize::from(on_cpu && self.is_split())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_core::DeviceOptions;

    fn split(cpu_layers: usize, cpu_experts: usize) -> LayerPlacement {
        let null = Device::open_with("null", &DeviceOptions::default()).unwrap();
        LayerPlacement::split(&null, &Device::cpu().unwrap(), Split { cpu_layers, cpu_experts })
    }

    #[test]
    fn tensors_follow_their_layers() {
        let placement = split(2, 0);
        let of = |name: &str| placement.of_tensor(name);
        assert_eq!(["blk.0.attn_q.weight", "blk.1.ffn_norm.weight", "token_embd.weight"].map(of), [1; 3]);
        assert_eq!(["blk.2.attn_q.weight", "blk.10.ffn_norm.weight", "output_norm.weight"].map(of), [0; 3]);
        assert_eq!(["output.weight", "rope_freqs.weight", "blk.x.attn_q.weight"].map(of), [0; 3]);
    }

    #[test]
    fn experts_alone_leave_their_layers() {
        let placement = split(0, 2);
        let of = |name: &str| placement.of_tensor(name);
        assert_eq!(["blk.0.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight"].map(of), [1; 2]);
        assert_eq!(["blk.2.ffn_up_exps.weight", "blk.0.ffn_gate_inp.weight"].map(of), [0; 2]);
        assert_eq!(["blk.1.ffn_gate_shexp.weight", "token_embd.weight"].map(of), [0; 2]);
    }

    #[test]
    fn a_split_without_a_part_on_the_cpu_is_one_device() {
        assert!(!split(0, 0).is_split());
        assert_eq!(split(0, 0).devices().len(), 1);
    }
}
