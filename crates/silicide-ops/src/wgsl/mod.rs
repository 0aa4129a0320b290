//! WGSL that kernels share: typed loads and stores, reductions, grids.
