//! Quantizes activations: every 32 to 8 bits, under a scale of their own.
//!
//! ```text
//! for group g of 32 activations x:
//!     scale[g] = max |x| / 127                     # NaN if one of them is not finite
//!     code[l]  = round(x[l] * 127 / max |x|)       # -127..=127, ties to even
//! ```
//!
//! A quantized row, the same for all formats and instruction sets:
//!
//! ```text
//! | 32 codes of group 0 | of group 1 | ... | scales of all groups, f32 | sums of first halves, i32 | of second halves, i32 | padding |
//! ```
//!
//! Sums of codes are what zero points and minimums of weights are multiplied with. Rows are whole cache lines; the padding is zeros.

use super::formats::GROUP;
use crate::prefetch::LINE;
use crate::view::{GemmError, Matrix};
use std::marker::PhantomData;
use std::ops::Range;

/// Where things are in a quantized row, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowOffsets {
    pub(super) scales: usize,
    /// The sums of first halves of groups.
    pub(super) first: usize,
    /// The sums of second halves.
    pub(super) second: usize,
    /// Bytes from one row to the next.
    pub(super) bytes: usize,
}

impl RowOffsets {
    /// The offsets in a row of `groups` groups.
    #[inline(always)]
    pub(super) const fn new(groups: usize) -> RowOffsets {
        let (scales, sums) = (groups * GROUP, groups * (GROUP + 4));
        let bytes = (sums + 8 * groups).next_multiple_of(LINE);
        RowOffsets { scales, first: sums, second: sums + 4 * groups, bytes }
    }
}

/// The most groups of a row whose bytes can be counted: a group has 44 bytes, and a row is whole cache lines.
const MAX_ROW_GROUPS: usize = isize::MAX as usize / (2 * LINE);

/// Returns the bytes of a quantized row of `groups` groups of 32; `usize::MAX` if there are more than memory can hold.
#[inline(always)]
pub const fn quantized_row_bytes(groups: usize) -> usize {
    if groups > MAX_ROW_GROUPS { usize::MAX } else { RowOffsets::new(groups).bytes }
}

/// The argument's name in errors.
const ROWS: &str = "quantized rows";

/// The alignment of scales and sums, in bytes.
const ALIGNMENT: usize = 4;

/// Checks memory for quantized rows.
fn check(bytes: &[u8], rows: usize, groups: usize) -> Result<(), GemmError> {
    let argument = ROWS;
    if rows == 0 || groups == 0 {
        return Err(GemmError::Empty { argument, what: if rows == 0 { "rows" } else { "groups" } });
    }
    let needed = rows.checked_mul(quantized_row_bytes(groups)).filter(|bytes| *bytes <= isize::MAX as usize);
    let needed = needed.ok_or(GemmError::Overflow { argument })?;
    if bytes.len() < needed {
        return Err(GemmError::Length { argument, needed, got: bytes.len() });
    }
    if !bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) {
        return Err(GemmError::Alignment { argument, alignment: ALIGNMENT });
    }
    Ok(())
}

