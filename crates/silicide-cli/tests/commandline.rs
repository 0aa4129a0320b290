//! The command line: flags as llama.cpp's users write them, the model argument, help, completions, verbosity.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use samples::testdata;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// All commands, and whether they take a model.
const COMMANDS: [(&str, bool); 15] = [
    ("run", true),
    ("bench", true),
    ("perplexity", true),
    ("logits", true),
    ("tokenize", true),
    ("graph", true),
    ("inspect", true),
    ("convert", true),
    ("pull", false),
    ("list", false),
    ("rm", false),
    ("devices", false),
    ("doctor", false),
    ("completions", false),
    ("man", false),
];

fn model() -> String {
    testdata("models/llama-tied-q8_0.gguf").to_str().unwrap().to_owned()
}

/// The program without the environment's defaults.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
    for variable in ["MODEL", "DEVICE", "THREADS", "CTX_SIZE", "ISA", "CAPTURE"] {
        command.env_remove(format!("SILICIDE_{variable}"));
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

/// Standard output and standard error of a command that succeeds.
#[track_caller]
fn success(arguments: &[&str]) -> (String, String) {
    told(&run(arguments), arguments)
}

#[track_caller]
fn told(output: &Output, arguments: &[&str]) -> (String, String) {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{arguments:?}: {err}");
    (out, err)
}

/// Asserts that a command prints nothing but an error with these parts, and ends with `code`.
#[track_caller]
fn refused(arguments: &[&str], code: i32, parts: &[&str]) {
    let output = run(arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
    assert!(output.stdout.is_empty() && err.starts_with("error: "), "{arguments:?}: {err}");
    for part in parts {
        assert!(err.contains(part), "{arguments:?} lacks {part:?}: {err}");
    }
}

fn short_run<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", model, "--raw", "-n", "1", "--device", "cpu", "-t", "1"], more].concat()
}

#[test]
fn models_from_hubs_are_refused_by_name() {
    for flag in ["-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr"] {
        refused(&["run", flag, "user/repo", "-p", "hi"], 1, &[flag, "user/repo", "download the file"]);
    }
    refused(&["-hf", "user/repo"], 1, &["silicide run -hf"]);
    for flag in ["-hf", "--lora", "-gan"] {
        let err = String::from_utf8(run(&["run", flag, "2"]).stderr).unwrap();
        assert_eq!(err.matches("not supported").count(), 1, "{err}");
    }
}

#[test]
fn a_misspelled_command_is_answered_with_the_right_one() {
    for (given, meant) in [("rnu", "'run'"), ("benhc", "'bench'"), ("perplexty", "'perplexity'")] {
        refused(&[given, "smollm2"], 1, &[given, "a similar subcommand exists", meant]);
    }
}

#[test]
fn a_prompt_without_quotes_or_model_is_answered_with_the_right_command() {
    let model = model();
    refused(&["run", &model, "why", "is", "it"], 1, &["needs quotes", "llama-tied-q8_0.gguf \"why is it\""]);
    refused(&["run", "-m", &model, "why", "is"], 1, &["needs quotes", "-m", "\"why is\""]);
    let advice = "silicide run smollm2 \"why is it\"";
    refused(&["run", "why", "is", "it"], 1, &["\"why\" is not a model", advice]);
    refused(&["run", "why is it"], 1, &["\"why is it\" is not a model", advice]);
    refused(&["run", "hi", "there"], 2, &["\"hi\" is not a model", "silicide run smollm2 \"hi there\""]);
    refused(
        &["run", &model, "--raw", "why is it", "-c", "2", "-t", "1"],
        2,
        &["do not fit", "raise -c above"],
    );
    // Prompts in quotes are not cut; there is one too many.
    refused(&["run", &model, "why is it", "so blue"], 1, &["one argument", "\"so blue\" is one too many"]);
    // A name or a path that is nearly right is a model.
    refused(&["run", "smolm2", "hi"], 2, &["did you mean \"smollm2\""]);
    refused(&["run", "nowhere.gguf", "hi"], 2, &["\"nowhere.gguf\" is not a file or folder"]);
}

#[test]
fn a_run_of_no_tokens_prints_no_text_and_no_rate() {
    let model = model();
    let arguments = ["run", &model, "--raw", "-p", "hi", "--device", "cpu", "-t", "1", "-n"];
    let (out, err) = success(&[&arguments[..], &["0"]].concat());
    assert_eq!(out, "");
    assert!(err.starts_with("[-n 0: the prompt was read, nothing generated]\nload "), "{err}");
    assert!(!err.contains("first token") && !err.contains("generated 0"), "{err}");
    let (_, err) = success(&[&arguments[..], &["1"]].concat());
    assert!(err.contains("stopped after 1 token;") && err.trim_end().ends_with("generated 1 token"), "{err}");
}

#[test]
fn a_prompt_that_begins_with_a_dash_is_a_prompt_or_a_clear_error() {
    let model = model();
    refused(&["run", &model, "-hello"], 1, &["-hello", "-p \"-hello\""]);
    refused(&["run", &model, "-sky is blue"], 2, &["chat template"]);
    for arguments in [&["-p", "-hello", "--json"][..], &["--json", "-hello you"], &["--json", "--", "-hello"]]
    {
        let (out, _) = success(&short_run(&model, arguments));
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(report["prompt_tokens"].as_array().unwrap().len() > 2, "{arguments:?}: {out}");
    }
}

#[test]
fn flags_of_llama_cpp_without_effect_print_a_note() {
    let model = model();
    let foreign =
        ["-ngl", "99", "-fa", "on", "-b", "2048", "-np", "1", "-cnv", "--jinja", "--prio", "1", "-p", "hi"];
    let (_, err) = success(&short_run(&model, &foreign));
    for part in [
        "note: -ngl 99: no layer was offloaded",
        "note: -fa on has no effect",
        "note: -b 2048 has no effect",
        "note: -np 1 has no effect",
        "note: -cnv has no effect",
        "note: --prio 1 has no effect",
    ] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    assert!(!err.contains("--jinja"), "{err}");
    let (_, err) = success(&short_run(&model, &[&foreign[..], &["-q"]].concat()));
    assert_eq!(err, "");
    // 0 layers on the GPU is the CPU, and nothing to tell.
    let (_, err) = success(&["run", &model, "--raw", "-n", "1", "-ngl", "0", "-p", "hi"]);
    assert!(err.contains("cpu") && !err.contains("note"), "{err}");
}

/// Runs with the first layers on the CPU, on the software Vulkan device that tests have.
#[test]
fn layers_on_two_devices_are_named_by_every_command() {
    let [model, tied] = ["llama-chat", "llama-tied"].map(|name| testdata(&format!("models/{name}.gguf")));
    let [model, tied] = [&model, &tied].map(|path| path.to_str().unwrap());
    let split = ["--device", "vulkan:0", "-ngl", "2"];
    let with = |words: &[&str]| success(&[words, &split].concat());
    let (out, err) = with(&["run", model, "-p", "hi", "--raw", "-n", "2", "--temp", "0", "--json", "-v"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let layers = serde_json::json!({
        "devices": ["vulkan:0", "cpu"], "layers": 3, "gpu_layers": 2, "cpu_experts": 0,
    });
    assert_eq!(report["layers"], layers);
    let memory = report["memory"]["devices"].as_array().unwrap();
    assert_eq!(memory.len(), 2);
    for key in ["weights", "cache", "activations"] {
        let sum = memory.iter().map(|device| device[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(report["memory"][key], sum, "{key}");
    }
    for part in
        ["2 of 3 layers on vulkan:0, 1 on cpu", "memory on vulkan:0:", "memory on cpu:", "kernels on cpu:"]
    {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    let (_, err) = with(&["run", model, "-p", "hi", "--raw", "-n", "2", "--profile"]);
    for part in ["2 of 3 layers on vulkan:0, 1 on cpu", "vulkan:0:\n", "cpu:\n", "from the kernel cache"] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    let (out, _) = with(&["bench", model, "-p", "8", "-n", "2", "-r", "1"]);
    assert!(out.contains("| vulkan:0 + cpu") && out.contains("| ngl |"), "{out}");
    let (out, _) = with(&["graph", tied, "--all"]);
    assert!(out.contains("segment 1 of 2, on cpu") && out.contains("segment 2 of 2, on vulkan:0"), "{out}");
    // The CPU alone has layer 0.
    let (out, _) = with(&["graph", tied, "--layer", "0"]);
    assert!(out.contains("on cpu") && out.contains("blk.0.attn_q.weight"), "{out}");
}

#[test]
fn splits_that_make_no_sense_are_refused() {
    let model = model();
    for (flag, value) in [
        ("-ngl", "-5"),
        ("-ngl", "many"),
        ("-ngl", "1.5"),
        ("-ngl", "99999999999999999999999"),
        ("--n-cpu-moe", "-1"),
        ("-ncmoe", "x"),
    ] {
        refused(&["run", &model, "-p", "hi", flag, value], 1, &[value, "number of layers"]);
    }
    refused(&["run", &model, "-p", "hi", "--cpu-moe", "--n-cpu-moe", "1"], 1, &["--cpu-moe"]);
    // More layers than there are is all of them, and a model without experts has none to keep.
    for split in
        [["-ngl", "1000000"], ["-ngl", "all"], ["-ngl", "auto"], ["-ngl", "-1"], ["--n-cpu-moe", "3"]]
    {
        let words =
            ["run", &model, "--raw", "-n", "1", "-p", "hi", "--device", "vulkan:0", split[0], split[1]];
        let (_, err) = success(&words);
        assert!(err.contains("vulkan:0") && !err.contains("layers on"), "{split:?}: {err}");
        assert_eq!(err.contains("the model has no experts"), split[0] == "--n-cpu-moe", "{split:?}: {err}");
    }
}

#[test]
fn numbers_that_make_no_sense_are_named() {
    let model = model();
    refused(&["run", &model, "hi", "-c", "-5"], 1, &["-5", "--ctx-size", "number of tokens"]);
    refused(&["run", &model, "hi", "-ub", "-1"], 1, &["-1", "--ubatch-size"]);
    refused(
        &["run", &model, "-p", "hi", "--raw", "-ctk", "tq4", "--device", "cpu"],
        1,
        &["--cache-type-k: expected a type for heads of 16 elements: f32, f16, bf16, got tq4"],
    );
}

#[test]
fn an_empty_prompt_is_refused_with_what_to_give() {
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let empty = folder.path().join("empty");
    std::fs::write(&empty, " \n").unwrap();
    for given in [&["-p", ""][..], &["-p", " \n", "--raw"], &[""], &["-f", empty.to_str().unwrap()]] {
        let arguments = [&["run", &model, "--device", "cpu"], given].concat();
        refused(&arguments, 1, &["the prompt is empty", "PROMPT, -p TEXT or in -f FILE"]);
    }
}

#[test]
fn every_command_takes_its_model_by_one_rule() {
    let model = model();
    let folder = tempfile::tempdir().unwrap();
    let (text, out) = (folder.path().join("text"), folder.path().join("logits"));
    std::fs::write(&text, "All work and no play makes a dull text. ".repeat(8)).unwrap();
    let (text, out) = (text.to_str().unwrap(), out.to_str().unwrap());
    let commands: [(&str, &[&str]); 7] = [
        ("run", &["-p", "hi", "--raw", "-n", "1", "--device", "cpu"]),
        ("bench", &["-p", "4", "-n", "0", "-r", "1", "--device", "cpu"]),
        ("perplexity", &["-f", text, "-c", "16", "--chunks", "1", "--device", "cpu"]),
        ("logits", &["--tokens", "1,2", "--out", out, "--device", "cpu"]),
        ("tokenize", &["--text", "hi"]),
        ("graph", &["--device", "cpu"]),
        ("inspect", &[]),
    ];
    for (command, flags) in commands {
        success(&[&[command, &model], flags].concat());
        success(&[&[command], flags, &["-m", &model]].concat());
        let arguments = [&[command], flags].concat();
        told(&program(&arguments).env("SILICIDE_MODEL", &model).output().unwrap(), &arguments);
        refused(&arguments, 1, &["which model?", "-m", "smollm2"]);
        let twice = [&[command, "one", "two", "-m", &model], flags].concat();
        assert_eq!(run(&twice).status.code(), Some(1), "{twice:?}");
    }
    // A word beats the environment.
    let arguments = ["inspect", model.as_str()];
    told(&program(&arguments).env("SILICIDE_MODEL", "nonsense").output().unwrap(), &arguments);
}

#[test]
fn the_environment_has_defaults_that_flags_replace() {
    let model = model();
    let arguments = ["run", &model, "-p", "one two three four five six seven", "--raw", "-n", "1", "-q"];
    let with = |variable: &str, value: &str, more: &[&str]| {
        program(&[&arguments[..], more].concat()).env(variable, value).output().unwrap().status.code()
    };
    assert_eq!(with("SILICIDE_DEVICE", "nonsense", &[]), Some(4));
    assert_eq!(with("SILICIDE_DEVICE", "nonsense", &["--device", "cpu"]), Some(0));
    assert_eq!(with("SILICIDE_CTX_SIZE", "2", &["--device", "cpu"]), Some(2));
    assert_eq!(with("SILICIDE_CTX_SIZE", "2", &["--device", "cpu", "-c", "64"]), Some(0));
    assert_eq!(with("SILICIDE_THREADS", "many", &["--device", "cpu"]), Some(1));
    for command in ["run", "bench", "doctor", "graph"] {
        let output = program(&[command, "-v"]).env("SILICIDE_ISA", "mmx").output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && err.contains("mmx"), "{command}: {err}");
    }
    let arguments = short_run(&model, &["-p", "hi", "-v"]);
    let (_, err) = told(&program(&arguments).env("SILICIDE_ISA", "portable").output().unwrap(), &arguments);
    assert!(err.contains("portable, 1 threads"), "{err}");
}

#[test]
fn a_capture_that_the_device_refuses_says_why() {
    let model = model();
    let arguments = short_run(&model, &["-p", "one"]);
    refused(
        &[&arguments[..], &["--capture", "one.gputrace"]].concat(),
        4,
        &["cpu", "no way to capture", "Metal"],
    );
    let output = program(&arguments).env("SILICIDE_CAPTURE", "one.gputrace").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "the variable is the flag");
}

/// The help of a command, whatever the width that it is wrapped to.
fn help(command: &str, flag: &str) -> String {
    success(&[command, flag]).0.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn help_teaches_every_command() {
    let (overview, _) = success(&["--help"]);
    for part in
        ["Start here:", "Run:", "Models and files:", "Measure and check:", "Develop:", "SILICIDE_MODEL"]
    {
        assert!(overview.contains(part), "no {part:?} in {overview}");
    }
    for (command, takes_model) in COMMANDS {
        assert!(overview.lines().any(|line| line.trim_start().starts_with(command)), "{command}: {overview}");
        for flag in ["-h", "--help"] {
            let help = crate::help(command, flag);
            assert!(help.contains("Usage:"), "{help}");
            assert!(help.contains("Examples:"), "{help}");
            if takes_model {
                assert!(help.contains("<MODEL>") && help.contains("[env: SILICIDE_MODEL]"), "{help}");
            }
        }
    }
    let help = crate::help("run", "--help");
    for part in [
        "Sampling:",
        "Device:",
        "Context and memory:",
        "[aliases: -sys]",
        "[aliases: -ctk]",
        "[default: 0.8]",
    ] {
        assert!(help.contains(part), "no {part:?} in {help}");
    }
    let (arguments, rest) = help.split_once("Prompt:").unwrap();
    assert!(arguments.contains("[MODEL] The model") && !rest.contains("[MODEL]"), "{help}");
    let help = crate::help("logits", "--help");
    assert!(help.contains("f32") && help.contains("little-endian"), "{help}");
}

#[test]
fn shells_get_completions_and_man_gets_pages() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (script, _) = success(&["completions", shell]);
        assert!(script.contains("perplexity") && script.contains("ctx-size"), "{shell}");
    }
    assert_eq!(run(&["completions", "nonsense"]).status.code(), Some(1));
    let (page, _) = success(&["man"]);
    assert!(page.contains(".TH silicide"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    success(&["man", pages.to_str().unwrap()]);
    for (command, _) in COMMANDS {
        let page = std::fs::read_to_string(pages.join(format!("silicide-{command}.1"))).unwrap();
        assert!(page.contains(".TH"), "{page}");
    }
    refused(&["man", "/dev/null/man1"], 2, &["/dev/null/man1"]);
}

#[test]
fn quiet_says_nothing_and_verbose_says_what_was_chosen() {
    let model = model();
    let (out, err) = success(&short_run(&model, &["-p", "hi", "-q"]));
    assert!(!out.is_empty() && err.is_empty(), "{err}");
    let (_, err) = success(&short_run(&model, &["-p", "hi", "--verbose"]));
    for part in ["device: cpu", "model: ", "memory: ", "KV cache", "kernels: ", "tokens/s"] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    assert_eq!(run(&["run", &model, "hi", "-q", "-v"]).status.code(), Some(1));
}

#[test]
fn run_and_graph_count_the_same_dispatches() {
    let model = model();
    let (out, _) = success(&["graph", &model, "--device", "cpu", "-t", "1", "--dispatches"]);
    let last = out.lines().last().unwrap();
    let (total, rest) = last.split_once(" dispatches, ").unwrap();
    assert!(rest.contains(" copies and fills, "), "{last}");
    let (_, err) = success(&short_run(&model, &["-p", "hi", "-v"]));
    let line = err.lines().find(|line| line.starts_with("kernels: ")).unwrap();
    assert!(line.starts_with(&format!("kernels: {total} dispatches a token: ")), "{line} {last}");
    let each =
        line.split(" x").skip(1).map(|count| count.split(',').next().unwrap().parse::<usize>().unwrap());
    assert_eq!(each.sum::<usize>().to_string(), total, "{line}");
    let (out, _) = success(&["graph", &model, "--device", "cpu", "-t", "1"]);
    assert!(out.contains(&format!(" commands ({total} dispatches, ")), "{out}");
}

#[test]
fn an_instruction_set_is_forced_or_refused() {
    let model = model();
    let (_, err) = success(&short_run(&model, &["-p", "hi", "-v", "--isa", "portable"]));
    assert!(err.contains("portable, 1 threads"), "{err}");
    let (_, err) = success(&["run", &model, "--raw", "-p", "hi", "-n", "1", "-v", "--isa", "portable"]);
    assert!(err.contains("device: cpu"), "--isa alone takes the CPU: {err}");
    let other = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    refused(&["run", &model, "hi", "--isa", other], 1, &[other, "--isa", "this CPU has portable"]);
    refused(&["run", &model, "hi", "--isa", "mmx"], 1, &["mmx", "known are portable"]);
    refused(
        &["run", &model, "hi", "--isa", "portable", "--device", "vulkan:0"],
        1,
        &["--isa is for the CPU"],
    );
}

#[test]
fn a_context_beyond_training_is_warned_of() {
    let model = model();
    let (_, err) = success(&short_run(&model, &["-p", "hi", "-c", "100000"]));
    assert!(err.contains("warning: a context of 100000 tokens is beyond"), "{err}");
    let (_, err) = success(&short_run(&model, &["-p", "hi", "-c", "16"]));
    assert!(!err.contains("warning"), "{err}");
    // The refusal recommends what the model was trained on, not whatever fits.
    let output = run(&["run", &model, "hi", "-c", "2000000000", "--device", "cpu"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && err.contains("was trained on"), "{err}");
}

#[test]
fn the_table_of_bench_can_be_pasted() {
    let model = model();
    let arguments = ["bench", &model, "-p", "8", "-n", "2", "-t", "1", "--device", "cpu", "-q"];
    let (table, err) = success(&[&arguments[..], &["-r", "2", "-d", "0,4"]].concat());
    for part in [
        "| model",
        "params |",
        "q8_0",
        "| pp8 ",
        "tg2 @ d4",
        " ± ",
        concat!("silicide ", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(table.contains(part), "no {part:?} in {table}");
    }
    assert_eq!(err, "");
    let (table, _) = success(&[&arguments[..], &["-r", "1", "--isa", "portable"]].concat());
    assert!(!table.contains('±') && table.contains("cpu (portable)"), "{table}");
    let (json, _) = success(&[&arguments[..], &["-r", "1", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(report["model_facts"]["parameters"].as_u64() > Some(1000), "{json}");
    assert!(report["results"][0]["isa"].is_string() && report["build"].is_string(), "{json}");
    assert!(!table.contains("KV cache"), "{table}");
}

#[test]
fn bench_names_the_types_of_the_cache_and_their_rotation() {
    let model = testdata("models/qwen3.gguf");
    let arguments =
        ["bench", model.to_str().unwrap(), "-p", "8", "-n", "0", "-t", "1", "--device", "cpu", "-q"];
    let with = |more: &[&str]| success(&[&arguments[..], &["-r", "1", "-ctk", "q4_0"], more].concat()).0;
    for (rotate, shown) in [("on", "| q4_0 rotated, f16 |"), ("off", "| q4_0, f16 |")] {
        let table = with(&["--cache-rotate", rotate]);
        assert!(table.contains("KV cache") && table.contains(shown), "{table}");
    }
    let report: serde_json::Value = serde_json::from_str(&with(&["--json"])).unwrap();
    let cache = serde_json::json!({
        "keys": { "type": "q4_0", "rotated": true }, "values": { "type": "f16", "rotated": false },
    });
    assert_eq!(report["results"][0]["cache"], cache);
}

#[test]
fn a_cache_folder_that_cannot_be_made_is_an_error_of_list() {
    let output = program(&["list"]).env("SILICIDE_CACHE", "/dev/null/cache").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("/dev/null/cache"), "{err}");
}

/// A folder to store models in, with one model.
fn cache(folder: &Path, bytes: &[u8]) {
    std::fs::create_dir(folder.join("models")).unwrap();
    std::fs::write(folder.join("models/mine.gguf"), bytes).unwrap();
}

#[test]
fn doctor_checks_stored_models_and_says_what_best_takes() {
    let whole = std::fs::read(testdata("models/llama-tied-q8_0.gguf")).unwrap();
    let (good, bad) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    cache(good.path(), &whole);
    cache(bad.path(), &whole[..whole.len() / 2]);
    let arguments = ["doctor", "--seconds", "0", "--isa", "portable"];
    let output = program(&arguments).env("SILICIDE_CACHE", good.path()).output().unwrap();
    let (out, _) = told(&output, &arguments);
    assert!(out.contains("--device best takes ") && out.contains("model mine"), "{out}");
    let output = program(&arguments).env("SILICIDE_CACHE", bad.path()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("mine is damaged"), "{err}");
}
