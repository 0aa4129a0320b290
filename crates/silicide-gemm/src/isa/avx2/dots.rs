//! Dot products of codes with AVX2: how products are summed, and the inner steps of the register tile.
//!
//! ```text
//! codes up to 16:      8 words: vpmaddubsw, vpaddw             then vpmaddwd by ones: 32-bit sums
//! codes up to 32, 63:  4 or 2 words at a time in the same way
//! signed bytes:        each word: vpsignb, vpmaddubsw of |code|, vpmaddwd by ones, vpaddd
//! ```
//!
//! `vpmaddubsw` adds pairs of products in 16 bits, which saturate. [`CodeSums::Words`] says how many words fit: 8 * 2 * 15 * 127 is below
//! 2^15. That is 2.1 operations a word for 4-bit codes, 4 for signed bytes.
//!
//! LLVM reassociates chains of integer adds to trees, and loads all words of a group before the first product: both spill. So the steps of
//! the tile are assembly with their loads, and sums in registers pass through an empty one ([`pin`]). Without, the tile is two to three
//! times slower.

use super::{Avx2, Avx2Lanes, AvxVnni};
use crate::isa::{CodeSums, DotStarts, FloatLanes, IntLanes, PanelWords};
use crate::q8::NR_VECTORS;
use std::arch::asm;
use std::arch::x86_64::*;

