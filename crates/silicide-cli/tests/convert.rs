//! `silicide convert`: the same model in another file.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use silicide_quant::{DType, Format, decode_into};
use silicide_weights::{Entry, Source};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

/// The lines on standard error.
fn notes(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn convert(input: &Path, output: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_silicide"))
        .arg("convert")
        .args([input, output])
        .args(options)
        .output()
        .unwrap()
}

fn converted(input: &str, options: &[&str]) -> (tempfile::TempDir, Source) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.gguf");
    let done = convert(&testdata(input), &output, options);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let source = Source::open(&output).unwrap();
    (directory, source)
}

fn values(source: &Source, entry: &Entry<'_>) -> Vec<f32> {
    let mut values = vec![0.0; entry.shape().elements()];
    decode_into(entry.dtype().unwrap(), &source.data(entry).unwrap(), &mut values).unwrap();
    values
}

/// The error of `got`, relative to the power of `expected`.
fn error(expected: &[f32], got: &[f32]) -> f64 {
    let difference: f64 = expected.iter().zip(got).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    difference / expected.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>()
}

#[test]
fn gguf_converts_to_the_same_metadata_and_tensors() {
    let (_directory, copy) = converted("models/qwen3.gguf", &[]);
    let model = Source::open(testdata("models/qwen3.gguf")).unwrap();
    assert!(model.gguf()[0].metadata().eq(copy.gguf()[0].metadata()));
    for (before, after) in model.entries().zip(copy.entries()) {
        assert_eq!((before.name(), before.shape()), (after.name(), after.shape()));
        assert_eq!(model.data(&before).unwrap(), copy.data(&after).unwrap());
    }
    assert_eq!(model.len(), copy.len());
}

#[test]
fn split_files_become_one() {
    let (_directory, copy) = converted("gguf/split-00001-of-00003.gguf", &[]);
    assert_eq!((copy.files().len(), copy.len()), (1, 5));
    assert!(copy.get("split.count").is_none());
    assert!(copy.get("test.string").is_some());
}

#[test]
fn weights_change_their_format_and_norms_do_not() {
    let (_directory, copy) = converted("models/llama-tied.gguf", &["--type", "q8_0"]);
    let model = Source::open(testdata("models/llama-tied.gguf")).unwrap();
    assert_eq!(copy.get("general.file_type").and_then(|value| value.as_u64()), Some(7));
    for entry in copy.entries() {
        let before = values(&model, &model.entry(entry.name()).unwrap());
        let plain = entry.name().contains("norm");
        let expected = if plain { DType::F32 } else { DType::Block(Format::Q8_0) };
        assert_eq!(entry.dtype().unwrap(), expected, "{}", entry.name());
        let error = error(&before, &values(&copy, &entry));
        assert!(error <= if plain { 0.0 } else { 1e-4 }, "{}: {error}", entry.name());
    }
}

#[test]
fn formats_whose_blocks_are_too_long_give_way() {
    let (_directory, copy) = converted("models/llama-tied.gguf", &["--type", "Q4_K"]);
    let dtype = |name: &str| copy.entry(name).unwrap().dtype().unwrap();
    // Rows of 64.
    assert_eq!(dtype("blk.0.attn_q.weight"), DType::Block(Format::Q5_0));
}

#[test]
fn mixtures_are_finer_where_it_matters() {
    let (_directory, copy) = converted("models/llama-tied.gguf", &["--type", "q4_k_m"]);
    assert_eq!(copy.get("general.file_type").and_then(|value| value.as_u64()), Some(15));
    let dtype = |name: &str| copy.entry(name).unwrap().dtype().unwrap();
    // Rows of 64, so what would be Q4_K and Q6_K gives way.
    let (base, finer) = (DType::Block(Format::Q5_0), DType::Block(Format::Q8_0));
    assert_eq!((dtype("blk.0.attn_v.weight"), dtype("blk.1.attn_v.weight")), (base, finer));
    assert_eq!((dtype("blk.1.attn_q.weight"), dtype("token_embd.weight")), (base, finer));
}

