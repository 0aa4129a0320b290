//! Byte-pair encoding: merges the symbols of a word pair by pair, the pair of the lowest rank first.
//!
//! Merging a word of `n` bytes takes `O(n log n)` time. Merges are pairs of texts. Texts that are not tokens get ids
//! beyond the tokens.

use super::alphabet;
use super::vocabulary::Vocabulary;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No symbol, and no neighbour.
const NONE: usize = usize::MAX;
/// The id of a text that neither tokens nor merges have, and of a symbol that was merged into its neighbour.
const NOTHING: u32 = u32::MAX;

/// The symbols of a word before the first merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// Bytes, each spelt with a printable character.
    Bytes,
    /// Characters.
    Text,
}

/// The merges of a vocabulary.
#[derive(Debug)]
pub(crate) struct Bpe {
    alphabet: Alphabet,
    merges: HashMap<(u32, u32), Merge, RandomState>,
    /// The symbol of each byte.
    bytes: Vec<u32>,
    /// The tokens that stand in for the bytes of a text without a token.
    fallback: Vec<Option<u32>>,
    /// Whether a word that is a token is taken as it is.
    whole_words: bool,
}

#[derive(Clone, Copy, Debug)]
struct Merge {
    rank: u32,
    result: u32,
}

/// A part of a word.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    id: u32,
    /// Where it begins in the word.
    start: usize,
    previous: usize,
    next: usize,
}

/// A pair that could be merged, ordered by rank, then from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    left: usize,
    right: usize,
    /// The ids of both symbols when the pair was found. The pair is stale if they have changed.
    ids: (u32, u32),
    result: u32,
}

/// Memory that words reuse.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Reverse<Pair>>,
    spelt: Vec<u8>,
}

