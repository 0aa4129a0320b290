//! Numbers in memory: element types ([`DType`]), the block formats among them ([`Format`]), shapes ([`Shape`]), and the Rust
//! types of plain elements ([`Element`]). [`turbo`] has the types of compressed KV caches. Nothing here depends on a device.
#![deny(unsafe_code)]

mod convert;
mod dtype;
mod element;
mod encoding;
mod format;
mod ggml;
mod minifloat;
mod mlx;
mod parallel;
mod shape;
#[allow(unsafe_code)]
mod simd;
pub mod turbo;

pub use convert::{decode, decode_into, encode, encode_into};
pub use dtype::DType;
pub use element::Element;
pub use encoding::{Encoding, EncodingError, MAX_PLANES, Plane, RowEncoding};
pub use format::{BlockMember, DECODE_I8_LEN, Format, FormatError, FormatInfo, books};
pub use ggml::GgmlType;
pub use half::{bf16, f16};
pub use mlx::{MlxFormat, MlxMode, MlxPlanes};
pub use shape::{MAX_RANK, Shape, ShapeError};
pub use simd::Isa;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