/// Quantized rows to read: the LHS of a product.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedRows<'a> {
    start: *const u8,
    rows: usize,
    groups: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> QuantizedRows<'a> {
    /// Returns a view of `rows` rows of `groups` groups, which [`quantize`] has written.
    pub fn new(bytes: &'a [u8], rows: usize, groups: usize) -> Result<QuantizedRows<'a>, GemmError> {
        check(bytes, rows, groups)?;
        Ok(QuantizedRows { start: bytes.as_ptr(), rows, groups, memory: PhantomData })
    }

    /// Returns a view of memory.
    ///
    /// # Safety
    /// `rows` rows of [`quantized_row_bytes`] can be read at `start`, which is a multiple of 4; nothing writes them while the view is
    /// used.
    #[inline(always)]
    pub unsafe fn from_raw_parts(start: *const u8, rows: usize, groups: usize) -> QuantizedRows<'a> {
        QuantizedRows { start, rows, groups, memory: PhantomData }
    }

    /// The rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Groups of 32 in a row.
    #[inline(always)]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Returns the view of some of the rows: of those that there are.
    #[inline(always)]
    pub(super) fn part(self, rows: Range<usize>) -> QuantizedRows<'a> {
        let start = rows.start.min(self.rows - 1);
        QuantizedRows { start: self.row(start), rows: rows.len().clamp(1, self.rows - start), ..self }
    }

    /// The address of row `row`; of the last one, if there are fewer.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> *const u8 {
        self.start.wrapping_add(row.min(self.rows - 1) * RowOffsets::new(self.groups).bytes)
    }

    /// Returns groups `part` of row `row`; of the last row, if there are fewer; no groups, if the row lacks them.
    #[inline(always)]
    pub(super) fn groups_of(&self, row: usize, part: Range<usize>) -> QuantizedGroups<'a> {
        let part = if part.start <= part.end && part.end <= self.groups { part } else { 0..0 };
        let (row, offsets) = (self.row(row), RowOffsets::new(self.groups));
        // SAFETY: the view has the row and these groups of it, by its constructor; the parts of a row are aligned to 4 bytes as the row
        // is (`ALIGNMENT`).
        unsafe {
            QuantizedGroups {
                #[cfg(target_arch = "x86_64")]
                codes: slice(row, part.clone()),
                scales: slice(row.add(offsets.scales), part.clone()),
                first: slice(row.add(offsets.first), part.clone()),
                second: slice(row.add(offsets.second), part),
            }
        }
    }
}

/// Some groups of a quantized row.
#[derive(Clone, Copy)]
pub(super) struct QuantizedGroups<'a> {
    /// For GEMVs that arrange codes again.
    #[cfg(target_arch = "x86_64")]
    pub(super) codes: &'a [[u8; GROUP]],
    pub(super) scales: &'a [f32],
    /// The sums of first halves of groups, and of second halves.
    pub(super) first: &'a [i32],
    pub(super) second: &'a [i32],
}

/// Returns elements `part` of an array.
///
/// # Safety
/// The elements can be read, are aligned, and nothing writes them.
#[inline(always)]
unsafe fn slice<'a, T>(start: *const u8, part: Range<usize>) -> &'a [T] {
    // SAFETY: the elements can be read, by this function's contract.
    unsafe { std::slice::from_raw_parts(start.cast::<T>().add(part.start), part.len()) }
}

/// Quantized rows to write.
#[derive(Debug)]
pub struct QuantizedRowsMut<'a> {
    start: *mut u8,
    rows: usize,
    groups: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> QuantizedRowsMut<'a> {
    /// Returns a view of `rows` rows of `groups` groups.
    pub fn new(bytes: &'a mut [u8], rows: usize, groups: usize) -> Result<QuantizedRowsMut<'a>, GemmError> {
        check(bytes, rows, groups)?;
        Ok(QuantizedRowsMut { start: bytes.as_mut_ptr(), rows, groups, memory: PhantomData })
    }

    /// Returns a view of memory.
    ///
    /// # Safety
    /// `rows` rows of [`quantized_row_bytes`] can be written at `start`, which is a multiple of 4. Nothing else touches the groups that are
    /// quantized through this view while it is used; other groups of a row may be others'.
    #[inline(always)]
    pub unsafe fn from_raw_parts(start: *mut u8, rows: usize, groups: usize) -> QuantizedRowsMut<'a> {
        QuantizedRowsMut { start, rows, groups, memory: PhantomData }
    }

    /// Quantizes `from`, which is whole groups, to groups of row `row` from group `first` on. The padding belongs to the last group.
    #[inline(always)]
    pub fn quantize_groups(&mut self, row: usize, first: usize, from: &[f32]) -> Result<(), GemmError> {
        let (groups, rest) = from.as_chunks::<GROUP>();
        if !rest.is_empty() {
            return Err(GemmError::Multiple {
                argument: "activations",
                what: "columns",
                of: GROUP,
                got: from.len(),
            });
        }
        let bounds = |what, most, got| GemmError::Bounds { argument: ROWS, what, least: 0, most, got };
        if row >= self.rows {
            return Err(bounds("row", self.rows - 1, row));
        }
        let Some(most) = self.groups.checked_sub(groups.len()) else {
            return Err(bounds("groups", self.groups, groups.len()));
        };
        if first > most {
            return Err(bounds("first group", most, first));
        }
        let (from, part) = (groups, first..first + groups.len());
        let offsets = RowOffsets::new(self.groups);
        let start = self.start.wrapping_add(row * offsets.bytes);
        if part.end == self.groups && !part.is_empty() {
            let padding = offsets.second + 4 * self.groups..offsets.bytes;
            // SAFETY: the view has the row, as compared above; the padding is that of the last group, which this call quantizes.
            unsafe { slice_mut::<u8>(start, padding) }.fill(0);
        }
        // SAFETY: the view has the row and these groups of it, as compared above; the parts of a row lie apart, and are aligned to 4
        // bytes as the row is (`ALIGNMENT`).
        let (codes, scales, first, second) = unsafe {
            (
                slice_mut::<[i8; GROUP]>(start, part.clone()),
                slice_mut::<f32>(start.add(offsets.scales), part.clone()),
                slice_mut::<i32>(start.add(offsets.first), part.clone()),
                slice_mut::<i32>(start.add(offsets.second), part),
            )
        };
        let parts = codes.iter_mut().zip(scales).zip(first.iter_mut().zip(second));
        for (from, ((codes, scale), (first, second))) in from.iter().zip(parts) {
            // Lanes are the values of one group. Without this, the compiler makes lanes of groups, whose values lie apart: 53 ticks a
            // group instead of 16 with AVX-512, 33 instead of 20 with AVX2.
            std::hint::black_box(());
            (*scale, [*first, *second]) = quantize_group(from, codes);
        }
        Ok(())
    }
}

