//! The code of formats, compiled once per instruction set and chosen at run time. All unsafe code of the crate is here.
//!
//! The definition of a format is plain Rust over arrays of known length (`format::block`), which compilers turn into
//! vector code well. So the fast twins are the same source under other target features: they cannot differ in what
//! they compute, and every format has them. Rust never fuses a multiplication with an addition by itself, so the
//! bits are the same too.
//!
//! An [`Isa`] other than the portable one is a witness: only detection makes it, and it guards the doors to code that
//! needs those features.

mod turbo;
#[cfg(target_arch = "x86_64")]
mod turbo_x86;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;
pub(crate) use turbo::TurboLayout;

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

/// Work that is compiled for every instruction set.
pub(crate) trait Task {
    /// Whether there is code for AVX-512. Without it, that of AVX2 runs there.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86-64 has AVX-512"))]
    const HAS_AVX512: bool = true;

    /// Does it. Implementations are `#[inline(always)]`, as is all that they call and that should be fast: only what
    /// is inlined is compiled with the features of the caller.
    fn run(self);
}

impl Isa {
    /// The baseline of the target; no other is faster on ARM, where NEON is always present.
    pub const PORTABLE: Isa = Isa(Level::Portable);

    /// Returns the best instruction set of this machine.
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

    /// Returns all instruction sets of this machine, slowest first.
    pub fn available() -> Vec<Isa> {
        let all = [
            Isa::PORTABLE,
            #[cfg(target_arch = "x86_64")]
            Isa(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa(Level::Avx512),
        ];
        // Each is a step up from the one before it.
        all.into_iter().filter(|isa| *isa <= Isa::best()).collect()
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

    /// Runs the task's code for this instruction set.
    pub(crate) fn run<T: Task>(self, task: T) {
        match self.0 {
            Level::Portable => task.run(),
            // SAFETY: `best` and `available` make `Level::Avx2` only where the CPU has the features of `run_avx2`.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::run_avx2(task) },
            // SAFETY: `best` and `available` make `Level::Avx512` only where the CPU has the features of `run_avx512`, which are
            // those of `run_avx2` and more.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe {
                if const { T::HAS_AVX512 } { x86::run_avx512(task) } else { x86::run_avx2(task) }
            },
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
