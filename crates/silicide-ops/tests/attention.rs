//! A row of attention has the same bits whatever rows share the call, however the cache is cut, for any number of threads, on each
//! instruction set: they depend on the query and on the keys and values that it sees. They are those of a plain statement of the definition.
#![allow(clippy::unwrap_used, clippy::panic)]

use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, Isa};
use silicide_ops::attention::{Attention, AttentionInputs, KEY_LANES, Visibility, WorkList, attention};
use silicide_ops::cache_write;
use silicide_ops::case::{Data, Input};
use silicide_quant::turbo::{TurboBits, TurboFormat};
use silicide_quant::{DType, Format};

/// A sequence of queries, keys and values.
struct Sequence {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    value_dim: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Sequence {
    fn new(tokens: usize, [heads, kv_heads, dim, value_dim]: [usize; 4]) -> Sequence {
        let values = |count: usize, scale: f64, seed: u64| -> Vec<f32> {
            let bytes = Input::of(DType::F32, &[count], Data::Gaussian { scale }).bytes(seed);
            bytes.as_chunks().0.iter().map(|x| f32::from_ne_bytes(*x)).collect()
        };
        let q = values(tokens * heads * dim, 2.0, 3);
        let (k, v) = (values(tokens * kv_heads * dim, 1.0, 5), values(tokens * kv_heads * value_dim, 1.0, 7));
        Sequence { heads, kv_heads, dim, value_dim, q, k, v }
    }
}

/// How a sequence is run.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Tokens of a call.
    chunk: usize,
    capacity: usize,
    window: Option<u32>,
    softcap: Option<f32>,
    sinks: bool,
    in_lanes: bool,
    types: [DType; 2],
}

/// Fills a buffer's bytes with ones: NaN in every float, and the scales of blocks.
fn fill(buffer: &Buffer) {
    let bytes = buffer.reinterpret(DType::U8).unwrap();
    bytes.write::<u8>().unwrap().fill(0xff);
}

/// Runs a sequence in chunks over a cache whose unwritten slots are NaN. Returns the bits of all outputs.
fn run(device: &Device, sequence: &Sequence, run: Run) -> Vec<u32> {
    let Sequence { heads, kv_heads, dim, value_dim, ref q, ref k, ref v } = *sequence;
    let Run { chunk, capacity, window, softcap, .. } = run;
    let tokens = q.len() / (heads * dim);
    let keys = if run.in_lanes {
        Buffer::allocate(device, run.types[0], [kv_heads, capacity / KEY_LANES, dim, KEY_LANES]).unwrap()
    } else {
        Buffer::allocate(device, run.types[0], [kv_heads, capacity, dim]).unwrap()
    };
    let values = Buffer::allocate(device, run.types[1], [kv_heads, capacity, value_dim]).unwrap();
    fill(&keys);
    fill(&values);
    let sinks: Vec<f32> = (0..heads).map(|head| head as f32 / 4.0).collect();
    let sinks = Buffer::from_slice(device, [heads], &sinks).unwrap();
    let scale = 1.0 / (dim as f32).sqrt();
    let rule = Attention { scale, softcap };
    let seen = Visibility { window, ..Visibility::causal(capacity) };
    let mut bits = Vec::new();
    let mut start = 0;
    while start < tokens {
        let count = chunk.min(tokens - start);
        let rows = |all: &[f32], heads: usize, dim: usize| {
            let part = &all[start * heads * dim..(start + count) * heads * dim];
            Buffer::from_slice(device, [count, heads, dim], part).unwrap()
        };
        let slots: Vec<u32> = (start..start + count).map(|position| (position % capacity) as u32).collect();
        let slots = Buffer::from_slice(device, [count], &slots).unwrap();
        let work = WorkList::buffer(device, &seen, start, count).unwrap();
        let q = rows(q, heads, dim);
        let mut encoder = CommandEncoder::new(device);
        cache_write(&mut encoder, &rows(k, kv_heads, dim), &slots, &keys).unwrap();
        cache_write(&mut encoder, &rows(v, kv_heads, value_dim), &slots, &values).unwrap();
        let sinks = run.sinks.then_some(&sinks);
        let inputs = AttentionInputs { q: &q, k: &keys, v: &values, work: &work, sinks };
        let y = attention(&mut encoder, rule, &inputs).unwrap();
        encoder.submit().unwrap().wait().unwrap();
        bits.extend(y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits));
        start += count;
    }
    bits
}

