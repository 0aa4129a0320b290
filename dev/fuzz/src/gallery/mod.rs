//! The gallery: one small malformed file per rule, each with the error of opening it.
//!
//! | file | what |
//! |---|---|
//! | `bytes.rs` | files written by hand, number by number |
//! | `gguf.rs`, `gguf_tensors.rs`, `split.rs` | GGUF |
//! | `safetensors.rs` | safetensors and their index |
//! | `mlx.rs` | MLX settings and planes |

mod bytes;
mod gguf;
mod gguf_tensors;
mod mlx;
mod safetensors;
mod split;

use silicide_weights::{Error, Fault, Source};
use std::path::{Path, PathBuf};

/// A malformed model.
#[derive(Clone, Debug)]
pub struct Case {
    /// The files, by their paths in the gallery. The first is the one to open.
    pub files: Vec<(String, Vec<u8>)>,
    /// The file that is at fault.
    pub blamed: String,
    /// Where in it.
    pub offset: u64,
    /// Which rule it breaks. Of JSON errors, only the beginning is compared.
    pub fault: Fault,
}

impl Case {
    /// One file.
    fn file(name: &str, bytes: impl Into<Vec<u8>>, offset: u64, fault: Fault) -> Case {
        Case { files: vec![(name.to_owned(), bytes.into())], blamed: name.to_owned(), offset, fault }
    }

    /// The path to open.
    pub fn path(&self) -> &str {
        self.files.first().map_or("", |(path, _)| path)
    }

    /// Opens it below `root`, and says what is wrong if its error is not the expected one.
    pub fn check(&self, root: &Path) -> Result<(), String> {
        let error = match Source::open(root.join(self.path())) {
            Ok(_) => return Err(format!("{}: opened", self.path())),
            Err(error) => error,
        };
        let Error::Malformed { path, offset, fault } = &error else {
            return Err(format!("{}: {error}", self.path()));
        };
        let same = match (fault, &self.fault) {
            (Fault::Json { what: got, detail }, Fault::Json { what, detail: start }) => {
                got == what && detail.starts_with(start)
            }
            (got, expected) => got == expected,
        };
        if same && *offset == self.offset && *path == root.join(&self.blamed) {
            return Ok(());
        }
        let Case { blamed, offset, fault, .. } = self;
        Err(format!("{}: got {error:?}\n  expected {blamed} at {offset}: {fault:?}", self.path()))
    }
}

/// All cases, in the order of their paths.
pub fn cases() -> Vec<Case> {
    let mut cases = gguf::cases();
    cases.extend(gguf_tensors::cases());
    cases.extend(split::cases());
    cases.extend(safetensors::cases());
    cases.extend(mlx::cases());
    cases.sort_by(|a, b| a.path().cmp(b.path()));
    cases
}

/// Where the files are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/malformed")
}
