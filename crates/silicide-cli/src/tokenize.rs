//! `silicide tokenize`: the tokens of a text.

use crate::arguments::ModelRef;
use crate::common::cancel_on_interrupt;
use crate::error::Error;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use silicide_llm::tokenizer::{Kind, Special, Tokenizer};
use silicide_weights::Source;
use std::io::{Read, Write};
use std::path::PathBuf;

/// Show the tokens of a text
#[derive(Debug, Args)]
#[command(override_usage = "silicide tokenize [OPTIONS] <MODEL> <TEXT>
       silicide tokenize [OPTIONS] <MODEL> --file <FILE>")]
#[command(after_help = "Examples:
  silicide tokenize smollm2 \"Hello, world\"
  silicide tokenize smollm2 -f prompt.txt --special --bos --json
  echo Hello | silicide tokenize smollm2 -f -")]
pub(crate) struct Tokenize {
    #[command(flatten)]
    model: ModelRef,
    /// The text; the same as --text
    #[arg(value_name = "TEXT", index = 2)]
    word: Option<String>,
    /// The text
    #[arg(short = 'p', long, visible_alias = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(conflicts_with = "file", help_heading = "Text")]
    text: Option<String>,
    /// A file with the text; -: standard input. It need not be UTF-8
    #[arg(short, long, value_name = "FILE", help_heading = "Text")]
    file: Option<PathBuf>,
    /// Parse the texts of control tokens, such as <|im_end|>, as these tokens
    #[arg(long, help_heading = "Text")]
    special: bool,
    /// Add the begin-of-text and end-of-text tokens that the model's prompts have
    #[arg(long, help_heading = "Text")]
    bos: bool,
    /// Print JSON: tokens, pieces, warnings
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Output<'a> {
    tokens: &'a [u32],
    pieces: Vec<String>,
    warnings: Vec<String>,
}

impl Tokenize {
    pub(crate) fn run(mut self) -> Result<(), Error> {
        self.model.shift(&mut self.word)?;
        if let Some(word) = self.word.take() {
            if self.text.is_some() || self.file.is_some() {
                return Err(Error::Usage(format!("two texts; {word:?} is one too many")));
            }
            self.text = Some(word);
        }
        let text = self.input()?;
        let source = Source::open(self.model.path(&cancel_on_interrupt())?)?;
        let tokenizer = Tokenizer::from_source(&source)?;
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
                    crate::output::warning(warning);
                }
                render(&tokenizer, &tokens)
            }
        };
        std::io::stdout().lock().write_all(output.as_bytes())?;
        Ok(())
    }

    fn input(&self) -> Result<Vec<u8>, Error> {
        let Some(path) = &self.file else {
            let none = || Error::Usage("which text? Give TEXT, --text TEXT or -f FILE".to_owned());
            return Ok(self.text.clone().ok_or_else(none)?.into_bytes());
        };
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
