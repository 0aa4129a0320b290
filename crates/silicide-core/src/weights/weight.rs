//! Loaded tensors.

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use silicide_quant::{MlxFormat, Shape};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A tensor of a weight file on a device. Cloning shares the memory.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub mod weights { pub use {silicide_core::weights::*, silicide_weights::*}; } }
/// # let path = "../../testdata/models/llama-tied-q8_0.gguf";
/// use silicide::Device;
/// use silicide::weights::{LoadOptions, Loader, Source, Weight};
///
/// let source = Source::open(path)?;
/// let mut loader = Loader::new(&Device::cpu()?, &source, LoadOptions::default());
/// match loader.load("blk.0.attn_q.weight")? {
///     Weight::Whole(buffer) => println!("{} {}", buffer.dtype(), buffer.shape()),
///     Weight::Planar(planes) => println!("{:?} {}", planes.format, planes.shape),
///     _ => (),
/// }
/// # Ok::<(), silicide::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Weight {
    /// In one piece: elements or blocks.
    Whole(Buffer),
    /// In planes of codes, scales and perhaps biases.
    Planar(Box<PlanarWeight>),
}

/// A tensor in planes, as MLX stores quantised ones.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlanarWeight {
    /// How it is stored.
    pub format: MlxFormat,
    /// Its logical shape.
    pub shape: Shape,
    /// Codes, in words of 32 bits.
    pub packed: Buffer,
    /// One scale per group.
    pub scales: Buffer,
    /// One bias per group, where the format has them.
    pub biases: Option<Buffer>,
}

impl Weight {
    /// Its logical shape.
    pub fn shape(&self) -> Shape {
        match self {
            Weight::Whole(buffer) => buffer.shape(),
            Weight::Planar(planar) => planar.shape,
        }
    }

    /// Its bytes on the device, all planes together.
    pub fn bytes(&self) -> usize {
        match self {
            Weight::Whole(buffer) => buffer.size(),
            Weight::Planar(planar) => {
                let biases = planar.biases.as_ref().map_or(0, Buffer::size);
                planar.packed.size() + planar.scales.size() + biases
            }
        }
    }

    /// The buffer of a tensor that is in one piece.
    pub fn whole(&self) -> Option<&Buffer> {
        if let Weight::Whole(buffer) = self { Some(buffer) } else { None }
    }

    /// The planes of a tensor that is in several.
    pub fn planar(&self) -> Option<&PlanarWeight> {
        if let Weight::Planar(planar) = self { Some(planar) } else { None }
    }
}

/// Tensors by name. A model takes those it knows; what is left then is what it did not use.
#[derive(Clone, Debug)]
pub struct Weights {
    path: PathBuf,
    named: BTreeMap<String, Weight>,
}

impl Weights {
    pub(super) fn new(path: PathBuf, named: BTreeMap<String, Weight>) -> Weights {
        Weights { path, named }
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Weight> {
        self.named.get(name)
    }

    /// Takes a tensor out; an error says which one is missing.
    pub fn take(&mut self, name: &str) -> Result<Weight> {
        self.named.remove(name).ok_or_else(|| {
            let (path, name) = (self.path.clone(), name.to_owned());
            Error::Weights(silicide_weights::Error::Missing { path, what: "tensor", name })
        })
    }

    /// Takes a tensor out that a model may do without.
    pub fn take_optional(&mut self, name: &str) -> Option<Weight> {
        self.named.remove(name)
    }

    /// Tensors that were not taken, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Weight)> {
        self.named.iter().map(|(name, weight)| (name.as_str(), weight))
    }

    /// The number of tensors that were not taken.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether every tensor was taken.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}
