//! The inputs that differ from pass to pass: token ids, the first position, angles, slots of the rings, and the rows that
//! have logits. Captured passes have them as parameters of their graph, recorded ones as buffers; [`outline`] names them for both,
//! and [`Numbers::fill`] computes them for both, in the same order.

use crate::cache::{CacheOptions, KvCache};
use crate::error::{Error, Result};
use crate::model::{Description, ForwardInputs, LayerCache};
use silicide_core::kernel::TensorInfo;
use silicide_core::{Buffer, Device, GraphExecutor, GraphSession, Parameter, Submission};
use silicide_quant::{DType, Shape};

/// The size of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PassExtents {
    pub(super) tokens: usize,
    /// The number of last tokens that have logits; at least 1.
    pub(super) outputs: usize,
    /// The number of positions that the pass can see.
    pub(super) limit: usize,
}

/// The tokens of one pass, and the number of its logits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub(super) tokens: &'a [u32],
    /// The position of the first token.
    pub(super) start: usize,
    /// The number of last tokens that have logits; at least 1.
    pub(super) outputs: usize,
    /// The number of positions that the pass can see.
    pub(super) limit: usize,
}

/// One input of a pass.
enum Values<'a> {
    Words(&'a [u32]),
    Floats(&'a [f32]),
}

/// Computes inputs. It keeps its vectors, so that later passes allocate nothing.
#[derive(Debug)]
struct Numbers {
    /// The capacities of the rings.
    capacities: Vec<usize>,
    angles: Vec<f32>,
    words: Vec<u32>,
}

impl Numbers {
    fn new(cache: &KvCache) -> Numbers {
        let capacities = capacities(cache.rings().iter().map(|ring| ring.capacity));
        Numbers { capacities, angles: Vec::new(), words: Vec::new() }
    }

    /// Hands the inputs of a span to `put`, in the order of [`outline`].
    fn fill(
        &mut self,
        model: &Description,
        span: &Span<'_>,
        mut put: impl FnMut(usize, Values<'_>) -> silicide_core::Result<()>,
    ) -> Result<()> {
        let (start, count) = (position(span.start)?, span.tokens.len());
        let positions = || (start..).take(count);
        let mut next = 0;
        let mut put = |values: Values<'_>| {
            next += 1;
            put(next - 1, values)
        };
        put(Values::Words(span.tokens))?;
        put(Values::Words(&[start]))?;
        for rope in &model.ropes {
            self.angles.clear();
            rope.table(positions(), &mut self.angles);
            put(Values::Floats(&self.angles))?;
        }
        for &capacity in &self.capacities {
            let capacity = position(capacity)?.max(1);
            self.words.clear();
            self.words.extend(positions().map(|position| position % capacity));
            put(Values::Words(&self.words))?;
        }
        if span.outputs < count {
            self.words.clear();
            self.words.extend((position(count - span.outputs)?..).take(span.outputs));
            put(Values::Words(&self.words))?;
        }
        Ok(())
    }
}

/// A pass over buffers, kept for later passes of as many tokens and logits.
#[derive(Debug)]
pub(super) struct Inputs {
    pass: ForwardInputs<Buffer>,
    /// Those that differ from pass to pass.
    buffers: Vec<Buffer>,
    outputs: usize,
    numbers: Numbers,
}

impl Inputs {
    /// Allocates the input buffers of a pass. `extents.limit` has no effect: [`Inputs::fill`] sets the limit.
    pub(super) fn new(
        device: &Device,
        model: &Description,
        options: &CacheOptions,
        cache: &KvCache,
        extents: PassExtents,
    ) -> Result<Inputs> {
        let mut buffers = Vec::new();
        let mut rings = cache.buffers();
        let make = |role: InputRole, _: &'static str, info: TensorInfo| match role {
            InputRole::Cache => {
                rings.next().cloned().ok_or(Error::Device(silicide_core::Error::ZeroSize { what: "cache" }))
            }
            InputRole::Input => {
                let buffer = Buffer::new(device, info.dtype, info.shape)?;
                buffers.push(buffer.clone());
                Ok(buffer)
            }
        };
        let pass = outline(model, options, extents, make)?;
        Ok(Inputs { pass, buffers, outputs: extents.outputs, numbers: Numbers::new(cache) })
    }

    /// Returns whether these buffers have the size that `span` needs.
    pub(super) fn suit(&self, span: &Span<'_>) -> bool {
        (self.pass.count, self.outputs) == (span.tokens.len(), span.outputs)
    }

    /// Writes the inputs of `span` and returns the pass over them.
    pub(super) fn fill(&mut self, model: &Description, span: &Span<'_>) -> Result<&ForwardInputs<Buffer>> {
        let buffers = &self.buffers;
        self.numbers.fill(model, span, |index, values| match (buffers.get(index), values) {
            (Some(buffer), Values::Words(words)) => buffer.copy_in(words),
            (Some(buffer), Values::Floats(floats)) => buffer.copy_in(floats),
            (None, _) => Ok(()),
        })?;
        self.pass.limit = position(span.limit)?;
        Ok(&self.pass)
    }
}

