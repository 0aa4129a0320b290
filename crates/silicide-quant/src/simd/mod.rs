//! The code of formats, compiled once per instruction set and chosen at run time. All unsafe code of the crate is here.
//!
//! The definition of a format is plain Rust over arrays of known length (`format::block`), which compilers turn into
//! vector code well. So the fast twins are the same source under other target features: they cannot differ in what
//! they compute, and every format has them. Rust never fuses a multiplication with an addition by itself, so the
//! bits are the same too.
//!
//! An [`Isa`] other than the portable one is a witness: only detection makes it, and it guards the doors to code that
//! needs those features.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::format::block::{Block, decode_blocks};
use std::fmt;

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// What the program was compiled for; there is no faster one on ARM, where NEON is always present.
    pub const PORTABLE: Isa = Isa(Level::Portable);

    /// The best one that this machine has.
    pub fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx512() {
                return Isa(Level::Avx512);
            }
            if x86::has_avx2() {
                return Isa(Level::Avx2);
            }
        }
        Isa::PORTABLE
    }

    /// All that this machine has, the slowest first.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(x86::has_avx2().then_some(Isa(Level::Avx2)));
            all.extend(x86::has_avx512().then_some(Isa(Level::Avx512)));
        }
        all
    }

    /// `portable`, `avx2`, `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

type Decode = fn(&[u8], &mut [f32]);
#[cfg(target_arch = "x86_64")]
type UnsafeDecode = unsafe fn(&[u8], &mut [f32]);

/// A format's decoder under every instruction set. It decodes as many whole blocks as both slices have room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    portable: Decode,
    #[cfg(target_arch = "x86_64")]
    avx2: UnsafeDecode,
    #[cfg(target_arch = "x86_64")]
    avx512: UnsafeDecode,
}

impl Decoder {
    pub(crate) const fn of<B: Block<LEN>, const LEN: usize>() -> Decoder {
        Decoder {
            portable: decode_blocks::<B, LEN>,
            #[cfg(target_arch = "x86_64")]
            avx2: x86::decode_avx2::<B, LEN>,
            #[cfg(target_arch = "x86_64")]
            avx512: x86::decode_avx512::<B, LEN>,
        }
    }

    pub(crate) fn run(&self, isa: Isa, bytes: &[u8], out: &mut [f32]) {
        match isa.0 {
            Level::Portable => (self.portable)(bytes, out),
            // SAFETY: the witness says that the features were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { (self.avx2)(bytes, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { (self.avx512)(bytes, out) },
        }
    }
}
