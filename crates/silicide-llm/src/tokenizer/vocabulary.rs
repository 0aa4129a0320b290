//! The tokens of a model: their texts, kinds and scores.

use super::strings::Strings;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Text like any other.
    Normal,
    /// The token for text that no token has.
    Unknown,
    /// Structure, such as the end of a turn: never produced from text unless special tokens are requested.
    Control,
    /// Text that is found before splitting.
    UserDefined,
    /// An id without a use.
    Unused,
    /// One byte.
    Byte,
    /// Not stated.
    Undefined,
}

impl Kind {
    /// Returns the kind with GGUF's `number`.
    pub(super) fn from_gguf(number: i64) -> Kind {
        match number {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Undefined,
        }
    }

    /// Returns whether the token is invisible in plain text.
    pub fn is_hidden(self) -> bool {
        matches!(self, Kind::Control | Kind::Unknown)
    }
}

/// The tokens of a model, by number.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    /// Tokens first; merges may add texts that are not tokens.
    strings: Strings,
    /// One for each token.
    kinds: Vec<Kind>,
    /// One for each token, or none at all.
    scores: Vec<f32>,
    /// The number of tokens whose text a later token has.
    shadowed: usize,
}

impl Vocabulary {
    /// Returns an empty vocabulary with capacity for `count` tokens.
    pub(super) fn with_capacity(count: usize) -> Vocabulary {
        Vocabulary {
            strings: Strings::with_capacity(count),
            kinds: Vec::with_capacity(count),
            ..Default::default()
        }
    }

    /// Adds the next token.
    pub(super) fn push(&mut self, text: &[u8], kind: Kind) {
        // An empty text would be found everywhere.
        let named = format!("[EMPTY_{}]", self.kinds.len());
        let text = if text.is_empty() { named.as_bytes() } else { text };
        self.shadowed += usize::from(self.strings.push(text).is_some());
        self.kinds.push(kind);
    }

    /// Sets the scores, one for each token.
    pub(super) fn set_scores(&mut self, scores: Vec<f32>) {
        self.scores = scores;
    }

    /// Returns the id of a text. A text that is not a token gets an id beyond the tokens.
    pub(super) fn intern(&mut self, text: &[u8]) -> u32 {
        self.strings.intern(text)
    }

    /// Returns the id of a text: a token, or a symbol of merges.
    pub(super) fn symbol(&self, text: &[u8]) -> Option<u32> {
        self.strings.find(text)
    }

    /// Returns the id of the token with this text.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        self.strings.find(text).filter(|&id| self.is_token(id))
    }

    /// Returns whether an id is that of a token.
    pub(crate) fn is_token(&self, id: u32) -> bool {
        (id as usize) < self.kinds.len()
    }

    /// Returns the text of a token or symbol, as the file has it.
    pub(crate) fn text(&self, id: u32) -> &[u8] {
        self.strings.get(id)
    }

    /// Returns the kind of a token.
    pub(crate) fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Undefined)
    }

    pub(super) fn set_kind(&mut self, id: u32, kind: Kind) {
        if let Some(place) = self.kinds.get_mut(id as usize) {
            *place = kind;
        }
    }

    /// Returns the score of a token; 0 if the vocabulary has no scores.
    pub(super) fn score(&self, id: u32) -> f32 {
        self.scores.get(id as usize).copied().unwrap_or(0.0)
    }

    /// Returns the tokens whose kind is `wanted`.
    pub(super) fn of_kind(&self, wanted: impl Fn(Kind) -> bool) -> impl Iterator<Item = u32> {
        (0..).zip(&self.kinds).filter(move |(_, kind)| wanted(**kind)).map(|(id, _)| id)
    }

    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Returns the bytes of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.strings.longest()
    }

    /// Returns how many tokens have the text of a later token.
    pub(super) fn shadowed(&self) -> usize {
        self.shadowed
    }
}
