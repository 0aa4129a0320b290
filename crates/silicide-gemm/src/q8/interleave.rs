//! Interleaves the blocks of sixteen weight rows, as [`layout`](super::layout) draws it: odd bytes of all rows, then word by word.
//!
//! ```text
//! for block b, for word w of it, for row r of 16: to[b][w][r] = from[r][b][w]
//! ```
//!
//! Planes of affine codes are interleaved as elements: words of codes, and scales. Codes are [rearranged](CodeOrder) inside their words.
//!
//! Sixteen rows are read at a time, and no hardware prefetcher follows sixteen short streams. But their next sixteen rows lie behind them as one piece, so each
//! step prefetches as many bytes of it as it moves. One thread, from memory, AVX2, rows of 2048 (GB/s, without and with): Q4_0 6.8 and 12.5,
//! Q8_0 10.4 and 16.1, Q4_K 10.2 and 12.9, Q6_K 11.6 and 14.3. Prefetching ahead in each row was slower than nothing.

use super::formats::affine;
use super::formats::words_at;
use super::layout::INTERLEAVE;
use crate::f32::{self, F32Kernels};
use crate::isa::{CodeLanes, Task};
use crate::prefetch::{LINE, fetch};
use crate::view::GemmError;
use silicide_quant::{DType, Format, MlxFormat};

/// Words of a row that are moved at a time.
const WORDS: usize = 4;

/// How the blocks of a format are taken apart.
#[derive(Clone, Copy, Debug)]
pub struct InterleavedBlock {
    /// Bytes of a block.
    bytes: usize,
    /// The first byte that is in no word.
    odd_at: usize,
    /// Bytes that are in no word.
    odd: usize,
    /// The first byte of the first word.
    words_at: usize,
}

impl InterleavedBlock {
    /// Returns how a format is taken apart; `None` if it cannot be interleaved.
    #[inline]
    pub fn of(format: Format) -> Option<InterleavedBlock> {
        let (bytes, words_at) = (format.block_bytes(), words_at(format)?);
        let odd = bytes % 4;
        Some(InterleavedBlock { bytes, odd_at: if words_at > 0 { 0 } else { bytes - odd }, odd, words_at })
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns where byte `at` of row `row` of sixteen goes in their interleaved blocks.
    pub fn place(self, row: usize, at: usize) -> usize {
        if (self.odd_at..self.odd_at + self.odd).contains(&at) {
            return row * self.odd + at - self.odd_at;
        }
        let at = at - self.words_at;
        INTERLEAVE * self.odd + (at / 4 * INTERLEAVE + row) * 4 + at % 4
    }

    /// Copies the block of row `row`, below sixteen, from the interleaved blocks of sixteen rows; `to` has the bytes of one block.
    #[inline(always)]
    pub fn copy_row(self, row: usize, from: &[u8], to: &mut [u8]) {
        let (odd, words) = from.split_at_checked(INTERLEAVE * self.odd).unwrap_or_default();
        let bytes = to.get_mut(self.odd_at..self.odd_at + self.odd).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(odd.iter().skip(row * self.odd)) {
            *to = *from;
        }
        let to = to.get_mut(self.words_at..).unwrap_or_default().as_chunks_mut::<4>().0;
        for (to, from) in to.iter_mut().zip(words.as_chunks::<{ 4 * INTERLEAVE }>().0) {
            if let Some(word) = from.as_chunks().0.get(row) {
                *to = *word;
            }
        }
    }
}

/// The order of affine codes inside the words of interleaved planes.
///
/// Words of codes of 8 bits stay as they are. A word of codes of 4 bits has the first four codes in the lower halves of its bytes and the
/// others in the upper halves, so that a shift and a mask take four codes out:
///
/// ```text
/// plain:       bits 0..4 code 0 | 4..8 code 1 | 8..12 code 2  | 12..16 code 3 | 16..20 code 4 | ...
/// interleaved: bits 0..4 code 0 | 4..8 code 4 | 8..12 code 1  | 12..16 code 5 | 16..20 code 2 | ...
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CodeOrder {
    bits: usize,
}

impl CodeOrder {
    /// Returns the order of a format's codes; `None` if it cannot be interleaved.
    pub fn of(format: MlxFormat) -> Option<CodeOrder> {
        affine::interleaves(format).then_some(CodeOrder { bits: format.bits() })
    }

    /// Returns the interleaved form of a word of plain codes.
    #[inline(always)]
    pub fn interleaved(self, word: u32) -> u32 {
        if self.bits != 4 {
            return word;
        }
        // Four nibbles to the lower halves of four bytes.
        let spread = |nibbles: u32| {
            let pairs = (nibbles | nibbles << 8) & 0x00ff_00ff;
            (pairs | pairs << 4) & 0x0f0f_0f0f
        };
        spread(word & 0xffff) | spread(word >> 16) << 4
    }