#[test]
fn every_type_of_the_help_can_be_written() {
    let help = Command::new(env!("CARGO_BIN_EXE_silicide")).args(["convert", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let groups = help.lines().skip_while(|line| *line != "Types:").skip(1);
    let words =
        groups.take_while(|line| line.starts_with("  ")).flat_map(|line| line.split([',', ' ', '(', ')']));
    let names: Vec<&str> = words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).collect();
    assert!(names.len() > 35 && names.contains(&"q4_k_m") && names.contains(&"mxfp4"), "{help}");
    for name in names {
        let (_directory, copy) = converted("models/llama-tied.gguf", &["--type", name]);
        assert!(copy.len() > 10, "{name}");
    }
}

#[test]
fn overrides_and_pure_take_precedence_over_the_mixture() {
    let options =
        ["--type", "q8_0", "--tensor-type", r"blk\.1\.ffn_down=q4_0", "--token-embedding-type", "f16"];
    let (_directory, copy) = converted("models/llama-tied.gguf", &options);
    let dtype = |name: &str| copy.entry(name).unwrap().dtype().unwrap();
    assert_eq!(dtype("blk.1.ffn_down.weight"), DType::Block(Format::Q4_0));
    assert_eq!(dtype("blk.0.ffn_down.weight"), DType::Block(Format::Q8_0));
    assert_eq!(dtype("token_embd.weight"), DType::F16);
    let (_directory, pure) = converted("models/llama-tied.gguf", &["--type", "q4_0", "--pure"]);
    let dtype = pure.entry("token_embd.weight").unwrap().dtype().unwrap();
    assert_eq!(dtype, DType::Block(Format::Q4_0));
}

#[test]
fn a_model_is_split_and_merged_again_without_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let (input, part) = (testdata("models/llama-tied.gguf"), directory.path().join("part.gguf"));
    let split = convert(&input, &part, &["--split-max-tensors", "8"]);
    assert!(split.status.success(), "{}", notes(&split));
    let model = Source::open(&input).unwrap();
    let count = model.len().div_ceil(8);
    let name = |number: usize| directory.path().join(format!("part-{number:05}-of-{count:05}.gguf"));
    assert!(count > 1 && (1..=count).all(|number| name(number).is_file()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), count);
    // Any of the files opens the model.
    let parts = Source::open(name(2)).unwrap();
    assert_eq!((parts.files().len(), parts.len()), (count, model.len()));
    assert_eq!(parts.gguf()[1].metadata().count(), 3);

    let whole = directory.path().join("whole.gguf");
    assert!(convert(&name(1), &whole, &["--merge"]).status.success());
    let merged = Source::open(&whole).unwrap();
    assert!(model.gguf()[0].metadata().eq(merged.gguf()[0].metadata()));
    for (before, after) in model.entries().zip(merged.entries()) {
        assert_eq!((before.name(), before.shape()), (after.name(), after.shape()));
        assert_eq!(model.data(&before).unwrap(), merged.data(&after).unwrap());
    }
    // A whole file cannot be merged, and files that are there are kept.
    assert_eq!(convert(&whole, &directory.path().join("x.gguf"), &["--merge"]).status.code(), Some(1));
    assert_eq!(convert(&input, &part, &["--split-max-tensors", "8"]).status.code(), Some(1));
}

#[test]
fn a_dry_run_shows_types_and_sizes_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.gguf");
    let dry = convert(&testdata("models/llama-tied.gguf"), &output, &["--type", "q4_k_m", "--dry-run"]);
    assert!(dry.status.success(), "{}", notes(&dry));
    let text = String::from_utf8_lossy(&dry.stdout).into_owned();
    for part in ["q5_0", "q8_0", "f32", "tensors", "nothing was written"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(notes(&dry).contains("q4_k -> q5_0"), "{}", notes(&dry));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // The size that is shown is the size that is written.
    let done = convert(&testdata("models/llama-tied.gguf"), &output, &["--type", "q4_k_m"]);
    let written = String::from_utf8_lossy(&done.stdout).into_owned();
    let size = written.trim().rsplit_once(", ").unwrap().1;
    assert!(text.contains(&format!("-> {size} (")), "{size} is not in {text}");
    let again = convert(&testdata("models/llama-tied.gguf"), &output, &["--type", "q4_k_m", "--dry-run"]);
    assert!(notes(&again).contains("out.gguf exists"), "{}", notes(&again));
    let options = ["--type", "q4_k_m", "--dry-run", "--force"];
    let forced = convert(&testdata("models/llama-tied.gguf"), &output, &options);
    assert!(!notes(&forced).contains("exists"), "{}", notes(&forced));
    // The output is optional.
    let mut dry = Command::new(env!("CARGO_BIN_EXE_silicide"));
    dry.args(["convert", "--dry-run", "-m"]).arg(testdata("models/llama-tied.gguf"));
    assert!(dry.output().unwrap().status.success());
}

