//! IQ1_S and IQ1_M: 256 elements under one half, groups of eight levels of -1, 0 and 1 from a code book, shifted up or down.
//! Neighbours: `iq`, what IQ1 to IQ3 share; `iq_search`, the search of the encoders.

use super::block::{Block, BlockMember, Encode, half, words};
use super::iq::{ONES, eights, expand_book, groups32, scale_groups, scale_halves, write_i8};
use super::iq_search::{Book, Rule, Run};
use super::{books, iq_grids};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq1S {
    scale: [u8; 2],
    codes: [[u8; 4]; 8],
    /// Of each 32 elements: four times three high bits of the codes, three bits of scale, the sign of the shift.
    high: [[u8; 2]; 8],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Iq1M {
    codes: [[u8; 4]; 8],
    /// A nibble per code: three high bits and the sign of the shift.
    high: [[u8; 2]; 8],
    /// Four words of four 3-bit scales; their top nibbles are the block's half.
    scales: [[u8; 2]; 4],
}

/// The shift of IQ1 elements, up or down, before they are scaled.
pub(crate) const IQ1_SHIFT: f32 = 0.125;

pub(crate) static IQ1_BOOK: [[i8; 8]; 2048] = expand_book(&iq_grids::IQ1, &[-1, 0, 1]);
static IQ1: Book<64, 8> = Book::new(&IQ1_BOOK);
const IQ1_RULE: Rule = Rule { first: 1.0, step: 2.0, last: 7.0 };

/// 32 levels, shifted up or, where `down` says so, down, times the scale of their half.
#[inline(always)]
fn shifted(out: &mut [f32; 32], levels: [i8; 32], down: [bool; 4], scales: [f32; 2]) {
    let shifts = down.map(|down| if down { -IQ1_SHIFT } else { IQ1_SHIFT });
    for (i, value) in out.iter_mut().enumerate() {
        *value = scales[i / 16] * (f32::from(levels[i]) + shifts[i / 8]);
    }
}

/// IQ1 levels eight-fold, one up or down.
#[inline(always)]
fn shifted_i8(levels: u64, down: bool) -> u64 {
    const TOP: u64 = ONES << 7;
    // Bytes of 0, 1 and -1, of which the lowest three bits are dropped before others could get them.
    let eightfold = (levels & (ONES * 0x1f)) << 3;
    let (up, two) = (eightfold | ONES, if down { ONES << 1 } else { 0 });
    // Two less in every byte, with the highest bits kept from borrowing.
    ((up | TOP) - two) ^ ((up ^ TOP) & TOP)
}

impl Block<256> for Iq1S {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::halves(1), BlockMember::bytes(32), BlockMember::halves(8)];
    const I8_SCALE_LEN: Option<usize> = Some(32);

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let scale = half(self.scale);
        for ((out, codes), high) in
            out.as_chunks_mut::<32>().0.iter_mut().zip(self.codes).zip(words(&self.high))
        {
            let scale = scale * f32::from(2 * (high >> 12 & 7) + 1);
            let levels = eights(&IQ1_BOOK, |i| usize::from(codes[i]) | usize::from(high >> (3 * i) & 7) << 8);
            shifted(out, levels, [high & 0x8000 != 0; 4], [scale; 2]);
        }
    }

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let high = words(&self.high);
        // Twice the number and one.
        scale_groups(
            scales,
            half(self.scale) * (2.0 * IQ1_SHIFT),
            high.map(|high| (high >> 12) as u8 & 7),
            0.5,
        );
        for (i, codes) in groups32(codes) {
            let (low, high) = (self.codes[i], high[i]);
            for (j, low) in low.into_iter().enumerate() {
                let levels = books::IQ1[usize::from(low) | usize::from(high >> (3 * j) & 7) << 8];
                write_i8(codes, j, shifted_i8(levels, high & 0x8000 != 0));
            }
        }
    }
}

