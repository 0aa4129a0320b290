//! Blocks of TurboQuant to coordinates: planes of bits to codes, codes to levels, times the scale.
//!
//! ```text
//! code[i]  = bits of plane low | bits of plane high << low_bits     # high for the first coordinates alone
//! y[i]     = scale * level[code[i]]
//! ```
//!
//! Vector code takes as many coordinates as it has lanes: a broadcast of their bits, a shift by lane, a mask. Levels are in registers:
//! AVX-512 permutes 16, 32 or 64 of them. AVX2 permutes magnitudes, eight to a register, as levels are symmetric: code `c` below the middle
//! is minus the level of code `!c`. Of 256 levels both gather.

use super::Isa;
use half::f16;

/// Where the parts of a block are, and its levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurboLayout {
    /// Coordinates of a block.
    pub(crate) len: usize,
    /// Bytes of a block.
    pub(crate) bytes: usize,
    pub(crate) low_bits: usize,
    pub(crate) high_bits: usize,
    /// Coordinates that have high bits.
    pub(crate) with_high: usize,
    /// The levels of these, and of the others.
    pub(crate) first: &'static [f32],
    pub(crate) rest: &'static [f32],
}

impl Isa {
    /// Decodes as many whole blocks as fit both slices.
    pub(crate) fn decode_turbo(self, layout: &TurboLayout, bytes: &[u8], out: &mut [f32]) {
        match self.0 {
            // SAFETY: `best` and `available` make `Level::Avx512` only where the CPU has the features of `turbo_x86::decode_avx512`.
            #[cfg(target_arch = "x86_64")]
            super::Level::Avx512 if layout.with_high.is_multiple_of(16) => unsafe {
                super::turbo_x86::decode_avx512(layout, bytes, out);
            },
            // SAFETY: `best` and `available` make these levels only where the CPU has the features of `turbo_x86::decode_avx2`.
            #[cfg(target_arch = "x86_64")]
            super::Level::Avx512 | super::Level::Avx2 => unsafe {
                super::turbo_x86::decode_avx2(layout, bytes, out);
            },
            super::Level::Portable => decode(layout, bytes, out),
        }
    }
}

/// Each block with its scale and planes, and its coordinates.
#[inline(always)]
pub(super) fn blocks<'a>(
    layout: &TurboLayout,
    bytes: &'a [u8],
    out: &'a mut [f32],
) -> impl Iterator<Item = (f32, &'a [u8], &'a [u8], &'a mut [f32])> {
    let low_bytes = layout.len * layout.low_bits / 8;
    let pairs = bytes.chunks_exact(layout.bytes).zip(out.chunks_exact_mut(layout.len));
    pairs.filter_map(move |(block, out)| {
        let (scale, planes) = block.split_first_chunk::<2>()?;
        let (low, high) = planes.split_at_checked(low_bytes)?;
        Some((f16::from_le_bytes(*scale).to_f32(), low, high, out))
    })
}

fn decode(layout: &TurboLayout, bytes: &[u8], out: &mut [f32]) {
    let &TurboLayout { low_bits, high_bits, with_high, first, rest, .. } = layout;
    for (scale, low, high, out) in blocks(layout, bytes, out) {
        for (i, y) in out.iter_mut().enumerate() {
            let code = bits(low, low_bits, i);
            let level = match i < with_high {
                true => first.get(code | bits(high, high_bits, i) << low_bits),
                false => rest.get(code),
            };
            *y = scale * level.copied().unwrap_or(0.0);
        }
    }
}

/// Returns element `i` of a plane.
#[inline(always)]
fn bits(plane: &[u8], bits: usize, i: usize) -> usize {
    let byte = plane.get(i * bits / 8).copied().unwrap_or(0);
    (usize::from(byte) >> (i * bits % 8)) & ((1 << bits) - 1)
}
