//! Finds the machine's pip and downloads a package with it.
//!
//! `python -m pip` imports modules from the current directory, which may be an untrusted model with a `pip.py` in it. So pip
//! runs in an empty directory with `PYTHONSAFEPATH` set, with which Python 3.11 and later ignore the directory. Relative
//! entries of `PATH` are searched from that directory too. The standard library never searches the current directory for
//! programs, on Windows neither.
//!
//! Pip runs in a process group of its own ([`Running`]), so that cancelling ends its child processes as well.

use super::error::{Result, StoreError};
use super::process::Running;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The most bytes of pip's output in messages.
const SAID: usize = 600;
/// The polling interval.
const LOOK: Duration = Duration::from_millis(50);

/// The command that runs pip.
#[derive(Clone, Debug)]
pub struct Pip {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

/// A package and its version.
pub(super) struct Package<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
}

impl Pip {
    /// Finds the first command that runs: `python3 -m pip`, `python -m pip`, `pip3` or `pip`.
    pub fn find() -> Result<Pip> {
        let system = std::env::temp_dir();
        let directory = tempfile::tempdir().map_err(|error| StoreError::io("write", &system, &error))?;
        Pip::find_in(directory.path())
    }

    /// [`Pip::find`], with the candidates run in an empty `directory`.
    pub(super) fn find_in(directory: &Path) -> Result<Pip> {
        let module = ["-m", "pip"];
        let candidates: [(&str, &[&str]); 4] =
            [("python3", &module), ("python", &module), ("pip3", &[]), ("pip", &[])];
        let mut tried = Vec::new();
        for (program, arguments) in candidates {
            let pip = Pip::new(program, arguments);
            let mut ask = pip.command(directory);
            ask.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            if ask.status().is_ok_and(|status| status.success()) {
                return Ok(pip);
            }
            tried.push([&[program], arguments].concat().join(" "));
        }
        Err(StoreError::NoPip { tried: tried.join(", ") })
    }

    /// Returns a command that runs pip.
    pub fn new(program: impl Into<OsString>, arguments: &[&str]) -> Pip {
        let arguments = arguments.iter().map(OsString::from).collect();
        Pip { program: program.into(), arguments, variables: Vec::new() }
    }

    /// Sets a variable of its environment, such as `PIP_INDEX_URL`.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Pip {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Returns the command, to be run in an empty `directory`.
    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("PYTHONSAFEPATH", "1")
            .current_dir(directory)
            .stdin(Stdio::null());
        command
    }

    /// Downloads a package into a folder, which also gets the temporary files. Calls `watch` every [`LOOK`]; its error ends
    /// pip.
    pub(super) fn download(
        &self,
        package: &Package<'_>,
        into: &Path,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let empty = into.join("empty");
        std::fs::create_dir_all(&empty).map_err(|error| StoreError::io("create", &empty, &error))?;
        let mut command = self.command(&empty);
        command
            .args(["download", "--no-deps", "--no-input", "--no-cache-dir", "--disable-pip-version-check"])
            .args(["--quiet", "--progress-bar", "off", "--only-binary", ":all:", "--dest"])
            .arg(into)
            .arg(format!("{}=={}", package.name, package.version));
        for variable in ["TMPDIR", "TEMP", "TMP"] {
            command.env(variable, into);
        }
        command.stdout(Stdio::null());
        let failed = |status: String, detail: String| {
            let (package, version) = (package.name.to_owned(), package.version.to_owned());
            if detail.contains("No matching distribution") || detail.contains("Could not find a version") {
                return StoreError::NoPackage { package, version, detail };
            }
            StoreError::Pip { package, version, status, detail }
        };
        let mut running = Running::start(&mut command, 8 * SAID)
            .map_err(|error| failed("not started".to_owned(), error.to_string()))?;
        let (status, said) = loop {
            match running.poll() {
                Ok(Some(ended)) => break ended,
                Ok(None) => watch()?,
                Err(error) => return Err(failed("lost".to_owned(), error.to_string())),
            }
            std::thread::sleep(LOOK);
        };
        if status.success() { Ok(()) } else { Err(failed(status.to_string(), shorten(&said))) }
    }
}

/// Returns the last lines of pip's output, on one line.
fn shorten(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut kept = lines.collect::<Vec<_>>().join("; ");
    if kept.len() > SAID {
        let cut = (kept.len() - SAID..kept.len()).find(|&at| kept.is_char_boundary(at)).unwrap_or(0);
        kept = format!("... {}", kept.split_off(cut));
    }
    if kept.is_empty() { "it said nothing".to_owned() } else { kept }
}
