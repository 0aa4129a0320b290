//! Elements of a binding to f32 lanes and back. Kernels work on local arrays of f32, so an output may be exactly
//! an input: a run is read whole before it is written.
//!
//! Conversions are functions of their own ([`Widen`], [`Narrow`]), compiled once for each type and instruction set rather
//! than for each operand of each kernel. A call converts a whole run.

use super::{CHUNK, Simd, stream};
use bytemuck::Pod;
use silicide_gemm::isa::Task;
use silicide_hal::Tile;
use silicide_quant::{DType, bf16, f16};

/// An element type that kernels compute with as f32.
pub(crate) trait Float: Pod {
    /// Converts as many elements as both slices have.
    fn widen(isa: impl Simd, from: &[Self], to: &mut [f32]);

    /// Converts as many elements as both slices have, to nearest even; NaN stays NaN.
    fn narrow(isa: impl Simd, from: &[f32], to: &mut [Self]);

    /// Like [`narrow`](Float::narrow), past the caches; at most [`CHUNK`] elements.
    #[inline(always)]
    fn stream(isa: impl Simd, from: &[f32], to: &mut [Self]) {
        let mut narrow = [Self::zeroed(); CHUNK];
        let narrow = narrow.get_mut(..from.len()).unwrap_or_default();
        Self::narrow(isa, from, narrow);
        stream::copy(isa, narrow, to);
    }
}

impl Float for f32 {
    #[inline(always)]
    fn widen(_: impl Simd, from: &[f32], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
    #[inline(always)]
    fn narrow(_: impl Simd, from: &[f32], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
    #[inline(always)]
    fn stream(isa: impl Simd, from: &[f32], to: &mut [f32]) {
        stream::copy(isa, from, to);
    }
}

impl Float for f16 {
    #[inline(always)]
    fn widen(isa: impl Simd, from: &[f16], to: &mut [f32]) {
        isa.widen_f16(from, to);
    }
    #[inline(always)]
    fn narrow(isa: impl Simd, from: &[f32], to: &mut [f16]) {
        isa.narrow_f16(from, to);
    }
}

impl Float for bf16 {
    #[inline(always)]
    fn widen(_: impl Simd, from: &[bf16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    }
    #[inline(always)]
    fn narrow(_: impl Simd, from: &[f32], to: &mut [bf16]) {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits();
            let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
            let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
            *to = bf16::from_bits(if is_nan { (bits >> 16) as u16 | 0x40 } else { rounded as u16 });
        }
    }
}

/// Converts elements to f32.
struct Widen<'a, S, T> {
    isa: S,
    from: &'a [T],
    to: &'a mut [f32],
}

impl<S: Simd, T: Float> Task for Widen<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        T::widen(self.isa, self.from, self.to);
    }
}

/// Converts f32 to elements, past the caches if `streaming`.
struct Narrow<'a, S, T> {
    isa: S,
    from: &'a [f32],
    to: &'a mut [T],
    streaming: bool,
}

impl<S: Simd, T: Float> Task for Narrow<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Narrow { isa, from, to, streaming } = self;
        if streaming { T::stream(isa, from, to) } else { T::narrow(isa, from, to) }
    }
}

/// Reads elements of binding `i` from `start` on, as many as `to` takes.
///
/// # Safety
/// The instruction set is present; the binding holds these elements, of type `T`, and nothing writes them now.
#[inline(always)]
unsafe fn read<S: Simd, T: Float>(tile: &Tile<'_>, i: usize, start: usize, to: &mut [f32]) {
    // SAFETY: by the caller, the CPU has `S` and the binding holds these elements, of type `T`, which nothing writes.
    let (isa, from) = unsafe { (S::assume(), tile.read_part::<T>(i, start..start + to.len())) };
    isa.run(Widen { isa, from, to });
}

/// Writes elements of binding `i` from `start` on, as many as `from` has and at most [`CHUNK`]. With `streaming`,
/// past the caches: [`stream::fence`] must follow before the tile ends.
///
/// # Safety
/// The instruction set is present; the binding holds these elements, of type `T`, and nothing else touches them now.
#[inline(always)]
unsafe fn write<S: Simd, T: Float>(tile: &Tile<'_>, i: usize, start: usize, from: &[f32], streaming: bool) {
    // SAFETY: by the caller, the CPU has `S`, and the binding holds these elements, of type `T`, which nothing else touches.
    let (isa, to) = unsafe { (S::assume(), tile.write::<T>(i, start..start + from.len())) };
    isa.run(Narrow { isa, from, to, streaming });
}

/// The element type of a binding as a parameter word, for kernels that serve them all.
pub(crate) fn code(dtype: DType) -> u32 {
    dtype.code()
}

