//! Common code of CPU kernels: instantiating one body for every instruction set, splitting work in fixed tiles,
//! vectorisable functions, and moving elements between memory and f32 lanes.
//!
//! A kernel body is ordinary Rust written so that the compiler vectorises it (fixed lanes, no early exits). The
//! [`native_kernel!`] macro compiles it once per instruction set; the backend picks one at run time. A body that
//! takes a type parameter `S` first, a [`Simd`], also gets at what differs between instruction sets.
//!
//! | file | what |
//! |---|---|
//! | `math` | exp, log, tanh, sigmoid, the normal distribution, in code that vectorises |
//! | `element` | elements of a binding to f32 lanes and back |
//! | `needs` | what programs need of their bindings |
//! | `stream` | stores that do not read the line first, for outputs larger than the caches |

pub(crate) mod element;
pub(crate) mod math;
pub(crate) mod needs;
pub(crate) mod stream;

#[cfg(target_arch = "aarch64")]
pub(crate) use silicide_gemm::isa::Neon;
#[cfg(target_arch = "x86_64")]
pub(crate) use silicide_gemm::isa::{Avx2, Avx512, AvxVnni};
pub(crate) use silicide_gemm::isa::{CacheLine, Portable, Simd};

use silicide_hal::Tile;
use std::ops::Range;

/// Elements of one tile of an elementwise kernel. Fixed, so that the number of threads never changes a result.
pub(crate) const TILE: usize = 16 << 10;

/// Elements that a kernel holds in local arrays at a time: a few such arrays of f32 stay in L1.
pub(crate) const CHUNK: usize = 1 << 8;

/// Returns a grid of tiles over `elements` elements.
pub(crate) fn tiles(elements: usize) -> [u32; 3] {
    [u32::try_from(elements.div_ceil(TILE)).unwrap_or(u32::MAX).max(1), 1, 1]
}

/// Returns the elements of a tile, of `elements` in all, in runs of at most [`CHUNK`].
#[inline(always)]
pub(crate) fn chunks(tile: &Tile<'_>, elements: usize) -> impl Iterator<Item = Range<usize>> {
    let [index, ..] = tile.index;
    let start = (index as usize * TILE).min(elements);
    let end = (start + TILE).min(elements);
    (start..end).step_by(CHUNK).map(move |at| at..(at + CHUNK).min(end))
}