#[test]
fn notes_say_what_a_conversion_costs() {
    let directory = tempfile::tempdir().unwrap();
    let inside = |name: &str| directory.path().join(name);
    let small = inside("small.gguf");
    let first = convert(&testdata("models/llama-tied.gguf"), &small, &["--type", "q4_0"]);
    let text = notes(&first);
    assert!(first.status.success() && !text.contains("warning") && !text.contains("larger"), "{text}");
    let again = convert(&small, &inside("again.gguf"), &["--type", "q8_0"]);
    let text = notes(&again);
    assert!(
        text.contains("quantized already") && text.contains("q4_0") && text.contains("larger than"),
        "{text}"
    );
    let allowed = convert(&small, &inside("allowed.gguf"), &["--type", "q8_0", "--allow-requantize"]);
    assert!(!notes(&allowed).contains("quantized already"), "{}", notes(&allowed));
    let mlx = convert(&testdata("models/mlx/llama-4bit"), &inside("mlx.gguf"), &[]);
    assert!(notes(&mlx).contains("decoded to f16"), "{}", notes(&mlx));
}

#[test]
fn outputs_that_cannot_be_are_found_before_the_work() {
    let directory = tempfile::tempdir().unwrap();
    let inside = |name: &str| directory.path().join(name);
    for (name, code, part) in [
        ("model.safetensors", 1, "model.gguf"),
        ("model.BIN", 1, "another format"),
        ("", 1, "is a folder"),
        ("missing/model.gguf", 2, "can't write"),
    ] {
        let refused = convert(&testdata("models/qwen3.gguf"), &inside(name), &["--force"]);
        let text = notes(&refused);
        assert!(refused.status.code() == Some(code) && text.contains(part), "{name}: {text}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_model_is_a_path_or_a_name_by_position_or_by_flag() {
    let cache = tempfile::tempdir().unwrap();
    let models = cache.path().join("models");
    std::fs::create_dir(&models).unwrap();
    std::fs::copy(testdata("models/llama-tied.gguf"), models.join("mine.gguf")).unwrap();
    let output = cache.path().join("out.gguf");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
        command.arg("convert").args(arguments).env("SILICIDE_CACHE", cache.path()).output().unwrap()
    };
    let out = output.to_str().unwrap();
    for arguments in [
        vec!["mine", out, "--force"],
        vec!["-m", "MINE", out, "-f"],
        vec!["mine", out, "Q8_0", "--force"],
        vec!["-m", "mine", out, "q8_0", "--force"],
    ] {
        let done = run(&arguments);
        assert!(done.status.success(), "{arguments:?}: {}", notes(&done));
    }
    for wrong in [
        vec![],
        vec!["mine"],
        vec!["mine", out, "q9", "-f"],
        vec!["mine", out, "q8_0", "--type", "f16", "-f"],
    ] {
        assert_eq!(run(&wrong).status.code(), Some(1), "{wrong:?}");
    }
}

#[test]
fn the_environment_names_the_model_if_only_the_output_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let model = testdata("models/llama-tied.gguf");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
        command.arg("convert").args(arguments).env("SILICIDE_MODEL", &model).output().unwrap()
    };
    let done = run(&[&path("out.gguf"), "--type", "q8_0"]);
    assert!(done.status.success(), "{}", notes(&done));
    assert!(Source::open(path("out.gguf")).unwrap().len() > 10);
    assert!(run(&["--dry-run"]).status.success());

    // An argument before the output counts instead, and so does -m.
    for arguments in [vec!["nowhere.gguf", "b.gguf"], vec!["-m", "nowhere.gguf", "b.gguf"]] {
        assert!(notes(&run(&arguments)).contains("nowhere.gguf"), "{arguments:?}");
    }
    // A file that is there may be a model whose output was forgotten.
    let mine = path("mine.gguf");
    std::fs::copy(&model, &mine).unwrap();
    let refused = run(&[&mine, "--force", "--type", "q4_0"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(notes(&refused).contains("SILICIDE_MODEL"), "{}", notes(&refused));
    assert_eq!(std::fs::read(&mine).unwrap(), std::fs::read(&model).unwrap());
}

/// A conversion that takes long and has begun to write.
#[cfg(unix)]
fn begun(directory: &Path) -> std::process::Child {
    use silicide_quant::Shape;
    use silicide_weights::gguf::GgufWriter;
    const TENSORS: usize = 16;
    let input = directory.join("large.gguf");
    if !input.exists() {
        let mut writer = GgufWriter::new(&input);
        writer.meta("general.architecture", "llama").unwrap();
        for layer in 0..TENSORS {
            let name = format!("blk.{layer}.ffn_up.weight");
            writer.tensor(&name, Shape::new(&[256, 1024]).unwrap(), DType::F32).unwrap();
        }
        let mut stream = writer.begin().unwrap();
        let noise = |i: u32| (i.wrapping_mul(2_654_435_761) as f32).to_le_bytes();
        let noise: Vec<u8> = (0..256 * 1024).flat_map(noise).collect();
        (0..TENSORS).for_each(|_| stream.write(&noise).unwrap());
        stream.finish().unwrap();
    }
    let before = left(directory);
    let child = Command::new(env!("CARGO_BIN_EXE_silicide"))
        .arg("convert")
        .args([input, directory.join("out.gguf")])
        .args(["--type", "iq2_xxs", "--threads", "1"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let begin = std::time::Instant::now();
    // The file that shows whether the directory can be written is empty; the output has a header.
    let is_output = |name: &String| {
        !before.contains(name) && std::fs::metadata(directory.join(name)).is_ok_and(|data| data.len() > 0)
    };
    while !left(directory).iter().any(is_output) {
        assert!(begin.elapsed().as_secs() < 30, "nothing was begun");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

/// Unfinished files.
#[cfg(unix)]
fn left(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with(".unfinished-")).collect()
}

#[cfg(unix)]
#[test]
fn signals_end_a_conversion_and_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut child = begun(directory.path());
        let begin = std::time::Instant::now();
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert!(begin.elapsed().as_secs() < 20, "{signal}");
        assert_eq!(left(directory.path()), [""; 0], "{signal}");
        assert!(!directory.path().join("out.gguf").exists());
    }
}

#[cfg(unix)]
#[test]
fn the_next_conversion_removes_what_a_killed_one_left() {
    let directory = tempfile::tempdir().unwrap();
    let mut killed = begun(directory.path());
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(left(directory.path()).len(), 1);
    // What another process is writing stays.
    let mut running = begun(directory.path());
    let done = convert(&testdata("models/qwen3.gguf"), &directory.path().join("other.gguf"), &[]);
    assert!(done.status.success(), "{}", notes(&done));
    assert_eq!(left(directory.path()).len(), 1);
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(
        convert(&testdata("models/qwen3.gguf"), &directory.path().join("last.gguf"), &[]).status.success()
    );
    assert_eq!(left(directory.path()), [""; 0]);
}

/// The checkpoint's twin was written by other software from the same weights.
#[test]
fn safetensors_convert_to_the_gguf_of_the_reference_converter() {
    let (_directory, copy) = converted("models/mlx/llama-bf16", &["--type", "f32"]);
    let twin = Source::open(testdata("models/mlx/llama-bf16/twin.gguf")).unwrap();
    assert_eq!(copy.len(), twin.len());
    for entry in twin.entries() {
        let ours = copy.entry(entry.name()).unwrap();
        assert_eq!((ours.shape(), ours.dtype()), (entry.shape(), entry.dtype()), "{}", entry.name());
        assert_eq!(copy.data(&ours).unwrap(), twin.data(&entry).unwrap(), "{}", entry.name());
    }
    for (key, value) in twin.gguf()[0].metadata().filter(|(key, _)| *key != "general.name") {
        assert_eq!(copy.get(key), Some(value), "{key}");
    }
    assert!(copy.get("tokenizer.chat_template").is_some());
}

#[test]
fn mlx_weights_convert_to_nearly_the_values_of_the_original() {
    let (_directory, copy) = converted("models/mlx/llama-4bit", &["--type", "f32"]);
    let twin = Source::open(testdata("models/mlx/llama-bf16/twin.gguf")).unwrap();
    for entry in twin.entries() {
        let ours = copy.entry(entry.name()).unwrap();
        assert_eq!(ours.shape(), entry.shape());
        let error = error(&values(&twin, &entry), &values(&copy, &ours));
        assert!(error < 2e-2, "{}: {error}", entry.name());
    }
}

#[test]
fn refuses_what_it_should() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.gguf");
    std::fs::write(&output, "precious").unwrap();
    let kept = convert(&testdata("models/qwen3.gguf"), &output, &[]);
    assert_eq!(kept.status.code(), Some(1));
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    assert!(convert(&testdata("models/qwen3.gguf"), &output, &["--force"]).status.success());
    assert_eq!(convert(&testdata("models/qwen3.gguf"), &output, &["--type", "q9"]).status.code(), Some(1));
    let malformed = convert(&testdata("malformed/gguf-bool-2.gguf"), &directory.path().join("other"), &[]);
    assert_eq!(malformed.status.code(), Some(2));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
