//! `silicide run`: one answer, or a chat.
//!
//! | file | what |
//! |---|---|
//! | `answer.rs` | one prompt, one text |
//! | `report.rs` | the figures after it, for people and for programs |

mod answer;
mod report;

pub(crate) use report::{ending, summary};

use crate::arguments::{ModelArgs, SamplerArgs, unlimited};
use crate::chat::{Console, Interrupts, ModelPartner, TerminalLines};
use crate::error::Error;
use crate::profile::ProfileArgs;
use clap::Args;
use silicide_llm::chat::ChatTemplate;
use silicide_llm::engine::GenerateOptions;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;

/// Runs a model: one answer, or a chat when no prompt is given on a terminal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide run smollm2 \"Why is the sky blue?\"
  silicide run -m model.gguf -f question.txt -n 200 --temp 0
  silicide run -m model.gguf -p \"Once upon a time\" --raw --json")]
pub(crate) struct Run {
    /// The model (unless -m gives it) and the prompt (unless -p or -f give it).
    #[arg(value_names = ["MODEL", "PROMPT"], num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    model: ModelArgs,
    /// What to say to the model.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// A file with what to say to the model; - for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// What the model is told before: who it is, how to answer; -sys for short.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw", allow_hyphen_values = true)]
    system_prompt: Option<String>,
    /// The most tokens to generate; -1 for no limit. [default: until the model ends or the context is full]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N", value_parser = unlimited, allow_negative_numbers = true)]
    predict: Option<usize>,
    /// Continue the prompt as it is, without a chat template. Control tokens in it are parsed.
    #[arg(long)]
    raw: bool,
    /// Ends generation; may be given several times.
    #[arg(long = "stop", visible_alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Go on after tokens that end a text.
    #[arg(long)]
    ignore_eos: bool,
    /// Print one JSON object: prompt_tokens, tokens, text, timings.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sampler: SamplerArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

impl Run {
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let mut words = std::mem::take(&mut self.words).into_iter();
        self.model.device.timing = self.profile.is_wanted();
        if self.model.model.is_none() {
            self.model.model = words.next();
        }
        if let Some(prompt) = words.next() {
            if self.prompt.is_some() || self.file.is_some() || words.next().is_some() {
                return Err(Error::Usage(format!("two prompts; {prompt:?} is one too many")));
            }
            self.prompt = Some(prompt);
        }
        if self.model.model.is_none() {
            return Err(crate::arguments::no_model());
        }
        match self.read_prompt()? {
            Some(prompt) => answer::answer(&self, &prompt),
            None if self.raw || self.json => Err(no_prompt()),
            None => self.chat(),
        }
    }

    /// A conversation at the terminal.
    fn chat(&self) -> Result<(), Error> {
        let interrupts = Interrupts::listen();
        let session = self.model.session(&interrupts.begin())?;
        let model = session.model();
        for warning in model.warnings() {
            eprintln!("warning: {warning}");
        }
        warn_of_fallback(model.template()?);
        let mut partner = ModelPartner::new(session, self.options()?, interrupts);
        let mut lines = TerminalLines::new()?;
        Console::new(std::io::stdout(), self.system_prompt.clone()).run(&mut lines, &mut partner)
    }

    /// How to generate; cancelling is up to the caller.
    fn options(&self) -> Result<GenerateOptions, Error> {
        let mut options = GenerateOptions::default();
        options.max_tokens = self.predict.filter(|&count| count < usize::MAX);
        options.stop = self.stop.clone();
        options.ignore_end = self.ignore_eos;
        options.sampler = self.sampler.options()?;
        Ok(options)
    }

    /// The prompt; none for a chat.
    fn read_prompt(&self) -> Result<Option<String>, Error> {
        let stdin = || {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map(|_| text).map_err(|error| Error::input("standard input", error))
        };
        match (&self.prompt, &self.file) {
            (Some(prompt), _) => Ok(Some(prompt.clone())),
            (None, Some(path)) if path.as_os_str() == "-" => stdin().map(Some),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path);
                text.map(Some).map_err(|error| Error::input(&path.display().to_string(), error))
            }
            (None, None) if std::io::stdin().is_terminal() => Ok(None),
            (None, None) => {
                let text = stdin()?;
                // Nothing at all is no question; an empty one can be asked with -p.
                let asked = !text.trim().is_empty();
                asked.then_some(Some(text)).ok_or_else(no_prompt)
            }
        }
    }
}

fn no_prompt() -> Error {
    Error::Usage("what should it answer? Give a prompt, -p TEXT or -f FILE".to_owned())
}

fn warn_of_fallback(template: &ChatTemplate) {
    if template.is_fallback() {
        eprintln!("warning: the model has no chat template; ChatML is used, as its vocabulary suggests");
    }
}
