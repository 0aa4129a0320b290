//! The architectures that models may have.

use super::{Architecture, Decoder, Gemma3, ModelConfig, VARIANTS};
use crate::error::{Error, Result};
use crate::model::Tensors;
use crate::model::config::{Config, Conventions, Layout, Settings};
use silicide_weights::Source;
use std::sync::Arc;

/// The architectures that models may have. The default has all of this crate.
#[derive(Clone, Debug)]
pub struct Registry {
    architectures: Vec<Arc<dyn Architecture>>,
}

impl Default for Registry {
    fn default() -> Registry {
        let variants = VARIANTS.into_iter().map(|variant| Arc::new(variant) as Arc<dyn Architecture>);
        Registry { architectures: variants.chain([Arc::new(Gemma3) as Arc<dyn Architecture>]).collect() }
    }
}

impl Registry {
    /// Adds an architecture. It takes precedence over those with the same name.
    pub fn add(&mut self, architecture: impl Architecture + 'static) {
        self.architectures.push(Arc::new(architecture));
    }

    /// Returns the names that files of `layout` may have for an architecture.
    pub fn names(&self, layout: Layout) -> Vec<&'static str> {
        self.architectures.iter().flat_map(|one| names(&**one, layout)).collect()
    }

    /// Reads the settings of a source by its architecture.
    pub fn configure(&self, source: &Source) -> Result<ConfiguredModel> {
        let settings = Settings::open(source)?;
        let (name, layout) = (settings.architecture(), settings.layout());
        let found = self.architectures.iter().rev().find(|one| names(&***one, layout).contains(&name));
        let Some(architecture) = found.cloned() else {
            return Err(Error::UnknownArchitecture {
                path: source.path().to_owned(),
                architecture: name.to_owned(),
                known: self.names(layout).join(", "),
            });
        };
        let model = architecture.configure(&settings)?.into();
        Ok(ConfiguredModel { architecture, model })
    }
}

/// Returns the names of an architecture in files of `layout`.
fn names(architecture: &dyn Architecture, layout: Layout) -> Vec<&'static str> {
    match layout {
        Layout::Gguf => vec![architecture.name()],
        Layout::Checkpoint => architecture.model_types().to_vec(),
    }
}

/// A model's architecture and settings.
#[derive(Clone, Debug)]
pub struct ConfiguredModel {
    architecture: Arc<dyn Architecture>,
    model: Arc<dyn ModelConfig>,
}

impl ConfiguredModel {
    /// Returns the architecture's name in GGUF.
    pub fn architecture(&self) -> &'static str {
        self.architecture.name()
    }

    /// Returns how checkpoints of the architecture differ from those of Llama.
    pub fn conventions(&self) -> Conventions {
        self.architecture.conventions()
    }

    /// Returns the settings that all decoders have.
    pub fn config(&self) -> &Config {
        self.model.config()
    }

    /// Returns the architecture's own settings.
    pub fn model(&self) -> &dyn ModelConfig {
        &*self.model
    }

    /// Takes the tensors of the model. Their contents are loaded later.
    pub fn load(&self, tensors: &mut Tensors<'_>) -> Result<Box<dyn Decoder>> {
        self.model.load(tensors)
    }
}
