//! Decodes tokens one by one. A token may end inside a character; the text never does.

use super::{Special, Tokenizer};

/// Converts a sequence of tokens to text, one token at a time. Bytes of an incomplete UTF-8 character are held back.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// # use silicide::llm::tokenizer::Special;
/// # use silicide::Model;
/// # let model = Model::open("../../testdata/models/llama-tied.gguf")?;
/// let tokenizer = model.tokenizer();
/// let mut stream = tokenizer.stream(Special::Plain);
/// let mut text = String::new();
/// for token in tokenizer.encode("Grüße", Special::Plain) {
///     text += &stream.push(token);
/// }
/// text += &stream.finish();
/// assert_eq!(text.trim(), "Grüße");
/// # Ok::<(), silicide_llm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    decoder: TextDecoder,
}

impl<'a> DecodeStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, special: Special) -> DecodeStream<'a> {
        DecodeStream { tokenizer, decoder: TextDecoder::new(special) }
    }

    /// Returns the text that `token` completes; empty if it completes none.
    pub fn push(&mut self, token: u32) -> String {
        self.decoder.push(self.tokenizer, token)
    }

    /// Ends the text: an incomplete character becomes a replacement character.
    pub fn finish(&mut self) -> String {
        self.decoder.finish()
    }
}

/// The state of a [`DecodeStream`] without its tokenizer, for owners of both.
#[derive(Clone, Debug)]
pub(crate) struct TextDecoder {
    special: Special,
    held: Vec<u8>,
}

impl TextDecoder {
    /// Returns a decoder that has read no token.
    pub(crate) fn new(special: Special) -> TextDecoder {
        TextDecoder { special, held: Vec::new() }
    }

    /// Returns the text that `token` completes; empty if it completes none.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> String {
        self.held.extend_from_slice(&tokenizer.piece(token, self.special));
        let whole = whole(&self.held);
        let text = String::from_utf8_lossy(self.held.get(..whole).unwrap_or_default()).into_owned();
        self.held.drain(..whole);
        text
    }

    /// Ends the text: an incomplete character becomes a replacement character.
    pub(crate) fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

/// Returns how many bytes can be decoded now: all but an incomplete character at the end.
fn whole(bytes: &[u8]) -> usize {
    let mut done = 0;
    for chunk in bytes.utf8_chunks() {
        let end = done + chunk.valid().len() + chunk.invalid().len();
        // Only the last chunk can be incomplete; an invalid one stays invalid.
        let cut = end == bytes.len()
            && std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none());
        done = if cut { done + chunk.valid().len() } else { end };
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_may_become_whole() {
        assert_eq!(whole("a\u{20ac}".as_bytes()), 4);
        assert_eq!(whole(b"a\xe2\x82"), 1);
        assert_eq!(whole(b"a\xe2\x28"), 3);
        assert_eq!(whole(b"\xff\xf0\x9f\x98"), 1);
        assert_eq!(whole(b"\xff\xfe"), 2);
        assert_eq!(whole(b""), 0);
    }
}
