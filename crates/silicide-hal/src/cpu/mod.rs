//! The CPU backend: kernels are functions, threads claim tiles.

mod isa;

pub use isa::Isa;
