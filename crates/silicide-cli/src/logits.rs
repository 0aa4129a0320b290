//! `silicide logits`: what a model computes, for programs that compare engines.

use crate::arguments::ModelArgs;
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use clap::Args;
use silicide_llm::engine::Wanted;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Writes the logits of every position as f32, little-endian, row after row.
#[derive(Debug, Args)]
pub(crate) struct Logits {
    #[command(flatten)]
    model: ModelArgs,
    /// Token ids, with commas between.
    #[arg(long, value_delimiter = ',', required = true, value_name = "IDS")]
    tokens: Vec<u32>,
    /// Where the logits go.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Feed one token at a time, as generation does, instead of all at once.
    #[arg(long)]
    step: bool,
}

impl Logits {
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let cancel = cancel_on_interrupt();
        let fitting = self.model.engine.ctx_size.unwrap_or(self.tokens.len());
        self.model.engine.ctx_size = Some(fitting);
        let mut session = self.model.session(&cancel)?;
        let failed = |error| Error::output(&self.out, error);
        let mut out = BufWriter::new(silicide_weights::unfinished(&self.out).map_err(failed)?);
        let size = if self.step { 1 } else { self.tokens.len() };
        let mut write = Ok(());
        for piece in self.tokens.chunks(size) {
            session.feed(piece, Wanted::From(0), &cancel, &mut |_, logits| {
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
