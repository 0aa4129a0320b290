//! Text to tokens and back, by the vocabulary of a model's file.
//!
//! A [`Tokenizer`] encodes text to tokens and decodes tokens to text. It reads GGUF metadata or `tokenizer.json`, with BPE
//! or SentencePiece vocabularies. A [`DecodeStream`] decodes tokens one by one.
//!
//! No text and no vocabulary causes a panic or more than about linear time. Control tokens appear only where the caller
//! requests them.

mod alphabet;
mod bpe;
mod error;
mod gguf;
mod json;
mod partition;
mod special;
mod split;
mod spm;
mod stream;
mod strings;
mod vocabulary;

pub use error::{TokenizerError, Warning};
pub use special::SpecialTokens;
pub use stream::DecodeStream;
pub(crate) use stream::TextDecoder;
pub use vocabulary::Kind;

use crate::chat::Piece;
use alphabet::{Readable, SPACE_MARK};
use bpe::{Bpe, Workspace};
use partition::{Fragment, Partition};
use silicide_weights::Source;
use split::Splitter;
use spm::Spm;
use std::borrow::Cow;
use std::ops::Range;
use vocabulary::Vocabulary;

/// The treatment of special tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// In text, `<|im_end|>` is a control token; in tokens, control tokens are written out. Only for text that the
    /// program itself wrote.
    Parse,
    /// Text is just text, and control tokens are invisible.
    Plain,
}

/// A model's tokenizer.
///
/// ```
/// # mod silicide { pub use silicide_llm::{self as llm, *}; }
/// # let path = "../../testdata/models/llama-tied.gguf";
/// use silicide::Model;
/// use silicide::llm::tokenizer::Special;
///
/// let model = Model::open(path)?;
/// let tokenizer = model.tokenizer();
/// let tokens = tokenizer.encode("Hello, world", Special::Plain);
/// assert_eq!(tokenizer.decode(&tokens, Special::Plain), "Hello, world");
/// # Ok::<(), silicide::llm::Error>(())
/// ```
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    model: Algorithm,
    partition: Partition,
    special: SpecialTokens,
    /// Sorted.
    ends: Vec<u32>,
    rules: Rules,
    warnings: Vec<Warning>,
}

/// How text is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rules {
    add_bos: bool,
    add_eos: bool,
    /// Where a space is added to the text.
    prefix: Prefix,
    /// Whether spaces are written with a mark.
    marks_spaces: bool,
}

/// Where a space is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    Never,
    /// Before the first text.
    Start,
    /// Before the first text, and before each that follows a special token.
    Segments,
}

#[derive(Debug)]
enum Algorithm {
    Bpe(Bpe, Splitter),
    Spm(Spm),
}

impl Tokenizer {
    /// Returns the tokenizer of a model: from GGUF metadata, or from the `tokenizer.json` beside safetensors files.
    pub fn from_source(source: &Source) -> Result<Tokenizer, TokenizerError> {
        if source.gguf().is_empty() { json::load(source) } else { gguf::load(source) }
    }

    /// Returns the tokens of a text, without begin-of-text and end-of-text tokens.
    pub fn encode(&self, text: impl AsRef<[u8]>, special: Special) -> Vec<u32> {
        let text = text.as_ref();
        let whole = 0..text.len();
        let trusted = if special == Special::Parse { std::slice::from_ref(&whole) } else { &[] };
        self.encode_trusting(text, trusted)
    }

    /// Returns the tokens of a text, with the begin-of-text and end-of-text tokens that the model uses.
    pub fn encode_prompt(&self, text: impl AsRef<[u8]>, special: Special) -> Vec<u32> {
        let mut tokens = Vec::new();
        tokens.extend(self.special.bos.filter(|_| self.rules.add_bos));
        tokens.append(&mut self.encode(text, special));
        tokens.extend(self.special.eos.filter(|_| self.rules.add_eos));
        tokens
    }

