//! What tests share: the folder of test data, and SmolLM2's vocabulary as a GGUF file.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "every test takes what it needs, and a failure should end it"
)]

use silicide_llm::tokenizer::Tokenizer;
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::PathBuf;

/// A path in the folder of test data.
pub(crate) fn testdata(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

/// The lines of a file in the folder of test data.
pub(crate) fn lines(path: &str) -> Vec<String> {
    std::fs::read_to_string(testdata(path)).unwrap().lines().map(str::to_owned).collect()
}

/// The tokenizer that the metadata written by `fill` describes.
pub(crate) fn tokenizer(
    fill: impl FnOnce(&mut GgufWriter),
) -> Result<Tokenizer, silicide_llm::tokenizer::TokenizerError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vocabulary.gguf");
    let mut writer = GgufWriter::new(&path);
    fill(&mut writer);
    writer.begin().unwrap().finish().unwrap();
    Tokenizer::from_source(&Source::open(&path).unwrap())
}

/// Writes SmolLM2's tokenizer: tokens that are no merge, then one for each merge.
pub(crate) fn write_smollm2(writer: &mut GgufWriter) {
    let (base, merges) = (lines("tokenizer/smollm2-base.txt"), lines("tokenizer/smollm2-merges.txt"));
    let joined = merges.iter().map(|merge| merge.replace(' ', ""));
    let tokens: Vec<String> = base.into_iter().chain(joined).collect();
    let kinds: Vec<i32> = (0..tokens.len()).map(|id| if id < 17 { 3 } else { 1 }).collect();
    writer.meta("tokenizer.ggml.model", "gpt2").unwrap();
    writer.meta("tokenizer.ggml.pre", "smollm").unwrap();
    writer.meta("tokenizer.ggml.tokens", &tokens).unwrap();
    writer.meta("tokenizer.ggml.token_type", &kinds).unwrap();
    writer.meta("tokenizer.ggml.merges", &merges).unwrap();
    for (key, id) in [("bos", 1u32), ("eos", 2), ("unknown", 0), ("padding", 2)] {
        writer.meta(&format!("tokenizer.ggml.{key}_token_id"), &id).unwrap();
    }
    writer.meta("tokenizer.ggml.add_bos_token", &false).unwrap();
}
