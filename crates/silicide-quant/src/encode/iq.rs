//! Encoders of the code-book formats. For a scale, every group takes the code word nearest to it, found by trying all;
//! scales are tried over a range, and then as the small integers that are stored. Thorough rather than fast.

use super::fit::{each, inverse, nearest, store_half};
use crate::format::block::{Encode, half};
use crate::format::iq::{self, IQ1_SHIFT, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};

/// Words that are tried at a time.
const WIDTH: usize = 32;

/// A transposed code book, so that loops vectorise over words: of `WIDTH` words all first levels, all
/// second levels...
struct Book<const CHUNKS: usize, const LANES: usize> {
    levels: [[[f32; WIDTH]; LANES]; CHUNKS],
    /// Squared lengths.
    norms: [[f32; WIDTH]; CHUNKS],
}

static IQ1: Book<64, 8> = Book::new(&iq::IQ1_BOOK);
static IQ2_XXS: Book<8, 8> = Book::new(&iq::IQ2_XXS_BOOK);
static IQ2_XS: Book<16, 8> = Book::new(&iq::IQ2_XS_BOOK);
static IQ2_S: Book<32, 8> = Book::new(&iq::IQ2_S_BOOK);
static IQ3_XXS: Book<8, 4> = Book::new(&iq::IQ3_XXS_BOOK);
static IQ3_S: Book<16, 4> = Book::new(&iq::IQ3_S_BOOK);

impl<const CHUNKS: usize, const LANES: usize> Book<CHUNKS, LANES> {
    const fn new<const WORDS: usize>(words: &[[i8; LANES]; WORDS]) -> Book<CHUNKS, LANES> {
        assert!(CHUNKS * WIDTH == WORDS);
        let mut book = Book { levels: [[[0.0; WIDTH]; LANES]; CHUNKS], norms: [[0.0; WIDTH]; CHUNKS] };
        let mut word = 0;
        while word < WORDS {
            let mut lane = 0;
            while lane < LANES {
                let level = words[word][lane] as f32;
                book.levels[word / WIDTH][lane][word % WIDTH] = level;
                book.norms[word / WIDTH][word % WIDTH] += level * level;
                lane += 1;
            }
            word += 1;
        }
        book
    }

    /// The word nearest to `point`.
    #[inline(always)]
    fn nearest(&self, point: &[f32; LANES]) -> usize {
        let (mut least, mut chunks) = ([f32::INFINITY; WIDTH], [0u32; WIDTH]);
        for (chunk, (levels, norms)) in self.levels.iter().zip(&self.norms).enumerate() {
            // Half the squared distance, but for the point's own length.
            let mut distances = each(norms, |norm| 0.5 * norm);
            for (levels, coordinate) in levels.iter().zip(point) {
                for (distance, level) in distances.iter_mut().zip(levels) {
                    *distance -= coordinate * level;
                }
            }
            for i in 0..WIDTH {
                let nearer = distances[i] < least[i];
                least[i] = if nearer { distances[i] } else { least[i] };
                chunks[i] = if nearer { chunk as u32 } else { chunks[i] };
            }
        }
        let mut best = 0;
        for i in 1..WIDTH {
            best = if least[i] < least[best] { i } else { best };
        }
        chunks[best] as usize * WIDTH + best
    }
}

/// Code words of a run of points, and of their levels the products with the points and the squares.
#[derive(Clone, Copy)]
struct Match<const N: usize> {
    words: [usize; N],
    products: f32,
    squares: f32,
}

/// A run of points that share a scale, what is added to their words' levels, and the book of words.
struct Run<'a, const CHUNKS: usize, const LANES: usize, const N: usize> {
    book: &'a Book<CHUNKS, LANES>,
    points: &'a [[f32; LANES]; N],
    shifts: [f32; N],
}

