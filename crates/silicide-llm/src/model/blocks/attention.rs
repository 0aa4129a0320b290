//! The attention part of a layer: projections, head norms, RoPE, KV cache, attention.

use super::{Linear, Norm};
use crate::error::{Error, Result};
use crate::model::{ForwardInputs, Tensors};
use silicide_core::Recorder;
use silicide_ops as ops;
use silicide_ops::attention::AttentionInputs;
use silicide_ops::rope::RopeStyle;
use silicide_quant::Shape;

/// The options in which architectures and layers differ.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions {
    /// Which elements of a head rotate together.
    pub style: RopeStyle,
    /// The index of the pass's table of angles.
    pub rope: usize,
    /// Whether the file must have biases of queries, keys and values. Otherwise they are read if it has them.
    pub qkv_bias: bool,
    /// Whether queries and keys are normalised head by head before they are rotated.
    pub head_norms: bool,
}

/// Attention over the layer's cache.
#[derive(Clone, Debug)]
pub struct Attention {
    layer: usize,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    norms: Option<(Norm, Norm)>,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    value_dim: usize,
    scale: f32,
    options: AttentionOptions,
}

impl Attention {
    /// Loads the attention of layer `layer`.
    pub fn load(tensors: &mut Tensors<'_>, layer: usize, options: AttentionOptions) -> Result<Attention> {
        let config = tensors.config().clone();
        let (heads, kv_heads) = (config.heads, config.kv_heads);
        let (head_dim, value_dim, hidden) = (config.head_dim, config.value_dim, config.hidden);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let projection = match options.qkv_bias {
            true => Linear::load_biased,
            false => Linear::load,
        };
        let query = projection(tensors, &name("attn_q"), [heads * head_dim, hidden])?;
        let key = projection(tensors, &name("attn_k"), [kv_heads * head_dim, hidden])?;
        let value = projection(tensors, &name("attn_v"), [kv_heads * value_dim, hidden])?;
        let output = Linear::load(tensors, &name("attn_output"), [hidden, heads * value_dim])?;
        let norms = match options.head_norms {
            true => Some((
                Norm::load(tensors, &name("attn_q_norm"), head_dim)?,
                Norm::load(tensors, &name("attn_k_norm"), head_dim)?,
            )),
            false => None,
        };
        let scale = config.scale();
        Ok(Attention {
            layer,
            query,
            key,
            value,
            output,
            norms,
            heads,
            kv_heads,
            head_dim,
            value_dim,
            scale,
            options,
        })
    }

    /// Records attention: writes the keys and values of `x` to the cache, and attends over the cache.
    pub fn apply<R: Recorder>(
        &self,
        recorder: &mut R,
        x: &R::Value,
        inputs: &ForwardInputs<R::Value>,
    ) -> Result<R::Value> {
        let Some((cache, table)) = inputs.caches.get(self.layer).zip(inputs.ropes.get(self.options.rope))
        else {
            let got = format!("{} caches, {} tables", inputs.caches.len(), inputs.ropes.len());
            let expected = format!("layer {} and table {}", self.layer, self.options.rope);
            return Err(Error::BadOption { option: "pass", expected, got });
        };
        let query = self.query.apply(recorder, x)?;
        let key = self.key.apply(recorder, x)?;
        let value = self.value.apply(recorder, x)?;
        let mut query = recorder.reshape(&query, self.shape(inputs, self.heads, self.head_dim)?)?;
        let mut key = recorder.reshape(&key, self.shape(inputs, self.kv_heads, self.head_dim)?)?;
        let mut value = recorder.reshape(&value, self.shape(inputs, self.kv_heads, self.value_dim)?)?;
        if let Some((query_norm, key_norm)) = &self.norms {
            query = query_norm.apply(recorder, &query)?;
            key = key_norm.apply(recorder, &key)?;
        }
        let mut query = ops::rope(recorder, &query, table, self.options.style)?;
        let mut key = ops::rope(recorder, &key, table, self.options.style)?;
        let [has_rotated_keys, has_rotated_values] = cache.rotated;
        if has_rotated_keys {
            query = ops::hadamard(recorder, &query)?;
            key = ops::hadamard(recorder, &key)?;
        }
        if has_rotated_values {
            value = ops::hadamard(recorder, &value)?;
        }
        ops::cache_write(recorder, &key, &cache.slots, &cache.keys)?;
        ops::cache_write(recorder, &value, &cache.slots, &cache.values)?;
        let attention = ops::attention::Attention { scale: self.scale, softcap: None };
        let operands =
            AttentionInputs { q: &query, k: &cache.keys, v: &cache.values, work: &cache.work, sinks: None };
        let mut y = ops::attention(recorder, attention, &operands)?;
        if has_rotated_values {
            y = ops::hadamard_inverse(recorder, &y)?;
        }
        let joined = Shape::new(&[inputs.count, self.heads * self.value_dim]).map_err(bad_shape)?;
        let y = recorder.reshape(&y, joined)?;
        self.output.apply(recorder, &y)
    }

    fn shape<V>(&self, inputs: &ForwardInputs<V>, heads: usize, dim: usize) -> Result<Shape> {
        Shape::new(&[inputs.count, heads, dim]).map_err(bad_shape)
    }
}

fn bad_shape(source: silicide_quant::ShapeError) -> Error {
    Error::Device(silicide_core::Error::BadShape { what: "attention", source })
}
