//! `silicide perplexity`: how well a model predicts a text.

use crate::arguments::ModelArgs;
use crate::common::{cancel_on_interrupt, count_bar, note_kernels};
use crate::error::Error;
use crate::facts::LayerFacts;
use crate::output::{detail, is_verbose};
use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use silicide_llm::engine::perplexity;
use silicide_llm::tokenizer::Special;
use std::path::PathBuf;

/// Compute the perplexity of a text
///
/// Perplexity says how well a model predicts the text; lower is better. As llama.cpp's tool does by default: the text is cut
/// into windows of -c tokens (512 unless given), and the second half of each window is scored.
#[derive(Debug, Args)]
#[command(override_usage = "silicide perplexity [OPTIONS] <MODEL> --file <FILE>")]
#[command(after_help = "Examples:
  silicide perplexity smollm2 -f wiki.test.raw --chunks 20
  silicide perplexity model.gguf -f text.txt -c 1024 --json")]
pub(crate) struct Perplexity {
    #[command(flatten)]
    model: ModelArgs,
    /// The text file
    #[arg(short, long, value_name = "FILE", help_heading = "Text")]
    file: PathBuf,
    /// Maximum number of windows to compute [default: all]
    #[arg(long, value_name = "N", help_heading = "Text")]
    chunks: Option<usize>,
    /// Print one JSON object: ppl, stderr, tokens, scored, windows, ctx_size, seconds, layers
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Perplexity {
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let cancel = cancel_on_interrupt();
        let text = std::fs::read(&self.file);
        let text = text.map_err(|error| Error::input(&self.file.display().to_string(), error))?;
        let window = self.model.engine.ctx_size.filter(|&size| size > 0).unwrap_or(512);
        self.model.engine.ctx_size = Some(window);
        let mut session = self.model.session(&cancel)?;
        if is_verbose() {
            let bytes = HumanBytes(session.model().logits_bytes()?);
            detail(format_args!("memory: {bytes} more for passes with the logits of many tokens"));
        }
        let mut tokens = session.model().tokenizer().encode_prompt(&text, Special::Plain);
        tokens.truncate(self.chunks.map_or(usize::MAX, |chunks| chunks.saturating_mul(window)));
        let bar = count_bar("perplexity", (tokens.len() / window) as u64, "windows");
        let begin = std::time::Instant::now();
        let mut latest = None;
        let outcome = perplexity(&mut session, &tokens, window, &cancel, &mut |state| {
            bar.set_position(state.windows as u64);
            bar.set_message(format!("{:.4}", state.value));
            latest = Some(*state);
        });
        bar.finish_and_clear();
        let (found, stopped) = match (outcome.map_err(Error::from), latest) {
            (Ok(found), _) => (found, false),
            // The result so far is shown.
            (Err(error), Some(latest)) if error.is_cancelled() => (latest, true),
            (Err(error), _) => return Err(error),
        };
        let seconds = begin.elapsed().as_secs_f64();
        note_kernels(session.model());
        if self.json {
            let report = json!({
                "ppl": found.value, "stderr": found.error, "tokens": tokens.len(), "scored": found.scored,
                "windows": found.windows, "ctx_size": window, "seconds": seconds,
                "layers": LayerFacts::of(session.model()),
            });
            println!("{report}");
        } else {
            println!("perplexity {:.4} ± {:.4}", found.value, found.error);
            println!(
                "{} tokens scored in {} windows of {window}, {seconds:.1} s",
                found.scored, found.windows
            );
        }
        if stopped { Err(Error::Interrupted) } else { Ok(()) }
    }
}