impl<const CHUNKS: usize, const LANES: usize, const N: usize> Run<'_, CHUNKS, LANES, N> {
    /// Returns the words nearest to the points times `factor`, and the sums that fit a scale to them.
    #[inline(always)]
    fn at(&self, factor: f32) -> Match<N> {
        let mut matched = Match { words: [0; N], products: 0.0, squares: 0.0 };
        for (i, point) in self.points.iter().enumerate() {
            let shift = self.shifts[i];
            let word = self.book.nearest(&each(point, |coordinate| coordinate * factor - shift));
            matched.words[i] = word;
            for (levels, coordinate) in self.book.levels[word / WIDTH % CHUNKS].iter().zip(point) {
                let level = levels[word % WIDTH] + shift;
                matched.products += level * coordinate;
                matched.squares += level * level;
            }
        }
        matched
    }

    /// The best scale found, and its gain: the greatest magnitude is put at each of `reaches`.
    #[inline(always)]
    fn fit(&self, reaches: [f32; 6]) -> (f32, f32) {
        let greatest = self.points.iter().flatten().fold(0f32, |most, point| most.max(point.abs()));
        let (mut best, mut most) = (0.0, 0.0);
        for reach in reaches {
            let matched = self.at(reach * inverse(greatest));
            let gain = matched.products * matched.products * inverse(matched.squares);
            if gain > most {
                (best, most) = (matched.products * inverse(matched.squares), gain);
            }
        }
        (best, most)
    }

    /// Returns the best small integer `0..=top`, near to the one for scale `fitted`, and its words.
    #[inline(always)]
    fn refine(&self, fitted: f32, unit: f32, rule: &Rule) -> (u8, [usize; N]) {
        let middle = nearest(((fitted * inverse(unit) - rule.first) / rule.step).clamp(0.0, rule.last));
        let mut best = (0, [0; N]);
        let mut most = f32::NEG_INFINITY;
        for sub in [middle, (middle - 1.0).max(0.0), (middle + 1.0).min(rule.last)] {
            let scale = unit * (rule.first + rule.step * sub);
            let matched = self.at(inverse(scale));
            let gain = scale * (2.0 * matched.products - scale * matched.squares);
            if gain > most {
                most = gain;
                best = (sub as u8, matched.words);
            }
        }
        best
    }
}

/// How a format scales: `unit * (first + step * sub)` with `sub` in `0..=last`.
struct Rule {
    first: f32,
    step: f32,
    last: f32,
}

impl Rule {
    #[inline(always)]
    fn unit(&self, largest: f32) -> [u8; 2] {
        store_half(largest / (self.first + self.step * self.last))
    }
}

const IQ2_RULE: Rule = Rule { first: 0.125, step: 0.25, last: 15.0 };
const IQ3_XXS_RULE: Rule = Rule { first: 0.25, step: 0.5, last: 15.0 };
const IQ3_S_RULE: Rule = Rule { first: 1.0, step: 2.0, last: 15.0 };
const IQ1_RULE: Rule = Rule { first: 1.0, step: 2.0, last: 7.0 };

/// Eight magnitudes and their signs. With `even`, the number of signs is made even at the cost of the smallest.
#[inline(always)]
fn split_signs(values: &[f32; 8], even: bool) -> ([f32; 8], u8) {
    let mut signs = 0;
    for (i, value) in values.iter().enumerate() {
        signs |= u8::from(*value < 0.0) << i;
    }
    let mut magnitudes = values.map(f32::abs);
    if even && signs.count_ones() % 2 == 1 {
        let mut smallest = 0;
        for i in 1..8 {
            smallest = if magnitudes[i] < magnitudes[smallest] { i } else { smallest };
        }
        magnitudes[smallest] = -magnitudes[smallest];
        signs ^= 1 << smallest;
    }
    (magnitudes, signs)
}

/// Levels and signs of a format with signed code words.
#[derive(Clone, Copy)]
struct SignedLevels {
    /// The greatest level.
    top: f32,
    /// Whether the number of negative signs of eight elements is even, so that seven bits encode all of them.
    even: bool,
}

/// A super-block of signed code words before it is packed: a scale, small integers, words and signs.
struct Signed<const SUBS: usize, const N: usize> {
    scale: [u8; 2],
    subs: [u8; SUBS],
    words: [[usize; N]; SUBS],
    signs: [u8; 32],
}

impl<const SUBS: usize, const N: usize> Signed<SUBS, N> {
    /// Encodes `SUBS` sub-blocks of `N` words of `LANES` elements; `SUBS * N * LANES` is 256.
    #[inline(always)]
    fn new<const CHUNKS: usize, const LANES: usize>(
        values: &[f32; 256],
        book: &Book<CHUNKS, LANES>,
        rule: &Rule,
        levels: SignedLevels,
    ) -> Signed<SUBS, N> {
        let SignedLevels { top, even } = levels;
        let (mut magnitudes, mut signs) = ([0.0; 256], [0; 32]);
        let groups = values.as_chunks::<8>().0.iter().zip(magnitudes.as_chunks_mut::<8>().0).zip(&mut signs);
        for ((values, magnitudes), signs) in groups {
            (*magnitudes, *signs) = split_signs(values, even);
        }
        let mut points = [[[0.0; LANES]; N]; SUBS];
        for (to, from) in points.as_flattened_mut().as_flattened_mut().iter_mut().zip(magnitudes) {
            *to = from;
        }
        let (mut fits, mut largest) = ([0f32; SUBS], 0f32);
        for (fitted, points) in fits.iter_mut().zip(&points) {
            let run = Run { book, points, shifts: [0.0; N] };
            *fitted = run.fit([0.6, 0.7, 0.8, 0.9, 1.0, 1.15].map(|part| part * top)).0;
            largest = largest.max(*fitted);
        }
        let scale = rule.unit(largest);
        let mut block = Signed { scale, subs: [0; SUBS], words: [[0; N]; SUBS], signs };
        for (i, points) in points.iter().enumerate() {
            let run = Run { book, points, shifts: [0.0; N] };
            (block.subs[i], block.words[i]) = run.refine(fits[i], half(scale), rule);
        }
        block
    }
}

