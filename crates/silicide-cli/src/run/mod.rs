//! `silicide run`: one answer, or a chat.
//!
//! | file | what |
//! |---|---|
//! | `prompt.rs` | the prompt, from arguments, a file and standard input |
//! | `answer.rs` | one prompt, one text |
//! | `waiting.rs` | the progress line before the first text |
//! | `report.rs` | the figures after it, for people and for programs |
//! | `words.rs` | advice for prompts without quotes or without a model |

mod answer;
mod prompt;
mod report;
mod waiting;
mod words;

pub(crate) use prompt::join;
pub(crate) use report::{ending, summary};
pub(crate) use waiting::{AfterWaiting, Waiting};

use crate::arguments::{ModelArgs, SamplerArgs, unlimited};
use crate::chat::{Console, Interrupts, ModelPartner, TerminalLines};
use crate::display::{ColorChoice, DisplayOptions};
use crate::error::Error;
use crate::output::warning;
use crate::profile::ProfileArgs;
use crate::terminal;
use clap::Args;
use silicide_llm::chat::ChatTemplate;
use silicide_llm::engine::GenerateOptions;
use std::path::PathBuf;
use words::PromptWords;

/// Answer a prompt, or chat
///
/// Answers one prompt. Without a prompt, on a terminal, it is a chat. The answer goes to standard output, figures and warnings to
/// standard error.
#[derive(Debug, Args)]
#[command(override_usage = "silicide run [OPTIONS] <MODEL> [PROMPT]")]
#[command(
    after_help = "The prompt is PROMPT or -p, then the text of -f, then standard input unless that is a terminal:
what is given is joined in this order, with blank lines between. Standard input is read to its end.
Without any of them, a chat begins.

Examples:
  silicide run smollm2 \"Why is the sky blue?\"
  silicide run smollm2                              a chat; /help lists its commands
  silicide run smollm2 \"Summarise:\" -f report.txt
  git diff | silicide run smollm2 \"Write a commit message:\"
  silicide run smollm2 -sys \"Answer in French.\" \"Who are you?\"
  silicide run -m model.gguf -f question.txt -n 200 --temp 0
  silicide run -m model.gguf -p \"Once upon a time\" --raw --json

Flags have llama.cpp's names. Flags of llama-cli that are not listed here have no effect and say so, or are refused with advice."
)]
pub(crate) struct Run {
    /// The prompt; the same as -p
    #[arg(value_name = "PROMPT", index = 2)]
    prompt_word: Option<String>,
    /// Words after PROMPT: a prompt without quotes, which is refused with advice
    #[arg(value_name = "WORDS", index = 3, hide = true)]
    more_words: Vec<String>,
    /// The prompt
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Prompt")]
    prompt: Option<String>,
    /// A text file to add to the prompt; -: standard input
    #[arg(short, long, value_name = "FILE", help_heading = "Prompt")]
    file: Option<PathBuf>,
    /// System prompt: the model's role and manner of answering [aliases: -sys]
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "raw",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    system_prompt: Option<String>,
    /// A file with the system prompt [aliases: -sysf]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["raw", "system_prompt"], help_heading = "Prompt")]
    system_prompt_file: Option<PathBuf>,
    /// Continue the prompt as it is, without a chat template; control tokens in it are parsed [aliases: -no-cnv]
    #[arg(long, help_heading = "Prompt")]
    raw: bool,
    /// Maximum number of tokens to generate; -1: no limit [default: -1, until the model ends or the context is full]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N", value_parser = unlimited, allow_negative_numbers = true)]
    #[arg(help_heading = "Generation")]
    predict: Option<usize>,
    /// Stop before this text; can be given several times [aliases: -r]
    #[arg(long = "stop", visible_alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(help_heading = "Generation")]
    stop: Vec<String>,
    /// Ignore end-of-text tokens and continue generating
    #[arg(long, help_heading = "Generation")]
    ignore_eos: bool,
    #[command(flatten)]
    sampler: SamplerArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Record the answer for Xcode's Metal debugger, as a .gputrace; Metal devices only, with METAL_CAPTURE_ENABLED=1
    #[arg(long, value_name = "FILE", env = "SILICIDE_CAPTURE", hide_env_values = true)]
    #[arg(help_heading = "Profiling")]
    capture: Option<PathBuf>,
    /// Print one JSON object: prompt_tokens, tokens, text, finish, timings, memory
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Print JSON lines: {"piece": TEXT} for each piece of text as it is generated, then the object of --json
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    json_stream: bool,
    /// When to show colours: auto (on terminals, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Output"
    )]
    color: ColorChoice,
    /// Show no colours: the same as --color never
    #[arg(long, conflicts_with = "color", help_heading = "Output")]
    no_color: bool,
    /// Show text as the model writes it, without word wrap and markdown
    #[arg(long, help_heading = "Output")]
    plain: bool,
}

impl Run {
    pub(crate) fn run(mut self) -> Result<(), Error> {
        self.model.device.timing = self.profile.is_wanted();
        let words = PromptWords::new(&self);
        words.check()?;
        self.model.model.shift(&mut self.prompt_word)?;
        self.model.model.name()?;
        self.profile.check()?;
        if let Some(path) = &self.system_prompt_file {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Error::input(&path.display().to_string(), error))?;
            self.system_prompt = Some(text);
        }
        if let Some(prompt) = self.prompt_word.take() {
            if self.prompt.is_some() {
                return Err(Error::Usage(format!("two prompts; {prompt:?} is one too many")));
            }
            self.prompt = Some(prompt);
        }
        let outcome = match prompt::read(self.prompt.as_deref(), self.file.as_deref())? {
            Some(prompt) => answer::answer(&self, &prompt),
            None if self.raw || self.json || self.json_stream => Err(no_prompt()),
            None => self.chat(),
        };
        outcome.map_err(|error| words.explain(error))
    }

    /// A conversation at the terminal.
    fn chat(&self) -> Result<(), Error> {
        if self.capture.is_some() {
            warning("--capture records the answer to one prompt, and there is none: nothing is recorded");
        }
        let interrupts = Interrupts::listen();
        let session = self.model.session(&interrupts.begin())?;
        let model = session.model();
        for text in model.warnings() {
            warning(terminal::for_stderr(&text));
        }
        warn_of_fallback(model.template()?);
        let (greeting, waiting, display) = (report::greeting(model), Waiting::default(), self.display());
        let output = waiting.before(std::io::stdout());
        let mut partner = ModelPartner::new(session, self.options()?, interrupts, waiting);
        let mut lines = TerminalLines::new(display.colour)?;
        Console::new(output, display, self.system_prompt.clone()).run(&greeting, &mut lines, &mut partner)
    }

    /// When to show colours.
    fn color(&self) -> ColorChoice {
        if self.no_color { ColorChoice::Never } else { self.color }
    }

    /// How text is shown. A text that is continued need not be markdown.
    fn display(&self) -> DisplayOptions {
        DisplayOptions::stdout(self.color(), self.plain || self.raw)
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
}

fn no_prompt() -> Error {
    Error::Usage("what should it answer? Give a prompt, -p TEXT or -f FILE".to_owned())
}

fn empty_prompt() -> Error {
    let what = "the prompt is empty: give a text as PROMPT, -p TEXT or in -f FILE; on a terminal, without them, a chat begins";
    Error::Usage(what.to_owned())
}

fn warn_of_fallback(template: &ChatTemplate) {
    if template.is_fallback() {
        warning("the model has no chat template; ChatML is used, as its vocabulary suggests");
    }
}
