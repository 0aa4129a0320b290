//! Stores past the caches. A plain store to a line that is not cached reads it first; for outputs larger than the
//! caches that is a third of all traffic. Kernels compute a run in a local array and hand it here.

use super::Simd;
use silicide_core::kernel::Io;
pub(crate) use silicide_gemm::prefetch::{LINE, fetch};

/// Calls that touch more bytes than this write past the caches.
const LARGE: usize = 8 << 20;

/// Whether the outputs of a call should be streamed, as a parameter word.
pub(crate) fn worthwhile(io: &Io<'_>) -> u32 {
    let bytes =
        io.inputs.iter().chain(io.outputs).map(|info| info.bytes()).fold(0usize, usize::saturating_add);
    u32::from(is_large(bytes))
}

/// Whether a call that touches `bytes` bytes should stream its outputs.
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > LARGE
}

/// Copies `from` to `to`, of the same length, past the caches. [`fence`] must follow before the tile ends.
///
/// # Safety
/// The instruction set is present.
#[inline(always)]
pub(crate) unsafe fn copy<S: Simd, T: bytemuck::Pod>(from: &[T], to: &mut [T]) {
    let (from, to) = (bytemuck::cast_slice::<T, u8>(from), bytemuck::cast_slice_mut::<T, u8>(to));
    let count = from.len().min(to.len());
    let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
    let head = to.as_ptr().align_offset(LINE).min(count);
    let (from_head, from) = from.split_at(head);
    let (to_head, to) = to.split_at_mut(head);
    to_head.copy_from_slice(from_head);
    let (mut from, mut to) = (from.chunks_exact(LINE), to.chunks_exact_mut(LINE));
    for (to, from) in (&mut to).zip(&mut from) {
        // SAFETY: the caller runs on a CPU with `S`; both chunks are lines, and `to` starts one.
        unsafe { S::assume().stream_line(from.as_ptr(), to.as_mut_ptr()) };
    }
    let (to, from) = (to.into_remainder(), from.remainder());
    to.copy_from_slice(from);
}

/// Orders streamed stores before the stores that mark the tile as done.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Portable;
    use super::*;

    #[test]
    fn copies_any_length_at_any_alignment() {
        let from: Vec<u8> = (0..400u32).map(|i| (i * 7) as u8).collect();
        for start in [0, 1, 3, 16, 63] {
            for len in [0, 1, 15, 63, 64, 65, 200, 300] {
                let mut to = vec![0xeeu8; 400];
                // SAFETY: portable code runs everywhere.
                unsafe { copy::<Portable, u8>(&from[..len], &mut to[start..start + len]) };
                fence();
                assert_eq!(to[start..start + len], from[..len]);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0xee));
            }
        }
    }
}
