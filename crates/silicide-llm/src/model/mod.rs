//! Models: from the settings and tensors of a file to a forward pass.
//!
//! | module | what |
//! |---|---|
//! | [`arch`] | architectures: settings and forward pass of each, and the registry of them |
//! | [`config`] | typed access to settings of GGUF and `config.json`; parts of settings that architectures share |
//! | [`blocks`] | attention, feed-forward, norms: the parts of a forward pass |
//! | [`Tensors`] | the tensors of a file, which blocks take by name |
//! | [`LayerPlacement`] | the devices of a model's parts |
//! | [`PassRecorder`] | records a forward pass on the devices of its weights |
//!
//! `docs/adding-a-model.md` in the repository says how to add an architecture.

pub mod arch;
pub mod blocks;
pub mod config;
mod pending;
mod placement;
mod recorder;
#[cfg(test)]
mod tests;
mod weights;

pub use arch::{Architecture, ConfiguredModel, Decoder, ModelConfig, Registry};
pub use config::Config;
pub use pending::PendingWeights;
pub use placement::{LayerPlacement, Split};
pub(crate) use recorder::{PassExtent, RecordedPass, RecordedSegment, SegmentInput, Transfer};
pub use recorder::{PassRecorder, PassValue};
pub use weights::{Rearranged, Repack, Repacking, Tensors};

use crate::error::{Error, Result};
use config::RopeConfig;
use silicide_core::Loader;
use silicide_ops::rope::Frequencies;
use silicide_weights::Source;

/// The inputs of one forward pass and the caches that it updates, as values of a recorder.
#[derive(Clone, Debug)]
pub struct ForwardInputs<V> {
    /// Tokens of the pass.
    pub count: usize,
    /// Their ids, `[count]` of u32.
    pub tokens: V,
    /// Cosines and sines of the pass's positions, one table for each kind of rotation.
    pub ropes: Vec<V>,
    /// The cache of each layer.
    pub caches: Vec<LayerCache<V>>,
    /// Indices of the tokens that have logits, `[outputs]` of u32; `None`: all tokens.
    pub outputs: Option<V>,
}

/// Keys and values of one layer, `[kv heads, capacity, dim]`, where the pass's tokens go, `[count]` of u32, and which keys they see.
#[derive(Clone, Debug)]
pub struct LayerCache<V> {
    /// The keys.
    pub keys: V,
    /// The values.
    pub values: V,
    /// Slots of the pass's tokens.
    pub slots: V,
    /// The [work list](silicide_ops::attention::WorkList) of attention.
    pub work: V,
    /// Whether heads of keys, and of values, are [rotated](silicide_ops::hadamard()).
    pub rotated: [bool; 2],
}

/// The positional settings of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// The index of the rotation of its queries and keys.
    pub rope: usize,
    /// Positions that are visible, the query's own included; `None`: all.
    pub window: Option<u32>,
}

/// The properties of a model that are known before its tensors are loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Description {
    /// The architecture's name.
    pub architecture: &'static str,
    /// The settings that all decoders have.
    pub config: Config,
    /// The positional settings of each layer.
    pub layers: Vec<LayerKind>,
    /// The frequencies of each rotation.
    pub ropes: Vec<Frequencies>,
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// The devices of its parts.
    pub placement: LayerPlacement,
    /// The memory of its tensors on each device, in the order of [`LayerPlacement::devices`].
    pub tensor_bytes: Vec<TensorBytes>,
    /// Its architecture and all of its settings.
    pub configured: ConfiguredModel,
}

/// The memory of tensors on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorBytes {
    /// Bytes of tensors.
    pub weights: u64,
    /// Bytes that loading needs besides them: a second copy of the tensors that are repacked together.
    pub loading: u64,
}

/// A model before its weights are loaded.
pub struct DescribedModel<'a> {
    /// Its properties.
    pub description: Description,
    /// Its forward pass.
    pub decoder: Box<dyn Decoder>,
    /// Loads its weights.
    pub weights: PendingWeights<'a>,
}

/// Describes the model of a source and builds its decoder, with its parts on the devices of `placement`. Interleaves the weights that
/// `repacking` names, on the CPU. Allocates no memory for weights; with options of loading they can be loaded later.
pub fn describe_source<'a>(
    placement: &LayerPlacement,
    source: &'a Source,
    configured: &'a ConfiguredModel,
    repacking: &Repacking,
    load: Option<&silicide_core::LoadOptions>,
) -> Result<DescribedModel<'a>> {
    let planned =
        || Ok::<_, Error>(Tensors::planned(placement, source, configured)?.repacked(repacking.clone()));
    let mut tensors = match load {
        // A loader maps the tensors of its device, and those have to be known before.
        Some(options) if placement.is_split() => {
            let mut tensors = planned()?;
            let _decoder = configured.load(&mut tensors)?;
            Tensors::loaded(placement, configured, tensors.loaders(options))?
        }
        Some(options) => {
            let loaders =
                placement.devices().iter().map(|device| Loader::new(device, source, options.clone()));
            Tensors::loaded(placement, configured, loaders.collect())?
        }
        None => planned()?,
    }
    .repacked(repacking.clone());
    let ropes = frequencies(&mut tensors, &configured.model().ropes())?;
    let decoder = configured.load(&mut tensors)?;
    let tensor_bytes = tensors.bytes_by_device();
    let description = Description {
        architecture: configured.architecture(),
        config: configured.config().clone(),
        layers: configured.model().layers(),
        ropes,
        vocabulary: tensors.vocabulary(),
        bytes: tensors.bytes(),
        placement: placement.clone(),
        tensor_bytes,
        configured: configured.clone(),
    };
    Ok(DescribedModel { description, decoder, weights: tensors.finish()? })
}

/// Returns the frequencies of each rotation. Those of the first are divided by the tensor `rope_freqs.weight`, if the file has it,
/// as Llama 3 does.
fn frequencies(tensors: &mut Tensors<'_>, ropes: &[RopeConfig]) -> Result<Vec<Frequencies>> {
    let mut factors = match ropes.first() {
        Some(rope) => tensors.optional_values("rope_freqs.weight", rope.rotated / 2)?,
        None => None,
    };
    let frequencies = ropes.iter().map(|rope| {
        rope.frequencies(factors.take().as_deref()).map_err(|error| {
            config::wrong(tensors.source(), "rope", "usable frequencies", &error.to_string())
        })
    });
    frequencies.collect()
}
