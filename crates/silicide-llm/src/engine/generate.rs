//! Text from a prompt: feed, choose, stream, stop.

use super::session::{FeedRequest, Session, Wanted};
use super::stops::Stops;
use crate::error::{Error, Result};
use crate::sample::{Sampler, SamplerOptions};
use crate::tokenizer::Special;
use silicide::CancelToken;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// How to generate.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// The most tokens; as many as the context holds where there is no number.
    pub max_tokens: Option<usize>,
    /// Texts that end generation; they are not part of it.
    pub stop: Vec<String>,
    /// How tokens are chosen.
    pub sampler: SamplerOptions,
    /// Goes on after tokens that end a text.
    pub ignore_end: bool,
    /// Writes out control tokens.
    pub show_special: bool,
    /// Stops between tokens; what was generated is kept.
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

/// Why generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model ended its text.
    End,
    /// A stop string came.
    Stop,
    /// As many tokens as were asked for.
    MaxTokens,
    /// The context is full: the text is cut off.
    ContextFull,
    /// Someone asked to stop.
    Cancelled,
}

impl Finish {
    /// A name for programs.
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

/// How long things took.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of which the cache had so many already.
    pub reused_tokens: usize,
    /// Time to feed the others.
    pub prompt: Duration,
    /// Tokens generated.
    pub generated_tokens: usize,
    /// Time to generate all but the first, which the prompt's time pays for.
    pub generation: Duration,
    /// Time until the first token was known.
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

/// What was generated.
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

/// Generates after `prompt`, of which what the session's cache begins with is not fed again. Text is handed to `sink`
/// as soon as it is whole characters and surely no stop string.
pub fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: &GenerateOptions,
    sink: &mut dyn FnMut(&str),
) -> Result<Generation> {
    let model = Arc::clone(session.model());
    if prompt.is_empty() {
        let (expected, got) = ("at least one token".to_owned(), "none".to_owned());
        return Err(Error::BadOption { option: "prompt", expected, got });
    }
    if prompt.len() > session.context() {
        return Err(Error::ContextFull { tokens: prompt.len(), context: session.context() });
    }
    let mut sampler = Sampler::new(options.sampler.clone())?;
    prompt.iter().for_each(|&token| sampler.accept(token));
    let show = if options.show_special { Special::Parse } else { Special::Plain };
    let (mut stream, mut stops) = (model.tokenizer().stream(show), Stops::new(&options.stop));
    let mut out = Generation {
        tokens: Vec::new(),
        text: String::new(),
        finish: Finish::MaxTokens,
        timings: Timings::default(),
    };
    let most = options.max_tokens.unwrap_or(usize::MAX);

    let begin = Instant::now();
    let reused = session.reuse(prompt);
    let rest = prompt.get(reused..).unwrap_or(prompt);
    // Feeds tokens and chooses the one that follows; none if someone asked to stop.
    let mut follow = |session: &mut Session, tokens: &[u32], progress: &mut dyn FnMut(usize)| {
        let (mut next, mut chosen) = (None, None);
        let request = FeedRequest { tokens, wanted: Wanted::Last, cancel: &options.cancel, progress };
        let fed = session.feed_reporting(request, &mut |position, logits| {
            chosen = Some(Instant::now());
            let token = sampler.choose(logits, position)?;
            sampler.accept(token);
            next = Some(token);
            Ok(())
        });
        if let Some(begin) = chosen {
            session.note("sample", begin);
        }
        match fed {
            Err(Error::Device(silicide::Error::Cancelled { .. })) => Ok(None),
            fed => fed.map(|()| next),
        }
    };
    let mut report = |fed: usize| {
        if let Some(progress) = &options.progress {
            progress(&PromptEvent { done: reused + fed, total: prompt.len() });
        }
    };
    report(0);
    let mut next = follow(session, rest, &mut report)?;
    out.timings.prompt = begin.elapsed();
    // Someone who stops during the prompt has fed only a part of it.
    let fed = if next.is_some() { prompt.len() } else { session.tokens().len() };
    (out.timings.prompt_tokens, out.timings.reused_tokens) = (fed.max(reused), reused);
    out.timings.first_token = out.timings.prompt;
    let generating = Instant::now();
    while out.tokens.len() < most {
        let Some(token) = next else {
            out.finish = Finish::Cancelled;
            break;
        };
        out.tokens.push(token);
        if model.tokenizer().is_end(token) && !options.ignore_end {
            out.finish = Finish::End;
            break;
        }
        let (text, stopped) = stops.push(&stream.push(token));
        sink(&text);
        out.text += &text;
        if stopped {
            out.finish = Finish::Stop;
            break;
        }
        if out.tokens.len() == most {
            break;
        }
        if session.tokens().len() >= session.context() {
            out.finish = Finish::ContextFull;
            break;
        }
        next = follow(session, &[token], &mut |_| ())?;
    }
    if out.finish != Finish::Stop {
        let (mut text, stopped) = stops.push(&stream.finish());
        match stopped {
            true => out.finish = Finish::Stop,
            false => text += &stops.finish(),
        }
        sink(&text);
        out.text += &text;
    }
    out.timings.generation = generating.elapsed();
    out.timings.generated_tokens = out.tokens.len();
    Ok(out)
}
