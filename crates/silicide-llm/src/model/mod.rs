//! Models: what a file says ([`Config`]), its tensors ([`Tensors`]), the parts they make ([`blocks`]), and one short file
//! for each architecture. To add one: write its file, and name it in the table below.

pub mod blocks;
mod checkpoint;
mod config;
mod conventions;
mod frequencies;
mod gemma3;
mod llama;
mod mixture;
mod names;
mod qwen2;
mod qwen3;
mod qwen3moe;
mod rope_settings;
mod settings;
mod tensors;
#[cfg(test)]
mod tests;

pub use config::{Config, Layout, LocalLayers, RopeConfig};
pub use conventions::{ConfigDefaults, Conventions, Mixture};
pub use frequencies::RopeScaling;
pub use mixture::ExpertConfig;
pub use names::Names;
pub use tensors::{Rearranged, Repack, Tensors};

use crate::error::{Error, Result};
use silicide_core::Recorder;
use silicide_ops::rope::Frequencies;
use silicide_weights::Source;

/// The inputs of one forward pass and the caches that it updates, as values of a recorder.
#[derive(Clone, Debug)]
pub struct ForwardInputs<V> {
    /// Tokens of the pass.
    pub count: usize,
    /// Their ids, `[count]` of u32.
    pub tokens: V,
    /// The position of the first, `[1]` of u32.
    pub start: V,
    /// The number of positions that the pass can see, now or in a replay.
    pub limit: u32,
    /// Cosines and sines of the pass's positions, one table for each kind of rotation.
    pub ropes: Vec<V>,
    /// The cache of each layer.
    pub caches: Vec<LayerCache<V>>,
    /// Indices of the tokens that have logits, `[outputs]` of u32; `None`: all tokens.
    pub outputs: Option<V>,
}

/// Keys and values of one layer, `[kv heads, capacity, dim]`, and where the pass's tokens go, `[count]` of u32.
#[derive(Clone, Debug)]
pub struct LayerCache<V> {
    /// The keys.
    pub keys: V,
    /// The values.
    pub values: V,
    /// Slots of the pass's tokens.
    pub slots: V,
}

/// The positional settings of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// Which of the tables of angles turns its queries and keys.
    pub rope: usize,
    /// The positions that it sees, its own included; `None`: all.
    pub window: Option<u32>,
}

/// An architecture: how a model of it is loaded, and its forward pass over any recorder.
pub trait Architecture: Sized {
    /// The conventions of its files.
    const CONVENTIONS: Conventions = Conventions::USUAL;

    /// Changes settings that files leave to the reader.
    fn adapt(config: &mut Config) {
        let _ = config;
    }

    /// Returns the positional settings of each layer.
    fn kinds(config: &Config) -> Vec<LayerKind> {
        vec![LayerKind { rope: 0, window: None }; config.layers]
    }

    /// Base and scaling of each table of angles.
    fn ropes(config: &Config) -> Vec<(f64, RopeScaling)> {
        vec![(config.rope.base, config.rope.scaling)]
    }

