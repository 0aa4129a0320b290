//! The on-disk cache of translated kernels.
//!
//! One file per kernel under a directory per device fingerprint. A file is a header (magic, version, length and
//! checksum of the rest) and the backend's binary. Any other file is ignored and replaced:
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
        let (name, hash) = (readable(fingerprint), hash(&[fingerprint.as_bytes()]));
        DiskCache { directory: directory.join(format!("{name}-{hash:016x}")) }
    }

    /// The file name of a program: its name and a hash of all it is made from.
    pub(crate) fn key(&self, program: &Program) -> String {
        let mut text = String::new();
        if let Program::Wgsl(kernel) = program {
            text = kernel.source();
            text.extend(kernel.constants().iter().map(|(name, value)| format!("\0{name}={value}")));
            text.extend(kernel.msl().map(|native| format!("\0{native:?}")));
            text.push_str(if kernel.is_checked() { "\0checked" } else { "" });
            text.push_str(if kernel.is_live() { "\0live" } else { "" });
        }
        let name = program.name();
        format!(
            "{}-{:016x}{:016x}.bin",
            readable(name),
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
    #[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple"), test))]
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

/// Returns the readable part of a key: at most 48 letters and digits. The hash that follows is exact.
fn readable(name: &str) -> String {
    name.chars().take(48).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::{Part, Snippet, WgslKernel};

    fn program(name: &'static str, value: u32) -> Program {
        static TEXT: Snippet = Snippet { name: "TEXT", text: "fn main() {}" };
        Program::Wgsl(WgslKernel::new(name, &[Part::plain(&TEXT)], 1, 0).constant("N", value))
    }

    #[test]
    fn the_cache_returns_stored_entries_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(directory.path(), "device 1/driver 2");
        let key = cache.key(&program("a", 1));
        assert_eq!(cache.load(&key), None);
        cache.store(&key, b"binary");
        assert_eq!(cache.load(&key).as_deref(), Some(&b"binary"[..]));
        assert_eq!(DiskCache::new(directory.path(), "device 1/driver 2").load(&key).unwrap(), b"binary");
        for other in [program("a", 2), program("b", 1)] {
            assert_eq!(cache.load(&cache.key(&other)), None);
        }
        assert_eq!(DiskCache::new(directory.path(), "device 1/driver 3").load(&key), None);
        assert_eq!(cache.load_driver(), b"");
        cache.store_driver(b"");
        assert_eq!(cache.load_driver(), b"");
        cache.store_driver(b"driver");
        assert_eq!(cache.load_driver(), b"driver");
    }

    #[test]
    fn a_partly_written_file_is_never_visible() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(directory.path(), "device");
        let key = cache.key(&program("a", 1));
        cache.store(&key, b"some binary");
        let path = cache.directory.join(&key);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(cache.load(&key), None, "{length} bytes of {}", whole.len());
        }
        for byte in 0..whole.len() {
            let mut broken = whole.clone();
            broken[byte] ^= 0x10;
            fs::write(&path, &broken).unwrap();
            assert_eq!(cache.load(&key), None, "byte {byte} is wrong");
        }
        fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
        assert_eq!(cache.load(&key), None);
        fs::File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(cache.load(&key), None, "too large to be ours");
        cache.store(&key, b"anew");
        assert_eq!(cache.load(&key).unwrap(), b"anew");
        assert_eq!(fs::read_dir(&cache.directory).unwrap().count(), 1, "no unfinished files are left");
    }

    #[test]
    fn names_stay_in_their_directory() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(&directory.path().join("cache"), "../../outside");
        let key = cache.key(&program("../up/kernel", 1));
        cache.store(&key, b"x");
        assert_eq!(cache.load(&key).unwrap(), b"x");
        let entries: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(entries, ["cache"]);
    }
}
