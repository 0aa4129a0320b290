//! Errors of weight files: the place, the expected value, and the one that was found.

use std::path::{Path, PathBuf};

/// The result of reading weights.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Trouble with a weight file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system could not read or write the file.
    #[error("{}: {detail}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's message.
        detail: String,
    },
    /// The file breaks a rule of its format.
    #[error("{}: at byte {offset}: {fault}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Which rule.
        fault: Fault,
    },
    /// A tensor is stored in a way that nothing here can decode.
    #[error("tensor {tensor:?} is stored as {stored}, which is not supported; supported are {supported}")]
    UnsupportedFormat {
        /// The tensor.
        tensor: String,
        /// The id or name in the file.
        stored: String,
        /// The types that can be read.
        supported: String,
    },
    /// There is no such tensor or file.
    #[error("{}: there is no {what} called {name:?}", path.display())]
    Missing {
        /// The file or directory.
        path: PathBuf,
        /// `tensor` or `file`.
        what: &'static str,
        /// The name asked for.
        name: String,
    },
    /// Neither a weight file nor a directory with one model.
    #[error("{}: not a model: {detail}", path.display())]
    NotAModel {
        /// The path.
        path: PathBuf,
        /// The files looked for, and those found.
        detail: String,
    },
    /// A well-known kind of file that holds no weights.
    #[error("{}: this is {kind}, neither GGUF nor safetensors; {advice}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The kind of the file.
        kind: &'static str,
        /// Advice.
        advice: &'static str,
    },
    /// Bytes were written that do not fit what was declared.
    #[error("{}: {tensor:?} takes {expected} bytes, got {got}", path.display())]
    WrongLength {
        /// The file being written.
        path: PathBuf,
        /// The tensor whose turn it was; empty after the last.
        tensor: String,
        /// Bytes that were declared and not yet written.
        expected: u64,
        /// Bytes given.
        got: u64,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Error {
        Error::Io { path: path.to_owned(), detail: error.to_string() }
    }

    pub(crate) fn malformed(path: &Path, offset: u64, fault: Fault) -> Error {
        Error::Malformed { path: path.to_owned(), offset, fault }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Not the kind of file it should be.
    #[error("not a {format} file: it begins with the bytes {}", hexadecimal(got))]
    Magic {
        /// The expected format.
        format: &'static str,
        /// The first bytes.
        got: Vec<u8>,
    },
    /// A version that is not read.
    #[error("version {got} is not supported; versions 2 and 3 are")]
    Version {
        /// The version.
        got: u32,
    },
    /// The file ends too early.
    #[error("{}", truncated(what, *needed, *remaining))]
    Truncated {
        /// The part that was being read.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes left.
        remaining: u64,
    },
    /// A count or length past its limit.
    #[error("{what} is {got}, at most {limit} is accepted")]
    TooMany {
        /// The name of the count.
        what: &'static str,
        /// The count in the file.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// Text that is not UTF-8.
    #[error("{what} is not valid UTF-8")]
    Utf8 {
        /// Which text.
        what: &'static str,
    },
    /// A metadata type id that does not exist.
    #[error("metadata type {got} does not exist; types are 0 to 12")]
    MetadataType {
        /// The id.
        got: u32,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("a boolean is {got}, expected 0 or 1")]
    Boolean {
        /// The byte.
        got: u8,
    },
    /// Arrays nested too deep.
    #[error("arrays are nested deeper than {limit}")]
    Nesting {
        /// The limit.
        limit: u32,
    },
    /// A name used twice.
    #[error("{what} {name:?} occurs twice")]
    Duplicate {
        /// `key` or `tensor`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An alignment that is not one.
    #[error("alignment {got} is not a power of two up to {limit}")]
    Alignment {
        /// The value in the file.
        got: u64,
        /// The largest accepted.
        limit: u64,
    },
    /// A tensor without elements.
    #[error("tensor {tensor:?} has an extent of 0")]
    EmptyTensor {
        /// The tensor.
        tensor: String,
    },
    /// A tensor larger than any memory.
    #[error("the size of tensor {tensor:?} overflows")]
    Overflow {
        /// The tensor.
        tensor: String,
    },
    /// Rows that are not whole blocks.
    #[error("tensor {tensor:?} has rows of {row} elements, but {format} comes in blocks of {block}")]
    PartialBlock {
        /// The tensor.
        tensor: String,
        /// Elements of a row.
        row: u64,
        /// The format.
        format: &'static str,
        /// Elements of a block.
        block: u64,
    },
    /// Data that does not begin where it may.
    #[error("tensor {tensor:?} begins at {got}, which is not a multiple of the alignment {alignment}")]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Its offset in the data.
        got: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// Data outside the file.
    #[error("tensor {tensor:?} covers bytes {start} to {end} of a file of {size}; is it complete?")]
    OutsideFile {
        /// The tensor.
        tensor: String,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// The file's size.
        size: u64,
    },
    /// Two tensors in the same bytes.
    #[error("tensors {first:?} and {second:?} overlap")]
    Overlap {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A metadata value of the wrong type.
    #[error("key {key:?} holds {got}, expected {expected}")]
    ValueType {
        /// The key.
        key: String,
        /// The type of its value.
        got: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// JSON that can't be read.
    #[error("the JSON {what} can't be read: {detail}")]
    Json {
        /// Which JSON.
        what: &'static str,
        /// Why.
        detail: String,
    },
    /// A shard whose metadata contradicts its name or the other shards.
    #[error("{key} is {got}, but the names and the shards make it {expected}")]
    Split {
        /// The metadata key.
        key: &'static str,
        /// The value in the file.
        got: String,
        /// The expected value.
        expected: u64,
    },
    /// A tensor whose bytes are not those that its shape and type take.
    #[error("tensor {tensor:?} takes {expected} bytes, but {got} are set aside for it")]
    RangeSize {
        /// The tensor.
        tensor: String,
        /// Bytes of its shape and type.
        expected: u64,
        /// Bytes of its range.
        got: u64,
    },
    /// A range of bytes that runs backwards or leaves the data of the file.
    #[error("tensor {tensor:?} covers bytes {start} to {end} of the data, which has {size}")]
    OutsideData {
        /// The tensor.
        tensor: String,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes of data in the file.
        size: u64,
    },
    /// Bytes that belong to no tensor, in a format that allows none.
    #[error("bytes {from} to {to} of the data belong to no tensor")]
    Gap {
        /// First such byte in the data.
        from: u64,
        /// One past the last.
        to: u64,
    },
    /// A shard that is not a file of the model's own directory.
    #[error("{name:?} is not the name of a file in the same directory")]
    ShardName {
        /// The name in the index.
        name: String,
    },
    /// An index that contradicts the shards.
    #[error("the index places tensor {tensor:?} in {file:?}, which does not hold it")]
    NotInShard {
        /// The tensor.
        tensor: String,
        /// The shard.
        file: String,
    },
    /// A quantisation setting that does not exist.
    #[error("quantization of {module:?}: {setting} is {got}, expected {expected}")]
    Setting {
        /// The module, empty for the settings of all.
        module: String,
        /// `bits`, `group_size` or `mode`.
        setting: &'static str,
        /// The value in the file.
        got: String,
        /// The values that exist.
        expected: &'static str,
    },
    /// A quantised weight without its scales or biases.
    #[error("quantised tensor {tensor:?} has no {companion:?}")]
    Companion {
        /// The weight.
        tensor: String,
        /// The tensor that should be there.
        companion: String,
    },
    /// A plane of a quantised weight of the wrong type or shape.
    #[error("tensor {tensor:?} is {got}, expected {expected}")]
    Plane {
        /// The plane.
        tensor: String,
        /// Its type and shape.
        got: String,
        /// The expected type and shape.
        expected: String,
    },
}

/// The first thing in a GGUF file.
pub(crate) const MAGIC_NUMBER: &str = "the magic number";
/// The first thing in a safetensors file, with its length in [`LENGTH_BYTES`] before it.
pub(crate) const HEADER: &str = "the header";
/// Bytes of a safetensors header's length.
const LENGTH_BYTES: u64 = 8;

fn truncated(what: &str, needed: u64, remaining: u64) -> String {
    let first = what == MAGIC_NUMBER || what == HEADER && needed == LENGTH_BYTES;
    if first && remaining == 0 {
        return "the file is empty; download it again".to_owned();
    }
    format!("the file ends inside {what}: {needed} bytes needed, {remaining} left; is it complete?")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
