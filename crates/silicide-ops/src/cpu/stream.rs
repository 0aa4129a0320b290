//! Stores past the caches. A plain store to a line that is not cached reads it first; for outputs larger than the
//! caches that is a third of all traffic. Kernels compute a run in a local array and hand it here.

use super::{CacheLine, Simd};
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
#[inline(always)]
pub(crate) fn copy<T: bytemuck::Pod>(isa: impl Simd, from: &[T], to: &mut [T]) {
    let (from, to) = (bytemuck::cast_slice::<T, u8>(from), bytemuck::cast_slice_mut::<T, u8>(to));
    let count = from.len().min(to.len());
    let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
    let (to_head, to, to_rest) = bytemuck::pod_align_to_mut::<u8, CacheLine>(to);
    let (from_head, from) = from.split_at(to_head.len());
    to_head.copy_from_slice(from_head);
    let (from, from_rest) = from.split_at(to.len() * LINE);
    for (to, from) in to.iter_mut().zip(from.as_chunks::<LINE>().0) {
        isa.stream_line(from, to);
    }
    to_rest.copy_from_slice(from_rest);
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
                copy(Portable::detect().unwrap(), &from[..len], &mut to[start..start + len]);
                fence();
                assert_eq!(to[start..start + len], from[..len]);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0xee));
            }
        }
    }
}
