//! The token loop as a state machine: each step feeds tokens, samples one, and returns its text.
//!
//! ```text
//! Prompt ── step: feed prompt ──▶ Token ── step: feed token ──▶ Token ── ... ──▶ Done
//! ```
//!
//! A step ends where the text of one token is known. So the caller has the text before the next forward pass runs.

use super::generate::{Finish, GenerateOptions, Generation, PromptEvent, Timings};
use super::session::{FeedRequest, LogitsFrom, Session};
use super::stops::Stops;
use crate::error::{Error, Result};
use crate::sample::Sampler;
use crate::tokenizer::{Special, TextDecoder};
use silicide_core::CancelToken;
use std::time::Instant;

/// One generation, token by token. [`generate`](super::generate) runs it to the end;
/// [`Reply`](crate::Reply) and [`Completion`](crate::Completion) are iterators over it.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// # let path = "../../testdata/models/llama-tied.gguf";
/// use silicide::Model;
/// use silicide::llm::engine::{GenerateOptions, Generator, Session};
///
/// let model = Model::open(path)?;
/// let mut session = Session::new(&model)?;
/// let prompt = model.tokenize("Once upon a time");
/// let mut generator = Generator::new(prompt, GenerateOptions::default().max_tokens(4))?;
/// while let Some(text) = generator.step(&mut session)? {
///     print!("{text}");
/// }
/// assert!(generator.generation().tokens.len() <= 4);
/// # Ok::<(), silicide_llm::Error>(())
/// ```
#[derive(Debug)]
pub struct Generator {
    options: GenerateOptions,
    sampler: Sampler,
    decoder: TextDecoder,
    stops: Stops,
    state: State,
    finish: Option<Finish>,
    generation: Generation,
}

/// The input of the next step.
#[derive(Debug)]
enum State {
    Prompt(Vec<u32>),
    Token(u32),
    Done,
}

impl Generator {
    /// Creates a generation of the text that follows `prompt`. Nothing is fed before the first step.
    pub fn new(prompt: impl Into<Vec<u32>>, options: GenerateOptions) -> Result<Generator> {
        let prompt = prompt.into();
        if prompt.is_empty() {
            let (expected, got) = ("at least one token".to_owned(), "none".to_owned());
            return Err(Error::BadOption { option: "prompt", expected, got });
        }
        let mut sampler = Sampler::new(options.sampler.clone())?;
        prompt.iter().for_each(|&token| sampler.accept(token));
        let show = if options.show_special { Special::Parse } else { Special::Plain };
        let generation = Generation {
            tokens: Vec::new(),
            text: String::new(),
            finish: Finish::Cancelled,
            timings: Timings::default(),
        };
        let (decoder, stops) = (TextDecoder::new(show), Stops::new(&options.stop));
        let state = State::Prompt(prompt);
        Ok(Generator { options, sampler, decoder, stops, state, finish: None, generation })
    }