    /// Takes the tensors.
    fn load(tensors: &mut Tensors<'_>) -> Result<Self>;

    /// Records the pass and returns the logits of its outputs, `[outputs, vocabulary]`.
    fn forward<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value>;
}

macro_rules! architectures {
    ($($name:literal => $variant:ident($module:ident::$model:ident)),* $(,)?) => {
        /// The names of all architectures, as GGUF has them.
        pub const ARCHITECTURES: &[&str] = &[$($name),*];

        /// A loaded model of any architecture.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Decoder {
            $(#[doc = concat!("`", $name, "`.")] $variant($module::$model),)*
        }

        impl Decoder {
            /// Records a forward pass and returns the logits of its outputs, `[outputs, vocabulary]`.
            pub fn forward<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value> {
                match self { $(Decoder::$variant(model) => model.forward(recorder, inputs),)* }
            }

            fn load(architecture: &str, tensors: &mut Tensors<'_>) -> Option<Result<Decoder>> {
                match architecture {
                    $($name => Some($module::$model::load(tensors).map(Decoder::$variant)),)*
                    _ => None,
                }
            }
        }

        /// The conventions of an architecture's files.
        fn conventions(architecture: &str) -> Option<Conventions> {
            match architecture {
                $($name => Some($module::$model::CONVENTIONS),)*
                _ => None,
            }
        }

        /// Returns the layers and tables of angles that an architecture derives from the settings.
        fn describe(config: &mut Config) -> Option<Outline> {
            match config.architecture.as_str() {
                $($name => {
                    $module::$model::adapt(config);
                    let (layers, ropes) = ($module::$model::kinds(config), $module::$model::ropes(config));
                    Some(Outline { architecture: $name, layers, ropes })
                })*
                _ => None,
            }
        }
    };
}

architectures! {
    "llama" => Llama(llama::Llama),
    "qwen2" => Qwen2(qwen2::Qwen2),
    "qwen3" => Qwen3(qwen3::Qwen3),
    "qwen3moe" => Qwen3Moe(qwen3moe::Qwen3Moe),
    "gemma3" => Gemma3(gemma3::Gemma3),
}

/// The properties that follow from the settings alone.
struct Outline {
    architecture: &'static str,
    layers: Vec<LayerKind>,
    ropes: Vec<(f64, RopeScaling)>,
}

/// A model's description: known before anything is loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Description {
    /// The architecture's name.
    pub architecture: &'static str,
    /// Its settings.
    pub config: Config,
    /// Returns the positional settings of each layer.
    pub layers: Vec<LayerKind>,
    /// The angles of each kind of rotation.
    pub ropes: Vec<Frequencies>,
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// Bytes that loading takes beside its tensors: of the largest one that is there twice while it is repacked.
    pub loading_bytes: u64,
}

/// Takes the tensors of a model, loaded or planned.
pub fn build(tensors: &mut Tensors<'_>, architecture: &str) -> Result<Decoder> {
    let decoder = Decoder::load(architecture, tensors);
    decoder.unwrap_or_else(|| Err(unknown_architecture(tensors.source(), architecture)))
}

/// Describes the model of a source, and plans it on a device, with the weights interleaved that `repack` names: the decoder has shapes
/// but no memory.
pub fn describe_source(
    device: &silicide_core::Device,
    source: &Source,
    repack: Repack,
) -> Result<(Description, Decoder)> {
    let mut config = Config::of(source)?;
    let outline = describe(&mut config).ok_or_else(|| unknown_architecture(source, &config.architecture))?;
    let tensors = Tensors::planned(device, source, &config, outline.architecture)?;
    let mut tensors = tensors.repacked(repack);
    // Llama 3 stretches frequencies by factors that are a tensor; older files have the vector and no use for it.
    let pairs = config.rope.rotated / 2;
    let factors = tensors.optional_values("rope_freqs.weight", pairs)?;
    let decoder = build(&mut tensors, outline.architecture)?;
    let vocabulary = tensors.vocabulary();
    let loading_bytes = tensors.loading_bytes();
    let bytes = tensors.finish()?;
    let ropes = outline.ropes.iter().map(|&(base, scaling)| {
        scaling.frequencies(base, config.rope.rotated, factors.as_deref()).map_err(|error| {
            settings::Settings::new(source).wrong("rope", "usable frequencies", &error.to_string())
        })
    });
    let ropes = ropes.collect::<Result<_>>()?;
    let Outline { architecture, layers, .. } = outline;
    let description = Description { architecture, config, layers, ropes, vocabulary, bytes, loading_bytes };
    Ok((description, decoder))
}

fn unknown_architecture(source: &Source, architecture: &str) -> Error {
    Error::UnknownArchitecture {
        path: source.path().to_owned(),
        architecture: architecture.to_owned(),
        known: ARCHITECTURES.join(", "),
    }
}
