//! Architectures. Each reads its settings and has its forward pass in a file of its own; variants of Llama are rows of
//! [`VARIANTS`].

mod gemma3;
mod llama;
mod registry;

pub use gemma3::Gemma3;
pub use llama::{LlamaVariant, VARIANTS};
pub use registry::{ConfiguredModel, Registry};

use super::config::{Config, Conventions, RopeConfig, Settings};
use super::{ForwardInputs, LayerKind, PassRecorder, PassValue, Tensors};
use crate::error::Result;
use std::fmt;

/// An architecture: reads the settings of a file and returns the configuration of its model.
pub trait Architecture: fmt::Debug + Send + Sync {
    /// Returns its name in GGUF, `general.architecture`.
    fn name(&self) -> &'static str;

    /// Returns its names in `config.json`, `model_type`.
    fn model_types(&self) -> &'static [&'static str];

    /// Returns how its checkpoints differ from those of Llama.
    fn conventions(&self) -> Conventions {
        Conventions::default()
    }

    /// Reads the settings of a file. A setting that is not implemented must be an error, because results without it would be
    /// silently wrong.
    fn configure(&self, settings: &Settings<'_>) -> Result<Box<dyn ModelConfig>>;
}

/// The settings of one model, as its architecture needs them.
pub trait ModelConfig: fmt::Debug + Send + Sync {
    /// Returns the settings that all decoders have.
    fn config(&self) -> &Config;

    /// Returns the positional settings of each layer.
    fn layers(&self) -> Vec<LayerKind> {
        vec![LayerKind { rope: 0, window: None }; self.config().layers]
    }

    /// Returns the rotations that layers refer to. Frequency factors in a tensor (`rope_freqs.weight`) belong to the first.
    fn ropes(&self) -> Vec<RopeConfig>;

    /// Takes the tensors of the model. They have shapes and no contents yet. Called again if the model does not fit and fewer weights are repacked.
    fn load(&self, tensors: &mut Tensors<'_>) -> Result<Box<dyn Decoder>>;
}

/// A model with its tensors: records forward passes.
pub trait Decoder: fmt::Debug + Send + Sync {
    /// Records a forward pass and returns the logits of its outputs, `[outputs, vocabulary]`. Called once for each class of passes;
    /// replays of what it records do the rest. [`PassRecorder`] says on which device an op runs.
    fn forward(&self, pass: &mut PassRecorder, inputs: &ForwardInputs<PassValue>) -> Result<PassValue>;
}
