//! What the machine can do at most: reading memory, products of 8-bit integers, products of f32.

use std::hint::black_box;

/// Reads all words, on `threads` threads, each its own part.
pub(crate) fn read(words: &[u64], threads: usize) {
    let part = words.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for part in words.chunks(part) {
            scope.spawn(move || {
                let mut sums = [0u64; 32];
                for chunk in part.as_chunks::<32>().0 {
                    for (sum, word) in sums.iter_mut().zip(chunk) {
                        *sum ^= word;
                    }
                }
                black_box(sums)
            });
        }
    });
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
