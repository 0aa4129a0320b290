//! Weights on the CPU: rows decoded to f32 by the decoder of their format, in any encoding but plain elements.

use crate::interleave::{CodeOrder, InterleavedGroup, TOGETHER};
use crate::mlx::{self, Planes};
use crate::needs::bytes;
use silicide_hal::{Count, Needs, Tile};
use silicide_quant::{DType, Encoding, Format, MlxFormat, MlxPlanes, RowEncoding, decode_into};

/// Elements of interleaved rows that are put together at a time: whole blocks of every format.
const CHUNK: usize = 256;

/// The rows of a weight among the bindings of a tile.
pub(crate) struct Rows<'a, 'b> {
    tile: &'a Tile<'b>,
    /// The binding of the first plane; the others follow.
    first: usize,
    encoding: Encoding,
    /// Rows of a matrix.
    n: usize,
    /// Elements of a row.
    k: usize,
}

impl<'a, 'b> Rows<'a, 'b> {
    /// A weight from binding `first` on, in the encoding of this [`code`](super::code): matrices of `n` rows of `k` elements.
    #[inline(always)]
    pub(crate) fn new(
        tile: &'a Tile<'b>,
        first: usize,
        code: u32,
        [n, k]: [usize; 2],
    ) -> Option<Rows<'a, 'b>> {
        let encoding = super::from_code(code)?;
        Some(Rows { tile, first, encoding, n: n.max(1), k })
    }

    /// Bindings that the planes take.
    #[inline(always)]
    pub(crate) fn planes(&self) -> usize {
        self.encoding.planes()
    }

    /// Decodes elements of `row` of all matrices from `column` on, as many as `to` takes; both are whole groups of the encoding.
    ///
    /// # Safety
    /// The bindings hold these elements, and nothing writes them now.
    #[inline(always)]
    pub(crate) unsafe fn decode(&self, row: usize, column: usize, to: &mut [f32]) {
        let start = row * self.k + column;
        // SAFETY: elements from `start` on are in the bindings (`# Safety`): whole groups of the encoding, in every plane.
        unsafe {
            match self.encoding {
                Encoding::Block(format) => self.decode_blocks(format, start, to),
                Encoding::Planes(format) => {
                    Planes { tile: self.tile, first: self.first, format }.decode(start, to);
                }
                Encoding::Interleaved { of: RowEncoding::Planes(format), .. } => {
                    self.decode_interleaved_planes(format, row, column, to);
                }
                Encoding::Interleaved { of, .. } => self.decode_interleaved(of, row, column, to),
                _ => {}
            }
        }
    }

    /// # Safety
    /// As for [`Rows::decode`].
    #[inline(always)]
    unsafe fn decode_blocks(&self, format: Format, start: usize, to: &mut [f32]) {
        let blocks = start / format.block_len()..(start + to.len()) / format.block_len();
        let bytes = blocks.start * format.block_bytes()..blocks.end * format.block_bytes();
        // Lengths agree by construction, so decoding can't fail.
        // SAFETY: `blocks` are those of elements `start..start + to.len()`, which the binding holds (`# Safety`).
        let _ = format.decode(unsafe { self.tile.read_part::<u8>(self.first, bytes) }, to);
    }

