//! No file makes opening allocate more than a small multiple of its own size: the gallery, and files made to try.
#![allow(clippy::unwrap_used)]

use fuzz::gallery::{cases, root};
use silicide_weights::{Bytes, Config, Source};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The system's allocator, counting bytes in use and their peak.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Tests take turns: there is one count.
static TURN: Mutex<()> = Mutex::new(());

// SAFETY: passes every call on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the conditions of `GlobalAlloc::alloc` hold for `layout`, and are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `alloc` above took `pointer` from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that `open` allocates at its peak.
fn peak<T>(open: impl FnOnce() -> T) -> usize {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let kept = open();
    let peak = PEAK.load(Relaxed) - before;
    drop(kept);
    peak
}

/// Paths, messages and tables that every source has, however small its files are.
const FIXED: usize = 32 << 10;
/// How many times the size of the files may be allocated on top of that.
const FACTOR: usize = 20;

#[test]
fn malformed_files_allocate_little() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for case in cases() {
        let size: usize = case.files.iter().map(|(_, bytes)| bytes.len()).sum();
        let path = root().join(case.path());
        let peak = peak(|| Source::open(&path).is_ok());
        assert!(peak <= FIXED + FACTOR * size, "{}: {peak} bytes for {size}", case.path());
    }
}

/// Files that are mostly tables, so that what is kept weighs most against what they are.
#[test]
fn dense_files_allocate_a_small_multiple() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let files: [(&str, Vec<u8>, Option<String>); 7] = [
        ("gguf tensors", gguf_tensors(50_000), None),
        ("gguf keys", gguf_keys(60_000), None),
        ("gguf strings", gguf_strings(500_000), None),
        ("safetensors tensors", safetensors(&tensors(30_000), 30_000), None),
        ("safetensors metadata", safetensors(&metadata(4096), 0), None),
        ("safetensors shape", safetensors(&long_shape(500_000), 1), None),
        ("mlx config", safetensors("{}", 0), Some(overrides(50_000))),
    ];
    for (name, bytes, config) in files {
        let size = bytes.len() + config.as_ref().map_or(0, String::len);
        let config = config.map(|text| Config::new(Path::new("config.json"), text));
        let bytes = Bytes::from_memory(name, bytes);
        let open = || match name.starts_with("gguf") {
            true => Source::from_gguf(bytes),
            false => Source::from_safetensors(vec![bytes], config),
        };
        let peak = peak(open);
        println!("{name}: {peak} bytes for {size}: {:.1} times", peak as f64 / size as f64);
        assert!(peak <= FIXED + FACTOR * size, "{name}: {peak} bytes for {size}");
    }
}

fn gguf(tensors: u64, keys: u64) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(keys.to_le_bytes());
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Tensors of an unknown type: no data needed.
fn gguf_tensors(count: u64) -> Vec<u8> {
    let mut bytes = gguf(count, 0);
    for i in 0..count {
        text(&mut bytes, &format!("{i:x}"));
        bytes.extend([0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

fn gguf_keys(count: u64) -> Vec<u8> {
    let mut bytes = gguf(0, count);
    for i in 0..count {
        text(&mut bytes, &format!("{i:x}"));
        bytes.extend([0, 0, 0, 0, 1]);
    }
    bytes
}

fn gguf_strings(count: u64) -> Vec<u8> {
    let mut bytes = gguf(0, 1);
    text(&mut bytes, "tokens");
    bytes.extend([9, 0, 0, 0, 8, 0, 0, 0]);
    bytes.extend(count.to_le_bytes());
    bytes.resize(bytes.len() + 8 * count as usize, 0);
    bytes
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    text(&mut bytes, header);
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn object(count: usize, member: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", (0..count).map(member).collect::<Vec<_>>().join(","))
}

fn tensors(count: usize) -> String {
    object(count, |i| format!(r#""{i:x}":{{"dtype":"U8","shape":[],"data_offsets":[{i},{}]}}"#, i + 1))
}

fn metadata(count: usize) -> String {
    format!(r#"{{"__metadata__":{}}}"#, object(count, |i| format!(r#""{i:x}":"""#)))
}

fn long_shape(count: usize) -> String {
    format!(r#"{{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[0,1]}}}}"#, vec!["1"; count].join(","))
}

fn overrides(count: usize) -> String {
    format!(r#"{{"quantization":{}}}"#, object(count, |i| format!(r#""{i:x}":0"#)))
}
