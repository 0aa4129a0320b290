//! Weights: matrices in any encoding, and the tensors of a file by name.

use crate::buffer::{Buffer, BufferOptions};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::record::Recorder;
use silicide_quant::{Encoding, MAX_PLANES, Plane, Shape};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A tensor of weights on a device, in any [`Encoding`]. Cloning shares the memory.
///
/// `V` represents a plane: a [`Buffer`], or a value of a [`Recorder`] ([`Weight::constant`]).
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub mod weights { pub use {silicide_core::weights::*, silicide_weights::*}; } }
/// # let path = "../../testdata/models/llama-tied-q8_0.gguf";
/// use silicide::Device;
/// use silicide::weights::{LoadOptions, Loader, Source};
///
/// let source = Source::open(path)?;
/// let mut loader = Loader::new(&Device::cpu()?, &source, LoadOptions::default());
/// let weight = loader.load("blk.0.attn_q.weight")?;
/// println!("{} {}, {} bytes", weight.encoding(), weight.shape(), weight.bytes());
/// # Ok::<(), silicide::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Weight<V = Buffer> {
    encoding: Encoding,
    shape: Shape,
    planes: SmallVec<[V; MAX_PLANES]>,
}

impl<V> Weight<V> {
    /// How its elements lie in memory.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Its logical shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its planes, in the order of [`Encoding::plane_names`].
    pub fn planes(&self) -> &[V] {
        &self.planes
    }

    /// The tensor that is the whole weight: elements or blocks, not interleaved.
    pub fn tensor(&self) -> Option<&V> {
        self.planes.first().filter(|_| self.encoding.dtype().is_some())
    }
}

impl Weight {
    /// A weight of these planes. Returns an error that names the plane of another type or shape than `encoding` has.
    pub fn new(encoding: Encoding, planes: impl IntoIterator<Item = Buffer>) -> Result<Weight> {
        let planes: SmallVec<[Buffer; MAX_PLANES]> = planes.into_iter().collect();
        let of = |plane: &Buffer| Plane { dtype: plane.dtype(), shape: plane.shape() };
        let given: SmallVec<[Plane; MAX_PLANES]> = planes.iter().map(of).collect();
        let shape = encoding.shape(&given).map_err(|error| Error::bad_plane("weight", error))?;
        Ok(Weight { encoding, shape, planes })
    }

    /// A weight of this shape, whose planes are allocated when they are first needed ([`Buffer::with`]).
    pub fn with(
        device: &Device,
        encoding: Encoding,
        shape: Shape,
        options: &BufferOptions,
    ) -> Result<Weight> {
        let mut planes = SmallVec::new();
        for index in 0..encoding.planes() {
            let plane = encoding.plane(index, &shape).map_err(|error| Error::bad_plane("weight", error))?;
            planes.push(Buffer::with(device, plane.dtype, plane.shape, options)?);
        }
        Ok(Weight { encoding, shape, planes })
    }

    /// Its bytes on the device, all planes together.
    pub fn bytes(&self) -> usize {
        self.planes.iter().map(Buffer::size).sum()
    }

    /// The weight as values of a recorder: a constant for each plane.
    pub fn constant<R: Recorder>(&self, recorder: &mut R) -> Weight<R::Value> {
        let planes = self.planes.iter().map(|plane| recorder.constant(plane)).collect();
        Weight { encoding: self.encoding, shape: self.shape, planes }
    }

    /// Names its planes, for dumps of graphs. Buffers that share an allocation keep the first name.
    pub fn set_label(&self, name: &str) {
        for (i, (plane, of)) in self.planes.iter().zip(self.encoding.plane_names()).enumerate() {
            if i == 0 {
                plane.set_label(name);
            } else {
                plane.set_label(&format!("{name} {of}"));
            }
        }
    }
}

/// A tensor of elements or blocks is a weight.
impl From<Buffer> for Weight {
    fn from(tensor: Buffer) -> Weight {
        let (encoding, shape) = (Encoding::from(tensor.dtype()), tensor.shape());
        Weight { encoding, shape, planes: smallvec![tensor] }
    }
}

/// The weight argument of an op: a [`Weight`], or a tensor of elements or blocks.
pub trait AsWeight<V> {
    /// Its encoding.
    fn encoding_in<R: Recorder<Value = V>>(&self, recorder: &R) -> Encoding;
    /// Its planes, as inputs of an op.
    fn as_planes(&self) -> &[V];
}

impl<V> AsWeight<V> for V {
    fn encoding_in<R: Recorder<Value = V>>(&self, recorder: &R) -> Encoding {
        Encoding::from(recorder.info(self).dtype)
    }

    fn as_planes(&self) -> &[V] {
        std::slice::from_ref(self)
    }
}

impl<V> AsWeight<V> for Weight<V> {
    fn encoding_in<R: Recorder<Value = V>>(&self, _: &R) -> Encoding {
        self.encoding
    }

    fn as_planes(&self) -> &[V] {
        &self.planes
    }
}

/// Tensors by name. A model takes those that it uses; the others are left.
#[derive(Clone, Debug)]
pub struct Weights {
    path: PathBuf,
    named: BTreeMap<String, Weight>,
}

impl Weights {
    pub(super) fn new(path: PathBuf, named: BTreeMap<String, Weight>) -> Weights {
        Weights { path, named }
    }

    /// Returns the tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Weight> {
        self.named.get(name)
    }

    /// Removes and returns a tensor. The error names a missing one.
    pub fn take(&mut self, name: &str) -> Result<Weight> {
        self.named.remove(name).ok_or_else(|| {
            let (path, name) = (self.path.clone(), name.to_owned());
            Error::Weights(silicide_weights::Error::Missing { path, what: "tensor", name })
        })
    }

    /// Removes and returns an optional tensor.
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
