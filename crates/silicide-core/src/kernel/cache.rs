//! The on-disk cache of translated kernels.
//!
//! One file per kernel under a directory per device fingerprint. A file is a header (magic, version, length and
//! checksum of the rest) and the backend's binary. A file that is not exactly that is ignored and written anew:
//! a cache can be lost, never trusted. Files appear by renaming, so readers never see half of one.

use rustc_hash::FxHasher;
use silicide_hal::Program;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const MAGIC: &[u8; 8] = b"silicide";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 8 + 8;
/// No kernel comes near this; a larger file is not ours.
const LARGEST: u64 = 64 << 20;

/// A directory of translated kernels for one kind of device.
#[derive(Debug)]
pub(crate) struct DiskCache {
    directory: PathBuf,
}

impl DiskCache {
    /// The cache of a device under `directory`. Nothing is made until something is stored.
    pub(crate) fn new(directory: &Path, fingerprint: &str) -> DiskCache {
        let name: String =
            fingerprint.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        // The readable part may be cut or ambiguous; the hash is neither.
        let short: String = name.chars().take(48).collect();
        DiskCache { directory: directory.join(format!("{short}-{:016x}", hash(&[fingerprint.as_bytes()]))) }
    }

    /// The file name of a program: its name and a hash of all it is made from.
    pub(crate) fn key(&self, program: &Program) -> String {
        let mut text = String::new();
        if let Program::Wgsl(kernel) = program {
            text = kernel.source();
            text.extend(kernel.constants.iter().map(|(name, value)| format!("\0{name}={value}")));
        }
        let name = program.name();
        format!(
            "{name}-{:016x}{:016x}.bin",
            hash(&[text.as_bytes()]),
            hash(&[name.as_bytes(), b"\0", text.as_bytes()])
        )
    }

    /// The binary stored under a key, if there is a whole one.
    pub(crate) fn load(&self, key: &str) -> Option<Vec<u8>> {
        read(&self.directory.join(key))
    }

    /// Stores a binary. A cache that can't be written is slower, not wrong: failures are ignored.
    pub(crate) fn store(&self, key: &str, binary: &[u8]) {
        write(&self.directory, key, binary);
    }

    /// The driver's own cache, if there is a whole one.
    pub(crate) fn load_driver(&self) -> Vec<u8> {
        self.load("driver.bin").unwrap_or_default()
    }

    /// Stores the driver's own cache, if it has one.
    pub(crate) fn store_driver(&self, data: &[u8]) {
        if !data.is_empty() {
            self.store("driver.bin", data);
        }
    }
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = FxHasher::default();
    parts.hash(&mut hasher);
    hasher.finish()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    if fs::metadata(path).ok()?.len() > LARGEST {
        return None;
    }
    let file = fs::read(path).ok()?;
    let (header, binary) = file.split_at_checked(HEADER)?;
    (header == self::header(binary)).then(|| binary.to_vec())
}

fn header(binary: &[u8]) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend((binary.len() as u64).to_le_bytes());
    header.extend(hash(&[binary]).to_le_bytes());
    header
}

fn write(directory: &Path, key: &str, binary: &[u8]) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let unfinished =
        directory.join(format!("{key}.{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    let mut file = header(binary);
    file.extend_from_slice(binary);
    let stored = fs::create_dir_all(directory)
        .and_then(|()| fs::write(&unfinished, &file))
        .and_then(|()| fs::rename(&unfinished, directory.join(key)));
    if stored.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
}
