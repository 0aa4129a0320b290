//! The element types of GGUF files that mlx-native knows.

use crate::DType;
use crate::error::{MlxError, Result, refuse};
use serde::{Deserialize, Serialize};
use silicide::quant::Format;

/// An element type of a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(non_camel_case_types)]
pub enum GgmlType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an f32.
    BF16,
    /// Blocks of 32 in 4 bits.
    Q4_0,
    /// Blocks of 32 in 5 bits.
    Q5_0,
    /// Blocks of 32 in 8 bits.
    Q8_0,
    /// Blocks of 256 in 2 bits.
    Q2_K,
    /// Blocks of 256 in 3 bits.
    Q3_K,
    /// Blocks of 256 in 4 bits.
    Q4_K,
    /// Blocks of 256 in 5 bits.
    Q5_K,
    /// Blocks of 256 in 6 bits.
    Q6_K,
    /// 16-bit integers. mlx-native reads them under the number 17, which is IQ2_XS in GGML.
    I16,
    /// 32-bit integers.
    I32,
    /// Blocks of 32 in 5 bits with a minimum.
    Q5_1,
    /// Blocks of 32 in 4 bits of a codebook.
    IQ4_NL,
    /// Blocks of 256 in 4 bits of a codebook.
    IQ4_XS,
}

/// Each type with its number in files.
const NUMBERS: [(GgmlType, u32); 16] = [
    (GgmlType::F32, 0),
    (GgmlType::F16, 1),
    (GgmlType::BF16, 30),
    (GgmlType::Q4_0, 2),
    (GgmlType::Q5_0, 6),
    (GgmlType::Q8_0, 8),
    (GgmlType::Q2_K, 10),
    (GgmlType::Q3_K, 11),
    (GgmlType::Q4_K, 12),
    (GgmlType::Q5_K, 13),
    (GgmlType::Q6_K, 14),
    (GgmlType::I16, 17),
    (GgmlType::I32, 26),
    (GgmlType::Q5_1, 7),
    (GgmlType::IQ4_NL, 20),
    (GgmlType::IQ4_XS, 23),
];

impl GgmlType {
    /// The type of a number.
    pub(super) fn from_number(number: u32) -> Result<GgmlType> {
        let known = NUMBERS.iter().find(|(_, known)| *known == number);
        known
            .map(|(ggml, _)| *ggml)
            .ok_or_else(|| MlxError::GgufParseError(format!("unsupported GGML type {number}")))
    }

    /// The same type of silicide.
    pub(crate) fn silicide(self) -> silicide::DType {
        let block = |format| silicide::DType::Block(format);
        match self {
            GgmlType::F32 => silicide::DType::F32,
            GgmlType::F16 => silicide::DType::F16,
            GgmlType::BF16 => silicide::DType::BF16,
            GgmlType::I16 => silicide::DType::I16,
            GgmlType::I32 => silicide::DType::I32,
            GgmlType::Q4_0 => block(Format::Q4_0),
            GgmlType::Q5_0 => block(Format::Q5_0),
            GgmlType::Q5_1 => block(Format::Q5_1),
            GgmlType::Q8_0 => block(Format::Q8_0),
            GgmlType::Q2_K => block(Format::Q2K),
            GgmlType::Q3_K => block(Format::Q3K),
            GgmlType::Q4_K => block(Format::Q4K),
            GgmlType::Q5_K => block(Format::Q5K),
            GgmlType::Q6_K => block(Format::Q6K),
            GgmlType::IQ4_NL => block(Format::Iq4Nl),
            GgmlType::IQ4_XS => block(Format::Iq4Xs),
        }
    }

    /// Whether weights of this type are blocks.
    pub(crate) fn is_block(self) -> bool {
        self.silicide().format().is_some()
    }

    /// Returns the values of a block; 1 for single elements.
    pub fn block_values(self) -> u32 {
        self.silicide().block_len() as u32
    }

    /// Returns the bytes of a block.
    pub fn block_bytes(self) -> u32 {
        self.silicide().block_bytes() as u32
    }

