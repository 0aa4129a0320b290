//! Finds special tokens in text, before splitting.
//!
//! Control tokens are found only in trusted text; user-defined tokens are found everywhere, as in training. Of tokens
//! that begin at the same byte the longest is taken. One pass per kind, in linear time.

use super::error::TokenizerError;
use super::vocabulary::{Kind, Vocabulary};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::ops::Range;
use std::path::Path;

/// The most bytes of all special tokens together: the automata take a multiple of this. Models have at most some 100 KB.
const BYTES: usize = 256 << 10;

/// The sides on which a special token absorbs white space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strip {
    pub(super) left: bool,
    pub(super) right: bool,
}

/// Finds special tokens.
#[derive(Debug)]
pub(crate) struct Partition {
    /// Control tokens, and the token for unknown text.
    hidden: Finder,
    /// User-defined tokens.
    defined: Finder,
}

#[derive(Debug)]
struct Finder {
    automaton: AhoCorasick,
    tokens: Vec<(u32, Strip)>,
}

/// A piece of text, or a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    Text(Range<usize>),
    Token(u32),
}

impl Partition {
    pub(super) fn new(
        vocabulary: &Vocabulary,
        strip: impl Fn(u32) -> Strip,
        path: &Path,
    ) -> Result<Partition, TokenizerError> {
        let special = |kind: Kind| kind.is_hidden() || kind == Kind::UserDefined;
        let bytes: usize = vocabulary.of_kind(special).map(|id| vocabulary.text(id).len()).sum();
        let refused = |got: String| TokenizerError::Malformed {
            path: path.to_owned(),
            what: "special tokens".to_owned(),
            expected: format!("at most {BYTES} bytes"),
            got,
        };
        if bytes > BYTES {
            return Err(refused(format!("{bytes}")));
        }
        let finder = |wanted: fn(Kind) -> bool| {
            let tokens: Vec<(u32, Strip)> = vocabulary.of_kind(wanted).map(|id| (id, strip(id))).collect();
            let texts = tokens.iter().map(|&(id, _)| vocabulary.text(id));
            // A full table of transitions would take a kilobyte and more per byte of the tokens.
            let automaton = AhoCorasick::builder()
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .match_kind(MatchKind::LeftmostLongest)
                .build(texts);
            automaton
                .map(|automaton| Finder { automaton, tokens })
                .map_err(|error| refused(error.to_string()))
        };
        Ok(Partition { hidden: finder(Kind::is_hidden)?, defined: finder(|kind| kind == Kind::UserDefined)? })
    }

    /// Splits text into texts and tokens. `trusted` are the ranges, in order, in which control tokens are found.
    pub(crate) fn cut(&self, text: &[u8], trusted: &[Range<usize>]) -> Vec<Fragment> {
        let mut coarse = Vec::new();
        let mut end = 0;
        for range in trusted {
            self.hidden.cut(text, range.clone(), &mut end, &mut coarse);
        }
        if end < text.len() {
            coarse.push(Fragment::Text(end..text.len()));
        }
        let mut fine = Vec::with_capacity(coarse.len());
        for fragment in coarse {
            match fragment {
                Fragment::Token(_) => fine.push(fragment),
                Fragment::Text(range) => {
                    let mut start = range.start;
                    self.defined.cut(text, range.clone(), &mut start, &mut fine);
                    if start < range.end {
                        fine.push(Fragment::Text(start..range.end));
                    }
                }
            }
        }
        fine
    }
}

impl Finder {
    /// Appends the fragments between `from` and the last token of a range, and moves `from` to its end.
    fn cut(&self, text: &[u8], range: Range<usize>, from: &mut usize, fragments: &mut Vec<Fragment>) {
        let Some(part) = text.get(range.clone()) else { return };
        for found in self.automaton.find_iter(part) {
            let Some(&(token, strip)) = self.tokens.get(found.pattern().as_usize()) else { continue };
            let (mut left, mut right) = (range.start + found.start(), range.start + found.end());
            // The token before absorbed the white space.
            if left < *from {
                continue;
            }
            let is_space = |at: usize| text.get(at).is_some_and(|&byte| matches!(byte, b' ' | b'\t'..=b'\r'));
            while strip.left && left > *from && is_space(left - 1) {
                left -= 1;
            }
            while strip.right && right < range.end && is_space(right) {
                right += 1;
            }
            if left > *from {
                fragments.push(Fragment::Text(*from..left));
            }
            fragments.push(Fragment::Token(token));
            *from = right;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fragment::{Text, Token};

    fn partition(strip: Strip) -> Partition {
        let mut vocabulary = Vocabulary::with_capacity(4);
        let tokens = [
            ("<a>", Kind::Control),
            ("<ab>", Kind::UserDefined),
            ("x", Kind::Normal),
            ("<a><a>", Kind::Control),
        ];
        tokens.iter().for_each(|(text, kind)| vocabulary.push(text.as_bytes(), *kind));
        Partition::new(&vocabulary, |_| strip, Path::new("")).unwrap()
    }

    #[test]
    fn trust_decides() {
        let partition = partition(Strip::default());
        let text = b"x<a>y<ab>";
        assert_eq!(partition.cut(text, &[]), [Text(0..5), Token(1)]);
        let whole = 0..text.len();
        assert_eq!(
            partition.cut(text, std::slice::from_ref(&whole)),
            [Text(0..1), Token(0), Text(4..5), Token(1)]
        );
        // A token is found only if all of it is trusted.
        assert_eq!(partition.cut(text, &[0..3, 3..9]), [Text(0..5), Token(1)]);
        assert_eq!(partition.cut(b"", &[]), []);
        assert_eq!(partition.cut(b"<a><a><a>", std::slice::from_ref(&whole)), [Token(3), Token(0)]);
    }

    #[test]
    fn long_tokens_take_little() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut vocabulary = Vocabulary::with_capacity(64);
        let mut add = |vocabulary: &mut Vocabulary, bytes: usize| {
            let text: String = (0..bytes).map(|_| random.alphanumeric()).collect();
            vocabulary.push(text.as_bytes(), Kind::Control);
            text
        };
        let texts: Vec<String> = (0..40).map(|_| add(&mut vocabulary, BYTES / 40)).collect();
        let partition = Partition::new(&vocabulary, |_| Strip::default(), Path::new("")).unwrap();
        let taken = partition.hidden.automaton.memory_usage();
        assert!(taken < 64 * BYTES, "{taken}");
        let text = texts[7].as_bytes();
        let whole = 0..text.len();
        assert_eq!(partition.cut(text, std::slice::from_ref(&whole)), [Token(7)]);
        add(&mut vocabulary, 40);
        assert!(Partition::new(&vocabulary, |_| Strip::default(), Path::new("")).is_err());
    }

    #[test]
    fn spaces_go_with_tokens() {
        let partition = partition(Strip { left: true, right: true });
        assert_eq!(
            partition.cut(b"x  <a> \n y <a>  ", &[0..9, 9..16]),
            [Text(0..1), Token(0), Text(9..10), Token(0)]
        );
    }
}
