//! The type numbers of GGML, as GGUF files store them. Every number is a value, also one that is not known.

use crate::{DType, Format};
use std::fmt;

/// A type number of GGML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GgmlType(pub u32);

/// Plain types and their numbers.
const PLAIN: [(u32, DType); 8] = [
    (0, DType::F32),
    (1, DType::F16),
    (24, DType::I8),
    (25, DType::I16),
    (26, DType::I32),
    (27, DType::I64),
    (28, DType::F64),
    (30, DType::BF16),
];

/// Types that GGML once had. Files with them need to be converted again from their source.
const REMOVED: [(u32, &str); 8] = [
    (4, "q4_2"),
    (5, "q4_3"),
    (31, "q4_0_4_4"),
    (32, "q4_0_4_8"),
    (33, "q4_0_8_8"),
    (36, "iq4_nl_4_4"),
    (37, "iq4_nl_4_8"),
    (38, "iq4_nl_8_8"),
];

impl GgmlType {
    /// Returns the element type, if it is supported.
    pub fn dtype(self) -> Option<DType> {
        let plain = PLAIN.into_iter().find(|&(id, _)| id == self.0).map(|(_, dtype)| dtype);
        let block = || Format::ALL.into_iter().find(|format| format.info().ggml_id == self.0);
        plain.or_else(|| block().map(DType::Block))
    }

    /// Returns the lower-case name, also of types that GGML has removed.
    pub fn name(self) -> Option<&'static str> {
        let removed = || REMOVED.into_iter().find(|&(id, _)| id == self.0).map(|(_, name)| name);
        self.dtype().map(DType::name).or_else(removed)
    }

    /// Returns every supported type, by number.
    pub fn supported() -> Vec<GgmlType> {
        let plain = PLAIN.into_iter().map(|(id, _)| GgmlType(id));
        let mut all: Vec<_> =
            plain.chain(Format::ALL.map(|format| GgmlType(format.info().ggml_id))).collect();
        all.sort_unstable();
        all
    }
}

impl DType {
    /// Returns the type's number in GGML; unsigned integers have none.
    pub fn ggml(self) -> Option<GgmlType> {
        match self {
            DType::Block(format) => Some(GgmlType(format.info().ggml_id)),
            plain => PLAIN.into_iter().find(|&(_, dtype)| dtype == plain).map(|(id, _)| GgmlType(id)),
        }
    }
}

/// The name and the number, whichever are known: `q4_k (12)`, `q4_2 (4, removed)`, `unknown (99)`.
impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or("unknown");
        let removed = if self.name().is_some() && self.dtype().is_none() { ", removed" } else { "" };
        write!(f, "{name} ({}{removed})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_ggml_has_a_name() {
        // Numbers from 97 on are of forks, such as ik_llama.cpp.
        let of_ggml = GgmlType::supported().into_iter().take_while(|id| id.0 < 97);
        let count = of_ggml.last().unwrap().0 + 1;
        let mut names: Vec<_> = (0..count).map(|id| GgmlType(id).name().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count as usize);
        assert_eq!(GgmlType(count).name(), None);
        assert_eq!(GgmlType(u32::MAX).dtype(), None);
    }

    #[test]
    fn types_lead_back() {
        let supported = GgmlType::supported();
        assert_eq!(supported.len(), PLAIN.len() + Format::ALL.len());
        for id in supported {
            assert_eq!(id.dtype().and_then(DType::ggml), Some(id));
        }
        assert_eq!(DType::U32.ggml(), None);
        assert_eq!(GgmlType(12).dtype(), Some(DType::Block(Format::Q4K)));
    }

    #[test]
    fn messages_name_what_is_known() {
        let names = [12, 4, 99].map(|id| GgmlType(id).to_string());
        assert_eq!(names, ["q4_k (12)", "q4_2 (4, removed)", "unknown (99)"]);
    }
}
