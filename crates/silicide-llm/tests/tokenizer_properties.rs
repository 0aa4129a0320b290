//! What holds for every text and every vocabulary.
#![allow(clippy::unwrap_used, reason = "a failure should end the test")]

mod common;

use common::{tokenizer, write_smollm2};
use proptest::prelude::*;
use silicide_llm::tokenizer::{Special, Tokenizer, TokenizerError};
use std::sync::OnceLock;

fn smollm2() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| tokenizer(write_smollm2).unwrap())
}

/// A SentencePiece vocabulary of all bytes and some words.
fn sentencepiece(prefix: bool) -> Result<Tokenizer, TokenizerError> {
    let bytes = (0..=255u8).map(|byte| format!("<0x{byte:02X}>"));
    let specials = ["<unk>", "<s>", "</s>"].map(str::to_owned).into_iter();
    let words = ["▁", "a", "b", "ab", "▁ab", "▁a", "é", "bé", "▁▁"].map(str::to_owned);
    let kinds: Vec<i32> = [2, 3, 3].into_iter().chain([6; 256]).chain([1; 9]).collect();
    let tokens: Vec<String> = specials.chain(bytes).chain(words).collect();
    let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id as f32)).collect();
    tokenizer(|writer| {
        writer.meta("tokenizer.ggml.model", "llama").unwrap();
        writer.meta("tokenizer.ggml.tokens", &tokens).unwrap();
        writer.meta("tokenizer.ggml.token_type", &kinds).unwrap();
        writer.meta("tokenizer.ggml.scores", &scores).unwrap();
        writer.meta("tokenizer.ggml.add_space_prefix", &prefix).unwrap();
    })
}

#[test]
fn sentencepiece_merges_by_score() {
    let tokenizer = sentencepiece(true).unwrap();
    let text = |ids: &[u32]| ids.iter().map(|&id| tokenizer.text(id).into_owned()).collect::<Vec<_>>();
    // "ab" comes before "▁a" by score, and then nothing is better than "▁ab".
    assert_eq!(text(&tokenizer.encode("ab", Special::Plain)), ["▁ab"]);
    assert_eq!(text(&tokenizer.encode("€", Special::Plain)), ["▁", "<0xE2>", "<0x82>", "<0xAC>"]);
    assert_eq!(text(&tokenizer.encode_prompt("</s>a", Special::Parse)), ["<s>", "</s>", "▁a"]);
    assert!(tokenizer.encode("", Special::Parse).is_empty());
    assert_eq!(tokenizer.decode(&tokenizer.encode("a b", Special::Plain), Special::Plain), "a b");
    assert_eq!(tokenizer.ends(), [2]);
}

#[test]
fn unknown_names_are_told() {
    let named = |model: &str, pre: &str| {
        tokenizer(|writer| {
            writer.meta("tokenizer.ggml.model", model).unwrap();
            writer.meta("tokenizer.ggml.pre", pre).unwrap();
            writer.meta("tokenizer.ggml.tokens", &["a".to_owned()][..]).unwrap();
            writer.meta("tokenizer.ggml.merges", &["a a".to_owned()][..]).unwrap();
        })
    };
    assert_eq!(named("gpt2", "gpt-2").unwrap().warnings(), []);
    let warnings = named("gpt2", "tomorrow").unwrap().warnings().to_vec();
    assert!(warnings[0].to_string().contains("tomorrow"), "{warnings:?}");
    let error = named("bert", "").unwrap_err();
    assert!(matches!(&error, TokenizerError::Unsupported { kind, .. } if kind == "bert"), "{error}");
    assert!(matches!(tokenizer(|_| ()).unwrap_err(), TokenizerError::Missing { .. }));
    let short = tokenizer(|writer| {
        writer.meta("tokenizer.ggml.model", "llama").unwrap();
        writer.meta("tokenizer.ggml.tokens", &["a".to_owned(), "b".to_owned()][..]).unwrap();
        writer.meta("tokenizer.ggml.token_type", &[1i32][..]).unwrap();
    });
    assert!(matches!(short.unwrap_err(), TokenizerError::Malformed { .. }));
}

/// Text of the kind that is hard to split: spaces, digits, letters, marks and pieces of special tokens.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("<|im_end|>".to_owned()),
        Just("'ll".to_owned()),
        "[a-z0-9 \t\r\n]{0,6}",
        "\\PC{0,4}",
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn text_comes_back(text in text()) {
        for special in [Special::Plain, Special::Parse] {
            let tokens = smollm2().encode(&text, special);
            prop_assert_eq!(&smollm2().decode(&tokens, Special::Parse), &text);
            if special == Special::Plain {
                prop_assert!(tokens.iter().all(|&token| token > 16));
            }
        }
    }

    #[test]
    fn streams_are_whole(text in text(), prefix: bool) {
        let tokenizer = sentencepiece(prefix).unwrap();
        let tokens = tokenizer.encode(&text, Special::Plain);
        prop_assert_eq!(&tokenizer.decode(&tokens, Special::Plain), &text);
        let mut stream = tokenizer.stream(Special::Plain);
        let streamed: String = tokens.iter().map(|&token| stream.push(token)).collect();
        prop_assert_eq!(streamed.strip_prefix(' ').filter(|_| prefix && !text.is_empty()).unwrap_or(&streamed), &text);
        prop_assert_eq!(stream.finish(), "");
    }

    #[test]
    fn any_vocabulary_is_survived(
        model in prop_oneof![Just("gpt2"), Just("llama"), Just("gemma4")],
        pre in prop_oneof![Just("gpt-2"), Just("llama-bpe"), Just("x")],
        tokens in proptest::collection::vec("[ab ĠĊ▁<>é]{0,4}", 0..20),
        kinds in proptest::collection::vec(-1i32..8, 20),
        scores in proptest::collection::vec(any::<f32>(), 20),
        merges in proptest::collection::vec("[ab ĠĊ▁é]{0,5}", 0..20),
        id: u32,
        input in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b' '), any::<u8>()], 0..40),
    ) {
        let made = tokenizer(|writer| {
            writer.meta("tokenizer.ggml.model", model).unwrap();
            writer.meta("tokenizer.ggml.pre", pre).unwrap();
            writer.meta("tokenizer.ggml.tokens", &tokens).unwrap();
            writer.meta("tokenizer.ggml.token_type", &kinds).unwrap();
            writer.meta("tokenizer.ggml.scores", &scores).unwrap();
            writer.meta("tokenizer.ggml.merges", &merges).unwrap();
            writer.meta("tokenizer.ggml.bos_token_id", &id).unwrap();
        });
        let tokenizer = made.unwrap();
        for special in [Special::Plain, Special::Parse] {
            let ids = tokenizer.encode_prompt(&input, special);
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.len()));
            tokenizer.decode(&ids, special);
        }
        tokenizer.decode(&[id], Special::Parse);
    }
}