impl Bpe {
    /// Returns the encoder of a vocabulary with `merges`, pairs of texts in the order of their ranks.
    pub(crate) fn new<'a>(
        vocabulary: &mut Vocabulary,
        merges: impl ExactSizeIterator<Item = Option<(&'a [u8], &'a [u8])>>,
        alphabet: Alphabet,
        whole_words: bool,
    ) -> Bpe {
        let mut table = HashMap::with_capacity_and_hasher(merges.len(), RandomState::default());
        let mut joined = Vec::new();
        for (rank, merge) in (0..).zip(merges) {
            let Some((left, right)) = merge else { continue };
            joined.clear();
            joined.extend_from_slice(left);
            joined.extend_from_slice(right);
            let pair = (vocabulary.intern(left), vocabulary.intern(right));
            let result = vocabulary.intern(&joined);
            // The first merge of a pair is used.
            table.entry(pair).or_insert(Merge { rank, result });
        }
        let symbol = |byte: u8| {
            joined.clear();
            alphabet::spell(&[byte], &mut joined);
            vocabulary.symbol(&joined).unwrap_or(NOTHING)
        };
        let bytes = (0..=255).map(symbol).collect();
        let fallback = |byte: u8| match alphabet {
            Alphabet::Bytes => vocabulary.find(&[byte]),
            Alphabet::Text => vocabulary.find(alphabet::byte_name(byte).as_bytes()),
        };
        Bpe { alphabet, merges: table, bytes, fallback: (0..=255).map(fallback).collect(), whole_words }
    }

    /// Appends the tokens of a word.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        word: &[u8],
        workspace: &mut Workspace,
        tokens: &mut Vec<u32>,
    ) {
        if self.takes_whole(word)
            && let Some(token) = self.whole(vocabulary, word, &mut workspace.spelt)
        {
            return tokens.push(token);
        }
        self.cut(vocabulary, word, &mut workspace.symbols);
        self.merge(&mut workspace.symbols, &mut workspace.pairs);
        for (number, symbol) in workspace.symbols.iter().enumerate() {
            let dead = number > 0 && symbol.previous == NONE;
            if dead {
                continue;
            }
            if vocabulary.is_token(symbol.id) {
                tokens.push(symbol.id);
            } else {
                let end = workspace.symbols.get(symbol.next).map_or(word.len(), |next| next.start);
                let bytes = word.get(symbol.start..end).unwrap_or_default();
                self.fall_back(bytes, &mut workspace.spelt, tokens);
            }
        }
    }

    /// Returns whether a word is looked up before its symbols are merged. Vocabularies of characters have runs of line ends
    /// that no merge produces.
    fn takes_whole(&self, word: &[u8]) -> bool {
        self.whole_words || self.alphabet == Alphabet::Text && word.iter().all(|&byte| byte == b'\n')
    }

    fn whole(&self, vocabulary: &Vocabulary, word: &[u8], spelt: &mut Vec<u8>) -> Option<u32> {
        if self.alphabet == Alphabet::Text || word.len() > vocabulary.longest() {
            return vocabulary.find(word);
        }
        spelt.clear();
        alphabet::spell(word, spelt);
        vocabulary.find(spelt)
    }

    fn cut(&self, vocabulary: &Vocabulary, word: &[u8], symbols: &mut Vec<Symbol>) {
        symbols.clear();
        let mut start = 0;
        while let Some(&first) = word.get(start) {
            let (id, width) = match self.alphabet {
                Alphabet::Bytes => (self.bytes.get(usize::from(first)).copied(), 1),
                Alphabet::Text => {
                    let width = alphabet::width(first).min(word.len() - start);
                    (word.get(start..start + width).and_then(|text| vocabulary.symbol(text)), width)
                }
            };
            let number = symbols.len();
            let previous = number.checked_sub(1).unwrap_or(NONE);
            symbols.push(Symbol { id: id.unwrap_or(NOTHING), start, previous, next: number + 1 });
            start += width;
        }
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
    }

    fn merge(&self, symbols: &mut [Symbol], pairs: &mut BinaryHeap<Reverse<Pair>>) {
        pairs.clear();
        for right in 1..symbols.len() {
            pairs.extend(self.pair(symbols, right - 1, right).map(Reverse));
        }
        while let Some(Reverse(Pair { left, right, ids, result, .. })) = pairs.pop() {
            let (Some(first), Some(second)) = (symbols.get(left).copied(), symbols.get(right).copied())
            else {
                continue;
            };
            // Stale: one of the symbols was merged with another neighbour.
            if (first.id, second.id) != ids || first.next != right {
                continue;
            }
            if let Some(symbol) = symbols.get_mut(left) {
                (symbol.id, symbol.next) = (result, second.next);
            }
            if let Some(symbol) = symbols.get_mut(right) {
                (symbol.id, symbol.previous, symbol.next) = (NOTHING, NONE, NONE);
            }
            if let Some(symbol) = symbols.get_mut(second.next) {
                symbol.previous = left;
            }
            pairs.extend(self.pair(symbols, first.previous, left).map(Reverse));
            pairs.extend(self.pair(symbols, left, second.next).map(Reverse));
        }
    }

    fn pair(&self, symbols: &[Symbol], left: usize, right: usize) -> Option<Pair> {
        let ids = (symbols.get(left)?.id, symbols.get(right)?.id);
        let Merge { rank, result } = *self.merges.get(&ids)?;
        Some(Pair { rank, left, right, ids, result })
    }

    /// Appends a text without a token byte by byte, as far as there are tokens for bytes.
    fn fall_back(&self, bytes: &[u8], spelt: &mut Vec<u8>, tokens: &mut Vec<u32>) {
        spelt.clear();
        match self.alphabet {
            Alphabet::Bytes => alphabet::spell(bytes, spelt),
            Alphabet::Text => spelt.extend_from_slice(bytes),
        }
        tokens
            .extend(spelt.iter().filter_map(|&byte| self.fallback.get(usize::from(byte)).copied().flatten()));
    }
}
