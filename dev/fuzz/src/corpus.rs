//! Kept inputs: `testdata/corpus/TARGET/*`. A file that ends with `.patch` is a difference from a seed; any other is the
//! input itself.

use crate::patch;
use crate::target::{Seed, Target};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folder with test files.
pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// The kept inputs of a target, sorted.
pub fn files(target: &Target) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(target)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn folder(target: &Target) -> PathBuf {
    testdata().join("corpus").join(target.name)
}

/// Reads an input: a file of the corpus, or any other file.
pub fn read(path: &Path, seeds: &[Seed]) -> io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    if path.extension().is_none_or(|extension| extension != "patch") {
        return Ok(bytes);
    }
    let broken = || io::Error::other(format!("{}: not a patch of a seed of this target", path.display()));
    patch::apply(&String::from_utf8_lossy(&bytes), seeds).ok_or_else(broken)
}

/// Stores an input in the corpus of a target, in the smaller form, and returns its path. `name` comes before a hash of
/// the input.
pub fn keep(target: &Target, seeds: &[Seed], name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name = format!("{}-{:016x}", name.chars().map(word).collect::<String>(), hash(bytes));
    let patch = patch::nearest(seeds, bytes).map(|seed| patch::make(seed, bytes));
    let patch = patch.filter(|patch| patch.len() < bytes.len());
    fs::create_dir_all(folder(target))?;
    let (path, contents) = match &patch {
        Some(patch) => (folder(target).join(name + ".patch"), patch.as_bytes()),
        None => (folder(target).join(name + ".bin"), bytes),
    };
    fs::write(&path, contents)?;
    Ok(path)
}

/// Writes the seeds and the kept inputs of a target to `folder`, each under the hash of its bytes.
pub fn export(target: &Target, folder: &Path) -> io::Result<()> {
    let seeds = (target.seeds)();
    let kept = files(target).iter().map(|path| read(path, &seeds)).collect::<io::Result<Vec<_>>>()?;
    fs::create_dir_all(folder)?;
    for bytes in kept.iter().chain(seeds.iter().map(|seed| &seed.bytes)) {
        fs::write(folder.join(format!("{:016x}", hash(bytes))), bytes)?;
    }
    Ok(())
}

/// FNV-1a: names must stay the same in every version of the standard library.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
