//! `silicide tokenize`: the tokens of a text.

use crate::arguments::DeviceArgs;
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use crate::store;
use clap::{ArgGroup, Args};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use silicide_llm::tokenizer::{Kind, Special, Tokenizer};
use silicide_weights::Source;
use std::io::{Read, Write};
use std::path::PathBuf;

/// Shows the tokens of a text.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("input").required(true))]
pub(crate) struct Tokenize {
    /// A GGUF or safetensors file, a directory with a model, or the name of a model.
    #[arg(short, long)]
    model: PathBuf,
    /// The text.
    #[arg(long, group = "input", allow_hyphen_values = true)]
    text: Option<String>,
    /// A file with the text, or - for standard input. It need not be UTF-8.
    #[arg(short, long, group = "input")]
    file: Option<PathBuf>,
    /// Take the texts of control tokens, such as <|im_end|>, for these tokens.
    #[arg(long)]
    special: bool,
    /// Add the tokens that the model wants before and after a prompt.
    #[arg(long)]
    bos: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Taken because the other commands take them; tokens are made by one thread of the host.
    #[command(flatten)]
    _device: DeviceArgs,
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Output<'a> {
    tokens: &'a [u32],
    pieces: Vec<String>,
    warnings: Vec<String>,
}

impl Tokenize {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let source = Source::open(&store::resolve(&self.model, &cancel_on_interrupt())?)?;
        let tokenizer = Tokenizer::from_source(&source)?;
        let text = self.input()?;
        let special = if self.special { Special::Parse } else { Special::Plain };
        let tokens = match self.bos {
            true => tokenizer.encode_prompt(&text, special),
            false => tokenizer.encode(&text, special),
        };
        let output = match self.json {
            true => {
                let pieces = tokens.iter().map(|&token| tokenizer.decode(&[token], Special::Parse)).collect();
                let warnings = tokenizer.warnings().iter().map(ToString::to_string).collect();
                serde_json::to_string(&Output { tokens: &tokens, pieces, warnings })? + "\n"
            }
            false => {
                for warning in tokenizer.warnings() {
                    eprintln!("warning: {warning}");
                }
                render(&tokenizer, &tokens)
            }
        };
        std::io::stdout().lock().write_all(output.as_bytes())?;
        Ok(())
    }

    fn input(&self) -> Result<Vec<u8>, Error> {
        let Some(path) = &self.file else { return Ok(self.text.clone().unwrap_or_default().into_bytes()) };
        let unreadable = |error: std::io::Error| Error::input(&path.display().to_string(), error);
        if path.as_os_str() != "-" {
            return std::fs::read(path).map_err(unreadable);
        }
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text).map_err(unreadable)?;
        Ok(text)
    }
}

/// A table of tokens.
fn render(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["token", "text", ""]);
    for &token in tokens {
        let piece = tokenizer.piece(token, Special::Parse);
        // Pieces of characters are shown as bytes.
        let shown = match std::str::from_utf8(&piece) {
            Ok(text) => format!("{text:?}"),
            Err(_) => format!("b\"{}\"", piece.escape_ascii()),
        };
        let kind = match tokenizer.kind(token) {
            Kind::Control => "control",
            Kind::UserDefined => "user-defined",
            Kind::Unknown => "unknown",
            Kind::Byte => "byte",
            _ => "",
        };
        table.add_row([token.to_string(), shown, kind.to_owned()]);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let count = if tokens.len() == 1 { "1 token".to_owned() } else { format!("{} tokens", tokens.len()) };
    format!("{}\n{count}\n", table.trim_fmt())
}
