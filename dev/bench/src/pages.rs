//! Keys of a block of attention (PAGE) and the layout of keys, by depth, on one thread: the microkernels of `silicide-gemm` with a softmax
//! between them, over caches of f16.
//!
//! One query reads keys and values once: its figure is GB/s of the cache. A tile of a prompt reads them many times: its figure is GFLOP/s.

use crate::measure::quickest;
use silicide_gemm::f32::{
    DenseRows, F32Kernels, KEY_LANES, SUM_PADDING, WeightedValues, gemv, key_scores, transpose_keys,
};
use silicide_gemm::isa::{Simd, Task};
use silicide_gemm::{Matrix, MatrixMut};
use silicide_quant::f16;
use std::time::Duration;

/// Blocks that are compared, in keys.
const PAGES: [usize; 5] = [64, 96, 128, 192, 256];
/// Tokens in the cache.
const DEPTHS: [usize; 3] = [1024, 8192, 32_768];
/// Bytes of the caches of one query, all layers together: as many at each depth.
const DISTINCT: usize = 192 << 20;
/// Rows of a prompt's tile.
const PROMPT_ROWS: usize = 126;
/// Rows of which scores are computed at a time.
const STRIP: usize = 6;
/// Time for one figure.
const BUDGET: Duration = Duration::from_millis(250);

/// How keys lie in memory.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Row by row, transposed in registers.
    Rows,
    /// Sets of sixteen keys, element by element.
    Lanes,
}

/// Some layers' caches of one head, and the queries that look at them.
struct Bench {
    dim: usize,
    depth: usize,
    rows: usize,
    layers: Vec<[Vec<f16>; 2]>,
    queries: Vec<f32>,
}

impl Bench {
    fn new(dim: usize, depth: usize, rows: usize, layers: usize) -> Bench {
        let mut random = fastrand::Rng::with_seed(7);
        let mut cache = || (0..depth * dim).map(|_| f16::from_f32(random.f32() - 0.5)).collect();
        let layers = (0..layers).map(|_| [cache(), cache()]).collect();
        Bench {
            dim,
            depth,
            rows,
            layers,
            queries: (0..rows * dim).map(|i| (i % 89) as f32 / 44.0 - 1.0).collect(),
        }
    }
}

/// A pass over all layers, compiled for an instruction set.
struct Pass<'a, I> {
    isa: I,
    bench: &'a Bench,
    page: usize,
    layout: Layout,
    memory: &'a mut Memory,
}

/// Memory of a pass.
#[derive(Default)]
struct Memory {
    scores: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    sums: Vec<f32>,
}

impl<I: F32Kernels> Task for Pass<'_, I> {
    type Output = Result<f32, silicide_gemm::GemmError>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Pass { isa, bench: Bench { dim, depth, rows, layers, queries }, page, layout, memory } = self;
        let (dim, depth, rows) = (*dim, *depth, *rows);
        let padded = dim.next_multiple_of(SUM_PADDING);
        memory.scores.resize(STRIP * page, 0.0);
        memory.keys.resize(page * dim, 0.0);
        memory.values.resize(page * dim, 0.0);
        memory.sums.resize(rows * padded, 0.0);
        let is_prompt = rows > 8;
        for [keys, values] in layers {
            let mut states = vec![[f32::MIN, 0.0]; rows];
            memory.sums.fill(0.0);
            for first in (0..depth).step_by(page) {
                let count = page.min(depth - first) / KEY_LANES * KEY_LANES;
                let (k, v) = (&keys[first * dim..][..count * dim], &values[first * dim..][..count * dim]);
                if is_prompt {
                    isa.widen_f16(v, &mut memory.values);
                    match layout {
                        Layout::Lanes => isa.widen_f16(k, &mut memory.keys),
                        Layout::Rows => {
                            let sets = k.chunks(KEY_LANES * dim).zip(memory.keys.chunks_mut(KEY_LANES * dim));
                            for (rows, set) in sets {
                                let rows = Matrix::new("rows", rows, [KEY_LANES, dim], dim)?;
                                transpose_keys(isa, DenseRows::F16(rows), set)?;
                            }
                        }
                    }
                }
                let extents = [count / KEY_LANES, KEY_LANES * dim];
                for row in (0..rows).step_by(STRIP) {
                    let strip = STRIP.min(rows - row);
                    let ahead = (row == 0 && !is_prompt).then_some(96 * dim * 2);
                    let x = Matrix::new("queries", &queries[row * dim..], [strip, dim], dim)?;
                    let out = MatrixMut::new("scores", &mut memory.scores, [strip, count], page)?;
                    if is_prompt {
                        let sets = Matrix::new("sets", &memory.keys, extents, extents[1])?;
                        key_scores(isa, x, DenseRows::F32(sets), out, None)?;
                    } else if layout == Layout::Lanes {
                        let sets = Matrix::new("sets", k, extents, extents[1])?;
                        key_scores(isa, x, DenseRows::F16(sets), out, ahead)?;
                    } else {
                        gemv(isa, x, DenseRows::F16(Matrix::new("keys", k, [count, dim], dim)?).into(), out)?;
                    }
                    let mut factors = [[0.0; 2]; STRIP];
                    let rows = memory.scores.chunks_mut(page).zip(&mut states[row..row + strip]);
                    for ((scores, state), factors) in rows.zip(&mut factors) {
                        *factors = weigh::<I>(&mut scores[..count], state);
                    }
                    let values = match is_prompt {
                        true => DenseRows::F32(Matrix::new("values", &memory.values, [count, dim], dim)?),
                        false => DenseRows::F16(Matrix::new("values", v, [count, dim], dim)?),
                    };
                    let call = WeightedValues {
                        weights: Matrix::new("weights", &memory.scores, [strip, count], page)?,
                        ranges: &[[0, count]; STRIP][..strip],
                        values,
                        first: 0,
                        factors: Some(&factors[..strip]),
                        ahead,
                    };
                    let sums = &mut memory.sums[row * padded..];
                    call.fold(isa, MatrixMut::new("sums", sums, [strip, padded], padded)?)?;
                }
            }
        }
        Ok(memory.sums[0])
    }
}

