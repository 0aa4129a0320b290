//! Repacked weights on disk: they give the same bits, are used for the files that they were made from alone, and are written again when they are
//! damaged.

use crate::common::{cpu_with, logits};
use samples::testdata;
use silicide_core::{Buffer, CommandEncoder, Device, Isa, Recorder};
use silicide_llm::engine::Session;
use silicide_llm::repack::{RepackCache, RepackedFile};
use silicide_llm::{Model, ModelOptions};
use silicide_ops::interleave::{Interleave, LAYOUT, interleaves};
use silicide_quant::{DType, Encoding, Format, MlxFormat, MlxMode, RowEncoding, Shape};
use silicide_weights::{Load, Source};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MODELS: [&str; 4] = ["llama-tied-f16", "llama-tied-q8_0", "qwen3moe", "gemma3"];

fn device() -> Device {
    crate::common::cpu(2)
}

/// Opens a model with repacked weights in a folder.
fn open(device: &Device, path: &Path, folder: &Path, files: Load) -> Model {
    let options = ModelOptions::default().device(device).context(64).files(files);
    options.repack_cache(RepackCache::at(folder)).open(path).unwrap()
}

/// The logits of some tokens.
fn bits(model: &Model) -> Vec<u32> {
    let tokens: Vec<u32> = (0..20).collect();
    logits(&mut Session::new(model).unwrap(), &tokens, 7).into_iter().map(f32::to_bits).collect()
}

/// Those of the model without a folder.
fn truth(device: &Device, path: &Path) -> Vec<u32> {
    bits(&ModelOptions::default().device(device).context(64).files(Load::Copy).open(path).unwrap())
}

/// A folder with a copy of a model.
fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::copy(testdata(&format!("models/{name}.gguf")), &path).unwrap();
    (folder, path)
}

fn only(folder: &Path) -> RepackedFile {
    let files: [RepackedFile; 1] = RepackCache::at(folder).list().unwrap().try_into().unwrap();
    let [file] = files;
    file
}

/// Changes a byte of the last matrix in place, and sets the time of the last write back.
fn change(path: &Path) {
    let modified = std::fs::metadata(path).unwrap().modified().unwrap();
    let source = Source::open_with(path, Load::Copy).unwrap();
    let matrix =
        source.entries().filter(|entry| entry.name().starts_with("blk.") && entry.shape().rank() == 2);
    let at = matrix.last().unwrap().place().unwrap().range().start + 1;
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x08;
    let file = File::options().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut &file, &bytes).unwrap();
    file.set_modified(modified).unwrap();
}

#[test]
fn stored_weights_are_mapped_and_give_the_same_bits() {
    for name in MODELS {
        let path = testdata(&format!("models/{name}.gguf"));
        for isa in Isa::available() {
            let (device, folder) = (cpu_with(isa, Some(2)), tempfile::tempdir().unwrap());
            let first = open(&device, &path, folder.path(), Load::Map);
            assert!(first.repack_note().unwrap().contains("were written"), "{:?}", first.repack_note());
            let second = open(&device, &path, folder.path(), Load::Map);
            assert_eq!(second.repack_note(), None);
            let truth = truth(&device, &path);
            for model in [first, second] {
                let repacked = model.rearranged();
                assert!(repacked.bytes > 0 && repacked.mapped == repacked.bytes, "{name}: {repacked:?}");
                // No weight is there twice while loading.
                assert_eq!(model.memory_estimate().loading, 0);
                assert!(bits(&model) == truth, "{name} with {isa}");
            }
            let file = only(folder.path());
            assert_eq!(file.model.unwrap(), path.canonicalize().unwrap());
            assert!(file.bytes > 0 && file.name.starts_with(name) && file.name.contains(isa.name()));
        }
    }
}