    /// Feeds the prompt or the last token to `session` and samples the next token. Returns the text that is certain
    /// now, which may be empty: part of a character, or text that may become a stop string. Returns `None` after the
    /// end, and after an error.
    ///
    /// Every step needs the same session. Tokens of the prompt that its cache already has are not fed again.
    pub fn step(&mut self, session: &mut Session) -> Result<Option<String>> {
        let begin = Instant::now();
        let next = match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return Ok(None),
            State::Prompt(prompt) => {
                let next = self.feed_prompt(session, &prompt)?;
                self.generation.timings.prompt = begin.elapsed();
                self.generation.timings.first_token = begin.elapsed();
                next
            }
            State::Token(token) => {
                let next = self.feed(session, &[token], &mut |_| ());
                self.generation.timings.generation += begin.elapsed();
                next?
            }
        };
        let text = self.accept(session, next);
        self.generation.text += &text;
        Ok(Some(text))
    }

    /// Appends the sampled token; decides whether it is the last. Returns its text.
    fn accept(&mut self, session: &Session, next: Option<u32>) -> String {
        let most = self.options.max_tokens.unwrap_or(usize::MAX);
        if most == 0 {
            return self.finish(Finish::MaxTokens, String::new());
        }
        let Some(token) = next else { return self.finish(Finish::Cancelled, String::new()) };
        let tokenizer = session.model().tokenizer();
        self.generation.tokens.push(token);
        self.generation.timings.generated_tokens += 1;
        if tokenizer.is_end(token) && !self.options.ignore_end {
            return self.finish(Finish::End, String::new());
        }
        let (text, stopped) = self.stops.push(&self.decoder.push(tokenizer, token));
        if stopped {
            self.end(Finish::Stop);
            text
        } else if self.generation.tokens.len() == most {
            self.finish(Finish::MaxTokens, text)
        } else if session.tokens().len() >= session.context() {
            self.finish(Finish::ContextFull, text)
        } else {
            self.state = State::Token(token);
            text
        }
    }

    /// Ends the text; returns `text` with everything that was held back.
    fn finish(&mut self, finish: Finish, mut text: String) -> String {
        let (rest, stopped) = self.stops.push(&self.decoder.finish());
        text += &rest;
        if !stopped {
            text += &self.stops.finish();
        }
        self.end(if stopped { Finish::Stop } else { finish });
        text
    }

    fn end(&mut self, finish: Finish) {
        (self.state, self.finish, self.generation.finish) = (State::Done, Some(finish), finish);
    }

    /// Feeds the tokens of `prompt` that the cache does not have, and samples. Returns `None` if cancelled.
    fn feed_prompt(&mut self, session: &mut Session, prompt: &[u32]) -> Result<Option<u32>> {
        if prompt.len() > session.context() {
            return Err(Error::ContextFull { tokens: prompt.len(), context: session.context() });
        }
        let reused = session.reuse(prompt);
        let progress = self.options.progress.clone();
        let mut report = |fed: usize| {
            if let Some(progress) = &progress {
                progress(&PromptEvent { done: reused + fed, total: prompt.len() });
            }
        };
        report(0);
        let next = self.feed(session, prompt.get(reused..).unwrap_or(prompt), &mut report)?;
        // A prompt that was cancelled is in the cache in part.
        let fed = if next.is_some() { prompt.len() } else { session.tokens().len() };
        let timings = &mut self.generation.timings;
        (timings.prompt_tokens, timings.reused_tokens) = (fed.max(reused), reused);
        Ok(next)
    }

    /// Feeds `tokens` and samples the token that follows. Returns `None` if cancelled.
    fn feed(
        &mut self,
        session: &mut Session,
        tokens: &[u32],
        progress: &mut dyn FnMut(usize),
    ) -> Result<Option<u32>> {
        let (mut next, mut chosen) = (None, None);
        let sampler = &mut self.sampler;
        let cancel = &self.options.cancel;
        let request = FeedRequest { tokens, logits: LogitsFrom::Last, cancel, progress };
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
            Err(Error::Device(silicide_core::Error::Cancelled { .. })) => Ok(None),
            fed => fed.map(|()| next),
        }
    }

    /// Ends the generation: the next step returns `None`. Text that was held back is dropped.
    pub fn stop(&mut self) {
        if !self.is_done() {
            self.end(Finish::Cancelled);
        }
    }

    /// Returns whether the generation has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Returns why the generation ended; `None` if it did not end, or ended with an error.
    pub fn finish_reason(&self) -> Option<Finish> {
        self.finish
    }

    /// Steps until there is text. Returns `None` after the end, and after an error.
    pub(crate) fn next_text(&mut self, session: &mut Session) -> Option<Result<String>> {
        loop {
            match self.step(session) {
                Ok(Some(text)) if text.is_empty() => (),
                step => return step.transpose(),
            }
        }
    }

    /// The token that cancels this generation.
    pub fn cancel_token(&self) -> &CancelToken {
        &self.options.cancel
    }

    /// The text and tokens so far. Before the end, `finish` is [`Finish::Cancelled`].
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Ends the generation and returns its result.
    pub fn into_generation(self) -> Generation {
        self.generation
    }
}