/// Devices with one to three threads, of every instruction set of this machine.
fn devices() -> impl Iterator<Item = (Isa, [Device; 3])> {
    Isa::available().into_iter().map(|isa| {
        samples::note_isa(isa.name(), "attention");
        let open = |threads| {
            let mut options = DeviceOptions::default();
            (options.isa, options.threads) = (Some(isa), Some(threads));
            Device::open_with("cpu", &options).unwrap()
        };
        (isa, [1, 2, 3].map(open))
    })
}

/// Compares runs of a sequence: each chunk on each number of threads, other capacities, both layouts.
fn compare(tokens: usize, shape: [usize; 4], plain: Run, capacities: &[usize]) {
    let sequence = Sequence::new(tokens, shape);
    for (isa, devices) in devices() {
        let [device, ..] = &devices;
        let whole = run(device, &sequence, plain);
        assert!(
            whole.iter().all(|bits| f32::from_bits(*bits).is_finite()),
            "{isa}: NaN of slots that no row sees"
        );
        let check = |device: &Device, other: Run| {
            let got = run(device, &sequence, other);
            let row = shape[0] * shape[3];
            let differs = whole.chunks(row).zip(got.chunks(row)).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{isa}, the first token that differs; {other:?} and {plain:?}");
        };
        for (i, chunk) in [1, 5, 7, 16, 64].into_iter().enumerate() {
            check(&devices[i % 3], Run { chunk, ..plain });
        }
        for device in &devices {
            check(device, plain);
        }
        for &capacity in capacities {
            let in_lanes = plain.in_lanes && capacity % KEY_LANES == 0;
            // A call of more tokens than slots beside the window would overwrite what its first queries see.
            let chunk = plain.window.map_or(33, |window| (capacity - window as usize + 1).min(33));
            check(device, Run { chunk, capacity, in_lanes, ..plain });
        }
    }
}

fn plain(tokens: usize, types: [DType; 2]) -> Run {
    let capacity = tokens.next_multiple_of(KEY_LANES);
    let in_lanes = !types[0].is_compressed();
    Run { chunk: tokens, capacity, window: None, softcap: None, sinks: false, in_lanes, types }
}

#[test]
fn rows_have_the_same_bits_for_every_chunk_capacity_and_layout() {
    let tokens = 1200;
    compare(tokens, [6, 2, 64, 64], plain(tokens, [DType::F16; 2]), &[tokens + 7, 2048, 4800]);
}

#[test]
fn rows_have_the_same_bits_for_every_type_of_cache() {
    let (q8_0, q4_0) = (DType::Block(Format::Q8_0), DType::Block(Format::Q4_0));
    for types in [[DType::F32; 2], [DType::BF16; 2], [q8_0; 2], [DType::F16, q8_0], [q4_0, DType::F32]] {
        compare(300, [4, 2, 64, 32], plain(300, types), &[307, 640]);
    }
    let turbo = |bits, len| DType::Turbo(TurboFormat::for_head(bits, len).unwrap());
    for bits in TurboBits::ALL {
        compare(300, [4, 2, 64, 32], plain(300, [turbo(bits, 64), turbo(bits, 32)]), &[307, 640]);
    }
    for types in [[DType::F16, turbo(TurboBits::B4, 32)], [turbo(TurboBits::B4, 64), DType::F16]] {
        compare(300, [4, 2, 64, 32], plain(300, types), &[307, 640]);
    }
}

