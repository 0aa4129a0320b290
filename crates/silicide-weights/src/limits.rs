//! Limits on what a file may declare. Everything is also bounded by the bytes that are there; these limits keep the
//! work and the tables of a well-formed but absurd file small.

/// Longest key or tensor name, in bytes.
pub const NAME_BYTES: u64 = 64 << 10;
/// Longest string value, in bytes.
pub const STRING_BYTES: u64 = 64 << 20;
/// Most metadata entries.
pub const ENTRIES: u64 = 65_536;
/// Most tensors in one file.
pub const TENSORS: u64 = 1 << 20;
/// Most axes of a tensor.
pub const AXES: u32 = 4;
/// Deepest nesting of arrays: an array of arrays has depth 2.
pub const NESTING: u32 = 2;
/// Largest alignment of tensor data, in bytes.
pub const ALIGNMENT: u64 = 64 << 10;
/// Most files of one model.
pub const SHARDS: usize = 1024;
/// Longest header of a safetensors file, in bytes.
pub const SAFETENSORS_HEADER: u64 = 100 << 20;
/// Most free metadata entries of a safetensors file.
pub const FREE_ENTRIES: u64 = 4096;
/// Longest index of a sharded checkpoint, in bytes.
pub const INDEX_BYTES: u64 = 64 << 20;
/// Longest `config.json`, in bytes.
pub const CONFIG_BYTES: u64 = 16 << 20;
