//! The only door to naga: WGSL in, SPIR-V and MSL out.
