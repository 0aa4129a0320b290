//! Passes whose kernels are timed: captured with marks between ops, so that they run one after the other.

use super::graphs::{PlannedModel, capture_with, limit_of};
use super::inputs::{PassExtents, Replayed, Span};
use super::load::Model;
use crate::cache::KvCache;
use crate::error::{Error, Result};
use silicide_core::Buffer;
use silicide_core::profile::{Profile, ProfiledCall, Replay};
use silicide_ops::fuse;
use std::time::Instant;

/// The most captured passes that are kept: prompts have many lengths.
const MOST_PASSES: usize = 4;

/// Times of a session's kernels.
#[derive(Debug)]
pub(super) struct Profiling {
    begin: Instant,
    profile: Profile,
    passes: Vec<Marked>,
}

/// A captured pass with marks.
#[derive(Debug)]
struct Marked {
    extents: PassExtents,
    replayed: Replayed,
    calls: Vec<ProfiledCall>,
    /// Commands and barriers of the same pass without marks.
    size: (usize, usize),
}

impl Profiling {
    /// Creates an empty profile.
    pub(super) fn new() -> Profiling {
        Profiling { begin: Instant::now(), profile: Profile::default(), passes: Vec::new() }
    }

    /// Adds the host's work since `begin`.
    pub(super) fn note(&mut self, what: &'static str, begin: Instant) {
        self.profile.add_host(what, begin - self.begin, begin.elapsed());
    }

    /// The measured times.
    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Runs a pass, waits for it, and returns its logits.
    pub(super) fn pass(&mut self, model: &Model, cache: &KvCache, span: &Span<'_>) -> Result<Buffer> {
        let limit = limit_of(span.limit, model.cache_options().context);
        let extents = PassExtents { tokens: span.tokens.len(), outputs: span.outputs, limit };
        let place = match self.passes.iter().position(|pass| pass.extents == extents) {
            Some(place) => place,
            None => {
                if self.passes.len() == MOST_PASSES {
                    self.passes.remove(0);
                }
                self.passes.push(Marked::capture(model, cache, extents)?);
                self.passes.len() - 1
            }
        };
        let missing = || Error::Device(silicide_core::Error::ZeroSize { what: "graph" });
        let pass = self.passes.get_mut(place).ok_or_else(missing)?;
        pass.replayed.set(model.description(), span)?;
        let submitted = Instant::now();
        let submission = pass.replayed.replay()?;
        submission.wait()?;
        self.profile.add(&Replay {
            name: if span.tokens.len() == 1 { "token" } else { "prompt" },
            calls: &pass.calls,
            spans: &submission.times(),
            threads: &submission.thread_times(),
            size: pass.size,
            at: (submitted - self.begin, submitted.elapsed()),
        });
        pass.replayed.logits().ok_or_else(missing)
    }
}

impl Marked {
    fn capture(model: &Model, cache: &KvCache, extents: PassExtents) -> Result<Marked> {
        let (description, decoder) = (model.description(), model.decoder());
        let planned = PlannedModel { description, decoder, cache: model.cache_options() };
        let capture = |mark_ops: bool| {
            let mut options = fuse::options();
            options.mark_ops = mark_ops;
            capture_with(model.device(), planned, extents, &options)
        };
        let (plain, marked) = (capture(false)?, capture(true)?);
        let replayed = Replayed::new(&marked, cache)?;
        let size = (plain.report().commands, plain.report().barriers.1);
        Ok(Marked { extents, replayed, calls: marked.calls(), size })
    }
}
