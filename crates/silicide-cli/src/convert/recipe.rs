//! The types that a model can be written in, by the names in llama.cpp's quantizer.
//!
//! A mixture has one type for most weights and finer ones for the tensors that matter most: the output projection, the
//! attention values, and the down projections of some layers. `rules.rs` says which tensor gets which type.

use silicide_quant::{DType, Format};

/// What weights are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipe {
    /// One type for all weights.
    Plain(DType),
    /// A type for most weights, others by rules.
    Mixture(Mixture),
}

/// A named mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mixture {
    pub(super) kind: Kind,
    /// The name in lower case.
    pub(super) name: &'static str,
    /// The type of most weights.
    pub(super) base: Format,
    /// The number in `general.file_type`.
    pub(super) number: u32,
}

/// The mixtures whose rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Q2K,
    Q2KS,
    Q3KS,
    Q3KM,
    Q3KL,
    Q4KS,
    Q4KM,
    Q5KS,
    Q5KM,
    Q6K,
    Iq1,
    /// `iq2_xxs` and `iq2_xs`.
    Iq2X,
    /// `iq2_s` and `iq2_m`.
    Iq2S,
    Iq3Xxs,
    Iq3Xs,
    Iq3S,
    Iq3M,
    /// `iq4_nl` and `iq4_xs`.
    Iq4,
    Ternary,
    Mxfp4Moe,
    /// The older types: only the output projection differs.
    Legacy,
}

const fn mixture(kind: Kind, name: &'static str, base: Format, number: u32) -> Mixture {
    Mixture { kind, name, base, number }
}

/// All mixtures, the largest first within a group.
pub(super) const MIXTURES: [Mixture; 29] = [
    mixture(Kind::Legacy, "q8_0", Format::Q8_0, 7),
    mixture(Kind::Legacy, "q5_1", Format::Q5_1, 9),
    mixture(Kind::Legacy, "q5_0", Format::Q5_0, 8),
    mixture(Kind::Legacy, "q4_1", Format::Q4_1, 3),
    mixture(Kind::Legacy, "q4_0", Format::Q4_0, 2),
    mixture(Kind::Q6K, "q6_k", Format::Q6K, 18),
    mixture(Kind::Q5KM, "q5_k_m", Format::Q5K, 17),
    mixture(Kind::Q5KS, "q5_k_s", Format::Q5K, 16),
    mixture(Kind::Q4KM, "q4_k_m", Format::Q4K, 15),
    mixture(Kind::Q4KS, "q4_k_s", Format::Q4K, 14),
    mixture(Kind::Q3KL, "q3_k_l", Format::Q3K, 13),
    mixture(Kind::Q3KM, "q3_k_m", Format::Q3K, 12),
    mixture(Kind::Q3KS, "q3_k_s", Format::Q3K, 11),
    mixture(Kind::Q2K, "q2_k", Format::Q2K, 10),
    mixture(Kind::Q2KS, "q2_k_s", Format::Q2K, 21),
    mixture(Kind::Iq4, "iq4_nl", Format::Iq4Nl, 25),
    mixture(Kind::Iq4, "iq4_xs", Format::Iq4Xs, 30),
    mixture(Kind::Iq3M, "iq3_m", Format::Iq3S, 27),
    mixture(Kind::Iq3S, "iq3_s", Format::Iq3S, 26),
    mixture(Kind::Iq3Xs, "iq3_xs", Format::Iq3S, 22),
    mixture(Kind::Iq3Xxs, "iq3_xxs", Format::Iq3Xxs, 23),
    mixture(Kind::Iq2S, "iq2_m", Format::Iq2S, 29),
    mixture(Kind::Iq2S, "iq2_s", Format::Iq2Xs, 28),
    mixture(Kind::Iq2X, "iq2_xs", Format::Iq2Xs, 20),
    mixture(Kind::Iq2X, "iq2_xxs", Format::Iq2Xxs, 19),
    mixture(Kind::Iq1, "iq1_m", Format::Iq1M, 31),
    mixture(Kind::Iq1, "iq1_s", Format::Iq1S, 24),
    mixture(Kind::Mxfp4Moe, "mxfp4_moe", Format::Mxfp4, 38),
    mixture(Kind::Ternary, "tq2_0", Format::Tq2_0, 37),
];

/// Ternary in 1.69 bits, apart because the table is sorted by use.
const TQ1_0: Mixture = mixture(Kind::Ternary, "tq1_0", Format::Tq1_0, 36);

/// Short names of mixtures.
const ALIASES: [(&str, &str); 3] = [("q3_k", "q3_k_m"), ("q4_k", "q4_k_m"), ("q5_k", "q5_k_m")];

