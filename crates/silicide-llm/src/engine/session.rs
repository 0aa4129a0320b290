//! A session: tokens in, logits out, and a cache of everything that went in.

use super::bound::BoundPass;
use super::inputs::Span;
use super::load::Model;
use super::passes::{PassClass, most_outputs};
use super::profiling::Profiling;
use crate::cache::KvCache;
use crate::error::{Error, Result};
use silicide_core::{Buffer, CancelToken, Device, GraphArena, Profile};
use std::time::Instant;

/// The tokens whose logits a feed returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitsFrom {
    /// The last token alone.
    Last,
    /// All tokens from this index on. The first token that is fed has index 0.
    Token(usize),
}

/// Tokens to feed, and how.
pub(super) struct FeedRequest<'a> {
    /// The tokens.
    pub(super) tokens: &'a [u32],
    /// The tokens whose logits go to the sink.
    pub(super) logits: LogitsFrom,
    /// Stops between passes.
    pub(super) cancel: &'a CancelToken,
    /// Called after every pass with the number of `tokens` that were fed. A GPU may still compute the last pass then.
    pub(super) progress: &'a mut dyn FnMut(usize),
}

/// A sequence of tokens that a model has read, with its KV cache: tokens in, logits out.
///
/// ```
/// # mod silicide { pub use silicide_core::CancelToken; pub use silicide_llm::{self as llm, *}; }
/// # let path = "../../testdata/models/llama-tied.gguf";
/// use silicide::llm::engine::{LogitsFrom, Session};
/// use silicide::{CancelToken, Model};
///
/// let model = Model::open(path)?;
/// let mut session = Session::new(&model)?;
/// let tokens = model.tokenize("Once upon a time");
/// session.feed(&tokens, LogitsFrom::Last, &CancelToken::new(), &mut |position, logits| {
///     println!("position {position}: {} logits", logits.len());
///     Ok(())
/// })?;
/// assert_eq!(session.tokens(), tokens);
/// # Ok::<(), silicide::llm::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    model: Model,
    cache: KvCache,
    /// The tokens in the cache.
    tokens: Vec<u32>,
    /// The most tokens that the cache has held since it was last empty. Rings have overwritten entries too far before it, even if
    /// later tokens were removed since.
    reached: usize,
    /// The memory that all passes work in, on each device. The first pass allocates it.
    arenas: Vec<Option<GraphArena>>,
    /// Captured passes over the cache and the arena.
    passes: Vec<BoundPass>,
    /// Times of kernels, if they are measured.
    profiling: Option<Box<Profiling>>,
}

impl Session {
    /// Creates a session with an empty cache. Allocates the cache. On the CPU it also allocates the arena and binds the
    /// passes of short prompts, so that the first token does not wait for that.
    pub fn new(model: &Model) -> Result<Session> {
        let cache = KvCache::new(model.description(), model.cache_options())?;
        let mut session = Session {
            model: model.clone(),
            cache,
            tokens: Vec::new(),
            reached: 0,
            arenas: model.devices().iter().map(|_| None).collect(),
            passes: Vec::new(),
            profiling: None,
        };
        // GPUs compile pipelines for a pass, so theirs are bound when they are needed.
        if !model.devices().iter().any(|device| device.info().is_gpu()) {
            for class in PassClass::usual(model.cache_options()) {
                session.bind(class)?;
            }
        }
        Ok(session)
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tokens in the cache.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Measures every kernel from now on, and discards earlier measurements. Kernels then run one after the other, which takes
    /// longer.
    pub fn start_profile(&mut self) {
        self.profiling = Some(Box::new(Profiling::new(&self.model)));
    }

    /// Adds the host's work since `begin` to the profile, if there is one.
    pub(super) fn note(&mut self, what: &'static str, begin: Instant) {
        if let Some(profiling) = &mut self.profiling {
            profiling.note(what, begin);
        }
    }

    /// Where the time went since profiling began, on all devices together.
    pub fn profile(&self) -> Option<&Profile> {
        self.profiling.as_ref().map(|profiling| profiling.profile())
    }

    /// Where the time went since profiling began, on each of the model's devices.
    pub fn device_profiles(&self) -> Vec<(&Device, &Profile)> {
        let profiles = self.profiling.iter().flat_map(|profiling| profiling.by_device());
        self.model.devices().iter().zip(profiles).collect()
    }

    /// Tokens that it can hold.
    pub fn context(&self) -> usize {
        self.model.cache_options().context
    }

    /// Truncates the cache to the first `to` tokens and returns how many remain. Returns 0 if a sliding-window layer has
    /// already overwritten entries that those tokens need.
    pub fn rewind(&mut self, to: usize) -> usize {
        if to >= self.tokens.len() {
            return self.tokens.len();
        }
        let kept = self.cache.keepable(self.reached, to);
        self.tokens.truncate(kept);
        if kept == 0 {
            self.reached = 0;
        }
        kept
    }

    /// Truncates the cache to the longest common prefix with `prompt`, and returns its length. At least one token of
    /// `prompt` remains to be fed.
    pub fn reuse(&mut self, prompt: &[u32]) -> usize {
        let same = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        self.rewind(same.min(prompt.len().saturating_sub(1)))
    }

    /// Feeds `tokens` in passes of bounded size. Calls `sink` with the position of a token and its row of logits, for the
    /// tokens that `logits` names. Cancelling stops between passes, and the cache keeps the tokens of earlier passes. Any
    /// other error of the device empties the cache.
    pub fn feed(
        &mut self,
        tokens: &[u32],
        logits: LogitsFrom,
        cancel: &CancelToken,
        sink: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        self.feed_reporting(FeedRequest { tokens, logits, cancel, progress: &mut |_| () }, sink)
    }

    /// As [`Session::feed`], and reports progress after every pass.
    pub(super) fn feed_reporting(
        &mut self,
        request: FeedRequest<'_>,
        sink: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let tokens = request.tokens;
        let (vocabulary, context) = (self.model.description().vocabulary, self.context());
        let needed = self.tokens.len().saturating_add(tokens.len());
        if needed > context {
            return Err(Error::ContextFull { tokens: needed, context });
        }
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(Error::BadToken { token, vocabulary });
        }
        let fed = self.feed_passes(request, sink);
        if matches!(&fed, Err(Error::Device(error)) if !matches!(error, silicide_core::Error::Cancelled { .. }))
        {
            // It is unknown which passes reached the cache.
            self.tokens.clear();
            self.reached = 0;
        }
        fed
    }