/// A captured pass over a session's cache.
#[derive(Debug)]
pub(super) struct Replayed {
    graph: GraphSession,
    parameters: Vec<Parameter>,
    numbers: Numbers,
}

impl Replayed {
    /// Binds a pass that was captured over [`outline`] to a cache.
    pub(super) fn new(executor: &GraphExecutor, cache: &KvCache) -> Result<Replayed> {
        let graph = executor.session(&cache.buffers().collect::<Vec<_>>())?;
        let parameters = executor.graph().parameters().map(|(parameter, ..)| parameter).collect();
        Ok(Replayed { graph, parameters, numbers: Numbers::new(cache) })
    }

    /// Sets what the pass over a span reads.
    pub(super) fn set(&mut self, model: &Description, span: &Span<'_>) -> Result<()> {
        let Replayed { graph, parameters, numbers } = self;
        numbers.fill(model, span, |index, values| match (parameters.get(index), values) {
            (Some(parameter), Values::Words(words)) => graph.set(*parameter, words),
            (Some(parameter), Values::Floats(floats)) => graph.set(*parameter, floats),
            (None, _) => Ok(()),
        })
    }

    /// Runs the pass over what was set.
    pub(super) fn replay(&mut self) -> Result<Submission> {
        Ok(self.graph.replay()?)
    }

    /// The logits of the last pass.
    pub(super) fn logits(&self) -> Option<Buffer> {
        self.graph.output(0).cloned()
    }
}

/// The use of a value in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputRole {
    /// Differs from pass to pass.
    Input,
    /// Keys or values of a layer.
    Cache,
}

/// Returns a pass over values that `make` creates: inputs in the order of [`Numbers::fill`], then keys and values of each layer.
pub(super) fn outline<V: Clone>(
    model: &Description,
    options: &CacheOptions,
    extents: PassExtents,
    mut make: impl FnMut(InputRole, &'static str, TensorInfo) -> Result<V>,
) -> Result<ForwardInputs<V>> {
    let PassExtents { tokens: count, outputs, limit } = extents;
    let mut input = |name: &'static str, dtype: DType, axes: &[usize]| {
        info(dtype, axes).and_then(|info| make(InputRole::Input, name, info))
    };
    let tokens = input("tokens", DType::U32, &[count])?;
    let start = input("start", DType::U32, &[1])?;
    let ropes = model.ropes.iter().map(|rope| input("angles", DType::F32, &[count, rope.pairs(), 2]));
    let ropes = ropes.collect::<Result<Vec<V>>>()?;
    let capacities = capacities(model.layers.iter().map(|kind| options.capacity(kind)));
    let slots =
        capacities.iter().map(|_| input("slots", DType::U32, &[count])).collect::<Result<Vec<V>>>()?;
    let rows = if outputs < count { Some(input("outputs", DType::U32, &[outputs])?) } else { None };
    let mut caches = Vec::new();
    for kind in &model.layers {
        let [keys, values] =
            options.tensors(model, kind)?.map(|(dtype, shape)| TensorInfo::new(dtype, shape));
        let slots = capacities.iter().zip(&slots).find(|(capacity, _)| **capacity == options.capacity(kind));
        let (keys, values) =
            (make(InputRole::Cache, "keys", keys)?, make(InputRole::Cache, "values", values)?);
        caches.extend(slots.map(|(_, slots)| LayerCache { keys, values, slots: slots.clone() }));
    }
    Ok(ForwardInputs { count, tokens, start, limit: position(limit)?, ropes, caches, outputs: rows })
}

/// Different capacities, in order.
fn capacities(all: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut capacities: Vec<usize> = all.collect();
    capacities.sort_unstable();
    capacities.dedup();
    capacities
}

fn info(dtype: DType, axes: &[usize]) -> Result<TensorInfo> {
    let shape = Shape::new(axes)
        .map_err(|source| Error::Device(silicide_core::Error::BadShape { what: "pass", source }))?;
    Ok(TensorInfo::new(dtype, shape))
}

/// A position as devices have it.
fn position(position: usize) -> Result<u32> {
    u32::try_from(position).map_err(|_| Error::BadOption {
        option: "ctx-size",
        expected: format!("at most {} tokens", u32::MAX),
        got: position.to_string(),
    })
}
