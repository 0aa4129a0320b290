//! The pre-tokenizers that GGUF files name. A name means the rules of llama.cpp, which writes the files. Where those only
//! approximate the pattern that a model was trained with, the model's own is used.

use super::super::bpe::Alphabet;
use super::Rule;
use Rule::{Match, Thousands};

/// The rules for unknown names.
pub(crate) const FALLBACK: &str = "default";

/// The preparation of text for a BPE vocabulary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    pub(crate) rules: &'static [Rule<'static>],
    /// Whether a word that is a token is taken as it is.
    pub(crate) whole_words: bool,
    /// Whether texts begin with the BOS token, if the file lacks the setting.
    pub(crate) add_bos: bool,
    pub(crate) alphabet: Alphabet,
}

const fn plain(rules: &'static [Rule<'static>]) -> Recipe {
    Recipe { rules, whole_words: false, add_bos: false, alphabet: Alphabet::Bytes }
}

const fn whole(rules: &'static [Rule<'static>]) -> Recipe {
    Recipe { whole_words: true, ..plain(rules) }
}

const fn begun(recipe: Recipe) -> Recipe {
    Recipe { add_bos: true, ..recipe }
}

const fn marked(rules: &'static [Rule<'static>]) -> Recipe {
    Recipe { alphabet: Alphabet::Text, ..plain(rules) }
}

