//! Attention: one query over caches of f16 against the speed at which the same bytes can be read, and a prompt against
//! the speed of our own matrix product, each in alternation. [`Bench`] takes every type of cache.

use crate::measure::{alternate, ratio};
use crate::report::{Report, Target};
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions};
use silicide_ops::attention::{Attention, AttentionInputs, KEY_LANES, Visibility, WorkList, attention_into};
use silicide_ops::matmul;
use silicide_quant::{DType, encode_into};
use std::hint::black_box;
use std::time::Duration;

/// A model's attention.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) dim: usize,
}

pub(crate) const MODELS: [Model; 2] = [
    Model { name: "30 layers of 9 / 3 x 64", layers: 30, heads: 9, kv_heads: 3, dim: 64 },
    Model { name: "4 layers of 32 / 8 x 128", layers: 4, heads: 32, kv_heads: 8, dim: 128 },
];

/// Queries over the caches of all layers.
pub(crate) struct Bench {
    device: Device,
    model: Model,
    caches: Vec<[Buffer; 2]>,
    q: Buffer,
    y: Buffer,
    work: Buffer,
    rule: Attention,
    /// Keys that the last query sees.
    keys: usize,
}

impl Bench {
    /// Caches of keys and of values of `types`, for `tokens` queries from position `start` on.
    pub(crate) fn new(
        device: &Device,
        model: Model,
        types: [DType; 2],
        tokens: usize,
        start: usize,
    ) -> anyhow::Result<Bench> {
        let keys = start + tokens;
        let capacity = keys.next_multiple_of(KEY_LANES);
        // One row, again and again: encoding a cache takes longer than the bench.
        let row: Vec<f32> = (0..model.dim).map(|i| (i * 41 % 97) as f32 / 50.0 - 1.0).collect();
        let cache = |is_keys: bool| {
            let dtype = types[usize::from(!is_keys)];
            let buffer = if is_keys && !dtype.is_compressed() {
                let shape = [model.kv_heads, capacity / KEY_LANES, model.dim, KEY_LANES];
                Buffer::allocate(device, dtype, shape)?
            } else {
                Buffer::allocate(device, dtype, [model.kv_heads, capacity, model.dim])?
            };
            let mut coded = vec![0; buffer.size() / (model.kv_heads * capacity)];
            encode_into(dtype, &row, &mut coded, 1)?;
            let bytes = buffer.reinterpret(DType::U8)?;
            bytes.write::<u8>()?.chunks_exact_mut(coded.len()).for_each(|slot| slot.copy_from_slice(&coded));
            anyhow::Ok(buffer)
        };
        let caches = (0..model.layers)
            .map(|_| anyhow::Ok([cache(true)?, cache(false)?]))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let queries = || Buffer::allocate(device, DType::F32, [tokens, model.heads, model.dim]);
        let (q, y) = (queries()?, queries()?);
        for (i, value) in q.write::<f32>()?.iter_mut().enumerate() {
            *value = (i % 89) as f32 / 44.0 - 1.0;
        }
        let work = WorkList::buffer(device, &Visibility::causal(capacity), start, tokens)?;
        let scale = 1.0 / (model.dim as f32).sqrt();
        let rule = Attention { scale, softcap: None };
        Ok(Bench { device: device.clone(), model, caches, q, y, work, rule, keys })
    }

    /// Every layer, one after the other.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut encoder = CommandEncoder::new(&self.device);
        for [k, v] in &self.caches {
            let inputs = AttentionInputs { q: &self.q, k, v, work: &self.work, sinks: None };
            attention_into(&mut encoder, self.rule, &inputs, &self.y)?;
        }
        Ok(encoder.submit()?.wait()?)
    }

    pub(crate) fn cache_bytes(&self) -> usize {
        self.caches.iter().flatten().map(Buffer::size).sum()
    }
}

/// The yardstick: each of `threads` threads adds up its part of `words`.
fn read(words: &[u64], threads: usize) {
    std::thread::scope(|scope| {
        for part in words.chunks(words.len().div_ceil(threads)) {
            scope.spawn(move || black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word))));
        }
    });
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    for threads in [1, 2] {
        let mut options = DeviceOptions::default();
        options.threads = Some(threads);
        let device = Device::open_with("cpu", &options)?;
        for model in MODELS {
            report.heading(&format!("Attention over f16, {}, {threads} threads", model.name));
            for depth in [512, 4096] {
                decode(report, &Bench::new(&device, model, [DType::F16; 2], 1, depth - 1)?, threads)?;
            }
            prefill(report, &Bench::new(&device, Model { layers: 1, ..model }, [DType::F16; 2], 512, 0)?)?;
        }
    }
    Ok(())
}

fn decode(report: &mut Report, bench: &Bench, threads: usize) -> anyhow::Result<()> {
    let words = vec![1u64; bench.cache_bytes() / 8];
    let times = alternate(
        Duration::from_millis(700),
        &mut [
            &mut || {
                read(&words, threads);
                Ok(())
            },
            &mut || bench.run(),
        ],
    )?;
    let [reading, attending] = times.as_slice() else { return Ok(()) };
    let depth = bench.keys;
    let (speed, spread) = ratio(reading, attending);
    report.row(&format!("one query at {depth}, of reading the cache"), speed, spread, "x", Target::None);
    let rate = bench.cache_bytes() as f64 / attending.median() / 1e9;
    report.row(&format!("one query at {depth}"), rate, 0.0, "GB/s", Target::None);
    let layer = attending.median() / bench.model.layers as f64 * 1e6;
    report.row(&format!("one query at {depth}, a layer"), layer, 0.0, "us", Target::None);
    Ok(())
}

fn prefill(report: &mut Report, bench: &Bench) -> anyhow::Result<()> {
    const SIZE: usize = 512;
    let square = || Buffer::allocate(&bench.device, DType::F32, [SIZE, SIZE]);
    let (a, b, y) = (square()?, square()?, square()?);
    a.write::<f32>()?.fill(0.5);
    b.write::<f32>()?.fill(0.25);
    let mut multiply = || {
        let mut encoder = CommandEncoder::new(&bench.device);
        matmul::matmul_into(&mut encoder, &a, &b, &y)?;
        anyhow::Ok(encoder.submit()?.wait()?)
    };
    let times = alternate(Duration::from_millis(700), &mut [&mut multiply, &mut || bench.run()])?;
    let [multiplying, attending] = times.as_slice() else { return Ok(()) };
    let tokens = bench.keys as f64;
    // Only what queries see counts: half of the square.
    let flops = 4.0 * (bench.model.heads * bench.model.dim) as f64 * tokens * (tokens + 1.0) / 2.0;
    let peer = 2.0 * (SIZE as f64).powi(3);
    let (speed, spread) = ratio(multiplying, attending);
    let unit = flops / peer;
    report.row("a prompt of 512, of our matmul's speed", speed * unit, spread * unit, "x", Target::None);
    report.row("a prompt of 512", flops / attending.median() / 1e9, 0.0, "GFLOP/s", Target::None);
    report.row("a prompt of 512, a layer", attending.median() * 1e6, 0.0, "us", Target::None);
    Ok(())
}
