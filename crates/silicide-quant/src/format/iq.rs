//! What the code-book formats IQ1, IQ2 and IQ3 share: code books written out, signs, and the same for codes in i8 (names that end
//! in `_i8`). Neighbours: `iq_grids`, the packed code books; `iq1`, `iq2`, `iq3`, the formats.

use bytemuck::cast;

/// Code words with their levels written out, `LANES` to a word.
pub(super) const fn expand_book<const WORDS: usize, const LANES: usize>(
    packed: &[u16; WORDS],
    levels: &[i8],
) -> [[i8; LANES]; WORDS] {
    let bits = 16 / LANES;
    let mut book = [[0; LANES]; WORDS];
    let mut word = 0;
    while word < WORDS {
        let mut lane = 0;
        while lane < LANES {
            let index = packed[word] >> (bits * lane) & ((1 << bits) - 1);
            book[word][lane] = levels[index as usize];
            lane += 1;
        }
        word += 1;
    }
    book
}

/// Returns seven stored signs and the eighth, which makes their number even.
#[inline(always)]
pub(super) fn even_signs(seven: u32) -> u8 {
    let seven = seven as u8 & 0x7f;
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Returns the signs of 32 elements from a word of four times seven.
#[inline(always)]
pub(super) fn even_signs_of(word: u32) -> [u8; 4] {
    [0, 7, 14, 21].map(|shift| even_signs(word >> shift))
}

/// 32 magnitudes, negated where `signs` has a bit, times the scale of their half.
#[inline(always)]
pub(super) fn signed(out: &mut [f32; 32], magnitudes: [i8; 32], signs: [u8; 4], scales: [f32; 2]) {
    let mut levels = magnitudes;
    for (i, level) in levels.iter_mut().enumerate() {
        *level = if signs[i / 8] & 1 << (i % 8) == 0 { *level } else { -*level };
    }
    for (i, value) in out.iter_mut().enumerate() {
        *value = scales[i / 16] * f32::from(levels[i]);
    }
}

/// The levels of 32 elements from four code words of eight.
#[inline(always)]
pub(super) fn eights<const N: usize>(book: &[[i8; 8]; N], code: impl Fn(usize) -> usize) -> [i8; 32] {
    cast([0, 1, 2, 3].map(|i| book[code(i) % N]))
}

/// For eight signs, all bits of a byte where there is one.
pub(super) static SIGNS: [u64; 256] = signs(false);

/// The same for seven signs and the eighth that makes their number even.
pub(super) static EVEN_SIGNS: [u64; 128] = signs(true);

/// One in every byte.
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;

const fn signs<const N: usize>(even: bool) -> [u64; N] {
    let mut all = [0; N];
    let mut word = 0;
    while word < N {
        let eighth = if even { (word.count_ones() as usize & 1) << 7 } else { 0 };
        let mut lane = 0;
        while lane < 8 {
            all[word] |= (((word | eighth) >> lane & 1) as u64 * 0xff) << (8 * lane);
            lane += 1;
        }
        word += 1;
    }
    all
}

/// Writes eight levels, none of which is zero, negated where there is a sign.
#[inline(always)]
pub(super) fn signed_i8(codes: &mut [i8; 32], eighth: usize, levels: u64, signs: u64) {
    // No byte carries into the next: a level that is turned over is below 255.
    write_i8(codes, eighth, (levels ^ signs) + (signs & ONES));
}

/// Writes eight codes.
#[inline(always)]
pub(super) fn write_i8(codes: &mut [i8; 32], eighth: usize, word: u64) {
    let (words, _) = codes.as_chunks_mut::<8>();
    if let Some(codes) = words.get_mut(eighth) {
        *codes = cast(word.to_le_bytes());
    }
}

/// Returns all bits of a byte for each of the signs of an eighth, of which there are seven.
#[inline(always)]
pub(super) fn even_signs_i8(word: u32, eighth: usize) -> u64 {
    EVEN_SIGNS[(word >> (7 * eighth) & 127) as usize]
}

/// Returns the groups of 32 codes, with their numbers.
#[inline(always)]
pub(super) fn groups32(codes: &mut [i8; 256]) -> impl Iterator<Item = (usize, &mut [i8; 32])> {
    codes.as_chunks_mut::<32>().0.iter_mut().enumerate()
}

/// Writes scales of groups, from small numbers: all at once, which is vectorised.
#[inline(always)]
pub(super) fn scale_groups(scales: &mut [f32], scale: f32, subs: [u8; 8], shift: f32) {
    for (scales, sub) in scales.as_chunks_mut::<2>().0.iter_mut().zip(subs) {
        *scales = [scale * (shift + f32::from(sub)); 2];
    }
}

/// Writes scales of halves of groups, likewise.
#[inline(always)]
pub(super) fn scale_halves(scales: &mut [f32], scale: f32, subs: [u8; 16], shift: f32) {
    for (place, sub) in scales.iter_mut().zip(subs) {
        *place = scale * (shift + f32::from(sub));
    }
}

/// Returns the nibbles of `bytes`, the low nibble of each byte first.
#[inline(always)]
pub(super) fn nibbles<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    for (pair, byte) in all.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [*byte & 15, *byte >> 4];
    }
    all
}
