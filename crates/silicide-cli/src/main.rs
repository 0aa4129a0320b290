//! The `silicide` program.
//!
//! | command | file |
//! |---|---|
//! | `run` | `run/`, `chat/` |
//! | `bench` | `bench.rs` |
//! | `perplexity` | `perplexity.rs` |
//! | `logits` | `logits.rs` |
//! | `doctor` | `doctor.rs` |
//! | `graph` | `graph.rs` |
//! | `inspect` | `inspect/` |
//! | `convert` | `convert/` |
//! | `pull`, `list`, `rm` | `store.rs` |
//! | `devices` | `devices.rs` |
//! | `tokenize` | `tokenize.rs` |
//! | `completions`, `man` | `manual.rs` |
//!
//! `arguments/` has the arguments that several commands share, `common.rs` progress bars and signals, `error.rs` the exit codes,
//! `output.rs` notes and warnings, `terminal.rs` the escaping of untrusted text, `display/` the form of generated text on a
//! terminal, `facts.rs` names and sizes of models, `memory.rs` the peak of this process.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod chat;
mod common;
mod convert;
mod devices;
mod display;
mod doctor;
mod error;
mod facts;
mod graph;
mod inspect;
mod logits;
mod manual;
mod memory;
mod output;
mod perplexity;
mod profile;
mod run;
mod store;
mod terminal;
mod tokenize;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use error::{Error, Exit};
use output::Verbosity;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Runs language models on this machine.
#[derive(Debug, Parser)]
#[command(name = "silicide", version)]
struct Arguments {
    /// Print less: no figures, no notes, no progress
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Print more: device, memory, kernels
    #[arg(short, long, global = true, action = ArgAction::SetTrue, help_heading = "Output")]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

/// The commands. The list of commands shows the first line of their documentation.
#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Pull(store::Pull),
    List(store::List),
    Rm(store::Remove),
    Inspect(inspect::Inspect),
    Convert(convert::Convert),
    Bench(bench::Bench),
    Perplexity(perplexity::Perplexity),
    Devices(devices::Devices),
    Doctor(doctor::Doctor),
    Tokenize(tokenize::Tokenize),
    Logits(logits::Logits),
    Graph(graph::Graph),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// The commands, in the groups of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run", &["run"]),
    ("Models and files", &["pull", "list", "rm", "inspect", "convert"]),
    ("Measure and check", &["bench", "perplexity", "devices", "doctor"]),
    ("Develop", &["tokenize", "logits", "graph", "completions", "man"]),
];

const START: &str = "Start here:
  silicide run smollm2 \"Why is the sky blue?\"   downloads a small model and answers
  silicide run model.gguf                       chats with a model of yours
  silicide run --help                           explains prompts, sampling and memory";

const ENVIRONMENT: &str = "Environment:
  SILICIDE_MODEL, SILICIDE_DEVICE, SILICIDE_THREADS, SILICIDE_CTX_SIZE, ...
                  defaults of flags; the help of a command names them as [env: ...]
  SILICIDE_CACHE  folder for downloaded models and compiled kernels
  NO_COLOR        no colours

Exit codes: 0 success, 1 wrong usage, 2 a model or file, 3 too little memory, 4 a device,
130, 143 and 129 after SIGINT (Ctrl-C), SIGTERM and SIGHUP.
`silicide COMMAND --help` explains a command.";

/// Returns the whole command line, with the commands of the help in groups.
fn command() -> clap::Command {
    let command = Arguments::command();
    let mut groups = String::new();
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "{header}{title}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {literal}{name:<13}{literal:#}{about}");
        }
        groups.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{START}\n\n{{usage-heading}} {{usage}}\n\n{groups}\
         {header}Options:{header:#}\n{{options}}\n\n{ENVIRONMENT}\n"
    );
    command.help_template(template)
}

/// Parses the command line. On `--help`, `--version` or an error, prints it and returns the exit code.
fn parse() -> Result<Arguments, ExitCode> {
    let refused = |error: Error| {
        output::error(terminal::for_stderr(&error.to_string()));
        ExitCode::from(error.exit())
    };
    let translated = arguments::translate(&Arguments::command(), std::env::args_os()).map_err(refused)?;
    let matches = command().try_get_matches_from(translated.arguments);
    let arguments =
        matches.and_then(|matches| Arguments::from_arg_matches(&matches)).map_err(|mut error| {
            suggest_command(&mut error);
            // Help and version go to standard output; everything else is a mistake.
            let _ = error.print();
            if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS }
        })?;
    output::set_verbosity(match (arguments.quiet, arguments.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    });
    for note in translated.notes {
        output::note(terminal::for_stderr(&note));
    }
    Ok(arguments)
}

/// Adds the command that was probably meant to an error about an unknown one. clap's own suggestions need a Jaro similarity above
/// 0.7, which three letters in another order (`rnu`) do not reach.
fn suggest_command(error: &mut clap::Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    if let Some(name) = nearest_command(given) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name.to_owned()]));
    }
}

/// Returns the command that is one mistake away from `given`: a letter too many, too few, another one, or two that are swapped.
/// Words of one or two letters are near to too many commands.
fn nearest_command(given: &str) -> Option<&'static str> {
    let names = || GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    let is_near = |name: &&str| strsim::osa_distance(given, name) == 1;
    if given.chars().count() < 3 { None } else { names().find(is_near) }
}

fn main() -> ExitCode {
    silicide_llm::chat::silence_template_panics();
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let outcome = match arguments.command {
        Command::Run(run) => run.run(),
        Command::Bench(bench) => bench.run(),
        Command::Perplexity(perplexity) => perplexity.run(),
        Command::Logits(logits) => logits.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Graph(graph) => graph.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Convert(convert) => convert.run(),
        Command::Pull(pull) => pull.run(),
        Command::List(list) => list.run(),
        Command::Rm(remove) => remove.run(),
        Command::Devices(devices) => devices.run(),
        Command::Tokenize(tokenize) => tokenize.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of standard output has closed it.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // The command has printed its results so far.
        Err(Error::Interrupted) => common::interrupted(),
        Err(error) => {
            output::error(terminal::for_stderr(&error.to_string()));
            if error.exit() == Exit::Interrupted { common::interrupted() } else { error.exit().into() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_one_group_of_the_help() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = Arguments::command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn a_command_with_one_mistake_is_found() {
        for (given, meant) in
            [("rnu", "run"), ("urn", "run"), ("lits", "list"), ("pul", "pull"), ("dcotor", "doctor")]
        {
            assert_eq!(nearest_command(given), Some(meant), "{given}");
        }
        for unlike in ["", "r", "ls", "chat", "smollm2"] {
            assert_eq!(nearest_command(unlike), None, "{unlike}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
