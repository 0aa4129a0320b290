//! Compressed caches in mlx-native's layout: a byte, or a nibble, for each element, and a norm for each 256.
//!
//! ```text
//! packed [kv_heads, capacity, dim or dim / 2]      norms [kv_heads, capacity, dim / 256]
//! ```
//!
//! Heads are rotated by signs and a Walsh-Hadamard transform, which is one product with an orthogonal matrix here. Attention decodes the slots
//! that it sees to f32, and runs `masked_attention`. silicide's own compressed caches are decoded inside of attention.

mod attend;
mod decode;
mod encode;
mod rotate;

pub use attend::flash_attn_vec_tq_hb;
pub use decode::tq_dequantize_kv;
pub use encode::hadamard_quantize_kv;
pub use rotate::{fwht_standalone, hadamard};

use crate::MlxBuffer;
use crate::error::{MlxError, Result, refuse};
use crate::turboquant::{CODEBOOK_4BIT, wide_levels};
use silicide::ops::codebook_encode::Codebook;
use silicide::{Buffer, Device};

/// The format of a cache.
#[derive(Clone, Debug)]
struct Format {
    codebook: Codebook,
    levels: Buffer,
    /// Elements of a head.
    dim: usize,
}

impl Format {
    /// The format of 4 bits for `bits` of `None`, otherwise of 5, 6 or 8. `scale` is the factor of heads of 512.
    fn new(device: &Device, what: &str, dim: u32, bits: Option<u32>, scale: f32) -> Result<Format> {
        let levels = match bits {
            None => Some(&CODEBOOK_4BIT[..]),
            Some(bits) => wide_levels(bits),
        };
        let Some(levels) = levels else {
            refuse!("{what}: codebook_bits must be 5, 6, or 8, got {}", bits.unwrap_or(0))
        };
        let dim = dim as usize;
        let long = dim > 256;
        let factor = if long { scale } else { (dim as f32).sqrt() };
        if !(factor.is_finite() && factor > 0.0) {
            refuse!("{what}: scale_factor_d512 must be finite and above 0, got {factor}");
        }
        let codebook = Codebook { block: dim.min(256), mean: long, factor, nibbles: bits.is_none() };
        let levels = Buffer::from_slice(device, [levels.len()], levels)?;
        Ok(Format { codebook, levels, dim })
    }

    /// Bytes of a head's codes.
    fn code_bytes(&self) -> usize {
        if self.codebook.nibbles { self.dim / 2 } else { self.dim }
    }

    /// Norms of a head.
    fn norms(&self) -> usize {
        self.dim.div_ceil(256)
    }
}

/// Refuses heads that are not of 256 or 512 elements.
fn wide_heads(what: &str, dim: u32) -> Result<()> {
    if !matches!(dim, 256 | 512) {
        refuse!("{what}: head_dim {dim} not supported (need 256 or 512)");
    }
    Ok(())
}

/// `rows` rows of codes from row `first` of a cache on.
fn codes_at(packed: &MlxBuffer, format: &Format, first: usize, rows: usize) -> Result<Buffer> {
    let start = byte_of(first, format.code_bytes())?;
    packed.tensor_at(start, silicide::DType::U8, &[rows, format.code_bytes()])
}

/// `rows` rows of norms from row `first` of a cache on.
fn norms_at(norms: &MlxBuffer, format: &Format, first: usize, rows: usize) -> Result<Buffer> {
    let start = byte_of(first, format.norms() * 4)?;
    norms.tensor_at(start, silicide::DType::F32, &[rows, format.norms()])
}

fn byte_of(row: usize, bytes: usize) -> Result<usize> {
    row.checked_mul(bytes)
        .ok_or_else(|| MlxError::argument(format!("row {row} of {bytes} bytes cannot be counted")))
}
