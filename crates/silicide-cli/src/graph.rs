//! `silicide graph`: the captured pass of a model, as text or as a drawing.

use crate::arguments::{DeviceArgs, ModelRef, tokens};
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use clap::Args;
use silicide::graph::{ComputeGraph, GraphExecutor, KernelDispatches};
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
        let executor = capture_pass(&self.device.open()?, &source, &options, self.tokens)?;
        if self.dispatches {
            return print_dispatches(&executor);
        }
        let graph = executor.graph();
        let nodes = if self.all { 0..graph.nodes().len() } else { layer(graph, self.layer)? };
        let mut out = std::io::stdout().lock();
        if self.dot {
            out.write_all(graph.dot(nodes).as_bytes())?;
        } else {
            writeln!(out, "{}{}\n{}", graph.parameter_text(), graph.text(nodes), executor.report())?;
        }
        Ok(())
    }
}

/// Prints how often a replay dispatches each kernel, and the sums.
fn print_dispatches(executor: &GraphExecutor) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let kernels = executor.dispatches();
    for KernelDispatches { kernel, dispatches } in &kernels {
        writeln!(out, "{dispatches:6} {kernel}")?;
    }
    let sum: usize = kernels.iter().map(|kernel| kernel.dispatches).sum();
    let (_, barriers) = executor.report().barriers;
    writeln!(out, "{sum} dispatches, {barriers} barriers")?;
    Ok(())
}

/// Returns the nodes of a layer: from its attention to the next layer's, or to the end.
fn layer(graph: &ComputeGraph, number: usize) -> Result<Range<usize>, Error> {
    let mut begins = Vec::new();
    let mut last = None;
    for (index, node) in graph.nodes().iter().enumerate() {
        if node.scope != last && graph.scope_of(node) == Some("attention") {
            begins.push(index);
        }
        last = node.scope;
    }
    match (begins.get(number), begins.get(number.saturating_add(1))) {
        (Some(&begin), Some(&end)) => Ok(begin..end),
        (Some(&begin), None) => Ok(begin..graph.nodes().len()),
        (None, _) => {
            let last = begins.len().saturating_sub(1);
            Err(Error::Usage(format!("--layer {number}: the model has {} layers, 0 to {last}", begins.len())))
        }
    }
}