#[test]
fn rows_have_the_same_bits_for_every_length_of_heads() {
    for shape in [[2, 1, 8, 24], [7, 1, 80, 40], [3, 3, 256, 512], [5, 1, 576, 512], [20, 1, 16, 8]] {
        compare(150, shape, plain(150, [DType::F16; 2]), &[155, 1024]);
    }
}

#[test]
fn rows_have_the_same_bits_in_windows_that_wrap_the_ring_twice() {
    let plain = Run { window: Some(200), ..plain(700, [DType::F16; 2]) };
    // The least ring has room for the window and the chunk.
    compare(700, [6, 2, 64, 64], plain, &[264, 272, 263, 208, 217, 336]);
    let plain = Run { window: Some(7), sinks: true, ..plain };
    compare(700, [4, 2, 32, 32], plain, &[16, 23, 39, 40]);
}

#[test]
fn rows_have_the_same_bits_with_caps_and_sinks() {
    let plain = Run { softcap: Some(2.0), sinks: true, ..plain(400, [DType::F32, DType::BF16]) };
    compare(400, [4, 4, 40, 40], plain, &[401, 512]);
}

/// A plain statement of the definition for one instruction set.
struct Definition {
    /// Whether products and sums are rounded once in vectors, and in the softmax.
    fused: [bool; 2],
}

/// A block, or a fold of some: the largest score, the sum of weights, weighted values.
#[derive(Clone)]
struct Part {
    largest: f32,
    sum: f32,
    values: Vec<f32>,
}

impl Definition {
    const PAGE: usize = 128;
    const BLOCKS: usize = 8;

    fn of(isa: Isa) -> Definition {
        let fused = isa != Isa::Portable;
        Definition { fused: [fused || cfg!(target_arch = "aarch64"), fused] }
    }

    fn fma(&self, a: f32, b: f32, c: f32) -> f32 {
        if self.fused[0] { a.mul_add(b, c) } else { a * b + c }
    }

    fn mul_add(&self, a: f32, b: f32, c: f32) -> f32 {
        if self.fused[1] { a.mul_add(b, c) } else { a * b + c }
    }

    /// e^x for x up to 0.
    fn exp(&self, x: f32) -> f32 {
        const BIASED: f32 = 12_582_912.0 + 127.0;
        if x < -87.0 {
            return 0.0;
        }
        let shifted = self.mul_add(x, std::f32::consts::LOG2_E, BIASED);
        let whole = shifted - BIASED;
        let rest = self.mul_add(whole, -0.693_359_4, x);
        let rest = self.mul_add(whole, 2.121_944_4e-4, rest);
        let mut value = 0.001_381_446_8;
        for coefficient in [0.008_368_781, 0.041_668_393, 0.166_665_2, 0.499_999_94, 1.0, 1.0] {
            value = self.mul_add(value, rest, coefficient);
        }
        value * f32::from_bits(shifted.to_bits() << 23)
    }

    fn fold(&self, a: &mut Part, b: &Part) {
        let largest = a.largest.max(b.largest);
        let (here, there) = (self.exp(a.largest - largest), self.exp(b.largest - largest));
        a.sum = self.mul_add(b.sum, there, a.sum * here);
        for (a, b) in a.values.iter_mut().zip(&b.values) {
            *a = self.fma(*b, there, self.fma(*a, here, 0.0));
        }
        a.largest = largest;
    }

    /// All lanes to one, by halves.
    fn halve(mut lanes: [f32; 16], pair: impl Fn(f32, f32) -> f32) -> f32 {
        for width in [8, 4, 2, 1] {
            for lane in 0..width {
                lanes[lane] = pair(lanes[lane], lanes[lane + width]);
            }
        }
        lanes[0]
    }

