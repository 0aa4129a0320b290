//! The inputs that differ from pass to pass: token ids, angles, slots of the rings, work lists of attention, and the rows that have
//! logits. They are parameters of a captured pass; [`declare`] names them, and [`BoundPass::set`] computes them.

use super::passes::{CapturedPass, PassClass};
use crate::cache::{CacheOptions, KvCache};
use crate::error::{Error, Result};
use crate::model::{Description, ForwardInputs, LayerCache, LayerKind};
use silicide_core::Recorder;
use silicide_core::kernel::TensorInfo;
use silicide_core::profile::ProfiledCall;
use silicide_core::{
    Buffer, GraphArena, GraphBuilder, GraphSession, GraphValue, LiveExtent, Parameter, Submission,
};
use silicide_ops::attention::{ENTRY_WORDS, Visibility, WorkList};
use silicide_quant::{DType, Shape};

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

/// The parameters and extents of a captured pass.
#[derive(Clone, Debug)]
pub(super) struct PassParameters {
    rows: LiveExtent,
    outputs: LiveExtent,
    tokens: Parameter,
    /// A table for each kind of rotation.
    angles: Vec<Parameter>,
    /// Slots of the tokens in rings of each capacity.
    slots: Vec<(usize, Parameter)>,
    /// Which keys the tokens see, for layers of each visibility.
    work: Vec<WorkParameter>,
    /// Rows that have logits; `None` in passes of one row.
    output_rows: Option<Parameter>,
}

/// The work list of layers with the same window.
#[derive(Clone, Copy, Debug)]
struct WorkParameter {
    seen: Visibility,
    /// The entries of the list, where they are more than the rows.
    entries: Option<LiveExtent>,
    list: Parameter,
}

/// Declares the inputs of a pass of `class`: parameters, then keys and values of each layer.
pub(super) fn declare(
    builder: &mut GraphBuilder,
    model: &Description,
    options: &CacheOptions,
    class: PassClass,
) -> Result<(PassParameters, ForwardInputs<GraphValue>)> {
    let count = class.rows;
    let rows = builder.extent("rows", count)?;
    let outputs = builder.extent("outputs", class.outputs)?;
    let (tokens, token_values) = builder.live_parameter("tokens", info(DType::U32, &[count])?, rows)?;
    let (mut angles, mut ropes) = (Vec::new(), Vec::new());
    for rope in &model.ropes {
        let info = info(DType::F32, &[count, rope.pairs(), 2])?;
        let (parameter, value) = builder.live_parameter("angles", info, rows)?;
        angles.push(parameter);
        ropes.push(value);
    }
    let (mut slots, mut slot_values) = (Vec::new(), Vec::new());
    for capacity in capacities(model.layers.iter().map(|kind| options.capacity(kind))) {
        let (parameter, value) = builder.live_parameter("slots", info(DType::U32, &[count])?, rows)?;
        slots.push((capacity, parameter));
        slot_values.push((capacity, value));
    }
    let (mut work, mut lists) = (Vec::<WorkParameter>::new(), Vec::new());
    for kind in &model.layers {
        let seen = visibility(kind, options);
        if work.iter().any(|known| known.seen == seen) {
            continue;
        }
        let most = WorkList::most_entries(&seen, count, builder.device().info());
        let entries = if most > count { Some(builder.extent("work", most)?) } else { None };
        let info = info(DType::U32, &[most, ENTRY_WORDS])?;
        let (list, value) = builder.live_parameter("work", info, entries.unwrap_or(rows))?;
        work.push(WorkParameter { seen, entries, list });
        lists.push((seen, value));
    }
    let output_rows = match count {
        1 => None,
        _ => Some(builder.live_parameter("outputs", info(DType::U32, &[class.outputs])?, outputs)?),
    };
    let mut caches = Vec::new();
    for kind in &model.layers {
        let [keys, values] =
            options.tensors(model, kind)?.map(|(dtype, shape)| TensorInfo::new(dtype, shape));
        let slots = slot_values.iter().find(|(capacity, _)| *capacity == options.capacity(kind));
        let (keys, values) = (builder.input("keys", keys), builder.input("values", values));
        let work = lists.iter().find(|(seen, _)| *seen == visibility(kind, options));
        let both = slots.zip(work);
        caches.extend(both.map(|((_, slots), (_, work))| LayerCache {
            keys,
            values,
            slots: *slots,
            work: *work,
        }));
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

/// A captured pass over a session's cache. It keeps its vectors, so that later passes allocate nothing.
#[derive(Debug)]
pub(super) struct BoundPass {
    captured: CapturedPass,
    graph: GraphSession,
    angles: Vec<f32>,
    words: Vec<u32>,
    /// A list for each of [`PassParameters::work`].
    lists: Vec<WorkList>,
}

impl BoundPass {
    /// Binds a captured pass to a cache and an arena.
    pub(super) fn new(captured: &CapturedPass, arena: &GraphArena, cache: &KvCache) -> Result<BoundPass> {
        let graph = captured.executor.session_in(arena, &cache.buffers().collect::<Vec<_>>())?;
        let info = captured.executor.graph().device().info();
        let list = |work: &WorkParameter| WorkList::new(work.seen.capacity, info);
        let lists = captured.parameters.work.iter().map(list).collect();
        Ok(BoundPass { captured: captured.clone(), graph, angles: Vec::new(), words: Vec::new(), lists })
    }

    /// The class of the pass.
    pub(super) fn class(&self) -> PassClass {
        self.captured.class
    }

    /// Returns the calls of the pass at its present extents, for profiles.
    pub(super) fn calls(&self) -> Result<Vec<ProfiledCall>> {
        Ok(self.graph.calls()?)
    }

    /// Sets the inputs of the pass over `span`.
    pub(super) fn set(&mut self, model: &Description, span: &Span<'_>) -> Result<()> {
        let BoundPass { captured, graph, angles, words, lists } = self;
        let CapturedPass { class, parameters, .. } = &*captured;
        let (start, count) = (position(span.start)?, span.tokens.len());
        let positions = || (start..).take(count);
        graph.set_extent(parameters.rows, count)?;
        graph.set_extent(parameters.outputs, span.outputs)?;
        graph.set(parameters.tokens, span.tokens)?;
        for (work, list) in parameters.work.iter().zip(lists) {
            list.set(work.seen.ranges(span.start, count))?;
            let entries = match work.entries {
                Some(extent) => {
                    graph.set_extent(extent, list.entries())?;
                    list.entries()
                }
                None => count,
            };
            graph.set(work.list, list.words().get(..entries * ENTRY_WORDS).unwrap_or_default())?;
        }
        for (rope, parameter) in model.ropes.iter().zip(&parameters.angles) {
            angles.clear();
            rope.table(positions(), angles);
            graph.set(*parameter, angles)?;
        }
        for &(capacity, parameter) in &parameters.slots {
            let capacity = position(capacity)?.max(1);
            words.clear();
            words.extend(positions().map(|position| position % capacity));
            words.resize(class.rows, NO_SLOT);
            graph.set(parameter, words)?;
        }
        if let Some(parameter) = parameters.output_rows {
            words.clear();
            words.extend((position(count - span.outputs)?..).take(span.outputs));
            graph.set(parameter, words)?;
        }
        Ok(())
    }

    /// Runs the pass over the values that were set.
    pub(super) fn replay(&mut self) -> Result<Submission> {
        Ok(self.graph.replay()?)
    }

    /// The logits of the last pass, `[outputs, vocabulary]`; those behind the outputs that were set are unspecified.
    pub(super) fn logits(&self) -> Option<Buffer> {
        self.graph.output(0).cloned()
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