/// Returns elements `part` of an array.
///
/// # Safety
/// The elements can be written, are aligned, and nothing else touches them.
#[inline(always)]
unsafe fn slice_mut<'a, T>(start: *mut u8, part: Range<usize>) -> &'a mut [T] {
    // SAFETY: the elements can be written, by this function's contract.
    unsafe { std::slice::from_raw_parts_mut(start.cast::<T>().add(part.start), part.len()) }
}

/// Quantizes the rows of a matrix, whose columns are whole groups of 32.
pub fn quantize(from: Matrix<'_, f32>, to: &mut QuantizedRowsMut<'_>) -> Result<(), GemmError> {
    let argument = ROWS;
    if !from.columns().is_multiple_of(GROUP) {
        return Err(GemmError::Multiple {
            argument: "activations",
            what: "columns",
            of: GROUP,
            got: from.columns(),
        });
    }
    let (expected, got) = (from.columns() / GROUP, to.groups);
    if expected != got {
        return Err(GemmError::Extent { argument, what: "groups", expected, got });
    }
    if from.rows() != to.rows {
        return Err(GemmError::Extent { argument, what: "rows", expected: from.rows(), got: to.rows });
    }
    for row in 0..from.rows() {
        to.quantize_groups(row, 0, from.row(row).unwrap_or_default())?;
    }
    Ok(())
}

/// Quantizes a group; returns its scale, and the sums of the codes of both halves.
#[inline(always)]
fn quantize_group(from: &[f32; GROUP], codes: &mut [i8; GROUP]) -> (f32, [i32; 2]) {
    // Added to a small number, it leaves the nearest integer in the lowest bits.
    const ROUND: f32 = (3 << 22) as f32;
    // Magnitudes have the order of their bits; those of infinities and NaN come after all numbers.
    let magnitudes = from.iter().map(|value| value.to_bits() & (u32::MAX >> 1));
    let largest = f32::from_bits(magnitudes.fold(0, u32::max));
    let scale = if largest.is_finite() { largest * (1.0 / 127.0) } else { f32::NAN };
    let inverse = if scale > 0.0 { 127.0 / largest } else { 0.0 };
    // An array of its own, which can't overlap `from`: otherwise codes are stored one at a time.
    let mut rounded = [0i8; GROUP];
    for (code, value) in rounded.iter_mut().zip(from) {
        *code = (value * inverse + ROUND).to_bits() as i8;
    }
    *codes = rounded;
    let mut sums = [0i32; 2];
    for (sum, half) in sums.iter_mut().zip(rounded.as_chunks::<{ GROUP / 2 }>().0) {
        *sum = half.iter().map(|code| i32::from(*code)).sum();
    }
    (scale, sums)
}
