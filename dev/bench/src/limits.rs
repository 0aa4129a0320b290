//! The limits of the machine: reading memory, products of 8-bit integers, of bf16, of f32, with an instruction set.
//!
//! | limit | AVX-512 | AVX2 |
//! |---|---|---|
//! | memory | [`PLACES`] places of each thread at the same time; `one stream`: one | the same |
//! | 8-bit products | `vpdpbusd` | `vpmaddubsw` and `vpaddw`: codes of 4 bits, whose products fit 16 bits |
//! | 8-bit products with signs | the same | `vpsignb`, `vpmaddubsw`, `vpmaddwd` and `vpaddd` |
//! | bf16 products | `vdpbf16ps`, where the CPU has it | none |
//! | f32 products | `vfmadd231ps` | the same |
//!
//! AVX-VNNI has the limits of AVX2, but for 8-bit products, which are `vpdpbusd` in 256 bits.

use crate::measure::quickest;
use crate::report::{Report, Target};
use serde_json::json;
use silicide_core::{Buffer, Device};
use silicide_hal::cpu::Isa;
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
    pub(crate) signed: f64,
    pub(crate) halves: f64,
    pub(crate) floats: f64,
}

/// Does about this number of operations on this number of threads; returns false where the instruction set can't.
type Work = fn(Isa, usize, usize) -> bool;

/// Returns the best instruction set of the machine.
pub(crate) fn best() -> Isa {
    Isa::ALL.into_iter().rev().find(|isa| isa.is_available()).unwrap_or(Isa::Portable)
}

/// Measures and reports them all.
pub(crate) fn report(report: &mut Report, isa: Isa, threads: usize) -> anyhow::Result<Peaks> {
    anyhow::ensure!(isa.is_available(), "this CPU has no {}", isa.name());
    let budget = Duration::from_millis(500);
    // Memory of a device, which has large pages where the system has them, as weights do.
    let device = Device::open("cpu")?;
    let buffer = Buffer::allocate(&device, DType::U32, DISTINCT / 4)?;
    buffer.write::<u32>()?.fill(1);
    let numbers = buffer.read::<u32>()?;
    let words: &[u64] = bytemuck::cast_slice(&numbers);
    let [stream, memory] = [1, PLACES].map(|places| {
        let seconds = quickest(budget, threads, || {
            read_at(words, threads, places);
            Ok(())
        });
        seconds.map(|seconds| DISTINCT as f64 / seconds)
    });
    let (stream, memory) = (stream?, memory?);
    drop(numbers);
    drop(buffer);
    let about = |limit: &str| json!({"limit": limit, "threads": threads});
    let what = |what: &str| format!("{what}, {threads} threads");
    report.about(about("memory")).row(&what("reading memory"), memory / 1e9, 0.0, "GB/s", Target::None);
    report.about(about("stream")).row(
        &what("reading memory, one stream a thread"),
        stream / 1e9,
        0.0,
        "GB/s",
        Target::None,
    );
    let operations = 4 << 30;
    let mut peaks = [f64::NAN; 4];
    let works: [(Work, &str, &str); 4] = [
        (dots, "integers", "products of 8-bit integers"),
        (signed_dots, "signed", "products of 8-bit integers with signs"),
        (pairs, "halves", "products of bf16"),
        (products, "floats", "products of f32"),
    ];
    for (peak, (work, limit, shown)) in peaks.iter_mut().zip(works) {
        if work(isa, 1, threads) {
            *peak = operations as f64 / quickest(budget, threads, || Ok(_ = work(isa, operations, threads)))?;
            report.about(about(limit)).row(&what(shown), *peak / 1e9, 0.0, "GOP/s", Target::None);
        }
    }
    let [integers, signed, halves, floats] = peaks;
    Ok(Peaks { memory, integers, signed, halves, floats })
}

/// Reads all words, on `threads` threads, each its own part.
pub(crate) fn read(words: &[u64], threads: usize) {
    read_at(words, threads, PLACES);
}

/// [`read`] at `places` places of each part at the same time.
fn read_at(words: &[u64], threads: usize, places: usize) {
    std::thread::scope(|scope| {
        for part in words.chunks(words.len().div_ceil(threads)) {
            scope.spawn(move || {
                #[cfg(target_arch = "x86_64")]
                if Isa::Avx512.is_available() {
                    // SAFETY: the instruction set was just detected.
                    unsafe { read_wide(part, places) };
                    return;
                }
                read_places(part, places);
            });
        }
    });
}

/// [`read_places`] by whole lines: narrow loads are a third slower.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn read_wide(part: &[u64], places: usize) {
    read_places(part, places);
}

/// Reads all words, at several places at the same time.
#[inline(always)]
fn read_places(part: &[u64], places: usize) {
    let mut sums = [0u64; 64];
    let length = part.len().div_ceil(places).max(1);
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

/// Runs `steps` on every thread.
#[cfg(target_arch = "x86_64")]
fn on_threads(threads: usize, steps: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&steps);
        }
    });
}

