//! The on-disk cache of translated kernels.
//!
//! One file per kernel under a directory per device fingerprint, which names device and driver version. A file is a header
//! (magic, version, length and checksum of the rest) and the backend's binary. Any other file is ignored and replaced:
//! a cache can be lost, never trusted. Files appear by renaming, so readers never see half of one, and programs that write at once
//! leave the file of one of them.
//!
//! All directories together have at most [`MOST_BYTES`]. A program that has stored files removes the oldest above that
//! ([`DiskCache::trim`]); a file that is read stays young.

use rustc_hash::FxHasher;
use silicide_hal::Program;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

const MAGIC: &[u8; 8] = b"silicide";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 8 + 8;
/// No kernel comes near this; a larger file is not ours.
const LARGEST: u64 = 64 << 20;

/// The most bytes of all files. A model has about a hundred kernels of some 20 KiB for one driver.
const MOST_BYTES: u64 = 256 << 20;
/// A file that was read gets a new time of modification if it has an older one than this.
const YOUNG: Duration = Duration::from_secs(24 * 3600);
/// An unfinished file that is older than this is of a program that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A directory of translated kernels for one kind of device.
#[derive(Debug)]
pub(crate) struct DiskCache {
    /// That of all devices.
    root: PathBuf,
    directory: PathBuf,
    /// Files that were there and were not whole, or not of this format.
    ignored: AtomicU64,
    stored: AtomicU64,
}

impl DiskCache {
    /// The cache of a device under `directory`. Nothing is made until something is stored.
    pub(crate) fn new(directory: &Path, fingerprint: &str) -> DiskCache {
        let (name, hash) = (readable(fingerprint), hash(&[fingerprint.as_bytes()]));
        DiskCache {
            root: directory.to_owned(),
            directory: directory.join(format!("{name}-{hash:016x}")),
            ignored: AtomicU64::new(0),
            stored: AtomicU64::new(0),
        }
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
            if kernel.entry() != "main" {
                text.push_str("\0entry ");
                text.push_str(kernel.entry());
            }
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
        match read(&self.directory.join(key)) {
            CacheFile::Whole(binary) => Some(binary),
            CacheFile::Missing => None,
            CacheFile::Foreign => {
                self.ignored.fetch_add(1, Relaxed);
                None
            }
        }
    }

    /// Returns how many files were ignored, because they were truncated, damaged or of another format.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored.load(Relaxed)
    }

    /// Stores a binary. A cache that can't be written is slower, not wrong: failures are ignored.
    pub(crate) fn store(&self, key: &str, binary: &[u8]) {
        write(&self.directory, key, binary);
        self.stored.fetch_add(1, Relaxed);
    }

    /// Removes the oldest files of all devices until at most [`MOST_BYTES`] are left, if this cache has stored any.
    pub(crate) fn trim(&self) {
        if self.stored.load(Relaxed) > 0 {
            trim(&self.root, MOST_BYTES);
        }
    }

    /// The driver's own cache, if there is a whole one.
    #[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple"), test))]
    pub(crate) fn load_driver(&self) -> Vec<u8> {
        self.load("driver.bin").unwrap_or_default()
    }

    /// Stores the driver's own cache, if it has one.
    pub(crate) fn store_driver(&self, data: &[u8]) {
        if data.len() as u64 + HEADER as u64 > LARGEST {
            // It would not be read again. The driver begins anew.
            let _ = fs::remove_file(self.directory.join("driver.bin"));
        } else if !data.is_empty() {
            self.store("driver.bin", data);
        }
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        self.trim();
    }
}

