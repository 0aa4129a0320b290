//! A fuzz target: a function over bytes, the inputs that mutations start from, and the mutator.

use fastrand::Rng;
use std::fmt::Debug;

/// A named function over bytes with its seeds and its mutator.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name, which is also the name of its folder in `testdata/corpus`.
    pub name: &'static str,
    /// Runs one input. Must not panic on any bytes.
    pub run: fn(&[u8]) -> Outcome,
    /// Returns the valid inputs that mutations start from.
    pub seeds: fn() -> Vec<Seed>,
    /// Applies one mutation that follows the structure of the input.
    pub mutate: fn(&mut Vec<u8>, &mut Rng),
}

/// An input that mutations start from.
#[derive(Clone, Debug)]
pub struct Seed {
    /// A stable name; a patch in the corpus names its seed.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// The result of one input that did not crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The input was valid and ran to its end.
    Accepted,
    /// The input gave an error of this kind.
    Refused(String),
}

impl Outcome {
    /// Returns the refusal for an error. Its kind is the name of the innermost enum variant that wraps no other, with
    /// the broken rule of a malformed file behind it.
    pub fn refused(error: &impl Debug) -> Outcome {
        let text = format!("{error:?}");
        let mut rest = text.as_str();
        loop {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            match after.strip_prefix('(') {
                Some(inner) if inner.starts_with(|c: char| c.is_ascii_uppercase()) => rest = inner,
                _ => return Outcome::Refused([name, fault(after)].join(" ").trim_end().to_owned()),
            }
        }
    }
}

/// The name of the rule in the fields of a malformed file's error; empty for other errors.
fn fault(fields: &str) -> &str {
    let Some((_, rest)) = fields.split_once(" fault: ") else { return "" };
    let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_wrapped_error_is_the_inner_variant() {
        #[derive(Debug)]
        #[allow(dead_code, reason = "read by Debug")]
        enum Inner {
            Malformed { offset: u64 },
        }
        let kind = |error: &dyn Debug| Outcome::refused(&error);
        assert_eq!(kind(&Some(Inner::Malformed { offset: 3 })), Outcome::Refused("Malformed".to_owned()));
        assert_eq!(kind(&Inner::Malformed { offset: 3 }), Outcome::Refused("Malformed".to_owned()));
        assert_eq!(kind(&Some(7)), Outcome::Refused("Some".to_owned()));
    }
}
