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
    /// Text that is cut out as it is before anything else happens.
    UserDefined,
    /// A number without a use.
    Unused,
    /// One byte.
    Byte,
    /// Not stated.
    Undefined,
}

impl Kind {
    /// The kind that GGUF has a number for.
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

    /// Whether the token is invisible in plain text.
    pub fn is_hidden(self) -> bool {
        matches!(self, Kind::Control | Kind::Unknown)
    }
}

/// The tokens of a model, by number.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    /// Tokens first; merges may add texts that are no tokens.
    strings: Strings,
    /// One for each token.
    kinds: Vec<Kind>,
    /// One for each token, or none at all.
    scores: Vec<f32>,
    /// Tokens whose text a later one has.
    shadowed: usize,
}

impl Vocabulary {
    /// Room for `count` tokens.
    pub(super) fn with_capacity(count: usize) -> Vocabulary {
        Vocabulary {
            strings: Strings::with_capacity(count),
            kinds: Vec::with_capacity(count),
            ..Default::default()
        }
    }

    /// Adds the next token.
    pub(super) fn push(&mut self, text: &[u8], kind: Kind) {
        // Nothing may have no text: it would be found everywhere.
        let named = format!("[EMPTY_{}]", self.kinds.len());
        let text = if text.is_empty() { named.as_bytes() } else { text };
        self.shadowed += usize::from(self.strings.push(text).is_some());
        self.kinds.push(kind);
    }

    /// Sets the scores: as many as there are tokens.
    pub(super) fn set_scores(&mut self, scores: Vec<f32>) {
        self.scores = scores;
    }

    /// The number of a text, which becomes one beyond the tokens if it is none of them.
    pub(super) fn intern(&mut self, text: &[u8]) -> u32 {
        self.strings.intern(text)
    }

    /// The number of a text: a token, or something that merges need.
    pub(super) fn symbol(&self, text: &[u8]) -> Option<u32> {
        self.strings.find(text)
    }

    /// The number of the token with this text.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        self.strings.find(text).filter(|&id| self.is_token(id))
    }

    /// Whether a number is that of a token.
    pub(crate) fn is_token(&self, id: u32) -> bool {
        (id as usize) < self.kinds.len()
    }

    /// The text of a token or symbol, as the file has it.
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

    /// The tokens of a kind.
    pub(super) fn of_kind(&self, wanted: impl Fn(Kind) -> bool) -> impl Iterator<Item = u32> {
        (0..).zip(&self.kinds).filter(move |(_, kind)| wanted(**kind)).map(|(id, _)| id)
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The bytes of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.strings.longest()
    }

    /// How many tokens have the text of a later one.
    pub(super) fn shadowed(&self) -> usize {
        self.shadowed
    }
}