/// Four times seven signs and a small integer.
#[inline(always)]
fn pack_signs(signs: &[u8], sub: u8) -> [u8; 4] {
    let mut word = u32::from(sub) << 28;
    for (i, signs) in signs.iter().enumerate() {
        word |= u32::from(signs & 0x7f) << (7 * i);
    }
    word.to_le_bytes()
}

/// Two small integers to a byte.
#[inline(always)]
fn pack_subs<const SUBS: usize, const BYTES: usize>(subs: [u8; SUBS]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    for (byte, pair) in packed.iter_mut().zip(subs.as_chunks::<2>().0) {
        *byte = pair[0] | pair[1] << 4;
    }
    packed
}

impl Encode<256> for Iq2Xxs {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq2Xxs {
        let block = Signed::<8, 4>::new(values, &IQ2_XXS, &IQ2_RULE, SignedLevels { top: 43.0, even: true });
        let mut groups = [[[0; 4]; 2]; 8];
        for (i, (group, signs)) in groups.iter_mut().zip(block.signs.as_chunks::<4>().0).enumerate() {
            *group = [block.words[i].map(|word| word as u8), pack_signs(signs, block.subs[i])];
        }
        Iq2Xxs { scale: block.scale, groups }
    }
}

impl Encode<256> for Iq2Xs {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq2Xs {
        let block = Signed::<16, 2>::new(values, &IQ2_XS, &IQ2_RULE, SignedLevels { top: 43.0, even: true });
        let mut codes = [[0; 2]; 32];
        for (i, code) in codes.iter_mut().enumerate() {
            let (word, signs) = (block.words[i / 2][i % 2] as u16, u16::from(block.signs[i] & 0x7f));
            *code = (word | signs << 9).to_le_bytes();
        }
        Iq2Xs { scale: block.scale, codes: bytemuck::cast(codes), scales: pack_subs(block.subs) }
    }
}

impl Encode<256> for Iq2S {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq2S {
        let block = Signed::<16, 2>::new(values, &IQ2_S, &IQ2_RULE, SignedLevels { top: 43.0, even: false });
        let (mut codes, mut high) = ([0; 32], [0; 8]);
        for (i, code) in codes.iter_mut().enumerate() {
            let word = block.words[i / 2][i % 2];
            *code = word as u8;
            high[i / 4] |= ((word >> 8) as u8) << (2 * (i % 4));
        }
        let (codes, signs) = (bytemuck::cast(codes), bytemuck::cast(block.signs));
        Iq2S { scale: block.scale, codes, signs, high, scales: pack_subs(block.subs) }
    }
}

impl Encode<256> for Iq3Xxs {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq3Xxs {
        let block =
            Signed::<8, 8>::new(values, &IQ3_XXS, &IQ3_XXS_RULE, SignedLevels { top: 62.0, even: true });
        let codes = block.words.map(|words| words.map(|word| word as u8));
        let mut signs = [[0; 4]; 8];
        for (i, (packed, signs)) in signs.iter_mut().zip(block.signs.as_chunks::<4>().0).enumerate() {
            *packed = pack_signs(signs, block.subs[i]);
        }
        Iq3Xxs { scale: block.scale, codes, signs }
    }
}

impl Encode<256> for Iq3S {
    #[inline(always)]
    fn encode(values: &[f32; 256]) -> Iq3S {
        let block = Signed::<8, 8>::new(values, &IQ3_S, &IQ3_S_RULE, SignedLevels { top: 15.0, even: false });
        let codes = block.words.map(|words| words.map(|word| word as u8));
        let mut high = [0; 8];
        for (byte, words) in high.iter_mut().zip(&block.words) {
            for (i, word) in words.iter().enumerate() {
                *byte |= ((word >> 8) as u8) << i;
            }
        }
        Iq3S {
            scale: block.scale,
            codes,
            high,
            signs: bytemuck::cast(block.signs),
            scales: pack_subs(block.subs),
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