const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const GPT_2: &[Rule<'static>] = &[Match(WORDS)];
const STARCODER: &[Rule<'static>] = &[Match(r"\p{N}"), Match(WORDS)];
const FALCON: &[Rule<'static>] = &[Match(r"[\p{P}\$\+<=>\^~\|`]+"), Match(WORDS), Match(r"[0-9][0-9][0-9]")];
const DEFAULT: &[Rule<'static>] =
    &[Match(r"[\p{P}\$\+<=>\^~\|]+"), Match(WORDS), Match(r"\p{N}+"), Match(r"[0-9][0-9][0-9]")];
const LLAMA_3: &[Rule<'static>] = &[Match(
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)];
const QWEN_2_WORDS: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &[Rule<'static>] = &[Match(QWEN_2_WORDS)];
const QWEN_35: &[Rule<'static>] = &[Match(
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)];
const JAIS_2: &[Rule<'static>] = &[Match(
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
)];
const DEEPSEEK_LLM: &[Rule<'static>] = &[
    Match(r"[\r\n]"),
    Match(
        r"\s?[A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}\u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}\u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}]+",
    ),
    Match(r"\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+"),
    Match(r"\s+$"),
    Match(r"[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+"),
    Match(r"\p{N}+"),
];
const DEEPSEEK_CODER: &[Rule<'static>] = &[
    Match(r"[\r\n]"),
    Match(r"\s?\p{L}+"),
    Match(r"\s?\p{P}+"),
    Match(r"[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+"),
    Match(r"\p{N}"),
];
const SYMBOLS: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const DEEPSEEK_3: &[Rule<'static>] =
    &[Match(r"\p{N}{1,3}"), Match(r"[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+"), Match(SYMBOLS)];
const AFMOE: &[Rule<'static>] = &[
    Thousands,
    Match(
        r"[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{8c48}-\u{faff}\u{3040}-\u{309f}\u{30a0}-\u{30ff}\u{ff65}-\u{ff9f}\u{2f00}-\u{2fdf}\u{e40}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}\u{ac00}-\u{d7af}\u{1100}-\u{11ff}]+",
    ),
    Match(SYMBOLS),
];
const CASED: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TINY_AYA: &[Rule<'static>] = &[Thousands, Match(CASED)];
const YOUTU: &[Rule<'static>] = &[
    Match(
        r"[\u{ac00}-\u{d7a3}\u{3131}-\u{318e}]+|[\u{ff01}\u{2026}\u{201c}\u{201d}\u{2018}\u{2019}\u{2014}\u{ff1a}\u{ff1b}\u{ff0c}\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+|[\u{3105}-\u{312f}]+|[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
    ),
    Match(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];
const BLOOM_WORDS: &str = r" ?[^(\s|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]+";
const BLOOM: &[Rule<'static>] = &[Match(BLOOM_WORDS)];
const VIKING: &[Rule<'static>] = &[Match(BLOOM_WORDS), Match(r"\p{N}")];
const TEKKEN: &[Rule<'static>] = &[Match(
    r"[^\r\n\p{L}\p{N}]?[\p{L}--a-z]*[\p{L}--A-Z]+|[^\r\n\p{L}\p{N}]?[\p{L}--a-z]+[\p{L}--A-Z]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)];
const GPT_4O: &[Rule<'static>] = &[Match(
    r"[^\r\n\p{L}\p{N}]?[\p{L}--a-z]*[\p{L}--A-Z]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{L}--a-z]+[\p{L}--A-Z]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)];
const GRANITE_EMBED: &[Rule<'static>] = &[Match(
    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}--a-z]*[\p{L}\p{M}--A-Z]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}--a-z]+[\p{L}\p{M}--A-Z]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)];
const CHAMELEON: &[Rule<'static>] = &[
    Match(r"<sentinel:[0-9]+>"),
    Match(r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
    Match(r"([\t\n]|    |  )"),
    Match(r"\p{N}"),
    Match(r"[\p{P}!-/:-@\[-`{-~]"),
    Match(WORDS),
];
const KIMI_K2: &[Rule<'static>] = &[Match(
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]--\p{Han}]*[[\p{Ll}\p{Lm}\p{Lo}\p{M}]--\p{Han}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]--\p{Han}]+[[\p{Ll}\p{Lm}\p{Lo}\p{M}]--\p{Han}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)];
const SUPERBPE: &[Rule<'static>] = &[Match(r"\p{N}+"), Thousands];
const BAILINGMOE: &[Rule<'static>] = &[Match(
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
)];
const SEED_CODER: &[Rule<'static>] = &[Match(
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
)];
const EXAONE_MOE: &[Rule<'static>] = &[Match(
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
)];
const LINES: &[Rule<'static>] = &[Match(r"[^\n]+|[\n]+")];
const LAGUNA: &[Rule<'static>] = &[Match(r"[^\n]+|[\n]+"), Match(QWEN_2_WORDS)];
const MINICPM_5: &[Rule<'static>] = &[
    Match(r"\p{N}{1,3}"),
    Match(
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

/// Names that share a recipe.
const RECIPES: &[(&[&str], Recipe)] = &[
    (&["default", ""], plain(DEFAULT)),
    (
        &[
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        begun(whole(LLAMA_3)),
    ),
    (&["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"], plain(LLAMA_3)),
    (
        &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "megrez",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        plain(QWEN_2),
    ),
    (&["qwen35"], plain(QWEN_35)),
    (
        &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "gigachat",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
        ],
        plain(GPT_2),
    ),
    (
        &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        plain(STARCODER),
    ),
    (&["falcon"], plain(FALCON)),
    (&["deepseek-llm"], plain(DEEPSEEK_LLM)),
    (&["deepseek-coder"], plain(DEEPSEEK_CODER)),
    (&["deepseek-v3", "hunyuan-dense", "joyai-llm"], plain(DEEPSEEK_3)),
    (&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], plain(GPT_4O)),
    (&["granite-embed-multi-97m"], whole(GRANITE_EMBED)),
    (&["tekken"], begun(whole(TEKKEN))),
    (&["chameleon"], begun(plain(CHAMELEON))),
    (&["poro-chat", "bloom", "gpt3-finnish"], plain(BLOOM)),
    (&["viking"], plain(VIKING)),
    (&["jais-2"], plain(JAIS_2)),
    (&["youtu"], whole(YOUTU)),
    (&["tiny_aya", "cohere2moe"], plain(TINY_AYA)),
    (&["kimi-k2"], plain(KIMI_K2)),
    (&["superbpe"], plain(SUPERBPE)),
    (&["bailingmoe", "bailingmoe2", "llada-moe"], plain(BAILINGMOE)),
    (&["seed-coder"], plain(SEED_CODER)),
    (&["afmoe"], plain(AFMOE)),
    (&["laguna"], plain(LAGUNA)),
    (&["exaone-moe"], plain(EXAONE_MOE)),
    (&["minicpm5"], whole(MINICPM_5)),
    (&["gemma4", "granite-embed-multi-311m"], begun(marked(LINES))),
    (&["sarvam-moe"], marked(LINES)),
];

/// Returns the recipe of a name.
pub(crate) fn recipe(name: &str) -> Option<Recipe> {
    RECIPES.iter().find(|(names, _)| names.contains(&name)).map(|(_, recipe)| *recipe)
}

#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().flat_map(|(names, _)| names.iter().copied())
}