/// Bytes of an element of the type, f32, f16 or bf16, with this [`code`].
#[inline(always)]
pub(crate) fn size(code: u32) -> usize {
    if matches!(code, F16 | BF16) { 2 } else { 4 }
}

const F16: u32 = DType::F16.code();
const BF16: u32 = DType::BF16.code();

/// [`read`] with the type, one of f32, f16 and bf16, given by its [`code`].
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(crate) unsafe fn read_coded<S: Simd>(tile: &Tile<'_>, i: usize, code: u32, start: usize, to: &mut [f32]) {
    // SAFETY: `read` of the type that `code` names has the conditions of this function.
    unsafe {
        match code {
            F16 => read::<S, f16>(tile, i, start, to),
            BF16 => read::<S, bf16>(tile, i, start, to),
            _ => read::<S, f32>(tile, i, start, to),
        }
    }
}

/// Elements as f32: where they stand if that is what they are, otherwise converted into `room`, as many as that
/// has.
///
/// # Safety
/// As for [`read`], as long as the slice lives.
#[inline(always)]
pub(crate) unsafe fn view_coded<'a, S: Simd>(
    tile: &Tile<'a>,
    i: usize,
    code: u32,
    start: usize,
    room: &'a mut [f32],
) -> &'a [f32] {
    // SAFETY: `read` of the type that `code` names has the conditions of this function; f32 are read where they are,
    // and nothing writes them while the slice lives, by the caller.
    unsafe {
        match code {
            F16 => read::<S, f16>(tile, i, start, room),
            BF16 => read::<S, bf16>(tile, i, start, room),
            _ => return tile.read_part::<f32>(i, start..start + room.len()),
        }
    }
    room
}

/// Prefetch distance, in runs.
const AHEAD: usize = 4;

/// [`read_coded`] for kernels that go through a binding from front to back. Prefetches the run that is read [`AHEAD`] runs
/// later: the hardware prefetcher does not reach over the time that a run takes to compute, so memory would idle.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(crate) unsafe fn read_on<S: Simd>(tile: &Tile<'_>, i: usize, code: u32, start: usize, to: &mut [f32]) {
    for line in (0..to.len() * size(code)).step_by(stream::LINE) {
        stream::fetch::<true>(tile.start(i).wrapping_add((start + AHEAD * to.len()) * size(code) + line));
    }
    // SAFETY: `read_coded` has the conditions of this function.
    unsafe { read_coded::<S>(tile, i, code, start, to) }
}

/// Where a run of results goes.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// The binding.
    pub(crate) binding: usize,
    /// The [`code`] of its type: f32, f16 or bf16.
    pub(crate) code: u32,
    /// Whether to write past the caches.
    pub(crate) streaming: bool,
}

impl Target {
    /// Binding `binding`, of the type with this [`code`], streamed if `streaming` is not 0 and it is none of the inputs
    /// `0..binding`: lines that were just read are in the cache already.
    #[inline(always)]
    pub(crate) fn new(tile: &Tile<'_>, binding: usize, code: u32, streaming: u32) -> Target {
        let fresh = (0..binding).all(|input| tile.start(input) != tile.start(binding));
        Target { binding, code, streaming: streaming != 0 && fresh }
    }

    /// [`write`] with the type given by its code.
    ///
    /// # Safety
    /// As for [`write`].
    #[inline(always)]
    pub(crate) unsafe fn write<S: Simd>(self, tile: &Tile<'_>, start: usize, from: &[f32]) {
        let Target { binding, code, streaming } = self;
        // SAFETY: `write` of the type that `code` names has the conditions of this function.
        unsafe {
            match code {
                F16 => write::<S, f16>(tile, binding, start, from, streaming),
                BF16 => write::<S, bf16>(tile, binding, start, from, streaming),
                _ => write::<S, f32>(tile, binding, start, from, streaming),
            }
        }
    }

    /// Ends a tile.
    #[inline(always)]
    pub(crate) fn finish(self) {
        if self.streaming {
            stream::fence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Portable;
    use super::*;
    use silicide_quant::Element;

    #[test]
    fn bf16_rounds_as_the_definition_does() {
        for high in 0..=u16::MAX {
            for low in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(high) << 16 | low);
                let mut got = [bf16::ZERO];
                bf16::narrow(Portable::detect().unwrap(), &[value], &mut got);
                let expected = <bf16 as Element>::from_f64(f64::from(value));
                assert!(
                    got[0].to_bits() == expected.to_bits() || (got[0].is_nan() && expected.is_nan()),
                    "{value:e}"
                );
            }
        }
    }
}
