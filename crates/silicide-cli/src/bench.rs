//! `silicide bench`: tokens per second, of prompts and of generation.

use crate::arguments::{DeviceArgs, EngineArgs, ModelArgs, ModelRef, SplitArgs, isa, threads};
use crate::common::{cancel_on_interrupt, note_kernels};
use crate::error::Error;
use crate::facts::{CacheFacts, LayerFacts, ModelFacts, build};
use crate::output::is_quiet;
use crate::profile::ProfileArgs;
use crate::run::Waiting;
use crate::terminal::Printer;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanBytes;
use serde::Serialize;
use silicide::CancelToken;
use silicide::hal::cpu::Isa;
use silicide_llm::engine::{LogitsFrom, Session};
use std::time::Instant;

/// Measure tokens per second
///
/// Measures prompts (pp) and generation (tg), for each length, depth, thread count, instruction set and device.
#[derive(Debug, Args)]
#[command(override_usage = "silicide bench [OPTIONS] <MODEL>")]
#[command(after_help = "Examples:
  silicide bench smollm2
  silicide bench model.gguf -p 512 -n 128 -d 0,4096 -t 1,2 -r 5
  silicide bench model.gguf --isa avx2,avx512        # one instruction set after the other
  silicide bench model.gguf --device cpu,vulkan:0 --json

The table is markdown, to be pasted. Lists have commas; every combination is measured.")]
pub(crate) struct Bench {
    #[command(flatten)]
    model: ModelRef,
    #[command(flatten)]
    tests: TestArgs,
    /// Devices, as `silicide devices` lists them; best: a GPU if there is one, else the CPU [aliases: -dev]
    #[arg(long, value_delimiter = ',', default_value = "best", value_name = "NAME", help_heading = "Device")]
    #[arg(env = "SILICIDE_DEVICE", hide_env_values = true)]
    device: Vec<String>,
    /// Numbers of CPU threads; 0: one per core [default: 0]
    #[arg(short, long, value_delimiter = ',', value_name = "N", value_parser = threads, help_heading = "Device")]
    #[arg(allow_negative_numbers = true, env = "SILICIDE_THREADS", hide_env_values = true)]
    threads: Vec<usize>,
    /// Instruction sets of the CPU device: portable, neon, avx2, avx-vnni, avx512 [default: the best of this CPU]
    #[arg(long, value_delimiter = ',', value_name = "ISA", value_parser = isa, help_heading = "Device")]
    #[arg(env = "SILICIDE_ISA", hide_env_values = true)]
    isa: Vec<Isa>,
    #[command(flatten)]
    split: SplitArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Print one JSON object instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The tests to run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tests")]
struct TestArgs {
    /// Prompt lengths in tokens; 0: no prompt test
    #[arg(short = 'p', long, value_delimiter = ',', default_value = "512", value_name = "N")]
    n_prompt: Vec<usize>,
    /// Numbers of tokens to generate; 0: no generation test
    #[arg(short, long, value_delimiter = ',', default_value = "128", value_name = "N")]
    n_gen: Vec<usize>,
    /// Depths: tokens that are in the KV cache before the test
    #[arg(short = 'd', long, value_delimiter = ',', default_value = "0", value_name = "N")]
    n_depth: Vec<usize>,
    /// Repetitions of each test; the table has the mean and the standard deviation
    #[arg(short, long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    repetitions: u32,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    test: String,
    tokens: usize,
    depth: usize,
    /// The devices: `vulkan:0 + cpu`.
    device: String,
    layers: LayerFacts,
    /// The vendors' names of the devices.
    device_name: String,
    isa: Option<&'static str>,
    threads: usize,
    cache: CacheFacts,
    /// Tokens per second: the mean, its standard deviation, and each measurement.
    mean: f64,
    stddev: f64,
    samples: Vec<f64>,
}

/// Everything, with the first of each kind where programs look for it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    build: String,
    model: String,
    model_facts: &'a ModelFacts,
    pp: Option<f64>,
    pp_stddev: Option<f64>,
    tg: Option<f64>,
    tg_stddev: Option<f64>,
    results: &'a [Measured],
}

/// One test.
#[derive(Clone, Copy, Debug)]
enum Test {
    Prompt(usize),
    Generation(usize),
}

