//! Special tokens: BOS, EOS, ends of turns. Files name some by id; others are found by their texts, as older files name
//! too few.

use super::error::Warning;
use super::vocabulary::{Kind, Vocabulary};

/// The special tokens of a vocabulary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpecialTokens {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn.
    pub eot: Option<u32>,
    /// Ends a message that waits for a tool.
    pub eom: Option<u32>,
    /// Stands for unknown text.
    pub unknown: Option<u32>,
    /// Fills space.
    pub padding: Option<u32>,
}

/// The keys of a role in GGUF metadata (newer names first), and the texts of tokens that have it.
struct SpecialRole {
    keys: &'static [&'static str],
    texts: &'static [&'static str],
    /// Whether generation ends at it.
    ends: bool,
}

const EOT: SpecialRole = SpecialRole {
    keys: &["eot_token_id"],
    texts: &[
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "<｜end▁of▁sentence｜>",
        "<end_of_utterance>",
    ],
    ends: true,
};
const EOM: SpecialRole = SpecialRole { keys: &["eom_token_id"], texts: &["<|eom_id|>"], ends: true };
/// Fill-in-the-middle tokens: some end generation, and none is text.
const FIM: [SpecialRole; 6] = [
    SpecialRole {
        keys: &["fim_pre_token_id", "prefix_token_id"],
        texts: &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
        ends: false,
    },
    SpecialRole {
        keys: &["fim_suf_token_id", "suffix_token_id"],
        texts: &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
        ends: false,
    },
    SpecialRole {
        keys: &["fim_mid_token_id", "middle_token_id"],
        texts: &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
        ends: false,
    },
    SpecialRole {
        keys: &["fim_pad_token_id"],
        texts: &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
        ends: true,
    },
    SpecialRole {
        keys: &["fim_rep_token_id"],
        texts: &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
        ends: true,
    },
    SpecialRole { keys: &["fim_sep_token_id"], texts: &["<|file_sep|>"], ends: true },
];
/// Texts that end generation wherever a vocabulary has them.
const ENDS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];
/// Control tokens that are shown in the output.
const SHOWN: [&str; 4] = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// The special tokens of a vocabulary, from [`find`].
#[derive(Debug, Default)]
pub(super) struct FoundTokens {
    pub(super) tokens: SpecialTokens,
    /// Sorted.
    pub(super) ends: Vec<u32>,
    pub(super) warnings: Vec<Warning>,
}

/// Finds the special tokens of a vocabulary, and corrects the kinds of those that are not marked. `named` returns the id of
/// a key; `defaults` has the tokens for keys that the file lacks.
pub(super) fn find(
    vocabulary: &mut Vocabulary,
    defaults: SpecialTokens,
    named: impl Fn(&str) -> Option<u64>,
) -> FoundTokens {
    let mut warnings = Vec::new();
    let count = vocabulary.len();
    let mut number = |keys: &[&str], default: Option<u32>| {
        let mut id = default.filter(|&id| (id as usize) < count);
        for key in keys {
            match named(key) {
                Some(named) if named < count as u64 => id = Some(named as u32),
                Some(named) => warnings.push(Warning::NoSuchToken { what: (*key).to_owned(), id: named }),
                None => {}
            }
        }
        id
    };
    let mut tokens = SpecialTokens {
        bos: number(&["bos_token_id"], defaults.bos),
        eos: number(&["eos_token_id"], defaults.eos),
        unknown: number(&["unknown_token_id"], defaults.unknown),
        padding: number(&["padding_token_id"], defaults.padding),
        eot: None,
        eom: None,
    };
    let mut play = |role: &SpecialRole, default: Option<u32>| {
        number(role.keys, default).or_else(|| {
            let id = role.texts.iter().find_map(|text| vocabulary.find(text.as_bytes()))?;
            vocabulary.set_kind(id, Kind::Control);
            Some(id)
        })
    };
    tokens.eot = play(&EOT, defaults.eot);
    tokens.eom = play(&EOM, defaults.eom);
    let mut ends: Vec<u32> = FIM.iter().filter_map(|role| play(role, None).filter(|_| role.ends)).collect();
    for id in ENDS.iter().filter_map(|text| vocabulary.find(text.as_bytes())).collect::<Vec<_>>() {
        vocabulary.set_kind(id, Kind::Control);
        ends.push(id);
    }
    for id in SHOWN.iter().filter_map(|text| vocabulary.find(text.as_bytes())).collect::<Vec<_>>() {
        vocabulary.set_kind(id, Kind::UserDefined);
    }
    ends.extend([tokens.eos, tokens.eot, tokens.eom].into_iter().flatten());
    correct(vocabulary, &mut ends);
    ends.sort_unstable();
    ends.dedup();
    FoundTokens { tokens, ends, warnings }
}

/// Removes ends of generation that are plain tokens in this vocabulary.
fn correct(vocabulary: &mut Vocabulary, ends: &mut Vec<u32>) {
    let ending = |text: &str| vocabulary.find(text.as_bytes()).filter(|id| ends.contains(id));
    let calls = ending("<|call|>").or(ending("<|calls|>")).is_some();
    let harmony = calls && (ending("<|return|>").is_some() || ending("<|flush|>").is_some());
    let inner = ending("<|end|>").filter(|_| harmony);
    let plain = ending("</s>").filter(|_| ending("<|tool_response>").is_some());
    for (id, kind) in [(inner, Kind::UserDefined), (plain, Kind::Normal)] {
        if let Some(id) = id {
            vocabulary.set_kind(id, kind);
            ends.retain(|&end| end != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary(texts: &[&str]) -> Vocabulary {
        let mut vocabulary = Vocabulary::with_capacity(texts.len());
        texts.iter().for_each(|text| vocabulary.push(text.as_bytes(), Kind::Normal));
        vocabulary
    }

    #[test]
    fn ends_are_known_by_their_texts() {
        let mut words = vocabulary(&["a", "<|im_end|>", "<|endoftext|>", "<reponame>"]);
        let found = find(&mut words, SpecialTokens::default(), |key| (key == "eos_token_id").then_some(0));
        assert_eq!((found.tokens.eos, found.tokens.eot, found.tokens.bos), (Some(0), Some(1), None));
        assert_eq!(found.ends, [0, 1, 2, 3]);
        assert_eq!((words.kind(0), words.kind(1)), (Kind::Normal, Kind::Control));
    }

    #[test]
    fn numbers_beyond_the_vocabulary_are_told() {
        let defaults = SpecialTokens { bos: Some(7), ..SpecialTokens::default() };
        let found = find(&mut vocabulary(&["a"]), defaults, |key| (key == "eos_token_id").then_some(9));
        assert_eq!((found.tokens.bos, found.tokens.eos), (None, None));
        assert_eq!(found.warnings, [Warning::NoSuchToken { what: "eos_token_id".to_owned(), id: 9 }]);
    }

    #[test]
    fn ends_of_messages_do_not_end_harmony() {
        let mut words = vocabulary(&["<|end|>", "<|return|>", "<|call|>", "<|channel|>"]);
        let found = find(&mut words, SpecialTokens::default(), |_| None);
        assert_eq!(found.ends, [1, 2]);
        assert_eq!((words.kind(0), words.kind(3)), (Kind::UserDefined, Kind::UserDefined));
    }
}