/// The mixtures that `--help` lists, in groups.
const GROUPS: &str = "\
Types:
  unquantized   f32, f16, bf16
  legacy        q8_0, q5_1, q5_0, q4_1, q4_0
  K mixtures    q6_k, q5_k_m (q5_k), q5_k_s, q4_k_m (q4_k), q4_k_s, q3_k_l, q3_k_m (q3_k), q3_k_s, q2_k, q2_k_s
  I mixtures    iq4_nl, iq4_xs, iq3_m, iq3_s, iq3_xs, iq3_xxs, iq2_m, iq2_s, iq2_xs, iq2_xxs, iq1_m, iq1_s
  other         mxfp4_moe (experts; q8_0 elsewhere), tq2_0, tq1_0";

/// What `--help` says below the types.
const ADVICE: &str = "\
q4_k_m is a good default: 4.9 bits per weight. Types below iq3_s lose much quality without an importance matrix, which is
not supported yet. --pure writes all weights in one type.";

/// Formats that store activations, not weights.
const ACTIVATIONS: [Format; 2] = [Format::Q8_1, Format::Q8K];

/// Returns the types that `--help` lists: mixtures, and the other formats for weights.
pub(super) fn types() -> String {
    let is_plain = |format: &Format| {
        matches!(Recipe::from_name(format.name()), Some(Recipe::Plain(_))) && !ACTIVATIONS.contains(format)
    };
    let plain: Vec<&str> = Format::ALL.into_iter().filter(is_plain).map(Format::name).collect();
    format!("{GROUPS}\n  one format    {}\n{ADVICE}", plain.join(", "))
}

impl Recipe {
    /// The recipe of a name such as `q4_0` or `Q4_K_M`.
    pub(super) fn from_name(name: &str) -> Option<Recipe> {
        let lower = name.to_ascii_lowercase();
        let name = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(lower.as_str(), |(_, name)| name);
        let found = MIXTURES.iter().chain([&TQ1_0]).find(|mixture| mixture.name == name);
        found.copied().map(Recipe::Mixture).or_else(|| dtype(name).map(Recipe::Plain))
    }

    /// The type of most weights.
    pub(super) fn base(self) -> DType {
        match self {
            Recipe::Plain(dtype) => dtype,
            Recipe::Mixture(mixture) => DType::Block(mixture.base),
        }
    }

    /// The same without finer types for some tensors.
    pub(super) fn pure(self) -> Recipe {
        Recipe::Plain(self.base())
    }

    /// The number in `general.file_type`, a hint for people.
    pub(super) fn file_type(self) -> Option<u32> {
        match self {
            Recipe::Mixture(mixture) => Some(mixture.number),
            Recipe::Plain(DType::F32) => Some(0),
            Recipe::Plain(DType::F16) => Some(1),
            Recipe::Plain(DType::BF16) => Some(32),
            Recipe::Plain(dtype) => {
                let of =
                    |mixture: &&Mixture| DType::Block(mixture.base) == dtype && mixture.name == dtype.name();
                MIXTURES.iter().chain([&TQ1_0]).find(of).map(|mixture| mixture.number)
            }
        }
    }
}

/// The type of a name, if weights can be written in it.
pub(super) fn dtype(name: &str) -> Option<DType> {
    DType::from_name(&name.to_ascii_lowercase()).filter(|dtype| dtype.is_block() || dtype.is_float())
}

/// Whether a type needs an importance matrix to be any good.
pub(super) fn needs_importance(dtype: DType) -> bool {
    use Format::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3Xxs};
    matches!(dtype, DType::Block(Iq1S | Iq1M | Iq2Xxs | Iq2Xs | Iq2S | Iq3Xxs))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns the names of types in the groups of a text.
    fn listed(types: &str) -> Vec<&str> {
        let groups = types.lines().filter(|line| line.starts_with("  "));
        let words = groups.filter_map(|line| line.get(16..)).flat_map(|names| {
            names.split(|character: char| !(character.is_alphanumeric() || character == '_'))
        });
        words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).collect()
    }

    #[test]
    fn every_listed_type_has_a_recipe_and_every_mixture_is_listed() {
        let types = types();
        let listed = listed(&types);
        for name in &listed {
            assert!(Recipe::from_name(name).is_some(), "{name}");
        }
        for format in Format::ALL {
            assert_ne!(listed.contains(&format.name()), ACTIVATIONS.contains(&format), "{format}");
        }
        for mixture in MIXTURES.iter().chain([&TQ1_0]) {
            assert!(listed.contains(&mixture.name), "{}", mixture.name);
        }
    }

    #[test]
    fn names_are_those_of_the_quantizer_in_any_case() {
        assert_eq!(Recipe::from_name("Q4_K_M"), Recipe::from_name("q4_k"));
        assert_eq!(Recipe::from_name("q4_k_m").unwrap().file_type(), Some(15));
        assert_eq!(Recipe::from_name("q4_k_m").unwrap().pure(), Recipe::Plain(DType::Block(Format::Q4K)));
        assert_eq!(Recipe::from_name("iq2_s").unwrap().base(), DType::Block(Format::Iq2Xs));
        assert_eq!(Recipe::from_name("bf16").unwrap().file_type(), Some(32));
        assert_eq!(Recipe::from_name("q9"), None);
        assert_eq!(Recipe::from_name("i32"), None);
    }
}
