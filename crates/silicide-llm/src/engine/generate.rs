//! Generation: options, results, and the callback form of the token loop.

use super::generator::Generator;
use super::session::Session;
use crate::error::Result;
use crate::sample::SamplerOptions;
use silicide_core::CancelToken;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Receives the progress of a prompt, on the generating thread.
pub type PromptProgress = Arc<dyn Fn(&PromptEvent) + Send + Sync>;

/// How much of a prompt has been processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptEvent {
    /// Tokens of the prompt that are in the cache, including those reused from an earlier prompt.
    pub done: usize,
    /// Tokens of the prompt.
    pub total: usize,
}

/// How text is generated: length, stop strings, sampling, cancellation.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// use silicide::llm::engine::GenerateOptions;
///
/// let options = GenerateOptions::default().max_tokens(200).temperature(0.7).seed(42).stop("\n\n");
/// assert_eq!(options.sampler.seed, 42);
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// The most tokens to generate; `None` fills the context.
    pub max_tokens: Option<usize>,
    /// Stop strings: generation ends before the first of them.
    pub stop: Vec<String>,
    /// How tokens are sampled.
    pub sampler: SamplerOptions,
    /// Continues after an end-of-text token.
    pub ignore_end: bool,
    /// Shows control tokens in the text.
    pub show_special: bool,
    /// Ends generation between tokens, and prompts between passes. What was generated is kept.
    pub cancel: CancelToken,
    /// Called once before the prompt is fed and once after each pass over it.
    pub progress: Option<PromptProgress>,
}

impl fmt::Debug for GenerateOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenerateOptions")
            .field("max_tokens", &self.max_tokens)
            .field("stop", &self.stop)
            .field("sampler", &self.sampler)
            .field("ignore_end", &self.ignore_end)
            .field("show_special", &self.show_special)
            .field("cancel", &self.cancel)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

impl GenerateOptions {
    /// Sets the most tokens to generate.
    pub fn max_tokens(mut self, tokens: usize) -> GenerateOptions {
        self.max_tokens = Some(tokens);
        self
    }

    /// Adds a stop string.
    pub fn stop(mut self, text: impl Into<String>) -> GenerateOptions {
        self.stop.push(text.into());
        self
    }

    /// Sets how tokens are sampled.
    pub fn sampler(mut self, sampler: SamplerOptions) -> GenerateOptions {
        self.sampler = sampler;
        self
    }

    /// Sets the sampling temperature; 0 picks the most likely token.
    pub fn temperature(mut self, temperature: f32) -> GenerateOptions {
        self.sampler.temperature = temperature;
        self
    }

    /// Sets the random seed; the same seed makes the same text.
    pub fn seed(mut self, seed: u64) -> GenerateOptions {
        self.sampler.seed = seed;
        self
    }

    /// Sets whether generation continues after an end-of-text token.
    pub fn ignore_end(mut self, ignore: bool) -> GenerateOptions {
        self.ignore_end = ignore;
        self
    }

    /// Sets whether the text shows control tokens.
    pub fn show_special(mut self, show: bool) -> GenerateOptions {
        self.show_special = show;
        self
    }

    /// Sets the token that cancels generation.
    pub fn cancel(mut self, cancel: CancelToken) -> GenerateOptions {
        self.cancel = cancel;
        self
    }

    /// Sets the function that receives the progress of the prompt.
    pub fn progress(mut self, progress: impl Fn(&PromptEvent) + Send + Sync + 'static) -> GenerateOptions {
        self.progress = Some(Arc::new(progress));
        self
    }
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model ended its text.
    End,
    /// A stop string was generated.
    Stop,
    /// `max_tokens` were generated.
    MaxTokens,
    /// The context is full: the text is cut off.
    ContextFull,
    /// The generation was cancelled.
    Cancelled,
}

impl Finish {
    /// Returns a name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Finish::End => "end",
            Finish::Stop => "stop",
            Finish::MaxTokens => "length",
            Finish::ContextFull => "context",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// Token counts and times of one generation.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that were already in the cache.
    pub reused_tokens: usize,
    /// Time to feed the other tokens of the prompt.
    pub prompt: Duration,
    /// Tokens generated.
    pub generated_tokens: usize,
    /// Time to generate all tokens but the first, without the time of the caller.
    pub generation: Duration,
    /// Time to the first token.
    pub first_token: Duration,
}

impl Timings {
    /// Prompt tokens per second.
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt_tokens - self.reused_tokens, self.prompt)
    }

    /// Generated tokens per second.
    pub fn generation_rate(&self) -> f64 {
        rate(self.generated_tokens.saturating_sub(1), self.generation)
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    if count == 0 || time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

/// The result of a generation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Generation {
    /// The tokens; one that ended the text is the last of them.
    pub tokens: Vec<u32>,
    /// The text.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// How long it took.
    pub timings: Timings,
}

/// Generates the text that follows `prompt` and calls `sink` with each piece of it: whole characters that are not part
/// of a stop string. Tokens of the prompt that the session's cache already holds are not fed again.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// # let path = "../../testdata/models/llama-tied.gguf";
/// use silicide::Model;
/// use silicide::llm::engine::{GenerateOptions, Session, generate};
///
/// let model = Model::open(path)?;
/// let mut session = Session::new(&model)?;
/// let options = GenerateOptions::default().max_tokens(8).seed(1);
/// let prompt = model.tokenize("Once upon a time");
/// let generation = generate(&mut session, &prompt, &options, &mut |text| print!("{text}"))?;
/// println!("\n[{}]", generation.finish.name());
/// # Ok::<(), silicide_llm::Error>(())
/// ```
pub fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: &GenerateOptions,
    sink: &mut dyn FnMut(&str),
) -> Result<Generation> {
    let mut generator = Generator::new(prompt, options.clone())?;
    while let Some(text) = generator.step(session)? {
        sink(&text);
    }
    Ok(generator.into_generation())
}
