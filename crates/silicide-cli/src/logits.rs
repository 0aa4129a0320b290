//! `silicide logits`: the logits of a model, for programs that compare engines.

use crate::arguments::ModelArgs;
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use clap::Args;
use silicide_llm::engine::LogitsFrom;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Write the logits of given tokens to a file
///
/// The file has one row for each token and one f32 (little-endian) for each entry of the vocabulary, without a header: tokens x
/// vocabulary x 4 bytes. Row i has the logits after token i.
#[derive(Debug, Args)]
#[command(override_usage = "silicide logits [OPTIONS] <MODEL> --tokens <IDS> --out <FILE>")]
#[command(after_help = "Examples:
  silicide tokenize smollm2 \"The sky is\" --json              # which tokens
  silicide logits smollm2 --tokens 504,6376,314 --out logits.f32
  python3 -c 'import numpy; print(numpy.fromfile(\"logits.f32\", \"<f4\").reshape(3, -1).argmax(1))'")]
pub(crate) struct Logits {
    #[command(flatten)]
    model: ModelArgs,
    /// Token ids, with commas between them
    #[arg(
        long,
        value_delimiter = ',',
        required = true,
        value_name = "IDS",
        help_heading = "Input and output"
    )]
    tokens: Vec<u32>,
    /// The file to write: f32, little-endian, one row for each token
    #[arg(long, value_name = "FILE", help_heading = "Input and output")]
    out: PathBuf,
    /// Feed one token at a time, as generation does, instead of all in one pass
    #[arg(long, help_heading = "Input and output")]
    step: bool,
}

impl Logits {
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let cancel = cancel_on_interrupt();
        let fitting = self.model.engine.ctx_size.unwrap_or(self.tokens.len());
        self.model.engine.ctx_size = Some(fitting);
        let failed = |error| Error::output(&self.out, error);
        // A path that cannot be written is found before the model is loaded.
        let mut out = BufWriter::new(silicide_weights::unfinished(&self.out).map_err(failed)?);
        let mut session = self.model.session(&cancel)?;
        let size = if self.step { 1 } else { self.tokens.len() };
        let mut write = Ok(());
        for piece in self.tokens.chunks(size) {
            session.feed(piece, LogitsFrom::Token(0), &cancel, &mut |_, logits| {
                for logit in logits {
                    if write.is_ok() {
                        write = out.write_all(&logit.to_le_bytes());
                    }
                }
                Ok(())
            })?;
        }
        write.map_err(failed)?;
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.persist(&self.out).map_err(|error| failed(error.error))?;
        Ok(())
    }
}
