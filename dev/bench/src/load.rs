//! Loading a large file: how long, and how much memory it takes beside the weights.
//!
//! Memory is what the system says this process holds without a file behind it (`RssAnon`, `RssShmem`), sampled while
//! loading. Where the weights are copied they are part of that, and are subtracted: what is left is what loading
//! itself takes.

use crate::report::{Report, Target};
use anyhow::Context;
use silicide_core::{Device, LoadOptions, Loader, Placement};
use silicide_quant::{DType, Format, Shape};
use silicide_weights::{Source, gguf::GgufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MIB: f64 = (1 << 20) as f64;

/// Loads a file of about `gigabytes`, on every device, by every way.
pub(crate) fn run(report: &mut Report, gigabytes: f64) -> anyhow::Result<()> {
    report.heading("Loading weights");
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("model.gguf");
    write(&path, gigabytes)?;
    let source = Source::open(&path)?;
    let size = std::fs::metadata(&path)?.len() as f64;
    for name in ["cpu", crate::gpu::NAME] {
        for placement in [Placement::InPlace, Placement::Copy, Placement::Staged] {
            let device = match Device::open(name) {
                Ok(device) => device,
                Err(error) => {
                    report.heading(&format!("  {name} is left out: {error}"));
                    break;
                }
            };
            let mut options = LoadOptions::default();
            options.placement = placement;
            // Memory of the program, of the driver, and of earlier runs that the allocator kept.
            let before = anonymous()?;
            let begun = Instant::now();
            let (loaded, peak) = watch(|| {
                let mut loader = Loader::new(&device, &source, options);
                loader.load_all().map(|weights| (weights, loader.report()))
            })?;
            let seconds = begun.elapsed().as_secs_f64();
            let (_weights, loaded) = loaded?;
            let weights = loaded.copied + loaded.staged;
            let extra = peak.saturating_sub(before).saturating_sub(weights) as f64 / MIB;
            let what = format!("{:.2} GB onto {name}, {placement:?}", size / 1e9);
            report.row(&format!("{what}: peak beside weights"), extra, 0.0, "MiB", Target::AtMost(64.0));
            report.row(&format!("{what}: time"), seconds, 0.0, "s", Target::None);
        }
    }
    Ok(())
}

/// A model of matrices of 40 to 160 MB, as a large one has.
fn write(path: &Path, gigabytes: f64) -> anyhow::Result<()> {
    let dtype = DType::Block(Format::Q8_0);
    let shapes = [Shape::new(&[9216, 4096])?, Shape::new(&[4096, 12_288])?, Shape::new(&[36_864, 4096])?];
    let mut writer = GgufWriter::new(path);
    let mut bytes = 0;
    let mut sizes = Vec::new();
    for (number, shape) in shapes.iter().cycle().enumerate() {
        if bytes as f64 >= gigabytes * 1e9 {
            break;
        }
        writer.tensor(&format!("blk.{number}.weight"), *shape, dtype)?;
        sizes.push(shape.bytes(dtype)?);
        bytes += shape.bytes(dtype)?;
    }
    let mut stream = writer.begin()?;
    let piece: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for size in sizes {
        for start in (0..size).step_by(piece.len()) {
            stream.write(piece.get(..piece.len().min(size - start)).context("a piece")?)?;
        }
    }
    Ok(stream.finish()?)
}

/// Calls `run` and returns its result and the most anonymous memory that was seen meanwhile, in bytes.
fn watch<T>(run: impl FnOnce() -> T) -> anyhow::Result<(T, u64)> {
    let (stop, peak) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| -> anyhow::Result<()> {
            while !stop.load(Relaxed) {
                peak.fetch_max(anonymous()?, Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        let result = run();
        stop.store(true, Relaxed);
        sampler.join().map_err(|_| anyhow::anyhow!("the sampler panicked"))??;
        anyhow::Ok(result)
    })?;
    peak.fetch_max(anonymous()?, Relaxed);
    Ok((result, peak.load(Relaxed)))
}

/// Bytes of this process without a file behind them.
fn anonymous() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("only Linux tells")?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let (anonymous, shared) = (of("RssAnon:").context("RssAnon")?, of("RssShmem:").context("RssShmem")?);
    Ok((anonymous + shared) * 1024)
}
