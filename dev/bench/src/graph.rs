//! Decoding with captured passes against recording each anew: two sessions of one model, token by token in turn.

use crate::measure::Times;
use crate::report::{Report, Target};
use crate::watched::Watched;
use silicide_core::{CancelToken, Counters, Device, DeviceOptions};
use silicide_hal::cpu::{self, CpuOptions};
use silicide_hal::vulkan::{self, VulkanOptions};
use silicide_hal::{Backend, RawDevice};
use silicide_llm::ModelOptions;
use silicide_llm::engine::{LogitsFrom, Session};
use silicide_llm::sample::{Sampler, SamplerOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Tokens before anything is measured.
const WARM_UP: usize = 8;

/// One way to decode.
struct Way {
    session: Session,
    sampler: Sampler,
    watched: Arc<Watched>,
    device: Device,
    /// Per token: all of its time, and the host's part.
    times: Times,
    host: Times,
    counters: Counters,
}

impl Way {
    fn open(
        model: &Path,
        device: &str,
        threads: usize,
        change: impl FnOnce(&mut ModelOptions),
    ) -> anyhow::Result<Way> {
        let raw: Arc<dyn RawDevice> = match device {
            "cpu" => cpu::open(&CpuOptions::default().threads(threads))?,
            _ => vulkan::open(0, &VulkanOptions::default())?,
        };
        let watched = Watched::new(raw);
        // SAFETY: the backend was opened above, and no other device uses it.
        let device = unsafe { Device::with_backend(watched.clone(), &DeviceOptions::default()) };
        let mut options = ModelOptions::default();
        options.context = Some(1024);
        change(&mut options);
        let session = Session::new(&options.device(&device).open(model)?)?;
        let (counters, sampler) = (device.counters(), Sampler::new(SamplerOptions::greedy())?);
        let (times, host) = (Times::default(), Times::default());
        Ok(Way { session, sampler, watched, device, times, host, counters })
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
    let mut ways =
        [false, true].map(|graphs| Way::open(model, device, threads, |options| options.graphs = graphs));
    let [Ok(eager), Ok(graph)] = &mut ways else {
        let [eager, graph] = ways;
        return eager.and(graph).map(drop);
    };
    report.heading(&format!("Decoding by {} on {device}, recorded and replayed", model.display()));
    let (mut token, mut different) = (1, 0);
    for turn in 0..WARM_UP + tokens {
        if turn == WARM_UP {
            for way in [&mut *eager, &mut *graph] {
                way.counters = way.device.counters();
            }
        }
        let measured = turn >= WARM_UP;
        // The second of the two finds other caches: they take turns.
        let (first, second) = match turn % 2 {
            0 => (eager.step(token, measured)?, graph.step(token, measured)?),
            _ => {
                let second = graph.step(token, measured)?;
                (eager.step(token, measured)?, second)
            }
        };
        different += usize::from(first != second);
        token = first;
    }
    let on_cpu = device == "cpu";
    let target = |on: bool, target: Target| if on { target } else { Target::None };
    for (name, way) in [("recorded", &*eager), ("replayed", &*graph)] {
        report.row(
            &format!("token, {name}"),
            way.times.median() * 1e3,
            way.times.spread() * 1e3,
            "ms",
            Target::None,
        );
        let (host, spread) = (way.host.median() * 1e6, way.host.spread() * 1e6);
        report.row(&format!("host time of a token, {name}"), host, spread, "us", Target::None);
    }
    let (speed, spread) = crate::measure::ratio(&eager.times, &graph.times);
    report.row("speed of replayed over recorded", speed, spread, "x", target(on_cpu, Target::AtLeast(1.15)));
    let (host, spread) = crate::measure::ratio(&graph.host, &eager.host);
    report.row("host time, replayed over recorded", host, spread, "x", target(!on_cpu, Target::AtMost(0.7)));
    let (part, spread) = crate::measure::ratio(&graph.host, &graph.times);
    report.row(
        "host part of a replayed token",
        part * 1e2,
        spread * 1e2,
        "%",
        target(on_cpu, Target::AtMost(2.0)),
    );
    let made = |way: &Way| {
        let made = way.device.counters().since(&way.counters);
        [made.dispatches + made.transfers, made.barriers].map(|count| count as f64 / tokens as f64)
    };
    for (what, (graph, eager)) in
        ["commands", "barriers"].iter().zip(made(graph).into_iter().zip(made(eager)))
    {
        let what = format!("{what}: {graph:.0} replayed, {eager:.0} recorded; ratio");
        report.row(&what, graph / eager, 0.0, "x", Target::AtMost(0.7));
    }
    report.row("tokens that differ", different as f64, 0.0, "", Target::None);
    Ok(())
}