#[test]
fn instruction_sets_have_files_of_their_own() {
    let (path, folder) = (testdata("models/llama-tied-q8_0.gguf"), tempfile::tempdir().unwrap());
    for isa in Isa::available() {
        let model = open(&cpu_with(isa, Some(1)), &path, folder.path(), Load::Map);
        assert!(model.repack_note().is_some());
    }
    let files = RepackCache::at(folder.path()).list().unwrap();
    assert_eq!(files.len(), Isa::available().len());
    RepackCache::at(folder.path()).remove(&files[0]).unwrap();
    assert_eq!(RepackCache::at(folder.path()).list().unwrap(), files[1..]);
}

#[test]
fn a_model_that_has_changed_is_repacked_again() {
    for files in [Load::Copy, Load::Map] {
        let (device, folder, (_kept, path)) =
            (device(), tempfile::tempdir().unwrap(), copy("llama-tied-f16"));
        let settle = || std::thread::sleep(Duration::from_millis(if files == Load::Map { 2100 } else { 0 }));
        settle();
        let before = open(&device, &path, folder.path(), files);
        let old = bits(&before);
        drop(before);
        assert_eq!(open(&device, &path, folder.path(), files).repack_note(), None);
        change(&path);
        settle();
        let after = open(&device, &path, folder.path(), files);
        let note = after.repack_note().unwrap();
        assert!(note.contains("were written") && note.contains("the model has changed"), "{note}");
        let new = bits(&after);
        assert!(new == truth(&device, &path) && new != old, "{files:?}");
        only(folder.path());
    }
}

#[cfg(unix)]
#[test]
fn a_mapped_model_that_changed_a_moment_ago_is_not_stored() {
    let (device, folder, (_kept, path)) = (device(), tempfile::tempdir().unwrap(), copy("llama-tied-q8_0"));
    let model = open(&device, &path, folder.path(), Load::Map);
    assert!(
        model.repack_note().unwrap().contains("changed less than 2 seconds ago"),
        "{:?}",
        model.repack_note()
    );
    assert!(RepackCache::at(folder.path()).list().unwrap().is_empty());
    assert_eq!((model.rearranged().mapped, bits(&model)), (0, truth(&device, &path)));
}