/// Returns the same address, of which the compiler knows nothing: what is there stays in memory.
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
#[inline(always)]
pub(super) fn opaque<T>(mut address: *mut T) -> *mut T {
    // SAFETY: no instruction.
    unsafe { asm!("/* {0} */", inout(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// See [`IntLanes::row_dots`].
///
/// # Safety
/// As there.
#[allow(clippy::needless_range_loop, reason = "the compiler does not unroll a zip of arrays")]
#[inline(always)]
pub(super) unsafe fn row_dots<const VNNI: bool, const ROWS: usize, const WORDS: usize>(
    isa: Avx2Lanes<VNNI>,
    codes: [__m256i; WORDS],
    kind: CodeSums,
    x: [*const u8; ROWS],
    starts: DotStarts,
) -> [__m256i; ROWS] {
    let mut dots = [isa.broadcast_sum(0); ROWS];
    // SAFETY: rows have the words, and starts are there, by this function's contract.
    unsafe {
        for row in 0..ROWS {
            // Two chains of signed codes: one is as long as all of its latencies.
            let mut chains = [isa.broadcast_sum(starts.of::<Avx2>(row)), isa.broadcast_sum(0)];
            let mut sums = isa.broadcast_sum(0);
            for i in 0..WORDS {
                let (codes, x) = (codes[i], x[row].add(4 * i).cast::<i32>().read_unaligned());
                match kind {
                    _ if const { VNNI } => chains[0] = isa.dot(chains[0], codes, x),
                    CodeSums::Signed => chains[i % 2] = isa.pin(isa.dot(chains[i % 2], codes, x)),
                    CodeSums::Words(words) => {
                        let pairs = isa.pairs(codes, x);
                        sums = if i % words == 0 { pairs } else { isa.pin(isa.add_pairs(sums, pairs)) };
                        if i % words == words - 1 {
                            chains[0] = isa.add_dots(chains[0], isa.widen_pairs(sums));
                        }
                    }
                }
            }
            dots[row] = if const { !VNNI } && kind == CodeSums::Signed {
                isa.add_dots(chains[0], chains[1])
            } else {
                chains[0]
            };
        }
    }
    dots
}

/// Assembles a step for `ROWS` rows: `$step!` with the arguments and the rows, each with its number, names of its sums and the address of its
/// word from `p`, `q` (three rows later) and `s` (the stride) on.
macro_rules! for_rows {
    ($step:ident $args:tt) => {
        match ROWS {
            1 => $step!($args, [0 a0 b0 "{p}"]),
            2 => $step!($args, [0 a0 b0 "{p}", 1 a1 b1 "{p} + {s}"]),
            3 => $step!($args, [0 a0 b0 "{p}", 1 a1 b1 "{p} + {s}", 2 a2 b2 "{p} + 2*{s}"]),
            4 => $step!($args, [0 a0 b0 "{p}", 1 a1 b1 "{p} + {s}", 2 a2 b2 "{p} + 2*{s}", 3 a3 b3 "{q}"]),
            5 => $step!($args, [0 a0 b0 "{p}", 1 a1 b1 "{p} + {s}", 2 a2 b2 "{p} + 2*{s}", 3 a3 b3 "{q}",
                4 a4 b4 "{q} + {s}"]),
            _ => $step!($args, [0 a0 b0 "{p}", 1 a1 b1 "{p} + {s}", 2 a2 b2 "{p} + 2*{s}", 3 a3 b3 "{q}",
                4 a4 b4 "{q} + {s}", 5 a5 b5 "{q} + 2*{s}"]),
        }
    };
}

/// The first word of unsigned codes: sums are its products.
macro_rules! first_word {
    (($p:ident, $s:ident, $w:ident, $sums:ident), [$($row:literal $a:ident $b:ident $at:literal),*]) => {
        asm!(
            "/* {p} {q} {s} */",
            "vmovdqu {w0}, ymmword ptr [{w}]",
            "vmovdqu {w1}, ymmword ptr [{w} + 32]",
            $(concat!("vpbroadcastd {x}, dword ptr [", $at, "]"),
            concat!("vpmaddubsw {", stringify!($a), "}, {w0}, {x}"),
            concat!("vpmaddubsw {", stringify!($b), "}, {w1}, {x}"),)*
            p = in(reg) $p, q = in(reg) $p.wrapping_add(3 * $s), s = in(reg) $s, w = in(reg) $w,
            w0 = out(ymm_reg) _, w1 = out(ymm_reg) _, x = out(ymm_reg) _,
            $($a = out(ymm_reg) $sums[$row][0], $b = out(ymm_reg) $sums[$row][1],)*
            options(pure, readonly, nostack, preserves_flags)
        )
    };
}

/// Another word of unsigned codes: its products are added in 16 bits.
macro_rules! next_word {
    (($p:ident, $s:ident, $w:ident, $sums:ident), [$($row:literal $a:ident $b:ident $at:literal),*]) => {
        asm!(
            "/* {p} {q} {s} */",
            "vmovdqu {w0}, ymmword ptr [{w}]",
            "vmovdqu {w1}, ymmword ptr [{w} + 32]",
            $(concat!("vpbroadcastd {x}, dword ptr [", $at, "]"),
            "vpmaddubsw {t}, {w0}, {x}",
            "vpmaddubsw {x}, {w1}, {x}",
            concat!("vpaddw {", stringify!($a), "}, {", stringify!($a), "}, {t}"),
            concat!("vpaddw {", stringify!($b), "}, {", stringify!($b), "}, {x}"),)*
            p = in(reg) $p, q = in(reg) $p.wrapping_add(3 * $s), s = in(reg) $s, w = in(reg) $w,
            w0 = out(ymm_reg) _, w1 = out(ymm_reg) _, x = out(ymm_reg) _, t = out(ymm_reg) _,
            $($a = inout(ymm_reg) $sums[$row][0], $b = inout(ymm_reg) $sums[$row][1],)*
            options(pure, readonly, nostack, preserves_flags)
        )
    };
}

/// A word of signed codes: its products are added in 32 bits.
macro_rules! signed_word {
    (($p:ident, $s:ident, $w:ident, $sums:ident, $ones:ident), [$($row:literal $a:ident $b:ident $at:literal),*]) => {
        asm!(
            "/* {p} {q} {s} */",
            "vpabsb {w0}, ymmword ptr [{w}]",
            "vpabsb {w1}, ymmword ptr [{w} + 32]",
            $(concat!("vpbroadcastd {x}, dword ptr [", $at, "]"),
            "vpsignb {t}, {x}, ymmword ptr [{w}]",
            "vpsignb {x}, {x}, ymmword ptr [{w} + 32]",
            "vpmaddubsw {t}, {w0}, {t}",
            "vpmaddubsw {x}, {w1}, {x}",
            "vpmaddwd {t}, {t}, {ones}",
            "vpmaddwd {x}, {x}, {ones}",
            concat!("vpaddd {", stringify!($a), "}, {", stringify!($a), "}, {t}"),
            concat!("vpaddd {", stringify!($b), "}, {", stringify!($b), "}, {x}"),)*
            p = in(reg) $p, q = in(reg) $p.wrapping_add(3 * $s), s = in(reg) $s, w = in(reg) $w, ones = in(ymm_reg) $ones,
            w0 = out(ymm_reg) _, w1 = out(ymm_reg) _, x = out(ymm_reg) _, t = out(ymm_reg) _,
            $($a = inout(ymm_reg) $sums[$row][0], $b = inout(ymm_reg) $sums[$row][1],)*
            options(pure, readonly, nostack, preserves_flags)
        )
    };
}

/// A word of codes with AVX-VNNI.
macro_rules! vnni_word {
    (($p:ident, $s:ident, $w:ident, $sums:ident), [$($row:literal $a:ident $b:ident $at:literal),*]) => {
        asm!(
            "/* {p} {q} {s} */",
            "vmovdqu {w0}, ymmword ptr [{w}]",
            "vmovdqu {w1}, ymmword ptr [{w} + 32]",
            $(concat!("vpbroadcastd {x}, dword ptr [", $at, "]"),
            concat!("{{vex}} vpdpbusd {", stringify!($a), "}, {w0}, {x}"),
            concat!("{{vex}} vpdpbusd {", stringify!($b), "}, {w1}, {x}"),)*
            p = in(reg) $p, q = in(reg) $p.wrapping_add(3 * $s), s = in(reg) $s, w = in(reg) $w,
            w0 = out(ymm_reg) _, w1 = out(ymm_reg) _, x = out(ymm_reg) _,
            $($a = inout(ymm_reg) $sums[$row][0], $b = inout(ymm_reg) $sums[$row][1],)*
            options(pure, readonly, nostack, preserves_flags)
        )
    };
}

/// See [`IntLanes::panel_dots`].
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn panel_dots<const VNNI: bool, const ROWS: usize>(
    _: Avx2Lanes<VNNI>,
    words: PanelWords,
    kind: CodeSums,
    starts: DotStarts,
) -> [[__m256i; NR_VECTORS]; ROWS] {
    let (first, step) = match starts {
        DotStarts::Constant => (&raw const START, 0),
        DotStarts::PerRow { first, step } => (first, step),
    };
    // SAFETY: panel and rows have the words, and starts are there, by this function's contract; the token proves the features.
    unsafe {
        match kind {
            _ if const { VNNI } => vnni::<ROWS>(words, first, step),
            CodeSums::Signed => signed::<ROWS>(words, first, step),
            CodeSums::Words(8) => unsigned::<ROWS, 8>(words, first, step),
            CodeSums::Words(4) => unsigned::<ROWS, 4>(words, first, step),
            CodeSums::Words(_) => unsigned::<ROWS, 2>(words, first, step),
        }
    }
}

/// Where dot products start without terms of rows.
static START: i32 = Avx2::START;

/// [`panel_dots`] of signed codes.
///
/// # Safety
/// As there; starts are `step` i32s apart.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn signed<const ROWS: usize>(
    words: PanelWords,
    first: *const i32,
    step: usize,
) -> [[__m256i; NR_VECTORS]; ROWS] {
    let PanelWords { panel, count, x, x_stride: s } = words;
    let ones = _mm256_set1_epi16(1);
    let mut dots = [[_mm256_setzero_si256(); NR_VECTORS]; ROWS];
    // SAFETY: panel and rows have the words, and starts are there, by this function's contract. A step reads a word of each of `ROWS`
    // rows and of the panel.
    unsafe {
        for word in 0..count {
            let (p, w) = (x.add(4 * word), panel.add(word * 8 * Avx2::LANES));
            if const { ROWS == 6 } {
                // Seventeen registers; three rows at a time take eleven.
                signed_word!((p, s, w, dots, ones), [0 a0 b0 "{p}", 1 a1 b1 "{p} + {s}", 2 a2 b2 "{p} + 2*{s}"]);
                let p = p.add(3 * s);
                signed_word!((p, s, w, dots, ones), [3 a0 b0 "{p}", 4 a1 b1 "{p} + {s}", 5 a2 b2 "{p} + 2*{s}"]);
            } else {
                for_rows!(signed_word(p, s, w, dots, ones));
            }
        }
        add_starts(&mut dots, first, step);
    }
    dots
}

/// [`panel_dots`] with AVX-VNNI.
///
/// # Safety
/// As there; starts are `step` i32s apart.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn vnni<const ROWS: usize>(
    words: PanelWords,
    first: *const i32,
    step: usize,
) -> [[__m256i; NR_VECTORS]; ROWS] {
    let PanelWords { panel, count, x, x_stride: s } = words;
    let mut dots = [[_mm256_setzero_si256(); NR_VECTORS]; ROWS];
    // SAFETY: panel and rows have the words, and starts are there, by this function's contract. A step reads a word of each of `ROWS`
    // rows and of the panel.
    unsafe {
        for (row, dots) in dots.iter_mut().enumerate() {
            *dots = [_mm256_set1_epi32(*first.add(row * step)); NR_VECTORS];
        }
        for word in 0..count {
            let (p, w) = (x.add(4 * word), panel.add(word * 8 * AvxVnni::LANES));
            for_rows!(vnni_word(p, s, w, dots));
        }
    }
    dots
}

/// [`panel_dots`] of unsigned codes: the products of `WORDS` words fit 16 bits.
///
/// # Safety
/// As there; starts are `step` i32s apart.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unsigned<const ROWS: usize, const WORDS: usize>(
    words: PanelWords,
    first: *const i32,
    step: usize,
) -> [[__m256i; NR_VECTORS]; ROWS] {
    let PanelWords { panel, count, x, x_stride: s } = words;
    let ones = _mm256_set1_epi16(1);
    let mut dots = [[_mm256_setzero_si256(); NR_VECTORS]; ROWS];
    // SAFETY: panel and rows have the words, and starts are there, by this function's contract. A step reads a word of each of `ROWS`
    // rows and of the panel.
    unsafe {
        for pass in (0..count).step_by(WORDS) {
            let mut sums = [[_mm256_setzero_si256(); NR_VECTORS]; ROWS];
            let (p, w) = (x.add(4 * pass), panel.add(pass * 8 * Avx2::LANES));
            for_rows!(first_word(p, s, w, sums));
            for word in pass + 1..pass + WORDS {
                let (p, w) = (x.add(4 * word), panel.add(word * 8 * Avx2::LANES));
                for_rows!(next_word(p, s, w, sums));
            }
            for (dots, sums) in dots.iter_mut().zip(sums) {
                for (dots, sums) in dots.iter_mut().zip(sums) {
                    *dots = _mm256_add_epi32(*dots, _mm256_madd_epi16(sums, ones));
                }
            }
        }
        add_starts(&mut dots, first, step);
    }
    dots
}

/// Adds what dot products start from.
///
/// # Safety
/// There is an i32 for each row, `step` i32s apart.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_starts<const ROWS: usize>(
    dots: &mut [[__m256i; NR_VECTORS]; ROWS],
    first: *const i32,
    step: usize,
) {
    for (row, dots) in dots.iter_mut().enumerate() {
        // SAFETY: the row has a start, by this function's contract.
        let start = _mm256_set1_epi32(unsafe { *first.add(row * step) });
        for dots in dots {
            *dots = _mm256_add_epi32(*dots, start);
        }
    }
}