impl Bench {
    pub(crate) fn run(self) -> Result<(), Error> {
        let cancel = cancel_on_interrupt();
        if self.tests.n_prompt.iter().chain(&self.tests.n_gen).all(|&count| count == 0) {
            return Err(Error::Usage("nothing to measure: give -p or -n a number above 0".to_owned()));
        }
        self.profile.check()?;
        // The model is found, and fetched, once.
        let path = self.model.path(&cancel)?;
        let facts = ModelFacts::read(&path)?;
        let mut results = Vec::new();
        for arguments in self.devices() {
            match self.measure_on(arguments, &cancel, &mut results) {
                // The results so far are shown.
                Err(error) if error.is_cancelled() => {
                    self.print(&facts, &results)?;
                    return Err(Error::Interrupted);
                }
                outcome => outcome?,
            }
        }
        self.print(&facts, &results)
    }

    /// Returns every combination of device, instruction set and number of threads.
    fn devices(&self) -> Vec<DeviceArgs> {
        fn each<T: Copy>(all: &[T]) -> Vec<Option<T>> {
            if all.is_empty() { vec![None] } else { all.iter().copied().map(Some).collect() }
        }
        let mut combined = Vec::new();
        for device in &self.device {
            for isa in each(&self.isa) {
                for threads in each(&self.threads) {
                    combined.push(DeviceArgs {
                        device: device.clone(),
                        threads,
                        isa,
                        split: self.split.clone(),
                        timing: self.profile.is_wanted(),
                    });
                }
            }
        }
        combined
    }

    fn measure_on(
        &self,
        device: DeviceArgs,
        cancel: &CancelToken,
        results: &mut Vec<Measured>,
    ) -> Result<(), Error> {
        let longest = |lengths: &[usize]| lengths.iter().copied().max().unwrap_or(0);
        // Absurd sums stay absurd, and are refused with the context.
        let room = longest(&self.tests.n_prompt)
            .max(longest(&self.tests.n_gen))
            .saturating_add(longest(&self.tests.n_depth));
        let mut engine = self.engine.clone();
        engine.ctx_size = engine.ctx_size.filter(|&size| size > 0).or(Some(room.max(32)));
        let arguments = ModelArgs { model: self.model.clone(), device, engine };
        let mut session = arguments.session(cancel)?;
        if room > session.context() {
            let context = session.context();
            return Err(silicide_llm::Error::ContextFull { tokens: room, context }.into());
        }
        let tests = self.tests.n_prompt.iter().filter(|&&count| count > 0).map(|&count| Test::Prompt(count));
        let tests: Vec<Test> = tests
            .chain(self.tests.n_gen.iter().filter(|&&count| count > 0).map(|&count| Test::Generation(count)))
            .collect();
        for &depth in &self.tests.n_depth {
            for &test in &tests {
                // Once without looking at the clock: caches warm up, kernels get compiled.
                let waiting = Waiting::default();
                waiting.start(session.model().device());
                let warmed = test.warm_up().measure(&mut session, depth, cancel);
                waiting.stop();
                warmed?;
                self.profile.begin(&mut session);
                let mut samples = Vec::new();
                for _ in 0..self.tests.repetitions {
                    samples.push(test.measure(&mut session, depth, cancel)?);
                }
                results.push(Measured::new(test, depth, &session, samples)?);
                self.profile.finish(&session)?;
                if !self.json && !is_quiet() {
                    let row = results.last().map(|row| format!("{} {:.1}", row.test, row.mean));
                    eprintln!("{}", row.unwrap_or_default());
                }
            }
        }
        note_kernels(session.model());
        Ok(())
    }

    fn print(&self, facts: &ModelFacts, results: &[Measured]) -> Result<(), Error> {
        if self.json {
            let first = |kind: &str| results.iter().find(|row| row.test.starts_with(kind));
            let (pp, tg) = (first("pp"), first("tg"));
            let report = Report {
                build: build(),
                model: self.model.name()?,
                model_facts: facts,
                pp: pp.map(|row| row.mean),
                pp_stddev: pp.map(|row| row.stddev),
                tg: tg.map(|row| row.mean),
                tg_stddev: tg.map(|row| row.stddev),
                results,
            };
            println!("{}", serde_json::to_string(&report)?);
            return Ok(());
        }
        let mut text = format!("{}\n\n{}", self.table(facts, results), build());
        let mut devices: Vec<&Measured> = Vec::new();
        for row in results {
            if devices.iter().all(|device| device.device != row.device) {
                text += &format!(" \u{b7} {}: {}", row.device, row.device_name);
                devices.push(row);
            }
        }
        text.push('\n');
        Ok(Printer::stdout().print(&text)?)
    }

