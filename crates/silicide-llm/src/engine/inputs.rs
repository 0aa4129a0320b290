//! What one pass reads: token ids, the first position, angles, and slots of the rings.

use crate::cache::KvCache;
use crate::error::{Error, Result};
use crate::model::{Description, LayerCache, Pass};
use silicide::kernel::TensorInfo;
use silicide::{Buffer, DType, Device, Estimated, Shape};

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
        let mut capacities: Vec<usize> = cache.rings().iter().map(|ring| ring.capacity).collect();
        capacities.sort_unstable();
        capacities.dedup();
        let slots = capacities.into_iter().map(|capacity| Ok((capacity, numbers(count)?)));
        Ok(Inputs {
            count,
            tokens: numbers(count)?,
            start: numbers(1)?,
            ropes: ropes.collect::<silicide::Result<_>>()?,
            slots: slots.collect::<silicide::Result<_>>()?,
            outputs: (outputs < count).then(|| numbers(outputs)).transpose()?,
        })
    }

    /// Whether these are for such a span.
    pub(super) fn suit(&self, span: &Span<'_>) -> bool {
        let outputs = self.outputs.as_ref().map_or(self.count, Buffer::elements);
        (self.count, outputs) == (span.tokens.len(), span.outputs)
    }

    /// Writes a span's numbers.
    pub(super) fn fill(&self, model: &Description, span: &Span<'_>) -> Result<()> {
        let start = position(span.start)?;
        let positions = || (start..).take(self.count);
        self.tokens.copy_in(span.tokens)?;
        self.start.copy_in(&[start])?;
        let mut table = Vec::new();
        for (rope, buffer) in model.ropes.iter().zip(&self.ropes) {
            table.clear();
            rope.table(positions(), &mut table);
            buffer.copy_in(&table)?;
        }
        for (capacity, buffer) in &self.slots {
            let capacity = position(*capacity)?.max(1);
            let slots: Vec<u32> = positions().map(|position| position % capacity).collect();
            buffer.copy_in(&slots)?;
        }
        if let Some(buffer) = &self.outputs {
            let last: Vec<u32> = (position(self.count - span.outputs)?..).take(span.outputs).collect();
            buffer.copy_in(&last)?;
        }
        Ok(())
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

/// A pass that is not there, to count what it would take; with the bytes of its inputs.
pub(super) fn estimated(
    model: &Description,
    options: &crate::cache::CacheOptions,
    (count, outputs): (usize, usize),
) -> Result<(Pass<Estimated>, u64)> {
    let mut bytes = 0;
    let mut input = |dtype: DType, axes: &[usize]| {
        let info = info(dtype, axes)?;
        bytes += info.bytes() as u64;
        Ok::<_, Error>(Estimated::outside(info))
    };
    let ropes: Result<Vec<Estimated>> =
        model.ropes.iter().map(|rope| input(DType::F32, &[count, rope.pairs(), 2])).collect();
    let (tokens, start) = (input(DType::U32, &[count])?, input(DType::U32, &[1])?);
    let slots = input(DType::U32, &[count])?;
    let wanted = if outputs < count { Some(input(DType::U32, &[outputs])?) } else { None };
    let caches = model.layers.iter().map(|kind| {
        let [keys, values] =
            options.tensors(model, kind)?.map(|(dtype, shape)| TensorInfo::new(dtype, shape));
        let slots = slots.clone();
        Ok(LayerCache { keys: Estimated::outside(keys), values: Estimated::outside(values), slots })
    });
    let caches = caches.collect::<Result<_>>()?;
    let limit = position(options.context)?;
    Ok((Pass { count, tokens, start, limit, ropes: ropes?, caches, outputs: wanted }, bytes))
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
