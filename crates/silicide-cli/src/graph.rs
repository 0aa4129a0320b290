//! `silicide graph`: the captured pass of a model, as text or as a drawing.

use crate::arguments::{CacheArgs, DeviceArgs, ModelRef, tokens};
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use clap::Args;
use silicide::graph::{GraphExecutor, GraphReport, KernelDispatches};
use silicide_llm::ModelOptions;
use silicide_llm::engine::capture_pass;
use silicide_weights::Source;
use std::io::Write;
use std::ops::Range;

/// Show the captured graph of a pass: ops, kernels, barriers, memory
///
/// Prints the ops of a layer, and counts of commands, barriers and memory of the whole pass. Weights are not loaded:
/// the file is read for names and shapes only.
#[derive(Debug, Args)]
#[command(override_usage = "silicide graph [OPTIONS] <MODEL>")]
#[command(after_help = "Examples:
  silicide graph smollm2
  silicide graph smollm2 --layer 0 --dot | dot -Tsvg > layer.svg
  silicide graph smollm2 --dispatches --device vulkan
  silicide graph smollm2 -ctk tq4 -ctv tq3
  silicide graph model.gguf -n 16 --all --isa portable")]
pub(crate) struct Graph {
    #[command(flatten)]
    model: ModelRef,
    /// Tokens in the pass, from 1 to the context size
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N", help_heading = "Graph")]
    tokens: usize,
    /// Context size in tokens; 0: the context that the model was trained on [default: that, at most 4096]
    #[arg(short, long, value_name = "N", value_parser = tokens, allow_negative_numbers = true, help_heading = "Graph")]
    ctx_size: Option<usize>,
    #[command(flatten)]
    cache: CacheArgs,
    /// The layer to show, counted from 0
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Graph")]
    layer: usize,
    /// Show all layers
    #[arg(long, conflicts_with = "layer", help_heading = "Graph")]
    all: bool,
    /// Print a drawing for Graphviz instead of text
    #[arg(long, help_heading = "Graph")]
    dot: bool,
    /// Print the dispatches of the pass by kernel, and its barriers, instead of ops
    #[arg(long, conflicts_with_all = ["dot", "layer", "all"], help_heading = "Graph")]
    dispatches: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Graph {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let source = Source::open(self.model.path(&cancel_on_interrupt())?)?;
        let mut options = ModelOptions::default();
        options.context = self.ctx_size;
        self.cache.choose(&mut options);
        self.device.choose(&mut options)?;
        let segments = capture_pass(&source, &options, self.tokens)?;
        if self.dispatches {
            return segments.iter().try_for_each(|segment| print_dispatches(segment, segments.len()));
        }
        let nodes = match self.all {
            true => segments.iter().map(|segment| 0..segment.graph().nodes().len()).collect(),
            false => layer(&segments, self.layer)?,
        };
        let mut out = std::io::stdout().lock();
        for (number, (executor, nodes)) in segments.iter().zip(nodes).enumerate() {
            let graph = executor.graph();
            if nodes.is_empty() {
                continue;
            }
            if self.dot {
                out.write_all(graph.dot(nodes).as_bytes())?;
                continue;
            }
            if segments.len() > 1 {
                let (count, id) = (segments.len(), &graph.device().info().id);
                writeln!(out, "segment {} of {count}, on {id}", number + 1)?;
            }
            writeln!(out, "{}{}\n{}", graph.parameter_text(), graph.text(nodes), executor.report())?;
        }
        Ok(())
    }
}

/// Prints how often a replay dispatches each kernel, and the sums, of one of `segments` segments.
fn print_dispatches(executor: &GraphExecutor, segments: usize) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if segments > 1 {
        writeln!(out, "on {}:", executor.graph().device().info().id)?;
    }
    let kernels = executor.dispatches();
    for KernelDispatches { kernel, dispatches } in &kernels {
        writeln!(out, "{dispatches:6} {kernel}")?;
    }
    let GraphReport { dispatches, commands, barriers: (_, barriers), .. } = executor.report();
    writeln!(
        out,
        "{dispatches} dispatches, {} copies and fills, {barriers} barriers",
        commands - dispatches
    )?;
    Ok(())
}

/// Returns the nodes of a layer in each segment: from its attention to the next layer's, or to the end.
fn layer(segments: &[GraphExecutor], number: usize) -> Result<Vec<Range<usize>>, Error> {
    // The layers that have begun so far.
    let mut begun = 0usize;
    let mut ranges = Vec::new();
    for segment in segments {
        let (graph, mut last, mut range) = (segment.graph(), None, 0..0);
        for (index, node) in graph.nodes().iter().enumerate() {
            if node.scope != last && graph.scope_of(node) == Some("attention") {
                begun += 1;
            }
            last = node.scope;
            if begun.checked_sub(1) == Some(number) {
                let start = if range.is_empty() { index } else { range.start };
                range = start..index + 1;
            }
        }
        ranges.push(range);
    }
    if number < begun {
        return Ok(ranges);
    }
    let last = begun.saturating_sub(1);
    Err(Error::Usage(format!("--layer {number}: the model has {begun} layers, 0 to {last}")))
}
