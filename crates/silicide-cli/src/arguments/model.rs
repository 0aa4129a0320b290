//! The model argument: one rule for every command.
//!
//! A model is given as the first positional argument or with `-m`. It is a path to a file, a path to a folder, or a name.
//! If neither is given, the environment variable `SILICIDE_MODEL` names it.

use crate::error::Error;
use clap::Args;
use silicide::CancelToken;
use std::path::PathBuf;

/// The environment variable that names the model of commands that got none.
const VARIABLE: &str = "SILICIDE_MODEL";

/// The model argument of a command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ModelRef {
    /// The model: a GGUF file, a folder with safetensors, or a name such as smollm2 [env: SILICIDE_MODEL]
    #[arg(value_name = "MODEL", id = "model_word", index = 1, help_heading = None)]
    word: Option<String>,
    /// The model, as a flag
    #[arg(short = 'm', long = "model", value_name = "MODEL", id = "model_flag", help_heading = None)]
    flag: Option<String>,
}

impl ModelRef {
    /// Moves the first positional argument to `next` if `-m` names the model, as in `run -m FILE PROMPT`.
    pub(crate) fn shift(&mut self, next: &mut Option<String>) -> Result<(), Error> {
        if self.flag.is_some() && next.is_none() {
            *next = self.word.take();
        }
        self.named().map(|_| ())
    }

    /// Returns the positional argument.
    pub(crate) fn word(&self) -> Option<&str> {
        self.word.as_deref()
    }

    /// Returns the value of `-m`.
    pub(crate) fn flag(&self) -> Option<&str> {
        self.flag.as_deref()
    }

    /// Returns the path or the name as the user wrote it.
    pub(crate) fn name(&self) -> Result<String, Error> {
        self.named()?.ok_or_else(no_model)
    }

    /// Returns the file or the folder of the model. Downloads the model first if it is a name that is not stored yet.
    pub(crate) fn path(&self, cancel: &CancelToken) -> Result<PathBuf, Error> {
        crate::store::resolve(self.name()?, cancel)
    }

    fn named(&self) -> Result<Option<String>, Error> {
        match (&self.word, &self.flag) {
            (Some(word), Some(flag)) => {
                Err(Error::Usage(format!("the model is given twice: {word:?} and -m {flag:?}")))
            }
            (Some(name), None) | (None, Some(name)) => Ok(Some(name.clone())),
            (None, None) => Ok(from_environment()),
        }
    }
}

/// Returns the model that `SILICIDE_MODEL` names.
pub(crate) fn from_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())
}

/// The error of a command that got no model.
fn no_model() -> Error {
    Error::Usage(
        "which model? Give a file, a folder or a name such as smollm2, as the first argument or with -m"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(word: Option<&str>, flag: Option<&str>) -> ModelRef {
        ModelRef { word: word.map(str::to_owned), flag: flag.map(str::to_owned) }
    }

    #[test]
    fn a_flag_and_a_word_name_the_model_but_not_both() {
        assert_eq!(given(Some("a"), None).name().unwrap(), "a");
        assert_eq!(given(None, Some("b")).name().unwrap(), "b");
        assert!(given(Some("a"), Some("b")).name().is_err());
    }

    #[test]
    fn a_flag_makes_the_first_word_the_next_argument() {
        let (mut model, mut next) = (given(Some("text"), Some("file")), None);
        model.shift(&mut next).unwrap();
        assert_eq!((model.name().unwrap(), next), ("file".to_owned(), Some("text".to_owned())));
        let (mut model, mut next) = (given(Some("file"), None), Some("text".to_owned()));
        model.shift(&mut next).unwrap();
        assert_eq!((model.name().unwrap(), next), ("file".to_owned(), Some("text".to_owned())));
        assert!(given(Some("one"), Some("file")).shift(&mut Some("two".to_owned())).is_err());
    }
}
