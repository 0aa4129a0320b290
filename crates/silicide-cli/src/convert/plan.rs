//! Which tensor becomes which, and in what format.

use silicide_quant::{DType, Format, Shape};
use silicide_weights::gguf::GgufWriter;
use silicide_weights::{Entry, Stored};

/// Everything that will be written.
pub(super) struct Plan<'a> {
    /// With all metadata and tensors declared.
    pub(super) writer: GgufWriter,
    /// The tensors, in the order in which they were declared.
    pub(super) steps: Vec<Step<'a>>,
}

/// One tensor to be.
pub(super) struct Step<'a> {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) dtype: DType,
    pub(super) entry: Entry<'a>,
    /// Heads whose halves are woven into pairs, for the rotation that some architectures expect.
    pub(super) heads: Option<usize>,
}

/// What weights are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipe {
    /// One format for all.
    Plain(DType),
    /// A K format, and Q6_K for the head and, in some layers, for values and the way down: what `q4_k_m` and `q5_k_m` name
    /// elsewhere, tensor by tensor.
    Medium(Format),
}

impl Recipe {
    /// The recipe of a name such as `q4_0` or `q4_k_m`.
    pub(super) fn from_name(name: &str) -> Option<Recipe> {
        match name {
            "q4_k_m" => return Some(Recipe::Medium(Format::Q4K)),
            "q5_k_m" => return Some(Recipe::Medium(Format::Q5K)),
            _ => {}
        }
        DType::from_name(name).filter(|dtype| dtype.is_block() || dtype.is_float()).map(Recipe::Plain)
    }

    /// The format of most weights.
    pub(super) fn base(self) -> DType {
        match self {
            Recipe::Plain(dtype) => dtype,
            Recipe::Medium(format) => DType::Block(format),
        }
    }

    /// The number by which GGUF files name what they are written in; only a hint for people.
    pub(super) fn file_type(self) -> Option<u32> {
        match self {
            Recipe::Plain(dtype) => file_type(dtype),
            Recipe::Medium(Format::Q5K) => Some(17),
            Recipe::Medium(_) => Some(15),
        }
    }
}

/// What was asked for, and what of the model decides with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) recipe: Recipe,
    /// The model's layers.
    pub(super) layers: usize,
    /// The embedding is the head too.
    pub(super) tied: bool,
}

impl Wanted {
    /// The format of a weight, before it is known whether its rows fit.
    fn dtype(self, name: &str) -> DType {
        let Recipe::Medium(_) = self.recipe else { return self.recipe.base() };
        let head = name == "output.weight" || self.tied && name == "token_embd.weight";
        let decides = [".attn_v.", ".ffn_down.", ".ffn_down_exps."].iter().any(|part| name.contains(part));
        if head || decides && layer(name).is_some_and(|layer| self.is_finer(layer)) {
            return DType::Block(Format::Q6K);
        }
        self.recipe.base()
    }

    /// The first and the last eighth of the layers, and every third between them.
    fn is_finer(self, layer: usize) -> bool {
        let eighth = self.layers / 8;
        layer < eighth || layer >= 7 * self.layers / 8 || (layer - eighth) % 3 == 2
    }
}

/// The layer that a tensor of a GGUF name belongs to.
fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// The type in which a tensor of a GGUF name is written.
pub(super) fn choose(name: &str, entry: &Entry<'_>, wanted: Option<Wanted>) -> DType {
    let stored = match entry.stored() {
        Stored::As(dtype) => Some(dtype),
        _ => None,
    };
    let integers = stored.filter(|dtype| !dtype.is_float() && !dtype.is_block());
    if let Some(dtype) = integers.or(stored.filter(|_| wanted.is_none())) {
        return dtype;
    }
    // What is small, or decides much, is not worth rounding.
    let precise = !name.ends_with(".weight") || name.contains("norm") || name.contains("ffn_gate_inp");
    if precise || entry.shape().rank() < 2 {
        return DType::F32;
    }
    fitting(wanted.map_or(DType::F16, |wanted| wanted.dtype(name)), entry.shape().last())
}

/// The wanted type, or the next best whose blocks divide a row.
pub(super) fn fitting(wanted: DType, row: usize) -> DType {
    if row.is_multiple_of(wanted.block_len()) {
        return wanted;
    }
    let smaller = match wanted {
        DType::Block(Format::Q4K) => Format::Q5_0,
        DType::Block(Format::Q5K) => Format::Q5_1,
        DType::Block(Format::Q6K | Format::Q8K) => Format::Q8_0,
        DType::Block(Format::Tq1_0 | Format::Tq2_0) => Format::Q4_0,
        _ => Format::Iq4Nl,
    };
    if row.is_multiple_of(smaller.block_len()) { DType::Block(smaller) } else { DType::F16 }
}

/// The number of a format.
fn file_type(dtype: DType) -> Option<u32> {
    Some(match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::BF16 => 32,
        DType::Block(format) => match format {
            Format::Q4_0 => 2,
            Format::Q4_1 => 3,
            Format::Q8_0 => 7,
            Format::Q5_0 => 8,
            Format::Q5_1 => 9,
            Format::Q2K => 10,
            Format::Q3K => 11,
            Format::Q4K => 14,
            Format::Q5K => 16,
            Format::Q6K => 18,
            Format::Iq4Nl => 25,
            Format::Iq4Xs => 30,
            Format::Tq1_0 => 36,
            Format::Tq2_0 => 37,
            Format::Mxfp4 => 38,
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn blocks_divide_rows() {
        let block = DType::Block;
        assert_eq!(fitting(block(Format::Q4K), 512), block(Format::Q4K));
        assert_eq!(fitting(block(Format::Q4K), 576), block(Format::Q5_0));
        assert_eq!(fitting(block(Format::Q6K), 576), block(Format::Q8_0));
        assert_eq!(fitting(block(Format::Q2K), 576), block(Format::Iq4Nl));
        assert_eq!(fitting(block(Format::Q4_0), 33), DType::F16);
        assert_eq!(fitting(DType::BF16, 33), DType::BF16);
    }

    #[test]
    fn a_mixture_is_finer_where_it_matters() {
        let recipe = Recipe::from_name("q4_k_m").unwrap();
        let wanted = Wanted { recipe, layers: 16, tied: true };
        let (base, finer) = (DType::Block(Format::Q4K), DType::Block(Format::Q6K));
        let layers: Vec<usize> =
            (0..16).filter(|layer| wanted.dtype(&format!("blk.{layer}.ffn_down.weight")) == finer).collect();
        assert_eq!(layers, [0, 1, 4, 7, 10, 13, 14, 15]);
        assert_eq!(wanted.dtype("blk.4.attn_v.weight"), finer);
        assert_eq!(wanted.dtype("blk.4.ffn_down_exps.weight"), finer);
        assert_eq!(wanted.dtype("blk.4.attn_q.weight"), base);
        assert_eq!(wanted.dtype("token_embd.weight"), finer);
        assert_eq!(Wanted { tied: false, ..wanted }.dtype("token_embd.weight"), base);
        assert_eq!(wanted.dtype("output.weight"), finer);
        let plain = Wanted { recipe: Recipe::from_name("q4_0").unwrap(), ..wanted };
        assert_eq!(plain.dtype("output.weight"), DType::Block(Format::Q4_0));
        assert_eq!((recipe.file_type(), Recipe::from_name("q9")), (Some(15), None));
    }
}
