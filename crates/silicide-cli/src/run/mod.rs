//! `silicide run`: one answer, or a chat.
//!
//! | file | what |
//! |---|---|
//! | `prompt.rs` | the prompt, from arguments, a file and standard input |
//! | `answer.rs` | one prompt, one text |
//! | `waiting.rs` | what is shown until the first text comes |
//! | `report.rs` | the figures after it, for people and for programs |

mod answer;
mod prompt;
mod report;
mod waiting;

pub(crate) use prompt::join;
pub(crate) use report::{ending, summary};
pub(crate) use waiting::{AfterWaiting, Waiting};

use crate::arguments::{ModelArgs, SamplerArgs, unlimited};
use crate::chat::{Console, Interrupts, ModelPartner, TerminalLines};
use crate::display::{ColorChoice, DisplayOptions};
use crate::error::Error;
use crate::profile::ProfileArgs;
use clap::Args;
use silicide_llm::chat::ChatTemplate;
use silicide_llm::engine::GenerateOptions;
use std::path::PathBuf;

/// Runs a model: one answer, or a chat when no prompt is given on a terminal.
#[derive(Debug, Args)]
#[command(
    after_help = "The prompt is PROMPT or -p, then the text of -f, then standard input where that is no terminal:
what is given is joined in this order, with blank lines between. Standard input is read to its end.
Without any of them, a chat begins.

Examples:
  silicide run smollm2 \"Why is the sky blue?\"
  silicide run smollm2                              a chat; /help lists its commands
  silicide run smollm2 \"Summarise:\" -f report.txt
  git diff | silicide run smollm2 \"Write a commit message:\"
  silicide run -m model.gguf -f question.txt -n 200 --temp 0
  silicide run -m model.gguf -p \"Once upon a time\" --raw --json"
)]
pub(crate) struct Run {
    /// The model (unless -m gives it) and the prompt (unless -p gives it).
    #[arg(value_names = ["MODEL", "PROMPT"], num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    model: ModelArgs,
    /// What to say to the model.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// A text file to add to the prompt; - for standard input.
    #[arg(short, long, value_name = "FILE")]
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
    /// Print JSON lines: {"piece": TEXT} for each piece of text as it is generated, then the object of --json.
    #[arg(long, conflicts_with = "json")]
    json_stream: bool,
    /// When to show colours: auto (on terminals, unless NO_COLOR is set), always or never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    color: ColorChoice,
    /// Show no colours: as --color never.
    #[arg(long, conflicts_with = "color")]
    no_color: bool,
    /// Show text as the model writes it, without word wrap and markdown.
    #[arg(long)]
    plain: bool,
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
            if self.prompt.is_some() || words.next().is_some() {
                return Err(Error::Usage(format!("two prompts; {prompt:?} is one too many")));
            }
            self.prompt = Some(prompt);
        }
        if self.model.model.is_none() {
            return Err(crate::arguments::no_model());
        }
        match prompt::read(self.prompt.as_deref(), self.file.as_deref())? {
            Some(prompt) => answer::answer(&self, &prompt),
            None if self.raw || self.json || self.json_stream => Err(no_prompt()),
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

fn warn_of_fallback(template: &ChatTemplate) {
    if template.is_fallback() {
        eprintln!("warning: the model has no chat template; ChatML is used, as its vocabulary suggests");
    }
}