    /// Returns the word of plain codes whose [interleaved](CodeOrder::interleaved) form is `word`.
    #[inline(always)]
    pub fn plain(self, word: u32) -> u32 {
        if self.bits != 4 {
            return word;
        }
        let join = |nibbles: u32| {
            let pairs = (nibbles & 0x0f0f_0f0f | (nibbles & 0x0f0f_0f0f) >> 4) & 0x00ff_00ff;
            (pairs | pairs >> 8) & 0xffff
        };
        join(word) | join(word >> 4) << 16
    }
}

/// Interleaves plane `plane` of sixteen weight rows of affine codes, which follow each other in `from`: 0 has the codes, others scales and
/// biases. `to` has as many bytes.
pub fn interleave_plane<I: F32Kernels>(
    isa: I,
    format: MlxFormat,
    plane: usize,
    from: &[u8],
    to: &mut [u8],
) -> Result<(), GemmError> {
    let order = CodeOrder::of(format).ok_or_else(|| GemmError::Format {
        argument: "weights",
        format: format.to_string(),
        what: "interleaved layout",
    })?;
    if plane > 0 {
        return f32::interleave(isa, format.scale_dtype(), from, to);
    }
    f32::interleave(isa, DType::F32, from, to)?;
    if order.bits == 4 {
        for word in to.as_chunks_mut().0 {
            *word = order.interleaved(u32::from_le_bytes(*word)).to_le_bytes();
        }
    }
    Ok(())
}

/// Interleaves sixteen weight rows.
struct InterleaveRows<'a, I> {
    isa: I,
    block: InterleavedBlock,
    from: &'a [u8],
    to: &'a mut [u8],
}

/// Interleaves sixteen weight rows of `format`, which are `from`; `to` has as many bytes.
#[inline(always)]
pub(super) fn interleave<I: CodeLanes>(
    isa: I,
    format: Format,
    from: &[u8],
    to: &mut [u8],
) -> Result<(), GemmError> {
    let argument = "weights";
    let block = InterleavedBlock::of(format).ok_or_else(|| GemmError::Format {
        argument,
        format: format.name().to_owned(),
        what: "interleaved layout",
    })?;
    if from.len() != to.len() {
        return Err(GemmError::Length { argument: "interleaved weights", needed: from.len(), got: to.len() });
    }
    if from.is_empty() {
        return Err(GemmError::Empty { argument, what: "bytes" });
    }
    if !from.len().is_multiple_of(INTERLEAVE * block.bytes) {
        return Err(GemmError::Multiple {
            argument,
            what: "bytes",
            of: INTERLEAVE * block.bytes,
            got: from.len(),
        });
    }
    isa.run_task(InterleaveRows { isa, block, from, to });
    Ok(())
}

impl<I: CodeLanes> Task for InterleaveRows<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, block, from, to } = self;
        let stride = from.len() / INTERLEAVE;
        let next = from.as_ptr().wrapping_add(from.len());
        for (i, to) in to.chunks_exact_mut(INTERLEAVE * block.bytes).enumerate() {
            for line in (0..to.len()).step_by(LINE) {
                fetch::<true>(next.wrapping_add(i * to.len() + line));
            }
            let from = from.get(i * block.bytes..).unwrap_or_default();
            // SAFETY: `interleave` checked that rows are whole blocks: block `i` of row `r` is at `r * stride`.
            unsafe { interleave_block(isa, block, from.as_ptr(), stride, to) };
        }
    }
}

/// Interleaves one block of each of sixteen rows, which are `stride` bytes apart.
///
/// # Safety
/// The block can be read in sixteen rows; `to` has as many bytes.
#[inline(always)]
unsafe fn interleave_block<I: CodeLanes>(
    isa: I,
    block: InterleavedBlock,
    from: *const u8,
    stride: usize,
    to: &mut [u8],
) {
    let (head, words) = to.split_at_mut(INTERLEAVE * block.odd);
    // SAFETY: a block can be read in sixteen rows, by this function's contract; it has `odd` bytes and its words, and `to` has room for
    // those of all rows.
    unsafe {
        let odd = from.add(block.odd_at);
        // A constant length is a move; another is a call for two bytes.
        match block.odd {
            1 => copy_odd::<1>(odd, stride, head),
            2 => copy_odd::<2>(odd, stride, head),
            3 => copy_odd::<3>(odd, stride, head),
            _ => {}
        }
        let from = from.add(block.words_at);
        let count = words.len() / (4 * INTERLEAVE);
        let whole = count / WORDS * WORDS;
        for word in (0..whole).step_by(WORDS) {
            for lane in (0..INTERLEAVE).step_by(I::LANES) {
                let rows = isa.load_transposed(from.add(lane * stride + 4 * word), stride);
                for (i, rows) in rows.into_iter().enumerate() {
                    isa.store_adjacent(rows, words.as_mut_ptr().add(4 * ((word + i) * INTERLEAVE + lane)));
                }
            }
        }
        for word in whole..count {
            for row in 0..INTERLEAVE {
                let to = words.as_mut_ptr().add(4 * (word * INTERLEAVE + row));
                std::ptr::copy_nonoverlapping(from.add(row * stride + 4 * word), to, 4);
            }
        }
    }
}

/// Copies `N` bytes of each of sixteen rows, which are `stride` bytes apart.
///
/// # Safety
/// The bytes can be read in sixteen rows.
#[inline(always)]
unsafe fn copy_odd<const N: usize>(from: *const u8, stride: usize, to: &mut [u8]) {
    for (row, to) in to.as_chunks_mut::<N>().0.iter_mut().enumerate().take(INTERLEAVE) {
        // SAFETY: row `row`, below sixteen, can be read, by this function's contract.
        *to = unsafe { from.add(row * stride).cast::<[u8; N]>().read() };
    }
}
