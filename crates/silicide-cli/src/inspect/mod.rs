//! `silicide inspect`: the contents of a weight file.
//!
//! | file | what |
//! |---|---|
//! | `summary.rs` | the facts, as data |
//! | `value.rs` | metadata values, long ones shortened |
//! | `tokenizer.rs` | facts about the tokenizer |
//! | `text.rs` | the facts for people |

mod summary;
mod text;
mod tokenizer;
mod value;

use crate::arguments::ModelRef;
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use crate::terminal::Printer;
use clap::Args;
use silicide_weights::Source;
use summary::Summary;

/// Show the contents of a model: architecture, metadata, tensors, sizes
#[derive(Debug, Args)]
#[command(override_usage = "silicide inspect [OPTIONS] <MODEL>")]
#[command(after_help = "Examples:
  silicide inspect smollm2
  silicide inspect model.gguf --tensors
  silicide inspect folder-with-safetensors --json")]
pub(crate) struct Inspect {
    #[command(flatten)]
    model: ModelRef,
    /// List every tensor
    #[arg(long, help_heading = "Output")]
    tensors: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let source = Source::open(self.model.path(&cancel_on_interrupt())?)?;
        let summary = Summary::of(&source, self.tensors);
        let output = match self.json {
            true => serde_json::to_string_pretty(&summary)? + "\n",
            false => text::render(&summary),
        };
        Ok(Printer::stdout().print(&output)?)
    }
}