    /// Returns the table in markdown. Settings that are not the default have columns of their own.
    fn table(&self, facts: &ModelFacts, results: &[Measured]) -> Table {
        let engine = &self.engine;
        let mut settings = Vec::new();
        if results.iter().any(|row| !row.cache.is_default()) {
            // Each row has its own.
            settings.push(("KV cache", String::new()));
        }
        if engine.ubatch_size != 512 {
            settings.push(("ubatch", engine.ubatch_size.to_string()));
        }
        if engine.no_repack {
            settings.push(("repack", "no".to_owned()));
        }
        if engine.repack_cache {
            settings.push(("repack", "mapped".to_owned()));
        }
        if engine.mlock {
            settings.push(("mlock", "yes".to_owned()));
        }
        let is_split = results.iter().any(|row| row.layers.text().is_some());
        if is_split {
            // Each row has its own.
            settings.push(("ngl", String::new()));
        }
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        let fixed = ["model", "size", "params", "device", "threads"];
        let names = settings.iter().map(|(name, _)| *name);
        table.set_header(fixed.into_iter().chain(names).chain(["test", "tokens/s"]));
        for row in results {
            let device = match row.isa {
                Some(isa) => format!("{} ({isa})", row.device),
                None => row.device.clone(),
            };
            let threads = if row.threads == 0 { String::new() } else { row.threads.to_string() };
            let test = match row.depth {
                0 => row.test.clone(),
                depth => format!("{} @ d{depth}", row.test),
            };
            let speed = match row.samples.len() {
                0 | 1 => format!("{:.2}", row.mean),
                _ => format!("{:.2} \u{b1} {:.2}", row.mean, row.stddev),
            };
            let model = format!("{} {}", facts.name, facts.format);
            let first =
                [model, HumanBytes(facts.bytes).to_string(), facts.parameters_text(), device, threads];
            let values = settings.iter().map(|(name, value)| match *name {
                "ngl" => row.layers.ngl_text(),
                "KV cache" => row.cache.text(),
                _ => value.clone(),
            });
            table.add_row(first.into_iter().chain(values).chain([test, speed]));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            if ![0, 3].contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

impl Test {
    /// Returns the test that runs before the measurement.
    fn warm_up(self) -> Test {
        match self {
            Test::Prompt(count) => Test::Prompt(count),
            Test::Generation(count) => Test::Generation(count.min(2)),
        }
    }

    /// Tokens per second of one run.
    fn measure(self, session: &mut Session, depth: usize, cancel: &CancelToken) -> Result<f64, Error> {
        let vocabulary = session.model().description().vocabulary.max(1);
        let (Test::Prompt(count) | Test::Generation(count)) = self;
        // Any tokens do; these are spread over the vocabulary.
        let token = |i: usize| (i.wrapping_mul(7919).wrapping_add(13) % vocabulary) as u32;
        let (before, tokens): (Vec<u32>, Vec<u32>) =
            ((0..depth).map(token).collect(), (depth..depth + count).map(token).collect());
        let mut feed = |tokens: &[u32]| session.feed(tokens, LogitsFrom::Last, cancel, &mut |_, _| Ok(()));
        feed(&before)?;
        let begin = Instant::now();
        match self {
            Test::Prompt(_) => feed(&tokens)?,
            Test::Generation(_) => tokens.chunks(1).try_for_each(&mut feed)?,
        }
        let seconds = begin.elapsed().as_secs_f64();
        session.rewind(0);
        Ok(count as f64 / seconds)
    }

    fn name(self) -> String {
        match self {
            Test::Prompt(count) => format!("pp{count}"),
            Test::Generation(count) => format!("tg{count}"),
        }
    }
}

impl Measured {
    fn new(test: Test, depth: usize, session: &Session, samples: Vec<f64>) -> Result<Measured, Error> {
        let (model, layers) = (session.model(), LayerFacts::of(session.model()));
        let infos = || model.devices().iter().map(|device| device.info());
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let (Test::Prompt(tokens) | Test::Generation(tokens)) = test;
        Ok(Measured {
            test: test.name(),
            tokens,
            depth,
            device: layers.devices_text(),
            layers,
            device_name: infos().map(|info| info.name.as_str()).collect::<Vec<_>>().join(" + "),
            isa: infos().find_map(|info| info.isa).map(Isa::name),
            threads: infos().map(|info| info.threads).max().unwrap_or(0),
            cache: CacheFacts::of(model)?,
            mean,
            stddev: (squares / (count - 1.0).max(1.0)).sqrt(),
            samples,
        })
    }
}
