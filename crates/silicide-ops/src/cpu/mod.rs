//! What CPU kernels share: instantiating one body for every instruction set, and splitting work in fixed tiles.
//!
//! A kernel body is ordinary Rust written so that the compiler vectorises it (fixed lanes, no early exits). The
//! [`native_kernel!`] macro compiles it once per instruction set; the backend picks one at run time. Bodies that
//! need real intrinsics write their variants by hand.

/// Declares a `static` [`NativeKernel`](silicide_hal::NativeKernel) whose variants are one `#[inline(always)]`
/// body compiled for each instruction set.
macro_rules! native_kernel {
    ($(#[$meta:meta])* $name:ident, $label:expr, $body:path) => {
        $(#[$meta])*
        pub(crate) static $name: silicide_hal::NativeKernel = {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx2,fma,f16c")]
            unsafe fn avx512(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: the caller's promise is the body's.
                unsafe { $body(tile) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: as above.
                unsafe { $body(tile) }
            }
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon,dotprod")]
            unsafe fn neon(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: as above.
                unsafe { $body(tile) }
            }
            unsafe fn portable(tile: &silicide_hal::Tile<'_>) {
                // SAFETY: as above.
                unsafe { $body(tile) }
            }
            silicide_hal::NativeKernel {
                name: $label,
                variants: &[
                    #[cfg(target_arch = "x86_64")]
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Avx512, entry: avx512 },
                    #[cfg(target_arch = "x86_64")]
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Avx2, entry: avx2 },
                    #[cfg(target_arch = "aarch64")]
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Neon, entry: neon },
                    silicide_hal::NativeVariant { isa: silicide_hal::cpu::Isa::Portable, entry: portable },
                ],
            }
        };
    };
}
#[allow(unused_imports)]
pub(crate) use native_kernel;
