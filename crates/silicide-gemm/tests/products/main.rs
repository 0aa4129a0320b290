//! Products through the safe entry points, on every instruction set of this machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

/// Calls a generic function with the token of every instruction set that this CPU has.
macro_rules! for_every_isa {
    ($function:ident($($argument:expr),*)) => {{
        use silicide_gemm::isa::Simd;
        #[cfg(target_arch = "x86_64")]
        {
            silicide_gemm::isa::Avx512::detect().map(|isa| $function(isa $(, $argument)*));
            silicide_gemm::isa::Avx2::detect().map(|isa| $function(isa $(, $argument)*));
        }
        #[cfg(target_arch = "aarch64")]
        silicide_gemm::isa::Neon::detect().map(|isa| $function(isa $(, $argument)*));
        silicide_gemm::isa::Portable::detect().map(|isa| $function(isa $(, $argument)*));
    }};
}

/// [`for_every_isa`], with those that have integer products of their own.
macro_rules! for_every_integer_isa {
    ($function:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            use silicide_gemm::isa::{AvxVnni, Simd};
            AvxVnni::detect().map(|isa| $function(isa $(, $argument)*));
        }
        for_every_isa!($function($($argument),*));
    }};
}

mod attention;
mod dense;
mod half;
mod q8;
mod view;
