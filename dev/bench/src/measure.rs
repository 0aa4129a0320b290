//! Timing: repetitions, medians, quartiles, and alternation of what is compared.

use crate::machine::cpu_time;
use std::time::{Duration, Instant};

/// Times of one thing, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    fn sorted(&self) -> Vec<f64> {
        let mut times = self.0.clone();
        times.sort_by(f64::total_cmp);
        times
    }

    fn at(&self, fraction: f64) -> f64 {
        let times = self.sorted();
        let index = ((times.len().saturating_sub(1)) as f64 * fraction).round() as usize;
        times.get(index).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn push(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// The distance between the quartiles.
    pub(crate) fn spread(&self) -> f64 {
        self.at(0.75) - self.at(0.25)
    }
}

/// Runs each closure in turn, again and again until `budget` is used up, at least five rounds, and times each.
pub(crate) fn alternate(
    budget: Duration,
    runs: &mut [&mut dyn FnMut() -> anyhow::Result<()>],
) -> anyhow::Result<Vec<Times>> {
    let mut times = vec![Times::default(); runs.len()];
    for run in runs.iter_mut() {
        run()?;
    }
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < 5 || start.elapsed() < budget {
        for (run, times) in runs.iter_mut().zip(&mut times) {
            let begin = Instant::now();
            run()?;
            times.0.push(begin.elapsed().as_secs_f64());
        }
        rounds += 1;
    }
    Ok(times)
}

/// The median of the ratios between two things timed in alternation, and the distance between its quartiles.
pub(crate) fn ratio(over: &Times, under: &Times) -> (f64, f64) {
    let ratios = Times(over.0.iter().zip(&under.0).map(|(a, b)| a / b).collect());
    (ratios.median(), ratios.spread())
}

/// Times one thing.
pub(crate) fn repeat(budget: Duration, mut run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Times> {
    Ok(alternate(budget, &mut [&mut run])?.swap_remove(0))
}

/// Seconds of the fastest quarter of runs. On one thread that is CPU time, which neighbours disturb less than the clock.
pub(crate) fn quickest(
    budget: Duration,
    threads: usize,
    mut run: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    run()?;
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < 4 || start.elapsed() < budget {
        let (cpu, clock) = (cpu_time(), Instant::now());
        run()?;
        let taken = if threads == 1 { cpu_time() - cpu } else { clock.elapsed() };
        times.push(taken.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 4).copied().unwrap_or(f64::NAN))
}
