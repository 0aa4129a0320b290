//! Captured passes: how long a capture takes, and the host's part of a token.

use crate::measure::Times;
use crate::report::{Report, Target};
use crate::watched::Watched;
use silicide_core::{CancelToken, Counters, Device, DeviceOptions};
use silicide_hal::cpu::{self, CpuOptions};
use silicide_hal::vulkan::{self, VulkanOptions};
use silicide_hal::{Backend, RawDevice};
use silicide_llm::ModelOptions;
use silicide_llm::engine::{LogitsFrom, Session, capture_pass};
use silicide_llm::sample::{Sampler, SamplerOptions};
use silicide_weights::Source;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Tokens before anything is measured.
const WARM_UP: usize = 8;

/// A session that decodes.
struct Decoding {
    session: Session,
    sampler: Sampler,
    watched: Arc<Watched>,
    device: Device,
    /// Per token: all of its time, and the host's part.
    times: Times,
    host: Times,
    counters: Counters,
}

impl Decoding {
    fn open(model: &Path, device: &str, threads: usize) -> anyhow::Result<Decoding> {
        let raw: Arc<dyn RawDevice> = match device {
            "cpu" => cpu::open(&CpuOptions::default().threads(threads))?,
            _ => vulkan::open(0, &VulkanOptions::default())?,
        };
        let watched = Watched::new(raw);
        // SAFETY: the backend was opened above, and no other device uses it.
        let device = unsafe { Device::with_backend(watched.clone(), &DeviceOptions::default()) };
        let mut options = ModelOptions::default();
        options.context = Some(1024);
        let session = Session::new(&options.device(&device).open(model)?)?;
        let (counters, sampler) = (device.counters(), Sampler::new(SamplerOptions::greedy())?);
        let (times, host) = (Times::default(), Times::default());
        Ok(Decoding { session, sampler, watched, device, times, host, counters })
    }

    /// Feeds `token` and returns the likeliest next one.
    fn step(&mut self, token: u32, measured: bool) -> anyhow::Result<u32> {
        let mut best = 0;
        self.watched.take();
        let begin = Instant::now();
        self.session.feed(&[token], LogitsFrom::Last, &CancelToken::new(), &mut |position, logits| {
            best = self.sampler.choose(logits, position)?;
            Ok(())
        })?;
        let all = begin.elapsed().as_secs_f64();
        let (submitting, waiting) = self.watched.take();
        // On the CPU submitting is running; elsewhere it is the host's work too.
        let runs = self.device.info().backend == Backend::Cpu;
        let host = all - waiting - if runs { submitting } else { 0.0 };
        if measured {
            self.times.push(all);
            self.host.push(host);
        }
        Ok(best)
    }
}

pub(crate) fn run(report: &mut Report, model: &Path, device: &str, tokens: usize) -> anyhow::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut way = Decoding::open(model, device, threads)?;
    report.heading(&format!("Captured passes of {} on {device}", model.display()));
    let layers = way.session.model().description().layers.len();
    let source = Source::open(model)?;
    let options = ModelOptions::default().device(&way.device);
    for rows in [1, 16, 512] {
        let mut times = Times::default();
        for _ in 0..9 {
            let begin = Instant::now();
            capture_pass(&source, &options, rows)?;
            times.push(begin.elapsed().as_secs_f64());
        }
        let name = format!("planning {layers} layers and capturing a pass of {rows} rows");
        let target = Target::AtMost(if layers <= 30 { 10.0 } else { 30.0 });
        report.row(&name, times.median() * 1e3, times.spread() * 1e3, "ms", target);
    }
    let mut token = 1;
    for turn in 0..WARM_UP + tokens {
        if turn == WARM_UP {
            way.counters = way.device.counters();
        }
        token = way.step(token, turn >= WARM_UP)?;
    }
    report.row("token", way.times.median() * 1e3, way.times.spread() * 1e3, "ms", Target::None);
    let (host, spread) = (way.host.median() * 1e6, way.host.spread() * 1e6);
    report.row("host time of a token", host, spread, "us", Target::None);
    let (part, spread) = crate::measure::ratio(&way.host, &way.times);
    let target = if device == "cpu" { Target::AtMost(2.0) } else { Target::None };
    report.row("host part of a token", part * 1e2, spread * 1e2, "%", target);
    let made = way.device.counters().since(&way.counters);
    for (what, count) in [("commands", made.dispatches + made.transfers), ("barriers", made.barriers)] {
        report.row(&format!("{what} of a token"), count as f64 / tokens as f64, 0.0, "", Target::None);
    }
    Ok(())
}
