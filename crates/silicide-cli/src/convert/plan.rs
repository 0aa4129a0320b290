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

/// The type in which a tensor of a GGUF name is written.
pub(super) fn choose(name: &str, entry: &Entry<'_>, wanted: Option<DType>) -> DType {
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
    fitting(wanted.unwrap_or(DType::F16), entry.shape().last())
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

/// The number by which GGUF files name their usual format; only a hint for people.
pub(super) fn file_type(dtype: DType) -> Option<u32> {
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
}
