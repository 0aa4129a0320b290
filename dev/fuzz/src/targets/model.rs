//! Whole models: from the bytes of a file to four tokens on the CPU.

use super::seeds::CHECKPOINTS;
use super::weights::split;
use crate::corpus::testdata;
use crate::target::Outcome;
use silicide_core::{Device, DeviceOptions};
use silicide_llm::chat::message;
use silicide_llm::engine::{GenerateOptions, Session, generate};
use silicide_llm::tokenizer::{Special, Tokenizer};
use silicide_llm::{Model, Result};
use silicide_weights::{Bytes, Config, Source};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

/// Text with control tokens, combining marks, digits and white space.
const TEXT: &str = "Hello <|im_start|>world\u{301} 12345 \n\n  x";

/// Loads a GGUF file and generates.
pub(super) fn gguf_model(bytes: &[u8]) -> Outcome {
    let source = Source::from_gguf(Bytes::from_memory("fuzz.gguf", bytes.to_vec()));
    outcome(source.map_err(Into::into).and_then(|source| run(&source, bytes)))
}

/// Loads a checkpoint and generates. The input is `config.json`, a zero byte, `model.safetensors`.
pub(super) fn safetensors_model(bytes: &[u8]) -> Outcome {
    let (config, model) = split(bytes);
    outcome(checkpoint(config, model.unwrap_or_default().to_vec()))
}

/// Loads a checkpoint whose `config.json` is the input.
pub(super) fn config_json(bytes: &[u8]) -> Outcome {
    let folder = folder_of(bytes);
    outcome(checkpoint(bytes, stored(&folder.join("model.safetensors"))))
}

/// The MLX checkpoint for a configuration with quantization, the BF16 one otherwise.
fn folder_of(config: &[u8]) -> PathBuf {
    let [quantized, dense] = CHECKPOINTS;
    let key = b"\"quantization\"";
    let is_quantized = config.windows(key.len()).any(|window| window == key);
    testdata().join(if is_quantized { quantized } else { dense })
}

fn checkpoint(config: &[u8], model: Vec<u8>) -> Result<()> {
    let folder = folder_of(config);
    let text = String::from_utf8_lossy(config).into_owned();
    let config_file = Config::new(folder.join("config.json"), text);
    // The tokenizer is read beside this path.
    let name = folder.join("model.safetensors");
    let bytes = Bytes::from_memory(&name.to_string_lossy(), model);
    run(&Source::from_safetensors(vec![bytes], Some(config_file))?, config)
}

/// Loads a checkpoint whose `tokenizer.json` is the input.
pub(super) fn tokenizer_json(bytes: &[u8]) -> Outcome {
    static FOLDER: OnceLock<Option<TempDir>> = OnceLock::new();
    let [base, _] = CHECKPOINTS.map(|folder| testdata().join(folder));
    let Some(folder) = FOLDER.get_or_init(|| temporary_folder(&base)) else {
        return Outcome::Refused("NoTemporaryFolder".to_owned());
    };
    if fs::write(folder.path().join("tokenizer.json"), bytes).is_err() {
        return Outcome::Refused("NoTemporaryFile".to_owned());
    }
    let load = || {
        let config = String::from_utf8_lossy(&stored(&base.join("config.json"))).into_owned();
        let name = folder.path().join("model.safetensors");
        let model = Bytes::from_memory(&name.to_string_lossy(), stored(&base.join("model.safetensors")));
        let source = Source::from_safetensors(
            vec![model],
            Some(Config::new(folder.path().join("config.json"), config)),
        )?;
        check_tokenizer(&Tokenizer::from_source(&source)?);
        run(&source, bytes)
    };
    outcome(load())
}

/// A temporary folder with the other files that a tokenizer is read from. In memory where possible.
fn temporary_folder(base: &Path) -> Option<TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    let folder = folder.ok()?;
    fs::copy(base.join("tokenizer_config.json"), folder.path().join("tokenizer_config.json")).ok()?;
    Some(folder)
}

/// The bytes of a file of `testdata`, read once.
fn stored(path: &Path) -> Vec<u8> {
    static FILES: Mutex<Vec<(PathBuf, Vec<u8>)>> = Mutex::new(Vec::new());
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, bytes)) = files.iter().find(|(name, _)| name == path) {
        return bytes.clone();
    }
    let bytes = fs::read(path).unwrap_or_default();
    files.push((path.to_owned(), bytes.clone()));
    bytes
}

/// Encodes and decodes texts: tokens lie in the vocabulary, and every token has bytes.
fn check_tokenizer(tokenizer: &Tokenizer) {
    let texts: [&[u8]; 5] =
        [TEXT.as_bytes(), b"", b"\0\xff\xfe</s>", "\u{1f600}\u{200d}".as_bytes(), &[b'a'; 300]];
    for text in texts {
        for special in [Special::Parse, Special::Plain] {
            let tokens = tokenizer.encode_prompt(text, special);
            assert!(
                tokens.iter().all(|&token| (token as usize) < tokenizer.len()),
                "tokens lie in the vocabulary"
            );
            let _ = tokenizer.decode(&tokens, special);
        }
    }
    for token in [0, 1, tokenizer.len() as u32, u32::MAX] {
        let _ = (tokenizer.piece(token, Special::Parse), tokenizer.text(token), tokenizer.kind(token));
    }
}

fn outcome(result: Result<()>) -> Outcome {
    match result {
        Ok(()) => Outcome::Accepted,
        Err(error) => Outcome::refused(&error),
    }
}

/// Loads a model, encodes a text and a chat, and generates four tokens. `choice` selects how: the instruction set, the
/// length of chunks, with or without repacked weights.
fn run(source: &Source, choice: &[u8]) -> Result<()> {
    let sum = choice.iter().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    let device = usize::from(sum >> 3) % devices().len().max(1);
    let Some(device) = devices().get(device) else { return Ok(()) };
    let options = Model::options().device(device).context(64).chunk(if sum & 4 == 0 { 512 } else { 8 });
    let model = options.repack(sum & 1 == 0).open_source(source)?;
    // The model is valid even if its template refuses this chat.
    let _ = model.chat_tokens(&[message("system", "s"), message("user", "hi </s> there")]);
    let mut tokens = model.tokenizer().encode_prompt(TEXT, Special::Parse);
    tokens.truncate(40);
    let generation = GenerateOptions::default().max_tokens(4).ignore_end(true);
    generate(&mut Session::new(&model)?, &tokens, &generation, &mut |_| {})?;
    Ok(())
}

/// The CPU once for each instruction set. One thread: models are too small for more, and targets run side by side.
fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let mut options = DeviceOptions::default();
        options.threads = Some(1);
        super::cpu_devices(&options)
    })
}