    /// A block of a row: positions `seen` of the block that begins at `base`, with their scores, and values of each.
    fn block(&self, base: usize, seen: &[(usize, f32, &[f32])]) -> Part {
        let mut lanes = [f32::MIN; 16];
        for (position, score, _) in seen {
            let lane = &mut lanes[(position - base) % 16];
            *lane = lane.max(*score);
        }
        let largest = Definition::halve(lanes, f32::max);
        let (mut lanes, mut values) = ([0.0; 16], vec![0.0; seen[0].2.len()]);
        for (position, score, value) in seen {
            let weight = self.exp(score - largest);
            lanes[(position - base) % 16] += weight;
            for (sum, value) in values.iter_mut().zip(*value) {
                *sum = self.fma(weight, *value, *sum);
            }
        }
        Part { largest, sum: Definition::halve(lanes, |a, b| a + b), values }
    }

    /// The results of a sequence over caches of f32, as bits.
    fn run(&self, sequence: &Sequence, window: Option<u32>) -> Vec<u32> {
        let Sequence { heads, kv_heads, dim, value_dim, ref q, ref k, ref v } = *sequence;
        let scale = 1.0 / (dim as f32).sqrt();
        let mut bits = Vec::new();
        for (row, q) in q.chunks(dim).enumerate() {
            let (token, head) = (row / heads, row % heads * kv_heads / heads);
            let first = window.map_or(0, |window| (token + 1).saturating_sub(window as usize));
            let nothing = Part { largest: f32::MIN, sum: 0.0, values: vec![0.0; value_dim] };
            let mut total = nothing.clone();
            for group in first / (Self::PAGE * Self::BLOCKS)..=token / (Self::PAGE * Self::BLOCKS) {
                let mut state = nothing.clone();
                for block in group * Self::BLOCKS..(group + 1) * Self::BLOCKS {
                    let base = block * Self::PAGE;
                    let seen: Vec<(usize, f32, &[f32])> = (first.max(base)
                        ..(token + 1).min(base + Self::PAGE))
                        .map(|position| {
                            let key = &k[(position * kv_heads + head) * dim..][..dim];
                            let score = q.iter().zip(key).fold(0.0, |sum, (q, k)| self.fma(*q, *k, sum));
                            let value = &v[(position * kv_heads + head) * value_dim..][..value_dim];
                            (position, score * scale, value)
                        })
                        .collect();
                    if !seen.is_empty() {
                        self.fold(&mut state, &self.block(base, &seen));
                    }
                }
                self.fold(&mut total, &state);
            }
            let share = 1.0 / total.sum;
            bits.extend(total.values.iter().map(|value| (value * share).to_bits()));
        }
        bits
    }
}

#[test]
fn rows_have_the_bits_of_the_definition() {
    for (shape, window) in [([6, 2, 64, 40], None), ([2, 1, 72, 64], Some(150))] {
        let sequence = Sequence::new(1100, shape);
        for (isa, [device, ..]) in devices() {
            let expected = Definition::of(isa).run(&sequence, window);
            for chunk in [1100, 9] {
                let got = run(&device, &sequence, Run { chunk, window, ..plain(1100, [DType::F32; 2]) });
                let row = shape[0] * shape[3];
                let differs = expected.chunks(row).zip(got.chunks(row)).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{isa}, the first token that differs; {shape:?} by {chunk}");
            }
        }
    }
}

#[test]
fn keys_and_values_that_a_row_does_not_see_do_not_reach_it() {
    // The last token is NaN: only rows that see it are.
    let mut sequence = Sequence::new(40, [4, 2, 32, 32]);
    let (k, v) = (sequence.k.len(), sequence.v.len());
    for (_, [device, ..]) in devices() {
        let clean = run(&device, &sequence, plain(40, [DType::F16; 2]));
        let (keys, values) = (sequence.k.clone(), sequence.v.clone());
        sequence.k[k - 64..].fill(f32::NAN);
        sequence.v[v - 64..].fill(f32::NAN);
        for chunk in [1, 5, 40] {
            let got = run(&device, &sequence, Run { chunk, ..plain(40, [DType::F16; 2]) });
            let (before, last) = got.split_at(39 * 4 * 32);
            assert_eq!(before, &clean[..39 * 4 * 32]);
            assert!(last.iter().all(|bits| f32::from_bits(*bits).is_nan()));
        }
        (sequence.k, sequence.v) = (keys, values);
    }
}
