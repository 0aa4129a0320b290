//! What becomes of each tensor, before anything is written.

use super::recipe::{self, Recipe};
use super::rules::Facts;
use regex_automata::meta::Regex;
use silicide_quant::{DType, Format, Shape};
use silicide_weights::gguf::GgufWriter;
use silicide_weights::{Entry, Stored};

/// Everything that will be written.
pub(super) struct Plan<'a> {
    /// A writer with all metadata and no tensors.
    pub(super) writer: GgufWriter,
    /// The tensors, in the order in which they are written.
    pub(super) steps: Vec<Step<'a>>,
}

/// One tensor to write.
pub(super) struct Step<'a> {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) choice: Choice,
    pub(super) entry: Entry<'a>,
    /// Heads whose halves are interleaved, for architectures whose rotary embedding expects pairs.
    pub(super) heads: Option<usize>,
}

/// The type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The type that is written.
    pub(super) dtype: DType,
    /// The type that the recipe names, which may need longer rows.
    pub(super) wanted: DType,
}

impl Step<'_> {
    /// Bytes of the written tensor.
    pub(super) fn bytes(&self) -> u64 {
        let dtype = self.choice.dtype;
        self.shape.elements() as u64 / dtype.block_len() as u64 * dtype.block_bytes() as u64
    }

    /// The block format or MLX format that the tensor is stored in; `None` if it is not quantized.
    pub(super) fn quantized_as(&self) -> Option<String> {
        match self.entry.stored() {
            Stored::As(dtype) if !dtype.is_block() => None,
            stored => Some(stored.to_string()),
        }
    }

    /// Whether quantized weights are quantized again.
    pub(super) fn is_requantized(&self) -> bool {
        let same = matches!(self.entry.stored(), Stored::As(dtype) if dtype == self.choice.dtype);
        !same && self.choice.dtype.is_block() && self.quantized_as().is_some()
    }
}

/// The types that the user gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Types {
    /// For all weights; as they are stored, if not given.
    pub(super) recipe: Option<Recipe>,
    /// For weights by their name; the first that matches counts.
    pub(super) overrides: Vec<Override>,
}

/// A type for the tensors whose names match.
#[derive(Clone, Debug)]
pub(super) struct Override {
    names: Names,
    dtype: DType,
}

/// Which names match.
#[derive(Clone, Debug)]
enum Names {
    /// Those in which a regular expression is found.
    Matching(Regex),
    /// One.
    Exactly(&'static str),
}

impl Override {
    /// Reads `PATTERN=TYPE`. The pattern is a regular expression that is searched in the name.
    pub(super) fn parse(text: &str) -> Result<Override, String> {
        let Some((pattern, name)) = text.rsplit_once('=').filter(|(pattern, _)| !pattern.is_empty()) else {
            return Err("expected PATTERN=TYPE, such as ffn_down=q6_k".to_owned());
        };
        let dtype = parse_dtype(name)?;
        let pattern = Regex::new(pattern).map_err(|error| format!("the pattern {pattern:?}: {error}"))?;
        Ok(Override { names: Names::Matching(pattern), dtype })
    }

    /// An override for one tensor.
    pub(super) fn exact(name: &'static str, dtype: DType) -> Override {
        Override { names: Names::Exactly(name), dtype }
    }

