//! The one error type of the crate. Variants carry data; messages say what, where, expected, got, what to do next.

use std::path::PathBuf;

/// The result type of this crate.
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
        /// The architecture that it names.
        architecture: String,
        /// The known names.
        known: String,
    },
    /// A setting of the model is missing or wrong.
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
    /// The architecture does not use some tensors of the file. Results without them would be silently wrong.
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
    /// The model with its cache and working memory does not fit in the available memory.
    #[error(
        "{device}: {} are needed ({} weights + {} cache for {context} tokens + {} working memory), {} are there; {}",
        size(*needed), size(*weights), size(*cache), size(*activations), size(*available), largest(*fits, *trained)
    )]
    DoesNotFit {
        /// The device.
        device: String,
        /// The sum of the bytes below.
        needed: u64,
        /// Bytes of weights.
        weights: u64,
        /// Bytes of the KV cache.
        cache: u64,
        /// Bytes of working memory.
        activations: u64,
        /// The requested context, in tokens.
        context: usize,
        /// Available bytes.
        available: u64,
        /// The largest context that fits, in tokens. 0 if not even one token fits.
        fits: usize,
        /// The context that the model was trained on, in tokens.
        trained: usize,
    },
    /// More tokens than the context holds.
    #[error("{tokens} tokens do not fit a context of {context}")]
    ContextFull {
        /// Tokens requested, those before included.
        tokens: usize,
        /// The context.
        context: usize,
    },
    /// The text has too few tokens for perplexity.
    #[error("the text has {tokens} tokens, at least {needed} are needed to fill one window")]
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
    /// The logits contain NaN or infinity.
    #[error(
        "the logits of position {position} are not numbers; the file is damaged or the cache type overflows"
    )]
    NotANumber {
        /// The position.
        position: usize,
    },
}

impl Error {
    /// The error of a part that this crate itself made and does not find.
    pub(crate) fn missing(what: &'static str) -> Error {
        Error::Device(silicide_core::Error::Missing { what })
    }
}

/// Returns a sentence about the largest context that fits.
fn largest(fits: usize, trained: usize) -> String {
    match fits {
        0 => "not even one token fits: take a smaller model or a smaller format".to_owned(),
        _ if fits > trained => {
            format!(
                "the model was trained on {trained} tokens, which fit; the largest context that fits is {fits}"
            )
        }
        _ => format!("the largest context that fits is {fits}"),
    }
}

/// Returns a number of bytes with a unit.
fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= (1u64 << 30) as f64 => format!("{:.2} GiB", bytes / (1u64 << 30) as f64),
        bytes => format!("{:.1} MiB", bytes / (1u64 << 20) as f64),
    }
}
