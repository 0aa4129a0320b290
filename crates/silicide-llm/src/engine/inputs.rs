//! What one pass reads: token ids, the first position, angles, and slots of the rings.

use crate::cache::KvCache;
use crate::error::{Error, Result};
use crate::model::{Description, LayerCache, Pass};
use silicide::kernel::TensorInfo;
use silicide::{Buffer, DType, Device, Shape};

/// Input buffers for passes of one number of tokens, kept from pass to pass.
#[derive(Debug)]
pub(super) struct Inputs {
    count: usize,
    tokens: Buffer,
    start: Buffer,
    ropes: Vec<Buffer>,
    /// One for each capacity of a ring.
    slots: Vec<(usize, Buffer)>,
    outputs: Option<Buffer>,
    /// For one table of angles, and for one row of numbers: filling in allocates nothing after the first time.
    angles: Vec<f32>,
    numbers: Vec<u32>,
}

/// Which tokens of a pass, how many logits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub(super) tokens: &'a [u32],
    /// The position of the first.
    pub(super) start: usize,
    /// The last so many give logits; at least one does.
    pub(super) outputs: usize,
    /// No position is beyond this.
    pub(super) limit: usize,
}

impl Inputs {
    /// Buffers for `count` tokens of which the last `outputs` give logits.
    pub(super) fn new(
        device: &Device,
        model: &Description,
        cache: &KvCache,
        (count, outputs): (usize, usize),
    ) -> Result<Inputs> {
        let numbers = |length: usize| Buffer::new(device, DType::U32, [length]);
        let ropes = model.ropes.iter().map(|rope| Buffer::new(device, DType::F32, [count, rope.pairs(), 2]));
        let slots = capacities(cache.rings().iter().map(|ring| ring.capacity))
            .into_iter()
            .map(|capacity| Ok((capacity, numbers(count)?)));
        Ok(Inputs {
            count,
            tokens: numbers(count)?,
            start: numbers(1)?,
            ropes: ropes.collect::<silicide::Result<_>>()?,
            slots: slots.collect::<silicide::Result<_>>()?,
            outputs: (outputs < count).then(|| numbers(outputs)).transpose()?,
            angles: Vec::new(),
            numbers: Vec::new(),
        })
    }

    /// Whether these are for such a span.
    pub(super) fn suit(&self, span: &Span<'_>) -> bool {
        let outputs = self.outputs.as_ref().map_or(self.count, Buffer::elements);
        (self.count, outputs) == (span.tokens.len(), span.outputs)
    }

    /// Writes a span's numbers.
    pub(super) fn fill(&mut self, model: &Description, span: &Span<'_>) -> Result<()> {
        let (start, count) = (position(span.start)?, self.count);
        let positions = || (start..).take(count);
        self.tokens.copy_in(span.tokens)?;
        self.start.copy_in(&[start])?;
        for (rope, buffer) in model.ropes.iter().zip(&self.ropes) {
            self.angles.clear();
            rope.table(positions(), &mut self.angles);
            buffer.copy_in(&self.angles)?;
        }
        for (capacity, buffer) in &self.slots {
            let capacity = position(*capacity)?.max(1);
            self.numbers.clear();
            self.numbers.extend(positions().map(|position| position % capacity));
            buffer.copy_in(&self.numbers)?;
        }
        if let Some(buffer) = &self.outputs {
            self.numbers.clear();
            self.numbers.extend((position(count - span.outputs)?..).take(span.outputs));
            buffer.copy_in(&self.numbers)?;
        }
        Ok(())
    }

    /// All buffers of a pass, in the order of [`outline`].
    pub(super) fn buffers<'a>(&'a self, cache: &'a KvCache) -> Vec<&'a Buffer> {
        let slots = self.slots.iter().map(|(_, slots)| slots);
        let rings = cache.rings().iter().flat_map(|ring| [&ring.keys, &ring.values]);
        [&self.tokens, &self.start]
            .into_iter()
            .chain(&self.ropes)
            .chain(slots)
            .chain(&self.outputs)
            .chain(rings)
            .collect()
    }

    /// The pass over these inputs.
    pub(super) fn pass(&self, cache: &KvCache, limit: usize) -> Result<Pass<Buffer>> {
        let slots = |capacity: usize| self.slots.iter().find(|(other, _)| *other == capacity);
        let caches = cache.rings().iter().filter_map(|ring| {
            let (_, slots) = slots(ring.capacity)?;
            Some(LayerCache { keys: ring.keys.clone(), values: ring.values.clone(), slots: slots.clone() })
        });
        Ok(Pass {
            count: self.count,
            tokens: self.tokens.clone(),
            start: self.start.clone(),
            limit: position(limit)?,
            ropes: self.ropes.clone(),
            caches: caches.collect(),
            outputs: self.outputs.clone(),
        })
    }
}

/// What a pass reads or writes, as something else than a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An input of the pass, of [`Inputs`].
    Input,
    /// Keys or values of a layer.
    Cache,
}

/// A pass over values that `make` makes, in the order of [`Inputs::buffers`].
pub(super) fn outline<V: Clone>(
    model: &Description,
    options: &crate::cache::CacheOptions,
    (count, outputs, limit): (usize, usize, usize),
    mut make: impl FnMut(Role, &'static str, TensorInfo) -> V,
) -> Result<Pass<V>> {
    let mut input = |name: &'static str, dtype: DType, axes: &[usize]| {
        info(dtype, axes).map(|info| make(Role::Input, name, info))
    };
    let tokens = input("tokens", DType::U32, &[count])?;
    let start = input("start", DType::U32, &[1])?;
    let ropes = model.ropes.iter().map(|rope| input("angles", DType::F32, &[count, rope.pairs(), 2]));
    let ropes = ropes.collect::<Result<Vec<V>>>()?;
    let capacities = capacities(model.layers.iter().map(|kind| options.capacity(kind)));
    let slots =
        capacities.iter().map(|_| input("slots", DType::U32, &[count])).collect::<Result<Vec<V>>>()?;
    let wanted = if outputs < count { Some(input("outputs", DType::U32, &[outputs])?) } else { None };
    let mut caches = Vec::new();
    for kind in &model.layers {
        let [keys, values] =
            options.tensors(model, kind)?.map(|(dtype, shape)| TensorInfo::new(dtype, shape));
        let slots = capacities.iter().zip(&slots).find(|(capacity, _)| **capacity == options.capacity(kind));
        let (keys, values) = (make(Role::Cache, "keys", keys), make(Role::Cache, "values", values));
        caches.extend(slots.map(|(_, slots)| LayerCache { keys, values, slots: slots.clone() }));
    }
    Ok(Pass { count, tokens, start, limit: position(limit)?, ropes, caches, outputs: wanted })
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
        .map_err(|source| Error::Device(silicide::Error::BadShape { what: "pass", source }))?;
    Ok(TensorInfo::new(dtype, shape))
}

/// A position as devices have it.
pub(super) fn position(position: usize) -> Result<u32> {
    u32::try_from(position).map_err(|_| Error::BadOption {
        option: "ctx-size",
        expected: format!("at most {} tokens", u32::MAX),
        got: position.to_string(),
    })
}