/// Declares a `static` [`NativeKernel`](silicide_hal::NativeKernel) whose variants are one `#[inline(always)]`
/// body compiled for each instruction set: `native_kernel!(unsafe NAME, "label", body, needs function)`, or, where the body
/// takes a [`Simd`] first, `native_kernel!(unsafe NAME, "label", body::<S>, needs function)` with any more types after `S`.
/// With `S: Q8Kernels` it is compiled for AVX-VNNI too, where integer products differ from those of AVX2.
/// `, workspace bytes` declares what tiles use of their thread's workspace; where tiles stream weights, `, streams function`
/// comes last.
///
/// The word `unsafe` is the promise of [`NativeKernel::new`](silicide_hal::NativeKernel::new), and a `SAFETY` comment before
/// it says why it holds.
macro_rules! native_kernel {
    ($(#[$meta:meta])* unsafe $name:ident, $label:expr, $body:ident::<S $(, $more:ty)*>, needs $needs:path
     $(, workspace $workspace:expr)? $(, streams $streams:path)?) => {
        $crate::cpu::native_kernel!(@variants $(#[$meta])* $name, $label, $needs, [],
            $body::<$crate::cpu::Avx512 $(, $more)*>,
            $body::<$crate::cpu::Avx2 $(, $more)*>,
            $body::<$crate::cpu::Neon $(, $more)*>,
            $body::<$crate::cpu::Portable $(, $more)*> $(, workspace $workspace)? $(, streams $streams)?);
    };
    ($(#[$meta:meta])* unsafe $name:ident, $label:expr, $body:ident::<S: Q8Kernels>, needs $needs:path
     $(, workspace $workspace:expr)? $(, streams $streams:path)?) => {
        $crate::cpu::native_kernel!(@variants $(#[$meta])* $name, $label, $needs,
            [$body::<$crate::cpu::AvxVnni>],
            $body::<$crate::cpu::Avx512>,
            $body::<$crate::cpu::Avx2>,
            $body::<$crate::cpu::Neon>,
            $body::<$crate::cpu::Portable> $(, workspace $workspace)? $(, streams $streams)?);
    };
    ($(#[$meta:meta])* unsafe $name:ident, $label:expr, $body:path, needs $needs:path) => {
        $crate::cpu::native_kernel!(@variants $(#[$meta])* $name, $label, $needs, [], $body, $body, $body, $body);
    };
    // An optional variant: a repetition needs a fragment of its own in each part.
    (@entry $path:path, $isa:ident, $entry:ident) => {
        silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::$isa, entry: $entry }
    };
    (@variants $(#[$meta:meta])* $name:ident, $label:expr, $needs:path,
     [$($avx_vnni:path)?], $avx512:path, $avx2:path, $neon:path, $portable:path
     $(, workspace $workspace:expr)? $(, streams $streams:path)?) => {
        $(#[$meta])*
        pub(crate) static $name: silicide_hal::NativeKernel = {
            /// # Safety
            /// The CPU has the features below; the launch is one for which the `needs` function returned needs.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
            unsafe fn avx512(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: the body needs a CPU with the instruction set and a launch within its needs, as this function does.
                unsafe { $avx512(tile) }
            }
            /// # Safety
            /// The CPU has the features below; the launch is one for which the `needs` function returned needs.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: the body needs a CPU with the instruction set and a launch within its needs, as this function does.
                unsafe { $avx2(tile) }
            }
            $(
                /// # Safety
                /// The CPU has the features below; the launch is one for which the `needs` function returned needs.
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
                unsafe fn avx_vnni(tile: &silicide_hal::Tile<'_>) {
                    // SAFETY: the body needs a CPU with the instruction set and a launch within its needs, as this function does.
                    unsafe { $avx_vnni(tile) }
                }
            )?
            /// # Safety
            /// The CPU has the features below; the launch is one for which the `needs` function returned needs.
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon,dotprod")]
            unsafe fn neon(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: the body needs a CPU with the instruction set and a launch within its needs, as this function does.
                unsafe { $neon(tile) }
            }
            /// # Safety
            /// The launch is one for which the `needs` function returned needs.
            unsafe fn portable(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: the body needs a launch within its needs, as this function does; portable code runs on every CPU.
                unsafe { $portable(tile) }
            }
            // SAFETY: the declaration says `unsafe`, and the `SAFETY` comment before it says why.
            unsafe {
                silicide_hal::NativeKernel::new($label, $needs, &[
                    #[cfg(target_arch = "x86_64")]
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Avx512, entry: avx512 },
                    $(
                        #[cfg(target_arch = "x86_64")]
                        $crate::cpu::native_kernel!(@entry $avx_vnni, AvxVnni, avx_vnni),
                    )?
                    #[cfg(target_arch = "x86_64")]
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Avx2, entry: avx2 },
                    #[cfg(target_arch = "aarch64")]
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Neon, entry: neon },
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Portable, entry: portable },
                ])
            }$(.with_workspace($workspace))?$(.streaming($streams))?
        };
    };
}
pub(crate) use native_kernel;

#[cfg(test)]
mod tests {
    use super::{Portable, Simd};
    use silicide_hal::cpu::Isa;

    /// The backend chooses a variant by `Isa`, and its body assumes a token: both must look for the same features.
    #[test]
    fn tokens_are_detected_where_the_backend_finds_the_instruction_set() {
        assert_eq!(Portable::detect().is_some(), Isa::Portable.is_available());
        #[cfg(target_arch = "x86_64")]
        {
            assert_eq!(super::Avx2::detect().is_some(), Isa::Avx2.is_available());
            assert_eq!(super::AvxVnni::detect().is_some(), Isa::AvxVnni.is_available());
            assert_eq!(super::Avx512::detect().is_some(), Isa::Avx512.is_available());
        }
        #[cfg(target_arch = "aarch64")]
        assert_eq!(super::Neon::detect().is_some(), Isa::Neon.is_available());
    }
}
