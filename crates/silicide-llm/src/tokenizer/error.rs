//! Errors and warnings of tokenizers.

use std::fmt;
use std::path::PathBuf;

/// Why a model's tokenizer can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The model has no tokenizer, or a part of it is missing.
    #[error("{}: the tokenizer's {what} is missing", path.display())]
    Missing {
        /// The file that should have it.
        path: PathBuf,
        /// The part.
        what: String,
    },
    /// A kind of tokenizer that is not supported.
    #[error("{}: tokenizers of kind {kind:?} are not supported; supported are {supported}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The kind that the file names.
        kind: String,
        /// The kinds that are supported.
        supported: &'static str,
    },
    /// A part of the tokenizer is malformed.
    #[error("{}: the tokenizer's {what}: expected {expected}, got {got}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The part.
        what: String,
        /// What should be there.
        expected: String,
        /// The value in the file.
        got: String,
    },
    /// A file can't be read.
    #[error("{}: {detail}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        detail: String,
    },
}

/// A defect of a tokenizer that can be used nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Text is split by rules that are not supported; others are used, and tokens may differ from those that the
    /// model was trained with.
    UnknownSplit {
        /// The name or the pattern in the file.
        name: String,
        /// The rules that are used.
        used: &'static str,
    },
    /// Two tokens have the same text; the later one is used.
    SameText {
        /// How many tokens can't be reached.
        count: usize,
    },
    /// A special token that the vocabulary does not have.
    NoSuchToken {
        /// The key in the file.
        what: String,
        /// Its number.
        id: u64,
    },
    /// An unknown part of the file was ignored.
    Ignored {
        /// The part.
        what: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::UnknownSplit { name, used } => write!(
                f,
                "the pre-tokenizer {name:?} is not known; {used:?} is used, and tokens may not be the right ones"
            ),
            Warning::SameText { count } => {
                write!(f, "{count} tokens have the text of a later one and can't be reached")
            }
            Warning::NoSuchToken { what, id } => {
                write!(f, "{what} is token {id}, which the vocabulary does not have")
            }
            Warning::Ignored { what } => write!(f, "{what} is not understood and ignored"),
        }
    }
}