/// Turns scores, whole sets, into weights relative to the largest of them, and folds their sum into the state. Returns the factors of sums
/// and part.
#[inline(always)]
fn weigh<S: Simd>(scores: &mut [f32], [largest, sum]: &mut [f32; 2]) -> [f32; 2] {
    let mut lanes = [f32::MIN; KEY_LANES];
    for scores in scores.as_chunks_mut::<KEY_LANES>().0 {
        for (score, lane) in scores.iter_mut().zip(&mut lanes) {
            *score *= 0.125;
            *lane = if *score > *lane { *score } else { *lane };
        }
    }
    let own = join(lanes, |a, b| if b > a { b } else { a });
    let mut lanes = [0.0; KEY_LANES];
    for scores in scores.as_chunks_mut::<KEY_LANES>().0 {
        for (score, lane) in scores.iter_mut().zip(&mut lanes) {
            *score = exp::<S>(*score - own);
            *lane += *score;
        }
    }
    let joined = if own > *largest { own } else { *largest };
    let factors = [exp::<S>(*largest - joined), exp::<S>(own - joined)];
    *sum = S::mul_add(join(lanes, |a, b| a + b), factors[1], *sum * factors[0]);
    *largest = joined;
    factors
}

/// All lanes to one, halving their number at each step.
#[inline(always)]
fn join(mut lanes: [f32; KEY_LANES], pair: impl Fn(f32, f32) -> f32) -> f32 {
    for width in [8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(width);
        for (low, high) in low.iter_mut().zip(high) {
            *low = pair(*low, *high);
        }
    }
    lanes[0]
}

/// e^x for x up to 0, as the ops have it.
#[inline(always)]
fn exp<S: Simd>(x: f32) -> f32 {
    const BIASED: f32 = 12_582_912.0 + 127.0;
    let bounded = if x < -87.0 { -87.0 } else { x };
    let shifted = S::mul_add(bounded, std::f32::consts::LOG2_E, BIASED);
    let whole = shifted - BIASED;
    let rest = S::mul_add(whole, 2.121_944_4e-4, S::mul_add(whole, -0.693_359_4, bounded));
    let mut value = 0.001_381_446_8;
    for coefficient in [0.008_368_781, 0.041_668_393, 0.166_665_2, 0.499_999_94, 1.0, 1.0] {
        value = S::mul_add(value, rest, coefficient);
    }
    let result = value * f32::from_bits(shifted.to_bits() << 23);
    if x < -87.0 { 0.0 } else { result }
}

/// Prints a table for each instruction set that the CPU has.
pub(crate) fn run(dim: usize, group: usize) -> anyhow::Result<()> {
    anyhow::ensure!(dim > 0 && group > 0 && group <= 8, "heads of at least 1 element, shared by 1 to 8");
    #[cfg(target_arch = "x86_64")]
    {
        silicide_gemm::isa::Avx512::detect().map_or(Ok(()), |isa| table(isa, dim, group))?;
        silicide_gemm::isa::Avx2::detect().map_or(Ok(()), |isa| table(isa, dim, group))?;
    }
    #[cfg(target_arch = "aarch64")]
    silicide_gemm::isa::Neon::detect().map_or(Ok(()), |isa| table(isa, dim, group))?;
    Ok(())
}

fn table<I: F32Kernels>(isa: I, dim: usize, group: usize) -> anyhow::Result<()> {
    println!("\n{}, heads of {dim}, {group} queries share a key:\n", I::NAME);
    println!("| keys | PAGE | 1k, GB/s | 8k, GB/s | 32k, GB/s | 1k, GFLOP/s | 8k, GFLOP/s | 32k, GFLOP/s |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let queries = DEPTHS.map(|depth| Bench::new(dim, depth, group, DISTINCT / (depth * dim * 4)));
    let prompts = DEPTHS.map(|depth| Bench::new(dim, depth, PROMPT_ROWS, 1));
    for (name, layout) in [("rows", Layout::Rows), ("lanes", Layout::Lanes)] {
        for page in PAGES {
            let seconds = |bench: &Bench| {
                let mut memory = Memory::default();
                quickest(BUDGET, 1, || {
                    let result = isa.run(Pass { isa, bench, page, layout, memory: &mut memory })?;
                    anyhow::ensure!(result.is_finite(), "the result is {result}");
                    Ok(())
                })
            };
            print!("| {name} | {page} ");
            for bench in &queries {
                let bytes = bench.layers.len() * bench.depth * dim * 4;
                print!("| {:.1} ", bytes as f64 / seconds(bench)? / 1e9);
            }
            for bench in &prompts {
                let flops = 4 * bench.rows * bench.depth * dim;
                print!("| {:.0} ", flops as f64 / seconds(bench)? / 1e9);
            }
            println!("|");
        }
    }
    Ok(())
}