    /// Feeds checked tokens.
    fn feed_passes(
        &mut self,
        request: FeedRequest<'_>,
        sink: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let FeedRequest { tokens, logits: from, cancel, progress } = request;
        let first = match from {
            LogitsFrom::Last => tokens.len().saturating_sub(1),
            LogitsFrom::Token(first) => first,
        };
        let vocabulary = self.model.description().vocabulary;
        let chunk = self.model.cache_options().chunk;
        let rows = most_outputs(self.model.description(), self.model.cache_options());
        let mut at = 0;
        while let Some(rest) = tokens.get(at..).filter(|rest| !rest.is_empty()) {
            cancel.check("feeding tokens")?;
            // Passes with many rows of logits are short, which bounds the memory of the logits.
            let size = if at + chunk > first && from != LogitsFrom::Last { rows } else { chunk };
            let piece = rest.get(..size).unwrap_or(rest);
            let rows_out = (at + piece.len()).saturating_sub(first.max(at));
            let logits = self.pass(piece, rows_out.max(1))?;
            let start = self.tokens.len() - rows_out;
            if rows_out > 0 {
                let logits = logits.slice(0..rows_out * vocabulary)?;
                let logits = logits.read::<f32>()?;
                for (row, logits) in logits.chunks_exact(vocabulary).enumerate() {
                    sink(start + row, logits)?;
                }
            }
            at += piece.len();
            progress(at);
        }
        Ok(())
    }

    /// Runs one pass; returns the logits of its last `outputs` tokens, and unspecified ones behind them.
    fn pass(&mut self, tokens: &[u32], outputs: usize) -> Result<Buffer> {
        let span = Span { tokens, start: self.tokens.len(), outputs };
        let class = PassClass::of(&span, self.model.description(), self.model.cache_options());
        let is_profiled = self.profiling.is_some();
        let place = self.bind(if is_profiled { class.marked() } else { class })?;
        let missing = || Error::missing("a pass of the session");
        let pass = self.passes.get_mut(place).ok_or_else(missing)?;
        pass.set(self.model.description(), &span)?;
        match &mut self.profiling {
            Some(profiling) => profiling.replay(&self.model, pass, &span)?,
            // The read of the logits reports an error of the device.
            None => pass.replay()?,
        }
        let logits = pass.logits().ok_or_else(missing)?;
        self.tokens.extend_from_slice(tokens);
        self.reached = self.reached.max(span.end());
        Ok(logits)
    }

    /// Returns the number of the pass of a class. Its first use binds it to the cache and the arena.
    fn bind(&mut self, class: PassClass) -> Result<usize> {
        if let Some(place) = self.passes.iter().position(|pass| pass.class() == class) {
            return Ok(place);
        }
        let captured = self.model.captured(class)?;
        let devices = self.model.devices();
        let needed = |device: usize| captured.arena_bytes(device);
        let fits = |(device, arena): (usize, &Option<GraphArena>)| {
            arena.as_ref().is_some_and(|arena| arena.bytes() >= needed(device))
        };
        if !self.arenas.iter().enumerate().all(fits) {
            // Their memory goes before the next take their own.
            self.passes.clear();
            self.arenas.iter_mut().for_each(|arena| *arena = None);
            for (number, (arena, device)) in self.arenas.iter_mut().zip(devices).enumerate() {
                *arena = Some(GraphArena::new(device, needed(number).max(self.model.arena_bytes(number)))?);
            }
        }
        let bound = BoundPass::new(&captured, self.model.description(), &self.arenas, &self.cache);
        self.passes.push(bound?);
        Ok(self.passes.len() - 1)
    }
}
