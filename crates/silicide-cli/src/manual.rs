//! `silicide completions` and `silicide man`: the help in the forms of shells and of `man`.

use crate::error::Error;
use clap::Args;
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide completions bash > ~/.local/share/bash-completion/completions/silicide
  silicide completions zsh > ~/.zfunc/_silicide        # ~/.zfunc must be in $fpath
  silicide completions fish > ~/.config/fish/completions/silicide.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Write manual pages
///
/// Writes one page for silicide and one for each command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide man ~/.local/share/man/man1       # then: man silicide-run
  silicide man | man -l -                    # reads the page of silicide itself")]
pub(crate) struct Man {
    /// The folder for the pages; without it, the page of silicide itself is printed
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "silicide", &mut script);
        Ok(std::io::stdout().lock().write_all(&script)?)
    }
}

impl Man {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let Some(folder) = &self.folder else {
            let mut page = Vec::new();
            clap_mangen::Man::new(crate::command()).render(&mut page)?;
            return Ok(std::io::stdout().lock().write_all(&page)?);
        };
        let failed = |error| Error::output(folder, error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        clap_mangen::generate_to(crate::command(), folder).map_err(failed)
    }
}
