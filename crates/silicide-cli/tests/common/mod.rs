//! Helpers of the tests of several commands.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use samples::testdata;
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::Path;

/// A tiny model with a vocabulary of single bytes and two control tokens, and a chat template.
pub fn tiny(directory: &Path, template: &str) -> String {
    let byte = |id: usize| u8::try_from(id - 2).ok().map(|byte| byte_character(byte).to_string());
    model(directory, template, 1, &|id| byte(id).unwrap_or_else(|| format!("[unused{id}]")))
}

/// [`tiny()`] with another token that ends texts.
pub fn tiny_ending(directory: &Path, end: u32) -> String {
    model(directory, "{{ messages[0].content }}", end, &|id| format!("[{id}]"))
}

/// A tiny model that can say nothing but `word` with a number, again and again. It reads nothing but control tokens.
pub fn parrot(directory: &Path, word: &str) -> String {
    let template = "{% for message in messages %}<|im_start|>{% endfor %}";
    let spelled: String = word.bytes().map(byte_character).collect();
    model(directory, template, 1, &|id| spelled.replace('N', &id.to_string()))
}

/// A tiny model whose token `id`, from 2 on, is `token(id)`; before that come two control tokens. Token `end` ends texts.
fn model(directory: &Path, template: &str, end: u32, token: &dyn Fn(usize) -> String) -> String {
    let source = Source::open(testdata("models/llama-tied.gguf")).unwrap();
    let path = directory.join("tiny.gguf");
    let mut writer = GgufWriter::new(&path);
    for (key, value) in source.gguf()[0].metadata().filter(|(key, _)| !key.starts_with("tokenizer")) {
        writer.copy_meta(key, &value).unwrap();
    }
    let vocabulary = source.entry("token_embd.weight").unwrap().shape().axes()[0];
    let mut tokens = vec!["<|im_start|>".to_owned(), "<|im_end|>".to_owned()];
    tokens.extend((2..vocabulary).map(token));
    let kinds: Vec<i32> = (0..vocabulary).map(|id| if id < 2 { 3 } else { 1 }).collect();
    writer.meta("tokenizer.ggml.model", "gpt2").unwrap();
    writer.meta("tokenizer.ggml.pre", "gpt-2").unwrap();
    writer.meta("tokenizer.ggml.tokens", tokens.as_slice()).unwrap();
    writer.meta("tokenizer.ggml.token_type", kinds.as_slice()).unwrap();
    writer.meta("tokenizer.ggml.merges", Vec::<String>::new().as_slice()).unwrap();
    writer.meta("tokenizer.ggml.eos_token_id", &end).unwrap();
    writer.meta("tokenizer.chat_template", template).unwrap();
    for entry in source.entries() {
        writer.tensor(entry.name(), entry.shape(), entry.dtype().unwrap()).unwrap();
    }
    let mut stream = writer.begin().unwrap();
    for entry in source.entries() {
        stream.write(&source.data(&entry).unwrap()).unwrap();
    }
    stream.finish().unwrap();
    path.to_str().unwrap().to_owned()
}

/// The character that stands for a byte in vocabularies of bytes.
fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let moved = (0..byte).filter(|&before| !printable(before)).count() as u32;
    if printable(byte) { char::from(byte) } else { char::from_u32(256 + moved).unwrap() }
}