    /// The bytes of a row of `k` values, if they are whole blocks.
    pub(crate) fn row_bytes(self, k: usize) -> Option<usize> {
        let values = self.block_values() as usize;
        k.is_multiple_of(values).then(|| (k / values).checked_mul(self.block_bytes() as usize))?
    }
}

/// Returns the type of a number in a file.
pub fn test_only_ggml_type_from_u32(id: u32) -> Result<GgmlType> {
    GgmlType::from_number(id)
}

/// Returns the bytes of a tensor. Rows are whole blocks.
pub fn test_only_compute_byte_len(shape: &[usize], ggml_type: GgmlType) -> Result<usize> {
    let bytes = || {
        let (last, leading) = shape.split_last()?;
        let row = ggml_type.row_bytes(*last)?;
        leading.iter().try_fold(row, |bytes, extent| bytes.checked_mul(*extent))
    };
    match (shape.is_empty(), bytes()) {
        (true, _) => Ok(ggml_type.block_bytes() as usize),
        (false, Some(bytes)) => Ok(bytes),
        (false, None) => {
            Err(MlxError::GgufParseError(format!("{shape:?} has no whole blocks of {ggml_type:?}")))
        }
    }
}

/// Returns the type of a buffer with a tensor as it is stored: bytes for blocks.
pub fn test_only_raw_tensor_dtype(ggml_type: GgmlType) -> DType {
    match ggml_type {
        GgmlType::F32 => DType::F32,
        GgmlType::F16 => DType::F16,
        GgmlType::BF16 => DType::BF16,
        GgmlType::I32 => DType::I32,
        _ => DType::U8,
    }
}

/// Decodes all of `data`, which has as many values as `output`.
pub fn test_only_dequantize(data: &[u8], ggml_type: GgmlType, output: &mut [f32]) -> Result<()> {
    let decoded = silicide::quant::decode_into(ggml_type.silicide(), data, output);
    decoded.map_err(|error| MlxError::GgufParseError(error.to_string()))
}

/// Decodes blocks of Q5_1.
pub fn test_only_dequantize_q5_1(data: &[u8], output: &mut [f32]) -> Result<()> {
    test_only_dequantize(data, GgmlType::Q5_1, output)
}

/// Decodes blocks of IQ4_XS.
pub fn test_only_dequantize_iq4_xs(data: &[u8], output: &mut [f32]) -> Result<()> {
    test_only_dequantize(data, GgmlType::IQ4_XS, output)
}

/// Decodes blocks of IQ4_NL.
pub fn test_only_dequantize_iq4_nl(data: &[u8], output: &mut [f32]) -> Result<()> {
    test_only_dequantize(data, GgmlType::IQ4_NL, output)
}

/// Returns the codebook of IQ4_NL and IQ4_XS, as it decodes under a scale of 1.
pub fn test_only_kvalues_iq4_nl() -> [i8; 16] {
    let mut block = [0u8; 18];
    block[..2].copy_from_slice(&silicide::quant::f16::ONE.to_le_bytes());
    for (index, byte) in block[2..].iter_mut().enumerate() {
        *byte = index as u8;
    }
    let mut values = [0.0; 32];
    // The block has the length of the format, so decoding does not fail.
    let _ = test_only_dequantize(&block, GgmlType::IQ4_NL, &mut values);
    std::array::from_fn(|index| values[index] as i8)
}

/// Checks that a weight is bytes of whole blocks.
pub(crate) fn check_block_weight(what: &str, weight: DType, ggml: GgmlType, k: usize) -> Result<usize> {
    if !ggml.is_block() {
        refuse!("{what}: {ggml:?} is not a block type");
    }
    if weight != DType::U8 {
        refuse!("{what}: the weight must be native U8 GGUF blocks, got {weight}");
    }
    ggml.row_bytes(k).filter(|bytes| *bytes > 0).ok_or_else(|| {
        MlxError::argument(format!("{what}: K = {k} must be divisible by {} ({ggml:?})", ggml.block_values()))
    })
}
