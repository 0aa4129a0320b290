//! Instruction sets, and their detection.

use std::fmt;
use std::str::FromStr;

/// A level of vector instructions, ordered within one architecture. Each level includes those before it, but for AVX-VNNI: AVX-512 does
/// not include it, and a kernel that has a variant for it has one for AVX-512 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Isa {
    /// The baseline of the target.
    Portable,
    /// aarch64: NEON with dot products.
    Neon,
    /// x86-64: AVX2, FMA, F16C.
    Avx2,
    /// x86-64: AVX2, FMA, F16C, AVX-VNNI.
    AvxVnni,
    /// x86-64: AVX-512 F, BW, DQ, CD, VL and VNNI.
    Avx512,
}

impl Isa {
    /// Every level, weakest first.
    pub const ALL: [Isa; 5] = [Isa::Portable, Isa::Neon, Isa::Avx2, Isa::AvxVnni, Isa::Avx512];

    /// Returns `portable`, `neon`, `avx2`, `avx-vnni` or `avx512`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Neon => "neon",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avx-vnni",
            Isa::Avx512 => "avx512",
        }
    }

    /// Returns whether code for this level runs on this machine.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => {
                std::arch::is_aarch64_feature_detected!("neon")
                    && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => Isa::Avx2.is_available() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Returns the best level of this machine.
    pub fn best() -> Isa {
        Isa::ALL.into_iter().rev().find(|isa| isa.is_available()).unwrap_or(Isa::Portable)
    }

    /// Returns every level of this machine, weakest first.
    pub fn available() -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(name: &str) -> Result<Isa, UnknownIsa> {
        let named = |isa: &Isa| isa.name().eq_ignore_ascii_case(name);
        Isa::ALL.into_iter().find(named).ok_or_else(|| UnknownIsa(name.to_owned()))
    }
}

/// The name of no instruction set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIsa(pub String);

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Isa::ALL.map(Isa::name).join(", ");
        write!(f, "\"{}\" is no instruction set; the names are {names}", self.0)
    }
}

impl std::error::Error for UnknownIsa {}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_is_parsed_from_its_name() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse(), Ok(isa));
            assert_eq!(isa.name().to_uppercase().parse(), Ok(isa));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_names() {
        let error = "sse9".parse::<Isa>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"sse9\" is no instruction set; the names are portable, neon, avx2, avx-vnni, avx512"
        );
    }

    #[test]
    fn every_machine_has_the_portable_level() {
        assert_eq!(Isa::available().first(), Some(&Isa::Portable));
        assert_eq!(Isa::available().last(), Some(&Isa::best()));
    }
}
