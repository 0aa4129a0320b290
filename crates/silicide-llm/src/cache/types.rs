//! The types of keys and values: plain types, block formats, and TurboQuant, whose blocks depend on the length of heads.

use crate::error::{Error, Result};
use silicide_quant::turbo::{TurboBits, TurboFormat, is_rotated};
use silicide_quant::{DType, Format};
use std::fmt;

/// The type of the keys or of the values of a cache.
///
/// ```
/// # mod silicide { pub use silicide_quant::DType; pub use silicide_llm as llm; }
/// use silicide::DType;
/// use silicide::llm::cache::CacheType;
///
/// assert_eq!(CacheType::from_name("tq4").unwrap().to_string(), "tq4");
/// assert_eq!(CacheType::from_name("f16"), Some(CacheType::from(DType::F16)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheType {
    /// f32, f16, bf16, or a block format.
    Element(DType),
    /// TurboQuant: heads are rotated, and quantized against a codebook.
    Turbo(TurboBits),
}

impl CacheType {
    /// Every type: plain ones, block formats, TurboQuant.
    pub const ALL: [CacheType; 16] = {
        const fn block(format: Format) -> CacheType {
            CacheType::Element(DType::Block(format))
        }
        [
            CacheType::Element(DType::F32),
            CacheType::Element(DType::F16),
            CacheType::Element(DType::BF16),
            block(Format::Q8_0),
            block(Format::Q5_1),
            block(Format::Q5_0),
            block(Format::Q4_1),
            block(Format::Q4_0),
            block(Format::Iq4Nl),
            CacheType::Turbo(TurboBits::B8),
            CacheType::Turbo(TurboBits::B6),
            CacheType::Turbo(TurboBits::B5),
            CacheType::Turbo(TurboBits::B4),
            CacheType::Turbo(TurboBits::B3),
            CacheType::Turbo(TurboBits::B2Quarter),
            CacheType::Turbo(TurboBits::B2),
        ]
    };

    /// Returns the name: `f16`, `q8_0`, `tq4`.
    pub const fn name(self) -> &'static str {
        match self {
            CacheType::Element(dtype) => dtype.name(),
            CacheType::Turbo(bits) => bits.name(),
        }
    }

    /// Returns the type of a name.
    pub fn from_name(name: &str) -> Option<CacheType> {
        CacheType::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Returns the names of all types, in a row.
    pub fn names() -> String {
        names(CacheType::ALL.into_iter())
    }

    /// Returns whether elements are stored many at a time. Such keys lie row by row.
    pub(super) fn is_compressed(self) -> bool {
        match self {
            CacheType::Element(dtype) => dtype.is_compressed(),
            CacheType::Turbo(_) => true,
        }
    }

    /// Returns the element type of heads of `dim` elements. `option` is the setting that an error names.
    pub(super) fn stored(self, option: &'static str, dim: usize) -> Result<DType> {
        let fitting = CacheType::ALL.into_iter().filter(|known| known.of_head(dim).is_some());
        self.of_head(dim).ok_or_else(|| Error::BadOption {
            option,
            expected: format!("a type for heads of {dim} elements: {}", names(fitting)),
            got: self.to_string(),
        })
    }

    /// Returns the element type of heads of `dim` elements, if they divide into its blocks or have its codec.
    fn of_head(self, dim: usize) -> Option<DType> {
        match self {
            CacheType::Turbo(bits) => TurboFormat::for_head(bits, dim).ok().map(DType::Turbo),
            CacheType::Element(dtype) => {
                let fits = CacheType::ALL.contains(&self) && dim.is_multiple_of(dtype.block_len());
                fits.then_some(dtype)
            }
        }
    }

    /// Returns whether heads of `dim` elements are rotated, for a setting: block formats are by default where
    /// that helps and the length has a rotation, TurboQuant always.
    pub(super) fn is_rotated(self, setting: Option<bool>, dim: usize) -> Result<bool> {
        match (self, setting) {
            (CacheType::Turbo(_), _) => Ok(true),
            (CacheType::Element(dtype), _) if !dtype.is_compressed() => Ok(false),
            (_, Some(true)) if !is_rotated(dim) => Err(Error::BadOption {
                option: "cache-rotate",
                expected: format!(
                    "off: heads of {dim} elements have no rotation, which takes powers of two from 32 to 512"
                ),
                got: "on".to_owned(),
            }),
            (CacheType::Element(dtype), None) => Ok(is_rotated(dim) && dtype != DType::Block(Format::Q8_0)),
            (_, Some(rotate)) => Ok(rotate),
        }
    }
}

fn names(types: impl Iterator<Item = CacheType>) -> String {
    types.map(CacheType::name).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for CacheType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<DType> for CacheType {
    fn from(dtype: DType) -> CacheType {
        match dtype {
            DType::Turbo(format) => CacheType::Turbo(format.bits()),
            other => CacheType::Element(other),
        }
    }
}

impl From<TurboBits> for CacheType {
    fn from(bits: TurboBits) -> CacheType {
        CacheType::Turbo(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for known in CacheType::ALL {
            assert_eq!(CacheType::from_name(known.name()), Some(known));
        }
        assert_eq!(CacheType::from_name("q4_k"), None);
        assert!(CacheType::names().ends_with("tq3, tq2.25, tq2"));
    }

    #[test]
    fn heads_without_a_codec_are_refused_by_name() {
        let tq4 = CacheType::Turbo(TurboBits::B4);
        for dim in [16, 80, 96, 576, 1024] {
            let error = tq4.stored("cache-type-k", dim).unwrap_err().to_string();
            assert!(
                error.contains("tq4") && error.contains(&format!("heads of {dim} elements: f32, f16, bf16")),
                "{error}"
            );
            assert_eq!(error.contains("q4_0"), dim % 32 == 0, "{error}");
        }
        let q4_0 = CacheType::from(DType::Block(Format::Q4_0));
        assert_eq!(q4_0.stored("cache-type-k", 96).unwrap(), DType::Block(Format::Q4_0));
        assert!(q4_0.stored("cache-type-k", 80).is_err());
        assert!(CacheType::from(DType::I8).stored("cache-type-k", 64).is_err());
        assert!(CacheType::from(DType::Block(Format::Q4K)).stored("cache-type-k", 256).is_err());
    }

    #[test]
    fn block_formats_are_rotated_where_heads_have_a_rotation() {
        let q4_0 = CacheType::from(DType::Block(Format::Q4_0));
        assert!(q4_0.is_rotated(None, 64).unwrap() && !q4_0.is_rotated(None, 96).unwrap());
        assert!(!q4_0.is_rotated(Some(false), 64).unwrap() && q4_0.is_rotated(Some(true), 96).is_err());
        let f16 = CacheType::from(DType::F16);
        assert!(!f16.is_rotated(Some(true), 96).unwrap());
        assert!(CacheType::Turbo(TurboBits::B4).is_rotated(Some(false), 64).unwrap());
    }
}
