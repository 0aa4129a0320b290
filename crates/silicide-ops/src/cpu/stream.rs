//! Stores past the caches. A plain store to a line that is not cached reads it first; for outputs larger than the
//! caches that is a third of all traffic. Kernels compute a run in a local array and hand it here.

use silicide_core::kernel::Io;

/// Calls that touch more bytes than this write past the caches.
const LARGE: usize = 8 << 20;

/// Whether the outputs of a call should be streamed, as a parameter word.
pub(crate) fn worthwhile(io: &Io<'_>) -> u32 {
    let bytes =
        io.inputs.iter().chain(io.outputs).map(|info| info.bytes()).fold(0usize, usize::saturating_add);
    u32::from(bytes > LARGE)
}

/// Copies `from` to `to`, of the same length, past the caches. [`fence`] must follow before the tile ends.
#[inline(always)]
pub(crate) fn copy<T: bytemuck::Pod>(from: &[T], to: &mut [T]) {
    copy_bytes(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn copy_bytes(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const LINE: usize = 64;
    let count = from.len().min(to.len());
    let head = to.as_ptr().align_offset(LINE).min(count);
    let lines = (count - head) / LINE;
    let (from_head, from) = from.split_at(head);
    let (to_head, to) = to.split_at_mut(head);
    to_head.copy_from_slice(from_head);
    let (from_lines, from_tail) = from.split_at(lines * LINE);
    let (to_lines, to_tail) = to.split_at_mut(lines * LINE);
    for (to, from) in to_lines.chunks_exact_mut(LINE).zip(from_lines.chunks_exact(LINE)) {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        for quarter in 0..4 {
            // SAFETY: SSE2 is part of x86-64; both chunks hold 64 bytes and `to` is aligned to them.
            unsafe { _mm_stream_si128(to.add(quarter), _mm_loadu_si128(from.add(quarter))) };
        }
    }
    if let (Some(from), true) = (from_tail.get(..to_tail.len()), !to_tail.is_empty()) {
        to_tail.copy_from_slice(from);
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn copy_bytes(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// Makes streamed stores visible to whoever is told that the tile is done.
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
    use super::*;

    #[test]
    fn copies_any_length_at_any_alignment() {
        let from: Vec<u8> = (0..400u32).map(|i| (i * 7) as u8).collect();
        for start in [0, 1, 3, 16, 63] {
            for len in [0, 1, 15, 63, 64, 65, 200, 300] {
                let mut to = vec![0xeeu8; 400];
                copy(&from[..len], &mut to[start..start + len]);
                fence();
                assert_eq!(to[start..start + len], from[..len]);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0xee));
            }
        }
    }
}