/// What lies at the path of an entry.
enum CacheFile {
    Missing,
    /// Anything but a whole entry.
    Foreign,
    Whole(Vec<u8>),
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

fn read(path: &Path) -> CacheFile {
    let Ok(metadata) = fs::metadata(path) else { return CacheFile::Missing };
    if metadata.len() > LARGEST {
        return CacheFile::Foreign;
    }
    let Ok(file) = fs::read(path) else { return CacheFile::Foreign };
    match file.split_at_checked(HEADER) {
        Some((header, binary)) if header == self::header(binary) => {
            if age(&metadata).is_some_and(|age| age > YOUNG) {
                let touched = fs::File::options().append(true).open(path);
                // A file that stays old is removed sooner.
                let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
            }
            CacheFile::Whole(binary.to_vec())
        }
        _ => CacheFile::Foreign,
    }
}

/// Returns the time since a file was modified.
fn age(metadata: &fs::Metadata) -> Option<Duration> {
    metadata.modified().ok()?.elapsed().ok()
}

/// Removes the oldest entries of the caches under `root` until at most `most` bytes are left, and unfinished files of programs that
/// were killed. Other files are left alone.
fn trim(root: &Path, most: u64) {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut entries = Vec::new();
    for directory in list(root).filter(|entry| is_directory_name(&entry.file_name().to_string_lossy())) {
        for file in list(&directory.path()) {
            let (name, Ok(metadata)) = (file.file_name().to_string_lossy().into_owned(), file.metadata())
            else {
                continue;
            };
            let age = age(&metadata).unwrap_or_default();
            if name.ends_with(".tmp") && name.contains(".bin.") && age > ABANDONED {
                let _ = fs::remove_file(file.path());
            } else if name.ends_with(".bin") && metadata.is_file() && is_entry(&file.path()) {
                entries.push((age, metadata.len(), file.path()));
            }
        }
    }
    let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    entries.sort_by_key(|(age, ..)| *age);
    while let Some((_, bytes, path)) = entries.pop().filter(|_| total > most) {
        // Another program may have removed it.
        let _ = fs::remove_file(&path);
        if let Some(directory) = path.parent() {
            // Fails unless it is empty.
            let _ = fs::remove_dir(directory);
        }
        total -= bytes;
    }
}

/// Whether a file begins as entries do.
fn is_entry(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *MAGIC
}

/// Whether a name is that of the directory of a device.
fn is_directory_name(name: &str) -> bool {
    let hash = name.rsplit_once('-').map(|(_, hash)| hash);
    hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
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
    fn files_that_are_ignored_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(directory.path(), "device");
        assert_eq!((cache.load("a.bin"), cache.ignored()), (None, 0));
        cache.store("a.bin", b"binary");
        assert!(cache.load("a.bin").is_some());
        assert_eq!(cache.ignored(), 0);
        fs::write(cache.directory.join("a.bin"), b"of another program").unwrap();
        assert_eq!((cache.load("a.bin"), cache.ignored()), (None, 1));
    }

    #[test]
    fn writers_at_once_leave_a_whole_file() {
        let directory = tempfile::tempdir().unwrap();
        let binaries: Vec<Vec<u8>> = (0..4u8).map(|fill| vec![fill; 100_000 + fill as usize]).collect();
        std::thread::scope(|scope| {
            for binary in &binaries {
                scope.spawn(|| {
                    // As another program would.
                    let cache = DiskCache::new(directory.path(), "device");
                    for _ in 0..50 {
                        cache.store("kernel.bin", binary);
                        let read = cache.load("kernel.bin").unwrap();
                        assert!(binaries.contains(&read), "{} bytes", read.len());
                        assert_eq!(cache.ignored(), 0);
                    }
                });
            }
        });
        let cache = DiskCache::new(directory.path(), "device");
        assert_eq!(fs::read_dir(&cache.directory).unwrap().count(), 1, "no unfinished files are left");
    }

    /// Makes a file look older.
    fn make_older(path: &Path, seconds: u64) {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn the_oldest_files_go_when_there_are_too_many() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) =
            (DiskCache::new(directory.path(), "driver 1"), DiskCache::new(directory.path(), "driver 2"));
        old.store("a.bin", &[1; 1000]);
        old.store("b.bin", &[1; 1000]);
        new.store("c.bin", &[1; 1000]);
        for (age, path) in [(300, old.directory.join("a.bin")), (400, old.directory.join("b.bin"))] {
            make_older(&path, age);
        }
        let outside = directory.path().join("mine");
        fs::create_dir(&outside).unwrap();
        let foreign = [outside.join("x.bin"), new.directory.join("y.bin")];
        foreign.iter().for_each(|path| fs::write(path, [0; 5000]).unwrap());
        trim(directory.path(), 3 * 1028);
        assert!(old.load("b.bin").is_some(), "all of it fits");
        trim(directory.path(), 3 * 1028 - 1);
        assert!(old.load("a.bin").is_some() && old.load("b.bin").is_none() && new.load("c.bin").is_some());
        trim(directory.path(), 1028);
        assert!(old.load("a.bin").is_none() && new.load("c.bin").is_some());
        assert!(!old.directory.exists(), "the directory of a driver without files is left");
        trim(directory.path(), 0);
        assert!(foreign.iter().all(|path| path.exists()), "a file of another program was removed");
    }

    #[test]
    fn a_file_that_is_read_is_young_again() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(directory.path(), "device");
        cache.store("a.bin", b"binary");
        let path = cache.directory.join("a.bin");
        make_older(&path, 10 * 24 * 3600);
        assert!(cache.load("a.bin").is_some());
        assert!(age(&fs::metadata(&path).unwrap()).unwrap() < YOUNG);
    }

    #[test]
    fn unfinished_files_of_killed_programs_go() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(directory.path(), "device");
        cache.store("a.bin", b"binary");
        let [dead, alive] = ["b.bin.1-0.tmp", "b.bin.2-0.tmp"].map(|name| cache.directory.join(name));
        [&dead, &alive].into_iter().for_each(|path| fs::write(path, b"part").unwrap());
        make_older(&dead, 2 * ABANDONED.as_secs());
        cache.trim();
        assert!(!dead.exists() && alive.exists());
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
