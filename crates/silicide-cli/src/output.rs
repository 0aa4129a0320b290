//! Standard error: notes, warnings, errors, and the verbosity.
//!
//! Standard output has results only. `-q` leaves warnings and errors, `-v` adds choices: device, memory, kernels.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// How much is printed on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Figures, notes and progress too.
    #[default]
    Normal,
    /// Choices too.
    Verbose,
}

/// Set once, from the command line, before anything is printed.
static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets the verbosity. Only the first call counts.
pub(crate) fn set_verbosity(verbosity: Verbosity) {
    let _ = VERBOSITY.set(verbosity);
}

/// Returns whether figures, notes and progress bars are left out.
pub(crate) fn is_quiet() -> bool {
    VERBOSITY.get().is_some_and(|&verbosity| verbosity == Verbosity::Quiet)
}

/// Returns whether choices are printed.
pub(crate) fn is_verbose() -> bool {
    VERBOSITY.get().is_some_and(|&verbosity| verbosity == Verbosity::Verbose)
}

/// Prints an error, in the style of clap's.
pub(crate) fn error(text: impl Display) {
    label("error", "31", text);
}

/// Prints a warning.
pub(crate) fn warning(text: impl Display) {
    label("warning", "33", text);
}

/// Prints a note, unless quiet.
pub(crate) fn note(text: impl Display) {
    if !is_quiet() {
        label("note", "36", text);
    }
}

/// Prints a choice, if verbose.
pub(crate) fn detail(text: impl Display) {
    if is_verbose() {
        eprintln!("{text}");
    }
}

fn label(word: &str, colour: &str, text: impl Display) {
    match has_colour() {
        true => eprintln!("\x1b[1;{colour}m{word}:\x1b[0m {text}"),
        false => eprintln!("{word}: {text}"),
    }
}

/// Whether standard error shows colours: it is a terminal that can, and `NO_COLOR` is not set.
fn has_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stderr().is_terminal() && !set("NO_COLOR") && !dumb
}
