//! SentencePiece: merges the characters of a text into the tokens with the highest scores. Text without a token is
//! written byte by byte.

use super::alphabet;
use super::vocabulary::Vocabulary;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// No neighbour.
const NONE: usize = usize::MAX;

/// The tokens for bytes of a SentencePiece vocabulary.
#[derive(Debug)]
pub(crate) struct Spm {
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
}

/// A part of the text; one without bytes was merged into its neighbour.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: usize,
    length: usize,
    previous: usize,
    next: usize,
}

/// Two neighbours that form a token, ordered by score, then from left to right.
#[derive(Clone, Copy, Debug)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// The bytes of both when they were found.
    length: usize,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        let order = |pair: &Pair| (Reverse(pair.left), Reverse(pair.right), pair.length);
        self.score.total_cmp(&other.score).then_with(|| order(self).cmp(&order(other)))
    }
}

impl Spm {
    /// Returns the tokens for bytes of a vocabulary; `unknown` for those that it does not have.
    pub(crate) fn new(vocabulary: &Vocabulary, unknown: Option<u32>) -> Spm {
        let token = |byte: u8| {
            let named = vocabulary.find(alphabet::byte_name(byte).as_bytes());
            named.or_else(|| vocabulary.find(&[byte]))
        };
        Spm { bytes: (0..=255).map(token).collect(), unknown }
    }

    /// Appends the tokens of a text whose spaces are marked.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
        let mut symbols = cut(text);
        let mut pairs = BinaryHeap::new();
        for right in 1..symbols.len() {
            pairs.extend(pair(vocabulary, text, &symbols, right - 1, right));
        }
        while let Some(Pair { left, right, length, .. }) = pairs.pop() {
            let (Some(first), Some(second)) = (symbols.get(left).copied(), symbols.get(right).copied())
            else {
                continue;
            };
            // Stale: one of the symbols was merged with another neighbour.
            if first.length == 0 || second.length == 0 || first.length + second.length != length {
                continue;
            }
            if let Some(symbol) = symbols.get_mut(left) {
                (symbol.length, symbol.next) = (length, second.next);
            }
            if let Some(symbol) = symbols.get_mut(right) {
                symbol.length = 0;
            }
            if let Some(symbol) = symbols.get_mut(second.next) {
                symbol.previous = left;
            }
            pairs.extend(pair(vocabulary, text, &symbols, first.previous, left));
            pairs.extend(pair(vocabulary, text, &symbols, left, second.next));
        }
        for symbol in symbols.iter().filter(|symbol| symbol.length > 0) {
            let part = text.get(symbol.start..symbol.start + symbol.length).unwrap_or_default();
            match vocabulary.find(part) {
                Some(token) => tokens.push(token),
                None => self.spell(part, tokens),
            }
        }
    }

    fn spell(&self, part: &[u8], tokens: &mut Vec<u32>) {
        let token = |byte: &u8| self.bytes.get(usize::from(*byte)).copied().flatten().or(self.unknown);
        tokens.extend(part.iter().filter_map(token));
    }
}

/// Splits a text into characters, by the first byte of each.
fn cut(text: &[u8]) -> Vec<Symbol> {
    let mut symbols = Vec::with_capacity(text.len());
    let mut start = 0;
    while let Some(&first) = text.get(start) {
        let length = alphabet::width(first).min(text.len() - start);
        let number = symbols.len();
        let previous = number.checked_sub(1).unwrap_or(NONE);
        symbols.push(Symbol { start, length, previous, next: number + 1 });
        start += length;
    }
    if let Some(last) = symbols.last_mut() {
        last.next = NONE;
    }
    symbols
}

fn pair(vocabulary: &Vocabulary, text: &[u8], symbols: &[Symbol], left: usize, right: usize) -> Option<Pair> {
    let (first, second) = (symbols.get(left)?, symbols.get(right)?);
    let length = first.length + second.length;
    let token = vocabulary.find(text.get(first.start..first.start + length)?)?;
    // Adding 0 turns -0 into 0, which `total_cmp` orders differently.
    Some(Pair { score: vocabulary.score(token) + 0.0, left, right, length })
}
