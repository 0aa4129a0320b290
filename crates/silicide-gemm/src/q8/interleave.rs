//! Interleaving weights: blocks of sixteen columns are taken apart in words and put side by side, as
//! [`Source`](super::source::Source) reads them.

use super::source::TOGETHER;
use super::unit::Unit;
use super::words_at;
use crate::f32::vector::Vector;
use silicide_quant::Format;

/// Words of a column that are moved at a time.
const WORDS: usize = 4;

/// How blocks of a format are taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Bytes of a block.
    pub block: usize,
    /// The bytes that are in no word: the first of them, and how many.
    pub odd: (usize, usize),
    /// The first byte of the first word.
    pub words: usize,
}

impl Parts {
    /// Those of a format, if it can be interleaved.
    pub fn of(format: Format) -> Option<Parts> {
        let (block, words) = (format.block_bytes(), words_at(format)?);
        let odd = block % 4;
        Some(Parts { block, odd: (if words > 0 { 0 } else { block - odd }, odd), words })
    }

    /// Where byte `at` of column `column` of sixteen goes in their interleaved blocks.
    pub fn place(self, column: usize, at: usize) -> usize {
        let (first, odd) = self.odd;
        if (first..first + odd).contains(&at) {
            return column * odd + at - first;
        }
        let at = at - self.words;
        TOGETHER * odd + (at / 4 * TOGETHER + column) * 4 + at % 4
    }
}

/// Interleaves a block of each of sixteen columns, which are `stride` bytes apart.
///
/// # Safety
///
/// The instruction set is present, and the blocks are there.
#[inline(always)]
pub(super) unsafe fn interleave<U: Unit>(parts: Parts, from: *const u8, stride: usize, to: &mut [u8]) {
    let (first, odd) = parts.odd;
    let (head, words) = to.split_at_mut(TOGETHER * odd);
    // SAFETY: the caller's promise; a column has `odd` bytes and its words, and what is written is inside of the block's room.
    unsafe {
        for column in 0..TOGETHER * usize::from(odd > 0) {
            let (from, to) = (from.add(column * stride + first), head.as_mut_ptr().add(column * odd));
            std::ptr::copy_nonoverlapping(from, to, odd);
        }
        let from = from.add(parts.words);
        let count = words.len() / (4 * TOGETHER);
        // Four words of a vector of columns at a time, where vectors hold columns side by side.
        let whole = if U::SIDE_BY_SIDE { count / WORDS * WORDS } else { 0 };
        for word in (0..whole).step_by(WORDS) {
            for lane in (0..TOGETHER).step_by(U::Floats::LANES) {
                let columns = U::transpose(from.add(lane * stride + 4 * word), stride);
                for (i, columns) in columns.into_iter().enumerate() {
                    U::store(columns, words.as_mut_ptr().add(4 * ((word + i) * TOGETHER + lane)));
                }
            }
        }
        for word in whole..count {
            for column in 0..TOGETHER {
                let to = words.as_mut_ptr().add(4 * (word * TOGETHER + column));
                std::ptr::copy_nonoverlapping(from.add(column * stride + 4 * word), to, 4);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_place_of_its_own() {
        let mut formats = 0;
        for format in Format::ALL {
            let Some(parts) = Parts::of(format) else { continue };
            formats += 1;
            let all =
                (0..TOGETHER).flat_map(|column| (0..parts.block).map(move |at| parts.place(column, at)));
            let mut places: Vec<usize> = all.collect();
            places.sort_unstable();
            assert!(places.iter().enumerate().all(|(i, place)| i == *place), "{format}");
        }
        assert!(formats >= 16);
    }
}
