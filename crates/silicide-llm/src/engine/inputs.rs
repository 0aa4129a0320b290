//! The inputs that differ from pass to pass: token ids, angles, slots of the rings, work lists of attention, and the rows that have
//! logits. They are parameters of a captured pass; [`declare`] names them, and [`PassInputs::set`] computes them.

use super::passes::{CapturedPass, PassClass};
use crate::cache::CacheOptions;
use crate::error::{Error, Result};
use crate::model::{Description, ForwardInputs, LayerCache, LayerKind, PassExtent, PassRecorder, PassValue};
use silicide_core::kernel::TensorInfo;
use silicide_ops::attention::{ENTRY_WORDS, Visibility, WorkList};
use silicide_quant::{DType, Element, Shape};

/// A slot of no ring. A row that is not live is written nowhere.
const NO_SLOT: u32 = u32::MAX;

/// The tokens of one pass, and the number of its logits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub(super) tokens: &'a [u32],
    /// The position of the first token.
    pub(super) start: usize,
    /// The number of last tokens that have logits; at least 1.
    pub(super) outputs: usize,
}

impl Span<'_> {
    /// The position after the last token.
    pub(super) fn end(&self) -> usize {
        self.start + self.tokens.len()
    }
}

/// The parameters and extents of a pass. Parameters are numbers of [`PassRecorder::parameter`].
#[derive(Clone, Debug)]
pub(super) struct PassParameters {
    rows: PassExtent,
    outputs: PassExtent,
    tokens: usize,
    /// A table for each kind of rotation.
    angles: Vec<usize>,
    /// Slots of the tokens in rings of each capacity.
    slots: Vec<(usize, usize)>,
    /// Which keys the tokens see, for layers of each visibility.
    work: Vec<WorkParameter>,
    /// Rows that have logits; `None` in passes of one row.
    output_rows: Option<usize>,
}

/// The work list of layers with the same window on the same device.
#[derive(Clone, Copy, Debug)]
struct WorkParameter {
    seen: Visibility,
    /// The number of the device.
    device: usize,
    /// The entries of the list, where they are more than the rows.
    entries: Option<PassExtent>,
    list: usize,
}

/// Declares the inputs of a pass of `class`: parameters, then keys and values of each layer.
pub(super) fn declare(
    pass: &mut PassRecorder,
    model: &Description,
    options: &CacheOptions,
    class: PassClass,
) -> Result<(PassParameters, ForwardInputs<PassValue>)> {
    let (count, placement) = (class.rows, &model.placement);
    let rows = pass.extent("rows", count);
    let outputs = pass.extent("outputs", class.outputs);
    let (tokens, token_values) = pass.parameter("tokens", info(DType::U32, &[count])?, rows);
    let (mut angles, mut ropes) = (Vec::new(), Vec::new());
    for rope in &model.ropes {
        let info = info(DType::F32, &[count, rope.pairs(), 2])?;
        let (parameter, value) = pass.parameter("angles", info, rows);
        angles.push(parameter);
        ropes.push(value);
    }
    let layers = model.layers.iter().enumerate().map(|(layer, kind)| {
        let device = placement.of_layer(layer);
        Ok((device, placement.device(device)?, kind, options.of_layer(model, layer)?))
    });
    let layers = layers.collect::<Result<Vec<_>>>()?;
    let (mut slots, mut slot_values) = (Vec::new(), Vec::new());
    for capacity in capacities(layers.iter().map(|(_, _, kind, options)| options.capacity(kind))) {
        let (parameter, value) = pass.parameter("slots", info(DType::U32, &[count])?, rows);
        slots.push((capacity, parameter));
        slot_values.push((capacity, value));
    }
    let (mut work, mut lists) = (Vec::<WorkParameter>::new(), Vec::new());
    for &(device, on, kind, ref options) in &layers {
        let seen = visibility(kind, options);
        if work.iter().any(|known| (known.seen, known.device) == (seen, device)) {
            continue;
        }
        let most = WorkList::most_entries(&seen, count, on.info());
        let entries = if most > count { Some(pass.extent("work", most)) } else { None };
        let info = info(DType::U32, &[most, ENTRY_WORDS])?;
        let (list, value) = pass.parameter("work", info, entries.unwrap_or(rows));
        work.push(WorkParameter { seen, device, entries, list });
        lists.push(value);
    }
    let output_rows = match count {
        1 => None,
        _ => Some(pass.parameter("outputs", info(DType::U32, &[class.outputs])?, outputs)),
    };
    let mut caches = Vec::new();
    for &(device, on, kind, ref options) in &layers {
        let [keys, values] =
            options.tensors(model, kind)?.map(|(dtype, shape)| TensorInfo::new(dtype, shape));
        let slots = slot_values.iter().find(|(capacity, _)| *capacity == options.capacity(kind));
        let seen = visibility(kind, options);
        let list = work.iter().position(|known| (known.seen, known.device) == (seen, device));
        let (keys, values) = (pass.input("keys", keys, on), pass.input("values", values, on));
        let both = slots.zip(list.and_then(|list| lists.get(list)));
        let (&(_, slots), &work) =
            both.ok_or_else(|| Error::missing("the slots or the work list of a layer"))?;
        caches.push(LayerCache { keys, values, slots, work, rotated: options.rotated(model)? });
    }
    let values = ForwardInputs {
        count,
        tokens: token_values,
        ropes,
        caches,
        outputs: output_rows.as_ref().map(|(_, value)| *value),
    };
    let output_rows = output_rows.map(|(parameter, _)| parameter);
    Ok((PassParameters { rows, outputs, tokens, angles, slots, work, output_rows }, values))
}