    /// # Safety
    /// As for [`Rows::decode`].
    #[inline(always)]
    unsafe fn decode_interleaved(&self, of: RowEncoding, row: usize, column: usize, to: &mut [f32]) {
        let Some(group) = InterleavedGroup::of(of, 0) else { return };
        let (bytes, len) = (group.bytes(), of.group_len());
        let (matrix, within) = (row / self.n, row % self.n);
        if within >= self.n / TOGETHER * TOGETHER {
            // After the last whole set, rows of elements lie in place.
            let start = (row * self.k + column) * bytes;
            if let RowEncoding::Element(dtype) = of {
                // SAFETY: the binding holds the row (`# Safety`), which lies in place: `within` is after the last whole set.
                let from = unsafe { self.tile.read_part::<u8>(self.first, start..start + to.len() * bytes) };
                // Lengths agree by construction, so decoding can't fail.
                let _ = decode_into(dtype, from, to);
            }
            return;
        }
        let set = (matrix * self.n + within / TOGETHER * TOGETHER) * (self.k / len) * bytes;
        let first = column / len;
        let mut apart = [0; CHUNK * size_of::<f32>()];
        for (chunk, to) in to.chunks_mut(CHUNK).enumerate() {
            let start = first + chunk * (CHUNK / len);
            let apart = apart.get_mut(..to.len() / len * bytes).unwrap_or_default();
            for (i, apart) in apart.chunks_exact_mut(bytes).enumerate() {
                let range = set + (start + i) * TOGETHER * bytes..set + (start + i + 1) * TOGETHER * bytes;
                // SAFETY: the binding holds the row (`# Safety`), and whole sets: `within` is in one, whose group this is.
                let together = unsafe { self.tile.read_part::<u8>(self.first, range) };
                group.copy_row(within % TOGETHER, together, apart);
            }
            // Lengths agree by construction, so decoding can't fail.
            let _ = match of {
                RowEncoding::Block(format) => format.decode(apart, to).is_ok(),
                RowEncoding::Element(dtype) => decode_into(dtype, apart, to).is_ok(),
                _ => false,
            };
        }
    }
}

/// The most bytes of the codes of a group in planes: 128 codes of 8 bits.
const GROUP_BYTES: usize = 128;

impl Rows<'_, '_> {
    /// # Safety
    /// As for [`Rows::decode`].
    #[inline(always)]
    unsafe fn decode_interleaved_planes(&self, format: MlxFormat, row: usize, column: usize, to: &mut [f32]) {
        let (group, size) = (format.group(), format.scale_dtype().size());
        let (words, groups) = (group * format.bits() / 32, self.k / group);
        let Some(order) = CodeOrder::of(format) else { return };
        // Matrices are whole sets.
        let (set, lane) = (row / TOGETHER * TOGETHER, row % TOGETHER);
        let (mut codes, mut scales) = ([0; GROUP_BYTES], [[0; size_of::<f32>()]; 2]);
        for (i, to) in to.chunks_exact_mut(group).enumerate() {
            let index = column / group + i;
            // SAFETY: the binding holds the row (`# Safety`), and whole sets: these are words, or scales, of this group in the row's set.
            let part = |plane: usize, at: usize, bytes: usize| unsafe {
                self.tile.read_part::<u8>(self.first + plane, at..at + bytes)
            };
            let first = (set * groups + index * TOGETHER) * words;
            let set_words = part(0, 4 * first, 4 * words * TOGETHER).as_chunks::<4>().0;
            let codes = codes.get_mut(..4 * words).unwrap_or_default();
            let of_lane = set_words.iter().skip(lane).step_by(TOGETHER);
            for (to, from) in codes.as_chunks_mut().0.iter_mut().zip(of_lane) {
                *to = order.plain(u32::from_le_bytes(*from)).to_le_bytes();
            }
            for (plane, scale) in scales.iter_mut().enumerate() {
                let from = part(1 + plane, (set * groups + index * TOGETHER + lane) * size, size);
                scale.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
            let [scales, biases] = scales.each_ref().map(|scale| scale.get(..size).unwrap_or_default());
            // Lengths agree by construction, so decoding can't fail.
            let _ = format.decode(MlxPlanes { packed: codes, scales, biases }, to);
        }
    }
}

/// Adds the planes of a weight of `rows` rows of `k` elements to the needs of a program that decodes it with [`Rows`]; `None` where
/// rows end inside a group, or where rows of blocks are not whole sets of interleaved ones.
pub(crate) fn read_rows(needs: Needs, encoding: Encoding, [rows, k]: [Count; 2]) -> Option<Needs> {
    let is_whole =
        k.0.is_multiple_of(encoding.group_len() as u64) && encoding.takes_rows(usize::try_from(rows.0).ok()?);
    match encoding.of() {
        _ if !is_whole => None,
        RowEncoding::Block(format) => Some(needs.read(bytes(DType::Block(format), rows * k)?, 1)),
        RowEncoding::Planes(format) => mlx::read_planes(needs, format, rows * k),
        RowEncoding::Element(dtype) if encoding.dtype().is_none() => {
            Some(needs.read(bytes(dtype, rows * k)?, 1))
        }
        _ => None,
    }
}
