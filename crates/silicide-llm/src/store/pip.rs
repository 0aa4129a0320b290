//! The machine's own pip: finding it, and having it fetch a package.

use super::error::{Result, StoreError};
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What pip says at most, in messages.
const SAID: usize = 600;
/// How often one looks whether it is done.
const LOOK: Duration = Duration::from_millis(50);

/// A command that is pip.
#[derive(Clone, Debug)]
pub struct Pip {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

/// A package of a version.
pub(super) struct Package<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
}

impl Pip {
    /// The first command that runs: `python3 -m pip`, `python -m pip`, `pip3` or `pip`.
    pub fn find() -> Result<Pip> {
        let module = ["-m", "pip"];
        let candidates: [(&str, &[&str]); 4] =
            [("python3", &module), ("python", &module), ("pip3", &[]), ("pip", &[])];
        let mut tried = Vec::new();
        for (program, arguments) in candidates {
            let pip = Pip::new(program, arguments);
            let mut ask = pip.command();
            ask.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if ask.status().is_ok_and(|status| status.success()) {
                return Ok(pip);
            }
            tried.push([&[program], arguments].concat().join(" "));
        }
        Err(StoreError::NoPip { tried: tried.join(", ") })
    }

    /// A command of your own.
    pub fn new(program: impl Into<OsString>, arguments: &[&str]) -> Pip {
        let arguments = arguments.iter().map(OsString::from).collect();
        Pip { program: program.into(), arguments, variables: Vec::new() }
    }

    /// The same with a variable of its environment set, such as `PIP_INDEX_URL`.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Pip {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Fetches a package into a folder, where its temporary files go too. `watch` is called now and then, and ends it
    /// with an error.
    pub(super) fn download(
        &self,
        package: &Package<'_>,
        into: &Path,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut command = self.command();
        command
            .args(["download", "--no-deps", "--no-input", "--no-cache-dir", "--disable-pip-version-check"])
            .args(["--quiet", "--progress-bar", "off", "--only-binary", ":all:", "--dest"])
            .arg(into)
            .arg(format!("{}=={}", package.name, package.version));
        for variable in ["TMPDIR", "TEMP", "TMP"] {
            command.env(variable, into);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let failed = |status: String, detail: String| {
            let (package, version) = (package.name.to_owned(), package.version.to_owned());
            if detail.contains("No matching distribution") || detail.contains("Could not find a version") {
                return StoreError::NoPackage { package, version, detail };
            }
            StoreError::Pip { package, version, status, detail }
        };
        let child = command.spawn().map_err(|error| failed("not started".to_owned(), error.to_string()))?;
        let mut running = Running(child);
        // Read beside the waiting, or a full pipe would stop it.
        let reader = running.0.stderr.take().map(|errors| std::thread::spawn(move || read_all(errors)));
        let status = loop {
            match running.0.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => watch()?,
                Err(error) => return Err(failed("lost".to_owned(), error.to_string())),
            }
            std::thread::sleep(LOOK);
        };
        let said = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        if status.success() { Ok(()) } else { Err(failed(status.to_string(), shorten(&said))) }
    }
}

/// A process that does not outlive its handle.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_all(mut errors: impl Read) -> String {
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = errors.read(&mut piece) {
        said.extend_from_slice(piece.get(..count).unwrap_or_default());
        // The end says what went wrong.
        let surplus = said.len().saturating_sub(8 * SAID);
        said.drain(..surplus);
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// The last lines of what pip said, on one line.
fn shorten(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut kept = lines.collect::<Vec<_>>().join("; ");
    if kept.len() > SAID {
        let cut = (kept.len() - SAID..kept.len()).find(|&at| kept.is_char_boundary(at)).unwrap_or(0);
        kept = format!("... {}", kept.split_off(cut));
    }
    if kept.is_empty() { "it said nothing".to_owned() } else { kept }
}