    fn applies(&self, name: &str) -> bool {
        match &self.names {
            Names::Matching(pattern) => pattern.is_match(name),
            Names::Exactly(other) => *other == name,
        }
    }
}

/// Reads the name of a type.
pub(super) fn parse_dtype(name: &str) -> Result<DType, String> {
    recipe::dtype(name)
        .ok_or_else(|| format!("{name:?} is not a type; types of tensors are f16, q8_0, q6_k ..."))
}

impl Types {
    /// The type in which a tensor of a GGUF name is written.
    pub(super) fn choose(&self, name: &str, entry: &Entry<'_>, facts: &Facts) -> Choice {
        let same = |dtype| Choice { dtype, wanted: dtype };
        let stored = match entry.stored() {
            Stored::As(dtype) => Some(dtype),
            _ => None,
        };
        // Indices are no weights.
        if let Some(dtype) = stored.filter(|dtype| !dtype.is_float() && !dtype.is_block()) {
            return same(dtype);
        }
        let shape = entry.shape();
        if !may_be_quantized(name, shape.rank()) {
            let keep = stored.filter(|dtype| self.recipe.is_none() || dtype.is_block());
            return same(keep.unwrap_or(DType::F32));
        }
        let given = self.overrides.iter().find(|entry| entry.applies(name)).map(|entry| entry.dtype);
        let wanted = match (given, self.recipe) {
            (Some(dtype), _) => dtype,
            (None, Some(Recipe::Plain(dtype))) => dtype,
            (None, Some(Recipe::Mixture(mixture))) => {
                let matrices = if shape.rank() > 2 { shape.axes().first().copied().unwrap_or(1) } else { 1 };
                facts.dtype(mixture, name, shape.last(), matrices)
            }
            (None, None) => stored.unwrap_or(DType::F16),
        };
        Choice { dtype: fitting(wanted, shape.last()), wanted }
    }
}

/// Whether a tensor is a matrix that is multiplied, and large: others are not worth rounding.
fn may_be_quantized(name: &str, rank: usize) -> bool {
    const SMALL: [&str; 7] =
        ["norm", "ffn_gate_inp", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv"];
    rank >= 2 && name.ends_with(".weight") && !SMALL.iter().any(|part| name.contains(part))
}

/// The wanted type, or the next best whose blocks divide a row.
pub(super) fn fitting(wanted: DType, row: usize) -> DType {
    if row.is_multiple_of(wanted.block_len()) {
        return wanted;
    }
    let smaller = match wanted {
        DType::Block(Format::Q2K | Format::Q3K | Format::Tq1_0 | Format::Tq2_0) => Format::Q4_0,
        DType::Block(Format::Q4K) => Format::Q5_0,
        DType::Block(Format::Q5K) => Format::Q5_1,
        DType::Block(Format::Q6K | Format::Q8K) => Format::Q8_0,
        _ => Format::Iq4Nl,
    };
    if row.is_multiple_of(smaller.block_len()) { DType::Block(smaller) } else { DType::F16 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_format_whose_blocks_do_not_divide_a_row_is_replaced_by_shorter_blocks() {
        let block = DType::Block;
        assert_eq!(fitting(block(Format::Q4K), 512), block(Format::Q4K));
        assert_eq!(fitting(block(Format::Q4K), 576), block(Format::Q5_0));
        assert_eq!(fitting(block(Format::Q6K), 576), block(Format::Q8_0));
        assert_eq!(fitting(block(Format::Q2K), 576), block(Format::Q4_0));
        assert_eq!(fitting(block(Format::Iq2Xs), 576), block(Format::Iq4Nl));
        assert_eq!(fitting(block(Format::Q4_0), 33), DType::F16);
        assert_eq!(fitting(DType::BF16, 33), DType::BF16);
    }

    #[test]
    fn overrides_search_names_for_a_pattern() {
        let given = Override::parse(r"blk\.[0-3]\.ffn_down=Q6_K").unwrap();
        assert!(given.applies("blk.2.ffn_down.weight") && !given.applies("blk.4.ffn_down.weight"));
        assert_eq!(given.dtype, DType::Block(Format::Q6K));
        let exact = Override::exact("output.weight", DType::F16);
        assert!(exact.applies("output.weight") && !exact.applies("blk.0.attn_output.weight"));
        for wrong in ["ffn_down", "=q6_k", "ffn_down=q9", "ffn_down=q4_k_m", "(=q6_k"] {
            assert!(Override::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn vectors_norms_and_routers_are_not_quantized() {
        assert!(
            may_be_quantized("blk.0.attn_q.weight", 2) && may_be_quantized("blk.0.ffn_up_exps.weight", 3)
        );
        for (name, rank) in [
            ("blk.0.attn_q.bias", 2),
            ("blk.0.attn_q.weight", 1),
            ("blk.0.attn_q_norm.weight", 2),
            ("blk.0.ffn_gate_inp.weight", 2),
            ("blk.0.ssm_conv1d.weight", 2),
        ] {
            assert!(!may_be_quantized(name, rank), "{name}");
        }
    }
}
