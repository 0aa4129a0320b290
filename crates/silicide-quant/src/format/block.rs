//! A block in code: a plain struct of bytes with a decoder that cannot fail. Any bytes are a valid block at any address.
//! Neighbours: the families of formats implement [`Block`], `simd` compiles them.

use crate::simd::{Isa, Task};
use bytemuck::Pod;
use half::f16;
use std::marker::PhantomData;

/// A block of `LEN` elements, stored as `Self`, whose alignment is 1.
pub(crate) trait Block<const LEN: usize>: Pod {
    /// The numbers of the block, in the order of the file: all of its bytes.
    const MEMBERS: &'static [BlockMember];
    /// Elements that share a scale in [`Block::decode_i8`], 16 or 32; `None` if the format has no such decoder.
    const I8_SCALE_LEN: Option<usize> = None;

    /// The values of the block. This is the definition of the format; it is compiled once per instruction set, so
    /// implementations are `#[inline(always)]` and written over arrays of known length.
    fn decode(&self, out: &mut [f32; LEN]);

    /// Decodes the block to signed codes and a scale per 16 codes, whose products are the values. Formats with
    /// [`Block::I8_SCALE_LEN`] implement it. They have integer products on the CPU.
    #[inline(always)]
    fn decode_i8(&self, _codes: &mut [i8; LEN], _scales: &mut [f32]) {}
}

/// Numbers of one width that follow each other in a block. Files of big-endian machines have them with their highest byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockMember {
    /// How many numbers.
    pub count: usize,
    /// Bytes of each.
    pub width: usize,
}

impl BlockMember {
    /// Returns the bytes of all of them.
    pub const fn size(self) -> usize {
        self.count * self.width
    }

    /// Returns a member of `count` single bytes. Bit fields count as bytes.
    pub(crate) const fn bytes(count: usize) -> BlockMember {
        BlockMember { count, width: 1 }
    }

    /// Returns a member of `count` numbers of 16 bits.
    pub(crate) const fn halves(count: usize) -> BlockMember {
        BlockMember { count, width: 2 }
    }

    /// Returns a member of `count` numbers of 32 bits.
    pub(crate) const fn words(count: usize) -> BlockMember {
        BlockMember { count, width: 4 }
    }
}

/// A block that can be made from values.
pub(crate) trait Encode<const LEN: usize>: Block<LEN> {
    /// A block whose values are near `values`. What stands for values that are not finite is unspecified.
    fn encode(values: &[f32; LEN]) -> Self;
}

/// Decodes as many whole blocks as fit both slices.
pub(crate) fn decode_blocks<B: Block<LEN>, const LEN: usize>(isa: Isa, bytes: &[u8], out: &mut [f32]) {
    isa.run(DecodeBlocks::<B, LEN> { bytes, out, block: PhantomData });
}

struct DecodeBlocks<'a, B, const LEN: usize> {
    bytes: &'a [u8],
    out: &'a mut [f32],
    block: PhantomData<B>,
}

impl<B: Block<LEN>, const LEN: usize> Task for DecodeBlocks<'_, B, LEN> {
    #[inline(always)]
    fn run(self) {
        decode_slices::<B, LEN>(self.bytes, self.out);
    }
}

/// A function of its own, as arguments tell the compiler that the slices are apart and fields do not.
#[inline(always)]
fn decode_slices<B: Block<LEN>, const LEN: usize>(bytes: &[u8], out: &mut [f32]) {
    for (block, values) in whole_blocks::<B>(bytes).iter().zip(out.as_chunks_mut::<LEN>().0) {
        block.decode(values);
    }
}

/// Encodes as many whole blocks as fit both slices.
pub(crate) fn encode_blocks<B: Encode<LEN>, const LEN: usize>(isa: Isa, values: &[f32], out: &mut [u8]) {
    isa.run(EncodeBlocks::<B, LEN> { values, out, block: PhantomData });
}

struct EncodeBlocks<'a, B, const LEN: usize> {
    values: &'a [f32],
    out: &'a mut [u8],
    block: PhantomData<B>,
}

impl<B: Encode<LEN>, const LEN: usize> Task for EncodeBlocks<'_, B, LEN> {
    // Encoders reduce 16 or 32 values to one again and again, and lose on wider registers.
    const HAS_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        encode_slices::<B, LEN>(self.values, self.out);
    }
}

#[inline(always)]
fn encode_slices<B: Encode<LEN>, const LEN: usize>(values: &[f32], out: &mut [u8]) {
    for (values, slot) in values.as_chunks::<LEN>().0.iter().zip(out.chunks_exact_mut(size_of::<B>())) {
        slot.copy_from_slice(bytemuck::bytes_of(&B::encode(values)));
    }
}

#[inline(always)]
pub(crate) fn whole_blocks<B: Pod>(bytes: &[u8]) -> &[B] {
    let whole = bytes.len() - bytes.len() % size_of::<B>();
    // Blocks have alignment 1 (checked where the table is made), so the cast succeeds.
    bytes.get(..whole).and_then(|bytes| bytemuck::try_cast_slice(bytes).ok()).unwrap_or(&[])
}

/// A stored half as f32.
#[inline(always)]
pub(crate) fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// Byte pairs as little-endian words.
#[inline(always)]
pub(crate) fn words<const N: usize>(pairs: &[[u8; 2]; N]) -> [u16; N] {
    pairs.map(u16::from_le_bytes)
}

/// Returns the signed number `code - zero` as f32; codes have at most 7 bits.
#[inline(always)]
pub(crate) fn level(code: u8, zero: i8) -> f32 {
    f32::from((code as i8).wrapping_sub(zero))
}
