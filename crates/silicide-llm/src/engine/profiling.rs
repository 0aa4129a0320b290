//! Passes whose kernels are timed: captured with marks between ops, so that they run one after the other.

use super::inputs::{BoundPass, Span};
use super::load::Model;
use super::passes::PassClass;
use crate::error::Result;
use silicide_core::profile::{Profile, Replay};
use std::time::Instant;

/// Times of a session's kernels.
#[derive(Debug)]
pub(super) struct Profiling {
    begin: Instant,
    profile: Profile,
}

impl Profiling {
    /// Creates an empty profile.
    pub(super) fn new() -> Profiling {
        Profiling { begin: Instant::now(), profile: Profile::default() }
    }

    /// Adds the host's work since `begin`.
    pub(super) fn note(&mut self, what: &'static str, begin: Instant) {
        self.profile.add_host(what, begin - self.begin, begin.elapsed());
    }

    /// The measured times.
    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Runs a pass with marks, waits for it, and adds its times.
    pub(super) fn replay(&mut self, model: &Model, pass: &mut BoundPass, span: &Span<'_>) -> Result<()> {
        let plain = model.captured(PassClass { is_marked: false, ..pass.class() })?;
        let report = plain.executor.report();
        let calls = pass.calls()?;
        let submitted = Instant::now();
        let submission = pass.replay()?;
        submission.wait()?;
        self.profile.add(&Replay {
            name: if span.tokens.len() == 1 { "token" } else { "prompt" },
            calls: &calls,
            spans: &submission.times(),
            threads: &submission.thread_times(),
            size: (report.commands, report.barriers.1),
            at: (submitted - self.begin, submitted.elapsed()),
        });
        Ok(())
    }
}