    /// Returns the tokens of a rendered chat. The pieces are one text, but control tokens are found only inside the trusted
    /// ones. If the model uses a BOS token and the template wrote none, it is added.
    pub fn encode_pieces(&self, pieces: &[Piece]) -> Vec<u32> {
        let mut text = String::with_capacity(pieces.iter().map(|piece| piece.text.len()).sum());
        let mut trusted: Vec<Range<usize>> = Vec::new();
        for piece in pieces.iter().filter(|piece| !piece.text.is_empty()) {
            let start = text.len();
            text.push_str(&piece.text);
            match trusted.last_mut() {
                _ if !piece.trusted => {}
                Some(last) if last.end == start => last.end = text.len(),
                _ => trusted.push(start..text.len()),
            }
        }
        let mut tokens = self.encode_trusting(text.as_bytes(), &trusted);
        if let Some(bos) = self.special.bos.filter(|bos| self.rules.add_bos && tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        tokens
    }

    fn encode_trusting(&self, text: &[u8], trusted: &[Range<usize>]) -> Vec<u32> {
        let mut tokens = Vec::with_capacity(text.len() / 3);
        let mut workspace = Workspace::default();
        let mut prefix = self.rules.prefix != Prefix::Never;
        for fragment in self.partition.cut(text, trusted) {
            match fragment {
                Fragment::Token(token) => {
                    tokens.push(token);
                    prefix = self.rules.prefix == Prefix::Segments;
                }
                Fragment::Text(range) => {
                    let part = text.get(range).unwrap_or_default();
                    let part = self.prepare(part, std::mem::take(&mut prefix));
                    self.encode_part(&part, &mut workspace, &mut tokens);
                }
            }
        }
        tokens
    }

    /// Adds a space and marks spaces, if the vocabulary needs it.
    fn prepare<'a>(&self, part: &'a [u8], prefix: bool) -> Cow<'a, [u8]> {
        if !self.rules.marks_spaces {
            return if prefix { Cow::Owned([b" ", part].concat()) } else { Cow::Borrowed(part) };
        }
        let mut marked = Vec::with_capacity(part.len().saturating_mul(3) / 2);
        for &byte in prefix.then_some(&b' ').into_iter().chain(part) {
            match byte {
                b' ' => marked.extend_from_slice(SPACE_MARK.as_bytes()),
                _ => marked.push(byte),
            }
        }
        Cow::Owned(marked)
    }

    fn encode_part(&self, part: &[u8], workspace: &mut Workspace, tokens: &mut Vec<u32>) {
        match &self.model {
            Algorithm::Spm(spm) => spm.encode(&self.vocabulary, part, tokens),
            Algorithm::Bpe(bpe, splitter) => {
                let Readable { text, bytes } = alphabet::readable(part);
                for word in splitter.split(&text) {
                    let word = bytes.get(word).unwrap_or_default();
                    bpe.encode(&self.vocabulary, word, workspace, tokens);
                }
            }
        }
    }

    /// Returns the text of tokens. Bytes that are not UTF-8 become replacement characters.
    pub fn decode(&self, tokens: &[u32], special: Special) -> String {
        String::from_utf8_lossy(&self.decode_bytes(tokens, special)).into_owned()
    }

    /// Returns the bytes of tokens, without the space that encoding added.
    pub fn decode_bytes(&self, tokens: &[u32], special: Special) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(tokens.len().saturating_mul(4));
        for (number, &token) in tokens.iter().enumerate() {
            let piece = self.piece(token, special);
            let strip = number == 0 && self.rules.prefix != Prefix::Never;
            let kept = piece.strip_prefix(b" ").filter(|_| strip).unwrap_or(&piece);
            bytes.extend_from_slice(kept);
        }
        bytes
    }

    /// Returns the bytes of one token, which need not be whole characters.
    pub fn piece(&self, token: u32, special: Special) -> Cow<'_, [u8]> {
        let text = self.vocabulary.text(token);
        match self.vocabulary.kind(token) {
            kind if kind.is_hidden() => match special {
                Special::Parse => Cow::Borrowed(text),
                Special::Plain => Cow::Borrowed(&[]),
            },
            Kind::UserDefined => Cow::Borrowed(text),
            Kind::Byte => {
                alphabet::named_byte(text).map_or(Cow::Borrowed(text), |byte| Cow::Owned(vec![byte]))
            }
            Kind::Normal if self.rules.marks_spaces => unmark(text),
            Kind::Normal => match self.model {
                Algorithm::Bpe(..) => Cow::Owned(alphabet::unspell(text)),
                Algorithm::Spm(_) => Cow::Borrowed(text),
            },
            _ => Cow::Borrowed(&[]),
        }
    }

    /// Returns a stream that decodes tokens one by one. It continues a text: no space is removed from its start.
    pub fn stream(&self, special: Special) -> DecodeStream<'_> {
        DecodeStream::new(self, special)
    }

    /// Returns the token with exactly this text, as it is in the file.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.vocabulary.find(text.as_bytes())
    }

    /// Returns the text of a token, as it is in the file.
    pub fn text(&self, token: u32) -> Cow<'_, str> {
        String::from_utf8_lossy(self.vocabulary.text(token))
    }

    /// Returns the kind of a token.
    pub fn kind(&self, token: u32) -> Kind {
        self.vocabulary.kind(token)
    }

    /// Returns the tokens whose kind is `wanted`.
    pub fn of_kind(&self, wanted: impl Fn(Kind) -> bool) -> impl Iterator<Item = u32> {
        self.vocabulary.of_kind(wanted)
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the special tokens.
    pub fn special(&self) -> &SpecialTokens {
        &self.special
    }

    /// Returns the tokens that end generation, sorted.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Returns whether a token ends generation.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.binary_search(&token).is_ok()
    }

    /// Returns whether prompts begin with the BOS token.
    pub fn adds_bos(&self) -> bool {
        self.rules.add_bos && self.special.bos.is_some()
    }

    /// Returns whether prompts end with the EOS token.
    pub fn adds_eos(&self) -> bool {
        self.rules.add_eos && self.special.eos.is_some()
    }

    /// Returns the warnings about this tokenizer's file.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// Returns a token's text with its marks turned into spaces.
fn unmark(text: &[u8]) -> Cow<'_, [u8]> {
    let mark = SPACE_MARK.as_bytes();
    let Some(first) = mark.first().filter(|first| text.contains(first)) else { return Cow::Borrowed(text) };
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        let (before, from) = rest.split_at(at);
        plain.extend_from_slice(before);
        let (written, after) = match from.strip_prefix(mark) {
            Some(after) => (b' ', after),
            None => (*first, from.get(1..).unwrap_or_default()),
        };
        plain.push(written);
        rest = after;
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}
