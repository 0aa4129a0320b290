//! The search of the encoders of IQ1, IQ2 and IQ3. For a scale, every group takes the code word nearest to it, found by trying all;
//! scales are tried over a range, and then as the small integers that are stored. Thorough rather than fast.

use super::block::half;
use super::fit::{each, inverse, nearest, store_half};

/// Words that are tried at a time.
const WIDTH: usize = 32;

/// A transposed code book, so that loops vectorise over words: of `WIDTH` words all first levels, all
/// second levels...
pub(super) struct Book<const CHUNKS: usize, const LANES: usize> {
    levels: [[[f32; WIDTH]; LANES]; CHUNKS],
    /// Squared lengths.
    norms: [[f32; WIDTH]; CHUNKS],
}

impl<const CHUNKS: usize, const LANES: usize> Book<CHUNKS, LANES> {
    pub(super) const fn new<const WORDS: usize>(words: &[[i8; LANES]; WORDS]) -> Book<CHUNKS, LANES> {
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
pub(super) struct Run<'a, const CHUNKS: usize, const LANES: usize, const N: usize> {
    pub(super) book: &'a Book<CHUNKS, LANES>,
    pub(super) points: &'a [[f32; LANES]; N],
    pub(super) shifts: [f32; N],
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
    pub(super) fn fit(&self, reaches: [f32; 6]) -> (f32, f32) {
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
    pub(super) fn refine(&self, fitted: f32, unit: f32, rule: &Rule) -> (u8, [usize; N]) {
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
pub(super) struct Rule {
    pub(super) first: f32,
    pub(super) step: f32,
    pub(super) last: f32,
}

impl Rule {
    #[inline(always)]
    pub(super) fn unit(&self, largest: f32) -> [u8; 2] {
        store_half(largest / (self.first + self.step * self.last))
    }
}

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
pub(super) struct SignedLevels {
    /// The greatest level.
    pub(super) top: f32,
    /// Whether the number of negative signs of eight elements is even, so that seven bits encode all of them.
    pub(super) even: bool,
}

/// A super-block of signed code words before it is packed: a scale, small integers, words and signs.
pub(super) struct Signed<const SUBS: usize, const N: usize> {
    pub(super) scale: [u8; 2],
    pub(super) subs: [u8; SUBS],
    pub(super) words: [[usize; N]; SUBS],
    pub(super) signs: [u8; 32],
}

impl<const SUBS: usize, const N: usize> Signed<SUBS, N> {
    /// Encodes `SUBS` sub-blocks of `N` words of `LANES` elements; `SUBS * N * LANES` is 256.
    #[inline(always)]
    pub(super) fn new<const CHUNKS: usize, const LANES: usize>(
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
pub(super) fn pack_signs(signs: &[u8], sub: u8) -> [u8; 4] {
    let mut word = u32::from(sub) << 28;
    for (i, signs) in signs.iter().enumerate() {
        word |= u32::from(signs & 0x7f) << (7 * i);
    }
    word.to_le_bytes()
}

/// Two small integers to a byte.
#[inline(always)]
pub(super) fn pack_subs<const SUBS: usize, const BYTES: usize>(subs: [u8; SUBS]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    for (byte, pair) in packed.iter_mut().zip(subs.as_chunks::<2>().0) {
        *byte = pair[0] | pair[1] << 4;
    }
    packed
}
