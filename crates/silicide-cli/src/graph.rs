//! `silicide graph`: the captured pass of a model, as text or as a drawing.

use crate::arguments::DeviceArgs;
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use crate::store::resolve;
use clap::Args;
use silicide::graph::ComputeGraph;
use silicide_llm::ModelOptions;
use silicide_llm::engine::capture_pass;
use silicide_weights::Source;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

/// Shows the pass of a model as it is replayed: a layer of it, and what became of the whole.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// A GGUF file, a folder with a model, or the name of a model. Its weights are not loaded.
    model: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// Tokens of the pass.
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N")]
    tokens: usize,
    /// Tokens that are remembered; 0 for as many as the model was trained on. [default: that, at most 4096]
    #[arg(short, long, value_name = "N")]
    ctx_size: Option<usize>,
    /// Which layer.
    #[arg(long, default_value_t = 1, value_name = "N")]
    layer: usize,
    /// Everything instead of a layer.
    #[arg(long)]
    all: bool,
    /// A drawing for Graphviz: `silicide graph MODEL --dot | dot -Tsvg`.
    #[arg(long)]
    dot: bool,
}

impl Graph {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let source = Source::open(&resolve(&self.model, &cancel_on_interrupt())?)?;
        let mut options = ModelOptions::default();
        options.context = self.ctx_size;
        let executor = capture_pass(&self.device.open()?, &source, &options, self.tokens)?;
        let graph = executor.graph();
        let nodes = if self.all { 0..graph.nodes().len() } else { layer(graph, self.layer) };
        let mut out = std::io::stdout().lock();
        if self.dot {
            out.write_all(graph.dot(nodes).as_bytes())?;
        } else {
            writeln!(out, "{}{}\n{}", graph.parameter_text(), graph.text(nodes), executor.report())?;
        }
        Ok(())
    }
}

/// The nodes of a layer: from one attention to the next, or to the end.
fn layer(graph: &ComputeGraph, number: usize) -> Range<usize> {
    let mut begins = Vec::new();
    let mut last = None;
    for (index, node) in graph.nodes().iter().enumerate() {
        if node.scope != last && graph.scope_of(node) == Some("attention") {
            begins.push(index);
        }
        last = node.scope;
    }
    let begin = |number: usize| begins.get(number).copied().unwrap_or(graph.nodes().len());
    begin(number)..begin(number + 1)
}