impl Block<256> for Iq1M {
    const MEMBERS: &'static [BlockMember] =
        &[BlockMember::bytes(32), BlockMember::bytes(16), BlockMember::halves(4)];
    const I8_SCALE_LEN: Option<usize> = Some(16);

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let words = words(&self.scales);
        let top = words.map(|word| word >> 12);
        let scale = half((top[0] | top[1] << 4 | top[2] << 8 | top[3] << 12).to_le_bytes());
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let subs = words[group / 2] >> (6 * (group % 2));
            let scales = [subs & 7, subs >> 3 & 7].map(|sub| scale * f32::from(2 * sub + 1));
            let (codes, [first, second]) = (self.codes[group], self.high[group]);
            let high = [first & 15, first >> 4, second & 15, second >> 4];
            let levels = eights(&IQ1_BOOK, |i| usize::from(codes[i]) | usize::from(high[i] & 7) << 8);
            shifted(out, levels, high.map(|high| high & 8 != 0), scales);
        }
    }

    #[inline(always)]
    fn decode_i8(&self, codes: &mut [i8; 256], scales: &mut [f32]) {
        let words = words(&self.scales);
        let top = words.map(|word| word >> 12);
        let scale = half((top[0] | top[1] << 4 | top[2] << 8 | top[3] << 12).to_le_bytes()) * IQ1_SHIFT;
        let mut subs = [0; 16];
        for (i, sub) in subs.iter_mut().enumerate() {
            *sub = (words[i / 4] >> (3 * (i % 4))) as u8 & 7;
        }
        scale_halves(scales, 2.0 * scale, subs, 0.5);
        for (i, codes) in groups32(codes) {
            let (low, high) = (self.codes[i], u16::from_le_bytes(self.high[i]));
            for (j, low) in low.into_iter().enumerate() {
                let high = high >> (4 * j);
                let levels = books::IQ1[usize::from(low) | usize::from(high & 7) << 8];
                write_i8(codes, j, shifted_i8(levels, high & 8 != 0));
            }
        }
    }
}

/// A super-block of shifted words before it is packed.
struct Shifted<const SUBS: usize, const N: usize> {
    scale: [u8; 2],
    subs: [u8; SUBS],
    words: [[usize; N]; SUBS],
    /// Which words are shifted down.
    down: [[bool; N]; SUBS],
}

impl<const SUBS: usize, const N: usize> Shifted<SUBS, N> {
    /// Sub-blocks of `N` words whose shifts are one of `choices`.
    #[inline(always)]
    fn new(points: &[[[f32; 8]; N]; SUBS], choices: &[[bool; N]]) -> Shifted<SUBS, N> {
        let (mut fits, mut largest) = ([0f32; SUBS], 0f32);
        let mut down = [[false; N]; SUBS];
        for (i, points) in points.iter().enumerate() {
            let mut most = 0.0;
            for choice in choices {
                let run = Run { book: &IQ1, points, shifts: shifts(choice) };
                let (fitted, gain) = run.fit([0.9, 1.15, 1.4, 1.7, 2.0, 2.4]);
                if gain > most && fitted > 0.0 {
                    (fits[i], most, down[i]) = (fitted, gain, *choice);
                }
            }
            largest = largest.max(fits[i]);
        }
        let scale = IQ1_RULE.unit(largest);
        let mut block = Shifted { scale, subs: [0; SUBS], words: [[0; N]; SUBS], down };
        for (i, points) in points.iter().enumerate() {
            let run = Run { book: &IQ1, points, shifts: shifts(&down[i]) };
            (block.subs[i], block.words[i]) = run.refine(fits[i], half(scale), &IQ1_RULE);
        }
        block
    }
}

#[inline(always)]
fn shifts<const N: usize>(down: &[bool; N]) -> [f32; N] {
    let mut shifts = [IQ1_SHIFT; N];
    for (shift, down) in shifts.iter_mut().zip(down) {
        *shift = if *down { -IQ1_SHIFT } else { IQ1_SHIFT };
    }
    shifts
}

impl Encode<256> for Iq1S {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq1S {
        let block = Shifted::<8, 4>::new(bytemuck::cast_ref(values), &[[false; 4], [true; 4]]);
        let codes = block.words.map(|words| words.map(|word| word as u8));
        let mut high = [[0; 2]; 8];
        for (i, high) in high.iter_mut().enumerate() {
            let mut word = u16::from(block.subs[i]) << 12 | u16::from(block.down[i][0]) << 15;
            for (place, code) in block.words[i].iter().enumerate() {
                word |= ((code >> 8) as u16 & 7) << (3 * place);
            }
            *high = word.to_le_bytes();
        }
        Iq1S { scale: block.scale, codes, high }
    }
}

impl Encode<256> for Iq1M {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq1M {
        let choices = [[false, false], [false, true], [true, false], [true, true]];
        let block = Shifted::<16, 2>::new(bytemuck::cast_ref(values), &choices);
        let codes: [[[usize; 2]; 2]; 8] = bytemuck::cast(block.words);
        let codes = codes.map(|[[a, b], [c, d]]| [a, b, c, d].map(|word| word as u8));
        let (mut high, mut scales) = ([0; 16], [0u16; 4]);
        for (i, byte) in high.iter_mut().enumerate() {
            for place in 0..2 {
                let nibble = (block.words[i][place] >> 8) as u8 & 7 | u8::from(block.down[i][place]) << 3;
                *byte |= nibble << (4 * place);
            }
            scales[i / 4] |= u16::from(block.subs[i]) << (3 * (i % 4));
        }
        let unit = u16::from_le_bytes(block.scale);
        for (i, word) in scales.iter_mut().enumerate() {
            *word |= (unit >> (4 * i)) << 12;
        }
        Iq1M { codes, high: bytemuck::cast(high), scales: scales.map(u16::to_le_bytes) }
    }
}
