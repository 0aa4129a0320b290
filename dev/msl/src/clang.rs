//! The compiler: finding one that is new enough, and its arguments.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Names under which a compiler that is new enough may be found, newest first.
const NAMES: [&str; 8] = [
    "clang++-21",
    "clang++-20",
    "clang++-19",
    "clang++-18",
    "clang++-17",
    "clang++-16",
    "clang++-15",
    "clang++",
];

/// The first version with `_Float16` on every processor and C++20's constraints.
const OLDEST: u32 = 15;

/// A C++ compiler.
#[derive(Clone, Debug)]
pub struct Clang {
    program: &'static str,
}

impl Clang {
    /// The newest clang on the path.
    pub fn find() -> Result<Clang, String> {
        let found = NAMES.into_iter().find(|name| version(name).is_some_and(|version| version >= OLDEST));
        found.map(|program| Clang { program }).ok_or_else(|| {
            format!("there is no clang {OLDEST} or newer on the path; on Debian: apt-get install clang-19")
        })
    }

    /// Checks a C++ file without making code. On failure, the compiler's words.
    pub fn check(&self, unit: &str) -> Result<(), String> {
        self.run(&["-fsyntax-only"], unit)
    }

    /// Makes a shared library of a C++ file.
    pub fn build(&self, unit: &str, library: &Path) -> Result<(), String> {
        let library = library.to_str().ok_or("the library's path is not UTF-8")?;
        // Cases that are chosen by risk are small: kernels run for less time than their optimisation takes.
        self.run(&["-O0", "-fPIC", "-shared", "-lm", "-o", library], unit)
    }

    fn run(&self, arguments: &[&str], unit: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.program);
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
        let mut child = Command::new(self.program)
            .args(["-std=c++20", "-fdeclspec", "-I", include])
            // Metal's attributes and literals are not C++'s.
            .args(["-Wno-unknown-attributes", "-Wno-user-defined-literals"])
            .args(["-Wno-reserved-user-defined-literal", "-fno-color-diagnostics", "-ferror-limit=0"])
            // In Metal a literal without a suffix is a float.
            .args(["-Xclang", "-cl-single-precision-constant"])
            // Metal joins no multiplication and addition unless asked to, when fast math is off.
            .args(["-ffp-contract=off", "-x", "c++", "-"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // The compiler reads everything before it says anything.
            stdin.write_all(unit.as_bytes()).map_err(failed)?;
        }
        let Output { status, stderr, .. } = child.wait_with_output().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).trim().to_owned()) }
    }
}

/// The major version of a clang, if there is one of that name.
fn version(program: &str) -> Option<u32> {
    let output = Command::new(program).arg("-dumpversion").stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).split('.').next()?.trim().parse().ok()
}
