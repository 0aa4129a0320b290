//! Advice for prompts without quotes, and for prompts without a model before them.

use super::Run;
use crate::error::Error;
use crate::store;
use silicide_llm::store::StoreError;

/// The positional arguments of `run`.
#[derive(Debug)]
pub(super) struct PromptWords {
    /// The value of `-m`.
    flag: Option<String>,
    /// All of them; the first is the model unless `-m` names it.
    words: Vec<String>,
    /// Whether `-p` has the prompt.
    is_given: bool,
}

impl PromptWords {
    pub(super) fn new(run: &Run) -> PromptWords {
        let model = &run.model.model;
        let words = model.word().into_iter().chain(run.prompt_word.as_deref());
        let words = words.chain(run.more_words.iter().map(String::as_str)).map(str::to_owned);
        let (flag, is_given) = (model.flag().map(str::to_owned), run.prompt.is_some());
        PromptWords { flag, words: words.collect(), is_given }
    }

    /// Fails if the prompt has no quotes, or no model before it. The error has the command as it should be.
    pub(super) fn check(&self) -> Result<(), Error> {
        let is_cut = |words: &[String]| !self.is_given && !words.iter().any(|word| has_blanks(word));
        let advice = match (&self.flag, self.words.as_slice()) {
            (Some(flag), words @ [_, _, ..]) if is_cut(words) => needs_quotes(&format!("-m {flag}"), words),
            (None, [model, prompt @ ..]) if prompt.len() > 1 => match is_cut(prompt) {
                true if !store::is_model(model) && !is_path(model) => self.without_model(),
                true => needs_quotes(model, prompt),
                false => format!(
                    "the prompt is one argument; {:?} is one too many",
                    prompt.last().map_or("", String::as_str)
                ),
            },
            (None, [prompt]) if has_blanks(prompt) && !store::is_model(prompt) && !is_path(prompt) => {
                self.without_model()
            }
            _ => return Ok(()),
        };
        Err(Error::Usage(advice))
    }

    /// Replaces the error about an unknown model if its name is probably the first of two words of a prompt.
    pub(super) fn explain(&self, error: Error) -> Error {
        let is_cut = match (&self.flag, self.words.as_slice()) {
            (None, [first, second]) => !is_path(first) && !has_blanks(second),
            _ => false,
        };
        match error {
            Error::Store(StoreError::Unknown { hint, .. }) if is_cut && hint.is_empty() => {
                Error::NoModel(self.without_model())
            }
            error => error,
        }
    }

    fn without_model(&self) -> String {
        let (first, prompt) =
            (self.words.first().map(String::as_str).unwrap_or_default(), self.words.join(" "));
        format!(
            "{first:?} is not a model (a file, a folder or a known name); write one before the prompt, and the prompt in quotes: silicide run smollm2 {prompt:?}"
        )
    }
}

fn needs_quotes(model: &str, words: &[String]) -> String {
    format!("a prompt of several words needs quotes: silicide run {model} {:?}", words.join(" "))
}

/// Whether a word was in quotes: the shell would have cut it otherwise.
fn has_blanks(word: &str) -> bool {
    word.contains(char::is_whitespace)
}

/// Whether a word is meant as a path.
fn is_path(word: &str) -> bool {
    word.contains(['/', '\\']) || word.ends_with(".gguf") || word.ends_with(".safetensors")
}
