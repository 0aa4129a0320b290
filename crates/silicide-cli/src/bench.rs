//! `silicide bench`: tokens per second, of prompts and of generation.

use crate::arguments::{DeviceArgs, EngineArgs, ModelArgs, threads};
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use crate::profile::ProfileArgs;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use silicide::CancelToken;
use silicide_llm::engine::{Session, Wanted};
use std::time::Instant;

/// Measures tokens per second: of prompts (pp) and of generation (tg), at each length, depth, thread count and device.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  silicide bench -m model.gguf -p 512 -n 128 -d 0,4096 -t 1,2 -r 3")]
pub(crate) struct Bench {
    /// The model: a GGUF file, a folder with safetensors, or a name such as smollm2.
    #[arg(short, long, value_name = "MODEL")]
    model: String,
    /// Lengths of prompts; 0 for none.
    #[arg(short = 'p', long, value_delimiter = ',', default_value = "512", value_name = "N")]
    n_prompt: Vec<usize>,
    /// Numbers of tokens to generate; 0 for none.
    #[arg(short, long, value_delimiter = ',', default_value = "128", value_name = "N")]
    n_gen: Vec<usize>,
    /// Tokens that are in the cache already.
    #[arg(short = 'd', long, value_delimiter = ',', default_value = "0", value_name = "N")]
    n_depth: Vec<usize>,
    /// Threads of the CPU; one per core by default.
    #[arg(short, long, value_delimiter = ',', value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    threads: Vec<usize>,
    /// Devices.
    #[arg(long, value_delimiter = ',', default_value = "best", value_name = "NAME")]
    device: Vec<String>,
    /// How often each is measured.
    #[arg(short, long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    repetitions: u32,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    test: String,
    tokens: usize,
    depth: usize,
    device: String,
    threads: usize,
    /// Tokens per second: the mean, its standard deviation, and each measurement.
    mean: f64,
    stddev: f64,
    samples: Vec<f64>,
}

/// Everything, with the first of each kind where programs look for it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    model: &'a str,
    pp: Option<f64>,
    pp_stddev: Option<f64>,
    tg: Option<f64>,
    tg_stddev: Option<f64>,
    results: &'a [Measured],
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
enum Test {
    Prompt(usize),
    Generation(usize),
}

impl Bench {
    pub(crate) fn run(self) -> Result<(), Error> {
        let cancel = cancel_on_interrupt();
        if self.n_prompt.iter().chain(&self.n_gen).all(|&count| count == 0) {
            return Err(Error::Usage("nothing to measure: give -p or -n a number above 0".to_owned()));
        }
        let mut results = Vec::new();
        let threads: Vec<Option<usize>> = if self.threads.is_empty() {
            vec![None]
        } else {
            self.threads.iter().copied().map(Some).collect()
        };
        for device in &self.device {
            for &threads in &threads {
                let device = DeviceArgs { device: device.clone(), threads, timing: self.profile.is_wanted() };
                match self.measure_on(device, &cancel, &mut results) {
                    // What was measured is shown.
                    Err(error) if error.is_cancelled() => {
                        self.print(&results)?;
                        return Err(Error::Interrupted);
                    }
                    outcome => outcome?,
                }
            }
        }
        self.print(&results)
    }

    fn measure_on(
        &self,
        device: DeviceArgs,
        cancel: &CancelToken,
        results: &mut Vec<Measured>,
    ) -> Result<(), Error> {
        let longest = |lengths: &[usize]| lengths.iter().copied().max().unwrap_or(0);
        // Absurd sums stay absurd, and are refused with the context.
        let room = longest(&self.n_prompt).max(longest(&self.n_gen)).saturating_add(longest(&self.n_depth));
        let mut engine = self.engine.clone();
        engine.ctx_size = engine.ctx_size.filter(|&size| size > 0).or(Some(room.max(32)));
        let arguments = ModelArgs { model: Some(self.model.clone()), device, engine };
        let mut session = arguments.session(cancel)?;
        if room > session.context() {
            let context = session.context();
            return Err(silicide_llm::Error::ContextFull { tokens: room, context }.into());
        }
        let tests = self.n_prompt.iter().filter(|&&count| count > 0).map(|&count| Test::Prompt(count));
        let tests: Vec<Test> = tests
            .chain(self.n_gen.iter().filter(|&&count| count > 0).map(|&count| Test::Generation(count)))
            .collect();
        for &depth in &self.n_depth {
            for &test in &tests {
                // Once without looking at the clock: caches warm up, kernels get compiled.
                test.warm_up().measure(&mut session, depth, cancel)?;
                self.profile.begin(&mut session);
                let mut samples = Vec::new();
                for _ in 0..self.repetitions {
                    samples.push(test.measure(&mut session, depth, cancel)?);
                }
                results.push(Measured::new(test, depth, &session, samples));
                self.profile.finish(&session)?;
                if !self.json {
                    let row = results.last().map(|row| format!("{} {:.1}", row.test, row.mean));
                    eprintln!("{}", row.unwrap_or_default());
                }
            }
        }
        Ok(())
    }

    fn print(&self, results: &[Measured]) -> Result<(), Error> {
        if self.json {
            let first = |kind: &str| results.iter().find(|row| row.test.starts_with(kind));
            let (pp, tg) = (first("pp"), first("tg"));
            let report = Report {
                model: &self.model,
                pp: pp.map(|row| row.mean),
                pp_stddev: pp.map(|row| row.stddev),
                tg: tg.map(|row| row.mean),
                tg_stddev: tg.map(|row| row.stddev),
                results,
            };
            println!("{}", serde_json::to_string(&report)?);
            return Ok(());
        }
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header(["test", "depth", "device", "threads", "tokens/s", "±"]);
        for column in [1, 3, 4, 5] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in results {
            let (depth, threads) = (row.depth.to_string(), row.threads.to_string());
            let (mean, spread) = (format!("{:.2}", row.mean), format!("{:.2}", row.stddev));
            table.add_row([&row.test, &depth, &row.device, &threads, &mean, &spread]);
        }
        println!("{table}");
        Ok(())
    }
}

impl Test {
    /// What is run before the clock is looked at.
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
        let mut feed = |tokens: &[u32]| session.feed(tokens, Wanted::Last, cancel, &mut |_, _| Ok(()));
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
    fn new(test: Test, depth: usize, session: &Session, samples: Vec<f64>) -> Measured {
        let info = session.model().device().info();
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let (Test::Prompt(tokens) | Test::Generation(tokens)) = test;
        Measured {
            test: test.name(),
            tokens,
            depth,
            device: info.id.clone(),
            threads: info.threads,
            mean,
            stddev: (squares / (count - 1.0).max(1.0)).sqrt(),
            samples,
        }
    }
}
