//! Why a conversion of blocks is refused.

use crate::{DType, MlxMode};

/// Why stored blocks and values could not be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A number of elements that makes no whole number of blocks.
    #[error("{elements} elements are not a whole number of blocks of {block_len}")]
    PartialBlock {
        /// Elements given.
        elements: usize,
        /// Elements of a block.
        block_len: usize,
    },
    /// A number of bytes other than the elements take.
    #[error("{what}: {elements} elements take {expected} bytes, got {got}")]
    Length {
        /// The format or the plane of it.
        what: &'static str,
        /// Elements to convert.
        elements: usize,
        /// Bytes that they take.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// Settings that MLX does not have.
    #[error("MLX has no {mode} format of {bits} bits in groups of {group} under {scale} scales")]
    Mlx {
        /// The mode.
        mode: MlxMode,
        /// Bits asked for.
        bits: usize,
        /// Elements of a group.
        group: usize,
        /// The type of scales.
        scale: DType,
    },
}
