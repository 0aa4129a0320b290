//! The KV cache: for each layer two ring buffers, `[kv heads, capacity, dim]`. On the CPU, keys of f32, f16 and bf16 lie in lanes,
//! `[kv heads, capacity / 16, dim, 16]`: sets of sixteen slots, as attention reads them.
//!
//! The key of position `p` lies in slot `p % capacity`. A layer with full attention has a slot for every position of the
//! context. A layer with a window has slots for the window and for the tokens of one pass, so that a pass does not
//! overwrite keys that its first query sees.

mod types;

use crate::error::{Error, Result};
use crate::model::{Description, LayerKind};
use silicide_core::{Buffer, BufferOptions, Device, Purpose};
use silicide_ops::attention::KEY_LANES;
use silicide_quant::{DType, Shape};
pub use types::CacheType;

/// Capacities of local layers are multiples of this.
const ROUND: usize = 64;

/// The size and element types of a KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheOptions {
    /// Tokens that it holds.
    pub context: usize,
    /// The most tokens of one pass.
    pub chunk: usize,
    /// The type of keys.
    pub key_type: CacheType,
    /// The type of values.
    pub value_type: CacheType,
    /// Whether heads of block formats are rotated before they are quantized. `None`: where that helps. Those of TurboQuant always are.
    pub rotate: Option<bool>,
    /// Whether keys lie in lanes on the CPU, unless their type is compressed.
    pub key_lanes: bool,
}

impl CacheOptions {
    /// Returns the options of an f16 cache for `context` tokens, in passes of at most `chunk` tokens.
    pub fn new(context: usize, chunk: usize) -> CacheOptions {
        let f16 = CacheType::Element(DType::F16);
        CacheOptions { context, chunk, key_type: f16, value_type: f16, rotate: None, key_lanes: false }
    }

    /// Returns the options of a layer on `device`: keys lie in lanes on the CPU only.
    pub fn on(&self, device: &Device) -> CacheOptions {
        CacheOptions { key_lanes: self.key_lanes && !device.info().is_gpu(), ..*self }
    }

    /// Returns the options of layer `layer` of a model, on its device.
    pub(crate) fn of_layer(&self, model: &Description, layer: usize) -> Result<CacheOptions> {
        let placement = &model.placement;
        Ok(self.on(placement.device(placement.of_layer(layer))?))
    }

    /// Returns whether keys lie in lanes.
    fn is_in_lanes(&self) -> bool {
        self.key_lanes && !self.key_type.is_compressed()
    }

    /// Returns the slots of a layer: whole sets, where keys lie in lanes.
    pub fn capacity(&self, kind: &LayerKind) -> usize {
        let capacity = match kind.window {
            Some(window) => {
                let needed = (window as usize).saturating_add(self.chunk).next_multiple_of(ROUND);
                needed.min(self.context)
            }
            None => self.context,
        };
        if self.is_in_lanes() { capacity.next_multiple_of(KEY_LANES) } else { capacity }
    }

    /// Returns the exact bytes of the cache of a model on each device, in the order of
    /// [`LayerPlacement::devices`](crate::model::LayerPlacement::devices).
    pub fn bytes(&self, model: &Description) -> Result<Vec<u64>> {
        let mut bytes = vec![0u64; model.placement.devices().len()];
        for (layer, kind) in model.layers.iter().enumerate() {
            let bytes = bytes.get_mut(model.placement.of_layer(layer));
            let bytes = bytes.ok_or_else(|| Error::missing("the device of a layer"))?;
            for (dtype, shape) in self.of_layer(model, layer)?.tensors(model, kind)? {
                *bytes += shape.bytes(dtype).map_err(bad_shape)? as u64;
            }
        }
        Ok(bytes)
    }

