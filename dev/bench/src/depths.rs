//! Attention over caches of f16 by depth: bytes of the cache in a second for one query, operations for a prompt.
//!
//! The caches of all layers together are about as large at every depth: what changes is the kernel's doing, not that caches
//! of the processor hold a short history and no long one.

use crate::attention::{Bench, MODELS, Model};
use crate::measure::quickest;
use crate::report::{Report, Target};
use serde_json::json;
use silicide_core::{Device, DeviceOptions};
use std::time::Duration;

/// Bytes of all layers' caches.
const DISTINCT: usize = 256 << 20;
/// Layers at most; more of them would measure recording.
const LAYERS: usize = 2048;
/// Time for one figure.
const BUDGET: Duration = Duration::from_millis(300);

pub(crate) fn run(
    report: &mut Report,
    depths: &[usize],
    threads: &[usize],
    prompt: usize,
) -> anyhow::Result<()> {
    for &threads in threads {
        let mut options = DeviceOptions::default();
        options.threads = Some(threads);
        let device = Device::open_with("cpu", &options)?;
        for model in MODELS {
            let Model { heads, kv_heads, dim, .. } = model;
            let shape = format!("{heads}/{kv_heads} heads of {dim}");
            report.heading(&format!("Attention by depth, {shape}, {threads} threads"));
            let about = |kind: &str, depth: usize| json!({"attention": kind, "heads": shape, "depth": depth, "threads": threads});
            for &depth in depths.iter().filter(|&&depth| depth > 0) {
                let layers = (DISTINCT / (depth * kv_heads * dim * 4)).clamp(1, LAYERS);
                let bench = Bench::new(&device, Model { layers, ..model }, 1, depth - 1)?;
                let seconds = quickest(BUDGET, threads, || bench.run())?;
                let speed = bench.cache_bytes() as f64 / seconds / 1e9;
                report.about(about("query", depth)).row(
                    &format!("one query at {depth}"),
                    speed,
                    0.0,
                    "GB/s",
                    Target::None,
                );
            }
            for &depth in depths {
                let bench = Bench::new(&device, Model { layers: 1, ..model }, prompt, depth)?;
                let seconds = quickest(BUDGET, threads, || bench.run())?;
                // Only what queries see counts: all that was there, and half of the square.
                let seen = prompt * depth + prompt * (prompt + 1) / 2;
                let speed = (4 * heads * dim * seen) as f64 / seconds / 1e9;
                report.about(about("prompt", depth)).row(
                    &format!("a prompt of {prompt} at {depth}"),
                    speed,
                    0.0,
                    "GFLOP/s",
                    Target::None,
                );
            }
        }
    }
    Ok(())
}