#[test]
fn damaged_files_are_ignored_and_written_again() {
    let (device, folder) = (device(), tempfile::tempdir().unwrap());
    let path = testdata("models/llama-tied-q8_0.gguf");
    open(&device, &path, folder.path(), Load::Map);
    let file = only(folder.path()).path;
    let (whole, truth) = (std::fs::read(&file).unwrap(), truth(&device, &path));
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    let text = |from: &str, to: &str| {
        let header = String::from_utf8_lossy(&whole[..whole.len().min(4096)]).into_owned();
        let at = header.find(from).unwrap();
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let half = whole.len() / 2;
    let cases: [(&str, Vec<u8>); 12] = [
        ("empty", Vec::new()),
        ("a part of the length", whole[..5].to_vec()),
        ("the header alone", whole[..4096].to_vec()),
        ("half", whole[..half].to_vec()),
        ("without the last byte", whole[..whole.len() - 1].to_vec()),
        ("with one more byte", [&whole[..], &[0]].concat()),
        ("a bit in the middle", flipped(half)),
        ("the last bit", flipped(whole.len() - 1)),
        ("a bit of the length", flipped(0)),
        ("zeros in the middle, as a hole has", [&whole[..half], &vec![0; whole.len() - half]].concat()),
        ("another layout", text("\"layout\":\"1\"", "\"layout\":\"0\"")),
        ("a model", std::fs::read(testdata("models/gemma3.gguf")).unwrap()),
    ];
    for (what, bytes) in cases {
        std::fs::write(&file, bytes).unwrap();
        let model = open(&device, &path, folder.path(), Load::Map);
        let note = model.repack_note().unwrap_or_else(|| panic!("{what}: used")).to_owned();
        assert!(note.contains("were written") && note.contains("is ignored"), "{what}: {note}");
        assert!(bits(&model) == truth, "{what}");
        drop(model);
        assert!(std::fs::read(&file).unwrap() == whole, "{what}");
    }
    std::fs::write(&file, "text").unwrap();
    assert_eq!(only(folder.path()).model, None);
}

#[test]
fn models_that_are_opened_at_the_same_time_share_one_whole_file() {
    let (folder, path) = (tempfile::tempdir().unwrap(), testdata("models/qwen3moe.gguf"));
    let truth = truth(&device(), &path);
    std::thread::scope(|scope| {
        let run = || {
            let device = crate::common::cpu(1);
            (0..3).all(|_| bits(&open(&device, &path, folder.path(), Load::Map)) == truth)
        };
        let all: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        assert!(all.into_iter().all(|thread| thread.join().unwrap()));
    });
    only(folder.path());
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn unfinished_files_of_writers_that_ended_are_deleted_and_those_of_others_stay() {
    let (device, folder) = (device(), tempfile::tempdir().unwrap());
    let path = testdata("models/llama-tied-q8_0.gguf");
    open(&device, &path, folder.path(), Load::Map);
    let file = only(folder.path()).path;
    let [ended, running] = ["1-0.part", "2-0.part"].map(|end| file.with_extension(end));
    std::fs::write(&ended, "half").unwrap();
    let writer = File::create(&running).unwrap();
    writer.lock().unwrap();
    std::fs::remove_file(&file).unwrap();
    open(&device, &path, folder.path(), Load::Map);
    assert!(file.exists() && !ended.exists() && running.exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_a_note_and_the_model_runs() {
    let (device, folder) = (device(), tempfile::tempdir().unwrap());
    let (path, file) = (testdata("models/llama-tied-q8_0.gguf"), folder.path().join("file"));
    std::fs::write(&file, "no folder").unwrap();
    let model = open(&device, &path, &file, Load::Map);
    let note = model.repack_note().unwrap();
    assert!(note.contains("can't be stored") && note.contains("file"), "{note}");
    assert!(model.rearranged().bytes > 0 && bits(&model) == truth(&device, &path));
}

#[cfg(target_os = "linux")]
#[test]
fn locked_weights_are_resident_or_the_error_says_how_to_raise_the_limit() {
    let locked = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    let path = testdata("models/llama-tied-f16.gguf");
    match ModelOptions::default().device(&device()).context(64).mlock(true).open(&path) {
        Ok(model) => {
            assert!(locked() >= model.rearranged().bytes, "{} of {:?}", locked(), model.rearranged());
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("ulimit -l") && text.contains("bytes can't be locked"), "{text}");
        }
    }
}

/// Stored weights outlive the program that wrote them.
#[test]
fn a_change_of_an_interleaved_layout_is_a_new_version() {
    let elements = [DType::F32, DType::F16, DType::BF16].map(RowEncoding::Element);
    let affine = [4, 8].map(|bits| MlxFormat::new(MlxMode::Affine, bits, 64, DType::BF16).unwrap());
    let all = elements.into_iter().chain(Format::ALL.map(RowEncoding::Block));
    let all = all.chain(affine.map(RowEncoding::Planes));
    let (device, mut hash) = (device(), 0xcbf2_9ce4_8422_2325_u64);
    for of in all.filter(|&of| interleaves(of, 32, 3 * of.group_len())) {
        let (plain, shape) = (Encoding::from(of), Shape::new(&[32, 3 * of.group_len()]).unwrap());
        for plane in 0..plain.planes() {
            let of_plane = plain.plane(plane, &shape).unwrap();
            let bytes = of_plane.shape.bytes(of_plane.dtype).unwrap();
            let values: Vec<u8> =
                (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let from = Buffer::from_slice(&device, [32, bytes / 32], &values).unwrap();
            let mut encoder = CommandEncoder::new(&device);
            let to = encoder.run_one(Interleave { of, plane }, &[&from]).unwrap();
            encoder.submit().unwrap().wait().unwrap();
            for byte in to.read::<u8>().unwrap().iter() {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    assert_eq!(
        (LAYOUT, hash),
        (1, 0xc3d6_0a22_35c0_75ef),
        "raise LAYOUT, and put the new hash here: {hash:#018x}"
    );
}