    /// Returns the types and shapes of the keys and values of a layer.
    pub fn tensors(&self, model: &Description, kind: &LayerKind) -> Result<[(DType, Shape); 2]> {
        let (config, capacity) = (&model.config, self.capacity(kind));
        let tensor = |option: &'static str, of: CacheType, dim: usize, in_lanes: bool| -> Result<_> {
            let dtype = of.stored(option, dim)?;
            let rows = [config.kv_heads, capacity, dim];
            let lanes = [config.kv_heads, capacity / KEY_LANES, dim, KEY_LANES];
            let shape = Shape::new(if in_lanes { &lanes } else { &rows });
            Ok((dtype, shape.map_err(bad_shape)?))
        };
        Ok([
            tensor("cache-type-k", self.key_type, config.head_dim, self.is_in_lanes())?,
            tensor("cache-type-v", self.value_type, config.value_dim, false)?,
        ])
    }

    /// Returns whether keys, and whether values, are rotated.
    pub fn rotated(&self, model: &Description) -> Result<[bool; 2]> {
        Ok([
            self.key_type.is_rotated(self.rotate, model.config.head_dim)?,
            self.value_type.is_rotated(self.rotate, model.config.value_dim)?,
        ])
    }
}

impl CacheOptions {
    /// Sets the type of keys.
    pub fn key_type(mut self, of: impl Into<CacheType>) -> CacheOptions {
        self.key_type = of.into();
        self
    }

    /// Sets whether heads of block formats are rotated before they are quantized.
    pub fn rotate(mut self, rotate: bool) -> CacheOptions {
        self.rotate = Some(rotate);
        self
    }

    /// Sets whether keys lie in lanes on the CPU.
    pub fn key_lanes(mut self, key_lanes: bool) -> CacheOptions {
        self.key_lanes = key_lanes;
        self
    }

    /// Sets the type of values.
    pub fn value_type(mut self, of: impl Into<CacheType>) -> CacheOptions {
        self.value_type = of.into();
        self
    }
}

/// One layer's ring.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Keys, `[kv heads, capacity, dim]` or in lanes.
    pub keys: Buffer,
    /// Values, `[kv heads, capacity, dim]`.
    pub values: Buffer,
    /// Slots.
    pub capacity: usize,
    /// The number of positions that a query sees.
    window: Option<u32>,
}

/// Keys and values of every layer.
#[derive(Debug)]
pub struct KvCache {
    rings: Vec<Ring>,
}

impl KvCache {
    /// Allocates the cache of a model, each layer's on its device. It never grows.
    pub fn new(model: &Description, options: &CacheOptions) -> Result<KvCache> {
        let mut buffer_options = BufferOptions::default();
        buffer_options.purpose = Purpose::Cache;
        let make = |device: &Device, (dtype, shape): (DType, Shape)| {
            let buffer = Buffer::with(device, dtype, shape, &buffer_options)?;
            buffer.ensure_allocated()?;
            Ok::<_, Error>(buffer)
        };
        let rings = model.layers.iter().enumerate().map(|(layer, kind)| {
            let device = model.placement.device(model.placement.of_layer(layer))?;
            let options = options.on(device);
            let [keys, values] = options.tensors(model, kind)?;
            let capacity = options.capacity(kind);
            Ok(Ring {
                keys: make(device, keys)?,
                values: make(device, values)?,
                capacity,
                window: kind.window,
            })
        });
        Ok(KvCache { rings: rings.collect::<Result<_>>()? })
    }

    /// Keys and values, by layer.
    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.rings.iter().flat_map(|ring| [&ring.keys, &ring.values])
    }

    /// Returns the bytes of all rings.
    pub fn bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.keys.size() + ring.values.size()).sum()
    }

    /// Returns how many of the first `wanted` positions can be kept after `reached` were written. Returns 0 if a
    /// sliding-window layer has overwritten entries that the next position needs.
    pub fn keepable(&self, reached: usize, wanted: usize) -> usize {
        let keeps = |ring: &Ring| {
            let oldest = reached.saturating_sub(ring.capacity);
            let seen = ring.window.map_or(0, |window| (wanted + 1).saturating_sub(window as usize));
            oldest == 0 || seen >= oldest
        };
        if self.rings.iter().all(keeps) { wanted.min(reached) } else { 0 }
    }
}

fn bad_shape(source: silicide_quant::ShapeError) -> Error {
    Error::Device(silicide_core::Error::BadShape { what: "cache", source })
}
