//! The one error type of the crate. Variants carry data; messages say what, where, expected, got, what to do next.

use std::path::PathBuf;

/// The result of almost everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error between a file and its text. Errors of devices and weight files convert to it, so `?` works on both.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device, a buffer or an op.
    #[error(transparent)]
    Device(#[from] silicide_core::Error),
    /// A file of weights.
    #[error(transparent)]
    Weights(#[from] silicide_weights::Error),
    /// A tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] crate::tokenizer::TokenizerError),
    /// A chat template.
    #[error(transparent)]
    Chat(#[from] crate::chat::ChatError),
    /// The architecture is not supported.
    #[error("{}: architecture {architecture:?} is not supported; supported are {known}", path.display())]
    UnknownArchitecture {
        /// The file or folder.
        path: PathBuf,
        /// What it says it is.
        architecture: String,
        /// The names there are.
        known: String,
    },
    /// A setting that a model needs is not there, or is not what it should be.
    #[error("{}: setting {key:?}: expected {expected}, got {got}", path.display())]
    Setting {
        /// The file or folder.
        path: PathBuf,
        /// The key.
        key: String,
        /// What it should be, in words.
        expected: String,
        /// What it is.
        got: String,
    },
    /// A tensor that the architecture needs is not in the file.
    #[error("{}: tensor {tensor:?} is missing, which a model of architecture {architecture:?} has; \
         the file is incomplete or mislabelled", path.display())]
    MissingTensor {
        /// The file or folder.
        path: PathBuf,
        /// Its name in this kind of file.
        tensor: String,
        /// The architecture.
        architecture: &'static str,
    },
    /// Tensors that the architecture has no place for: computing without them would be silently wrong.
    #[error("{}: {count} tensors have no place in architecture {architecture:?}, the first is {tensor:?}; \
         the file is of another kind of model", path.display())]
    UnusedTensors {
        /// The file or folder.
        path: PathBuf,
        /// The first of them.
        tensor: String,
        /// How many.
        count: usize,
        /// The architecture.
        architecture: &'static str,
    },
    /// A tensor of the wrong shape.
    #[error("{}: tensor {tensor:?} has shape {got}, expected {expected}", path.display())]
    TensorShape {
        /// The file or folder.
        path: PathBuf,
        /// Its name.
        tensor: String,
        /// The shape that follows from the settings.
        expected: String,
        /// The shape it has.
        got: String,
    },
    /// The model with its cache and working memory is larger than the memory there is.
    #[error(
        "{device}: {} are needed ({} weights + {} cache for {context} tokens + {} working memory), {} are there; {advice}",
        size(*needed), size(*weights), size(*cache), size(*activations), size(*available)
    )]
    DoesNotFit {
        /// The device.
        device: String,
        /// All bytes.
        needed: u64,
        /// Of which weights.
        weights: u64,
        /// Of which the cache.
        cache: u64,
        /// Of which working memory.
        activations: u64,
        /// The requested context, in tokens.
        context: usize,
        /// Bytes there are.
        available: u64,
        /// The largest context that fits, or that none does.
        advice: String,
    },
    /// More tokens than the context holds.
    #[error("{tokens} tokens do not fit a context of {context}; raise it with -c, or shorten the text")]
    ContextFull {
        /// Tokens requested, those before included.
        tokens: usize,
        /// The context.
        context: usize,
    },
    /// A text with too few tokens to be measured.
    #[error(
        "the text has {tokens} tokens, at least {needed} are needed to fill one window; use a longer text or a smaller -c"
    )]
    TextTooShort {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of one window.
        needed: usize,
    },
    /// A token that the vocabulary does not have.
    #[error("token {token} is not in a vocabulary of {vocabulary}")]
    BadToken {
        /// The id.
        token: u32,
        /// Ids are below this.
        vocabulary: usize,
    },
    /// An option out of its range.
    #[error("{option}: expected {expected}, got {got}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What it should be, in words.
        expected: String,
        /// What it is.
        got: String,
    },
    /// A model computed something that is not a number.
    #[error(
        "the logits of position {position} are not numbers; the file is damaged or the cache type overflows"
    )]
    NotANumber {
        /// The position.
        position: usize,
    },
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= (1u64 << 30) as f64 => format!("{:.2} GiB", bytes / (1u64 << 30) as f64),
        bytes => format!("{:.1} MiB", bytes / (1u64 << 20) as f64),
    }
}
