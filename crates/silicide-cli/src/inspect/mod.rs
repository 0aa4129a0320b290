//! `silicide inspect`: what is in a weight file.
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

use crate::common::cancel_on_interrupt;
use crate::error::Error;
use crate::store::resolve;
use crate::terminal::Printer;
use clap::Args;
use silicide_weights::Source;
use std::path::PathBuf;
use summary::Summary;

/// Shows what is in a weight file.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A GGUF or safetensors file, a directory with a model, or the name of a model.
    file: PathBuf,
    /// List every tensor.
    #[arg(long)]
    tensors: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let source = Source::open(&resolve(&self.file, &cancel_on_interrupt())?)?;
        let summary = Summary::of(&source, self.tensors);
        let output = match self.json {
            true => serde_json::to_string_pretty(&summary)? + "\n",
            false => text::render(&summary),
        };
        Ok(Printer::stdout().print(&output)?)
    }
}