/// Does about `operations` operations (two to a product) of 8-bit dot products on `threads` threads; returns false where the
/// instruction set has none.
pub(crate) fn dots(isa: Isa, operations: usize, threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        let steps = operations / (threads * 16 * 128);
        // SAFETY: `report` and `best` have detected the instruction set.
        on_threads(threads, || unsafe { vnni(steps) });
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::AvxVnni {
        let steps = operations / (threads * 12 * 64);
        // SAFETY: `report` and `best` have detected the instruction set.
        on_threads(threads, || unsafe { vnni_narrow(steps) });
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx2 {
        let steps = operations / (threads * 12 * 64);
        // SAFETY: `report` and `best` have detected the instruction set.
        on_threads(threads, || unsafe { pairs_of_bytes(steps) });
        return true;
    }
    let _ = (isa, operations, threads);
    false
}

/// [`dots`] of signed bytes, where these take other instructions.
fn signed_dots(isa: Isa, operations: usize, threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx2 {
        let steps = operations / (threads * 12 * 64);
        // SAFETY: `report` has detected the instruction set.
        on_threads(threads, || unsafe { signed_bytes(steps) });
        return true;
    }
    let _ = (isa, operations, threads);
    false
}

/// `steps` times twelve dot products of unsigned by signed bytes, added in 16 bits. Assembly, as the compiler would leave out equal ones.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn pairs_of_bytes(steps: usize) {
    use std::arch::x86_64::{__m256i, _mm256_set1_epi8, _mm256_setzero_si256};
    let (a, b) = (black_box(_mm256_set1_epi8(1)), black_box(_mm256_set1_epi8(2)));
    let mut sums = [_mm256_setzero_si256(); 12];
    for _ in 0..steps {
        for sum in &mut sums {
            // SAFETY: the function is compiled with the instructions, which touch registers only.
            unsafe {
                std::arch::asm!(
                    "vpmaddubsw {t}, {a}, {b}",
                    "vpaddw {s}, {s}, {t}",
                    t = out(ymm_reg) _, a = in(ymm_reg) a, b = in(ymm_reg) b, s = inout(ymm_reg) *sum,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
        }
    }
    black_box::<[__m256i; 12]>(sums);
}

/// `steps` times twelve dot products of signed bytes, added in 32 bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn signed_bytes(steps: usize) {
    use std::arch::x86_64::{__m256i, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_setzero_si256};
    let (a, b) = (black_box(_mm256_set1_epi8(1)), black_box(_mm256_set1_epi8(2)));
    let ones = black_box(_mm256_set1_epi16(1));
    let mut sums = [_mm256_setzero_si256(); 12];
    for _ in 0..steps {
        for sum in &mut sums {
            // SAFETY: the function is compiled with the instructions, which touch registers only.
            unsafe {
                std::arch::asm!(
                    "vpsignb {t}, {b}, {a}",
                    "vpmaddubsw {t}, {a}, {t}",
                    "vpmaddwd {t}, {t}, {ones}",
                    "vpaddd {s}, {s}, {t}",
                    t = out(ymm_reg) _, a = in(ymm_reg) a, b = in(ymm_reg) b, ones = in(ymm_reg) ones,
                    s = inout(ymm_reg) *sum, options(pure, nomem, nostack, preserves_flags)
                );
            }
        }
    }
    black_box::<[__m256i; 12]>(sums);
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

/// `steps` times twelve dot products that do not wait for each other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avxvnni")]
fn vnni_narrow(steps: usize) {
    use std::arch::x86_64::{_mm256_dpbusd_avx_epi32, _mm256_set1_epi32, _mm256_setzero_si256};
    let mut sums = [_mm256_setzero_si256(); 12];
    let (a, b) = (black_box(_mm256_set1_epi32(0x0102_0304)), black_box(_mm256_set1_epi32(0x0403_0201)));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm256_dpbusd_avx_epi32(*sum, a, b);
        }
    }
    black_box(sums);
}

/// Does about `operations` operations (two to a product) of fused f32 products on `threads` threads; returns false where the
/// instruction set has none.
fn products(isa: Isa, operations: usize, threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        let steps = operations / (threads * 16 * 32);
        // SAFETY: `report` has detected the instruction set.
        on_threads(threads, || unsafe { fused(steps) });
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if matches!(isa, Isa::Avx2 | Isa::AvxVnni) {
        let steps = operations / (threads * 12 * 16);
        // SAFETY: `report` has detected the instruction set.
        on_threads(threads, || unsafe { fused_narrow(steps) });
        return true;
    }
    let _ = (isa, operations, threads);
    false
}

/// `steps` times twelve fused products of eight lanes that do not wait for each other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn fused_narrow(steps: usize) {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm256_setzero_ps};
    let mut sums = [_mm256_setzero_ps(); 12];
    let (a, b) = (black_box(_mm256_set1_ps(0.5)), black_box(_mm256_set1_ps(0.25)));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(a, b, *sum);
        }
    }
    black_box(sums);
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

/// Does about `operations` operations (two to a product) of dot products of bf16 on `threads` threads; returns false where the
/// machine, or the instruction set, has none.
fn pairs(isa: Isa, operations: usize, threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 && std::is_x86_feature_detected!("avx512bf16") {
        let steps = operations / (threads * 16 * 64);
        // SAFETY: the instruction was just detected.
        on_threads(threads, || unsafe { dotted(steps) });
        return true;
    }
    let _ = (isa, operations, threads);
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
