//! Conversions between f16 and f32 in plain Rust.

/// Converts f16 bits to f32, without branches.
#[inline(always)]
pub(super) fn widen(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let size = u32::from(bits & 0x7fff);
    // Moving the exponent by multiplication is exact and makes subnormals normal.
    let value = (f32::from_bits(size << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let value = if size >= 0x7c00 { value | 0x7f80_0000 } else { value };
    f32::from_bits(value | sign)
}

/// Converts the bits of eight f16s to f32. Every aarch64 has an instruction for it.
#[inline(always)]
pub(super) fn widen_eight(halves: [u16; 8]) -> [f32; 8] {
    let mut wide = [0.0; 8];
    #[cfg(target_arch = "aarch64")]
    for (to, from) in wide.as_chunks_mut::<4>().0.iter_mut().zip(halves.as_chunks::<4>().0) {
        *to = super::neon::widen_four(*from);
    }
    #[cfg(not(target_arch = "aarch64"))]
    for (to, from) in wide.iter_mut().zip(halves) {
        *to = widen(from);
    }
    wide
}

/// Converts f32 to f16 bits, to nearest even, without branches.
#[inline(always)]
pub(super) fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let size = bits & 0x7fff_ffff;
    // Below the smallest normal half, adding 0.5 leaves the significand rounded to units of 2^-24 at the bottom.
    let small = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let normal = (size.wrapping_add(0xfff + ((size >> 13) & 1)) >> 13).wrapping_sub(0x1_c000).min(0x7c00);
    let result = if size < 0x3880_0000 { small } else { normal };
    let result = if size > 0x7f80_0000 { 0x7e00 } else { result };
    (result | sign) as u16
}
