//! The limits of the machine: reading memory, products of 8-bit integers, of bf16, of f32.

use crate::measure::quickest;
use crate::report::{Report, Target};
use serde_json::json;
use silicide_core::{Buffer, Device};
use silicide_quant::DType;
use std::hint::black_box;
use std::time::Duration;

/// Bytes that are read to measure memory: more than the largest caches have.
const DISTINCT: usize = 600 << 20;
/// Places at which a thread reads at the same time. Processors fetch ahead by page, so one place is not the fastest everywhere.
const PLACES: usize = 4;

/// Bytes or operations in a second; NaN where the machine has no instruction for it.
#[derive(Clone, Copy)]
pub(crate) struct Peaks {
    pub(crate) memory: f64,
    pub(crate) integers: f64,
    pub(crate) halves: f64,
    pub(crate) floats: f64,
}

/// Does about this number of operations on this number of threads; returns false where the machine can't.
type Work = fn(usize, usize) -> bool;

/// Measures and reports them all.
pub(crate) fn report(report: &mut Report, threads: usize) -> anyhow::Result<Peaks> {
    let budget = Duration::from_millis(500);
    // Memory of a device, which has large pages where the system has them, as weights do.
    let device = Device::open("cpu")?;
    let buffer = Buffer::allocate(&device, DType::U32, DISTINCT / 4)?;
    buffer.write::<u32>()?.fill(1);
    let numbers = buffer.read::<u32>()?;
    let words: &[u64] = bytemuck::cast_slice(&numbers);
    let seconds = quickest(budget, threads, || {
        read(words, threads);
        Ok(())
    })?;
    let memory = DISTINCT as f64 / seconds;
    drop(numbers);
    drop(buffer);
    let about = |limit: &str| json!({"limit": limit, "threads": threads});
    let what = |what: &str| format!("{what}, {threads} threads");
    report.about(about("memory")).row(&what("reading memory"), memory / 1e9, 0.0, "GB/s", Target::None);
    let operations = 4 << 30;
    let mut peaks = [f64::NAN; 3];
    let works: [(Work, &str, &str); 3] = [
        (dots, "integers", "products of 8-bit integers"),
        (pairs, "halves", "products of bf16"),
        (products, "floats", "products of f32"),
    ];
    for (peak, (work, limit, shown)) in peaks.iter_mut().zip(works) {
        if work(1, threads) {
            *peak = operations as f64 / quickest(budget, threads, || Ok(_ = work(operations, threads)))?;
            report.about(about(limit)).row(&what(shown), *peak / 1e9, 0.0, "GOP/s", Target::None);
        }
    }
    let [integers, halves, floats] = peaks;
    Ok(Peaks { memory, integers, halves, floats })
}

/// Reads all words, on `threads` threads, each its own part.
pub(crate) fn read(words: &[u64], threads: usize) {
    std::thread::scope(|scope| {
        for part in words.chunks(words.len().div_ceil(threads)) {
            scope.spawn(move || {
                #[cfg(target_arch = "x86_64")]
                if silicide_hal::cpu::Isa::Avx512.is_available() {
                    // SAFETY: the instruction set was just detected.
                    unsafe { read_wide(part) };
                    return;
                }
                read_places(part);
            });
        }
    });
}

/// [`read_places`] by whole lines: narrow loads are a third slower.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn read_wide(part: &[u64]) {
    read_places(part);
}

/// Reads all words, at several places at the same time.
#[inline(always)]
fn read_places(part: &[u64]) {
    let mut sums = [0u64; 64];
    let length = part.len().div_ceil(PLACES).max(1);
    let mut places: Vec<_> = part.chunks(length).map(|place| place.as_chunks::<64>().0.iter()).collect();
    // Until the first has ended: the others are as long, but for a few words.
    while places.first().is_some_and(|place| place.len() > 0) {
        for chunk in places.iter_mut().filter_map(Iterator::next) {
            for (sum, word) in sums.iter_mut().zip(chunk) {
                *sum ^= word;
            }
        }
    }
    black_box(sums);
}

/// Does about `operations` operations (two to a product) of 8-bit dot products on `threads` threads; false where the
/// machine has no instruction for it.
pub(crate) fn dots(operations: usize, threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if silicide_hal::cpu::Isa::Avx512.is_available() {
        let steps = operations / (threads * 16 * 128);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                // SAFETY: the instruction set was just detected.
                scope.spawn(move || unsafe { vnni(steps) });
            }
        });
        return true;
    }
    let _ = (operations, threads);
    false
}

/// `steps` times sixteen dot products that do not wait for each other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn vnni(steps: usize) {
    use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_set1_epi32, _mm512_setzero_si512};
    let mut sums = [_mm512_setzero_si512(); 16];
    let (a, b) = (black_box(_mm512_set1_epi32(0x0102_0304)), black_box(_mm512_set1_epi32(0x0403_0201)));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    black_box(sums);
}

/// Does about `operations` operations (two to a product) of fused f32 products on `threads` threads; false where the
/// machine has no instruction for it.
pub(crate) fn products(operations: usize, threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if silicide_hal::cpu::Isa::Avx512.is_available() {
        let steps = operations / (threads * 16 * 32);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                // SAFETY: the instruction set was just detected.
                scope.spawn(move || unsafe { fused(steps) });
            }
        });
        return true;
    }
    let _ = (operations, threads);
    false
}

/// `steps` times sixteen fused products that do not wait for each other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn fused(steps: usize) {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps, _mm512_setzero_ps};
    let mut sums = [_mm512_setzero_ps(); 16];
    let (a, b) = (black_box(_mm512_set1_ps(0.5)), black_box(_mm512_set1_ps(0.25)));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(a, b, *sum);
        }
    }
    black_box(sums);
}

/// Does about `operations` operations (two to a product) of dot products of bf16 on `threads` threads; false where the
/// machine has no instruction for it.
fn pairs(operations: usize, threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512bf16") {
        let steps = operations / (threads * 16 * 64);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                // SAFETY: the instruction set was just detected.
                scope.spawn(move || unsafe { dotted(steps) });
            }
        });
        return true;
    }
    let _ = (operations, threads);
    false
}

/// `steps` times sixteen dot products of pairs that do not wait for each other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
fn dotted(steps: usize) {
    use std::arch::x86_64::{_mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_set1_ps, _mm512_setzero_ps};
    let mut sums = [_mm512_setzero_ps(); 16];
    let (a, b) = (_mm512_set1_ps(0.5), _mm512_set1_ps(0.25));
    let (a, b) = (black_box(_mm512_cvtne2ps_pbh(a, a)), black_box(_mm512_cvtne2ps_pbh(b, b)));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_dpbf16_ps(*sum, a, b);
        }
    }
    black_box(sums);
}