/// The inputs of a pass over a span, one after the other. It keeps its vectors, so that later passes allocate nothing.
#[derive(Debug)]
pub(super) struct PassInputs {
    angles: Vec<f32>,
    words: Vec<u32>,
    /// A list for each of [`PassParameters::work`].
    lists: Vec<WorkList>,
}

/// Receives the inputs of a pass.
pub(super) trait InputSink {
    /// Sets an extent.
    fn set_extent(&mut self, extent: PassExtent, rows: usize) -> Result<()>;

    /// Sets a parameter, by its number.
    fn set<T: Element>(&mut self, parameter: usize, values: &[T]) -> Result<()>;
}

impl PassInputs {
    /// The inputs of a pass with these parameters.
    pub(super) fn new(model: &Description, parameters: &PassParameters) -> Result<PassInputs> {
        let list = |work: &WorkParameter| {
            let device = model.placement.device(work.device)?;
            Ok(WorkList::new(work.seen.capacity, device.info()))
        };
        let lists = parameters.work.iter().map(list).collect::<Result<_>>()?;
        Ok(PassInputs { angles: Vec::new(), words: Vec::new(), lists })
    }

    /// Sets the inputs of a captured pass over `span`.
    pub(super) fn set(
        &mut self,
        model: &Description,
        captured: &CapturedPass,
        span: &Span<'_>,
        sink: &mut impl InputSink,
    ) -> Result<()> {
        let PassInputs { angles, words, lists } = self;
        let CapturedPass { class, parameters, .. } = captured;
        let (start, count) = (position(span.start)?, span.tokens.len());
        let positions = || (start..).take(count);
        sink.set_extent(parameters.rows, count)?;
        sink.set_extent(parameters.outputs, span.outputs)?;
        sink.set(parameters.tokens, span.tokens)?;
        for (work, list) in parameters.work.iter().zip(lists) {
            list.set(work.seen.ranges(span.start, count))?;
            let entries = match work.entries {
                Some(extent) => {
                    sink.set_extent(extent, list.entries())?;
                    list.entries()
                }
                None => count,
            };
            let words = list.words().get(..entries * ENTRY_WORDS);
            sink.set(work.list, words.ok_or_else(|| Error::missing("an entry of a work list"))?)?;
        }
        for (rope, parameter) in model.ropes.iter().zip(&parameters.angles) {
            angles.clear();
            rope.table(positions(), angles);
            sink.set(*parameter, angles)?;
        }
        for &(capacity, parameter) in &parameters.slots {
            let capacity = position(capacity)?.max(1);
            words.clear();
            words.extend(positions().map(|position| position % capacity));
            words.resize(class.rows, NO_SLOT);
            sink.set(parameter, words)?;
        }
        if let Some(parameter) = parameters.output_rows {
            words.clear();
            words.extend((position(count - span.outputs)?..).take(span.outputs));
            sink.set(parameter, words)?;
        }
        Ok(())
    }
}

/// The keys that the queries of a layer see.
fn visibility(kind: &LayerKind, options: &CacheOptions) -> Visibility {
    Visibility { causal: true, window: kind.window, capacity: options.capacity(kind) }
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
