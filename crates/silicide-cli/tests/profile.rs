//! `--profile`, `--trace` and `--report` as people use them.
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn a_run_tells_where_its_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, report) = (folder.path().join("trace.json"), folder.path().join("report.html"));
    let output = Command::new(env!("CARGO_BIN_EXE_silicide"))
        .args([
            "run",
            "--device",
            "cpu",
            "--raw",
            "-p",
            "one two",
            "-n",
            "4",
            "--ignore-eos",
            "-t",
            "2",
            "--profile",
            "-m",
        ])
        .arg(samples::testdata("models/llama-tied-q8_0.gguf"))
        .arg("--trace")
        .arg(&trace)
        .arg("--report")
        .arg(&report)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    for part in ["kernel", "scope", "GB/s", "of the limit", "attention", "barriers", "limits measured here"] {
        assert!(told.contains(part), "no {part:?} in\n{told}");
    }
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let lane = |lane: u64| events.iter().filter(|event| event["tid"] == lane && event["ph"] == "X").count();
    assert!(lane(1) >= 4 && lane(2) > lane(1), "{} {}", lane(1), lane(2));
    assert!(events.iter().any(|event| event["name"] == "sample"));
    assert_eq!(trace["otherData"]["dropped"], 0);
    // The submitting thread has a lane of its own; what the other finds to do in so small a model is a matter of luck.
    let threads = |event: &&serde_json::Value| {
        event["name"] == "thread_name"
            && event["args"]["name"].as_str().is_some_and(|name| name.contains("thread"))
    };
    assert!(events.iter().filter(threads).count() >= 1 && lane(3) > 0, "{events:?}");
    assert!(told.contains("threads busy"), "{told}");
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("Thread 0 was busy"), "{page}");
    for part in [
        "kernels</text>",
        "thread 0</text>",
        "<td>Prompt",
        "<td>Generation",
        "tokens/s",
        "Prompt: the last pass",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    assert!(page.contains(" µs</text>") || page.contains(" ms</text>"), "no axis: {page}");
    assert!(page.contains("<svg") && page.contains("<rect") && page.contains("</table>"), "{page}");
}

#[test]
fn a_trace_or_report_that_cannot_be_written_is_found_before_the_run() {
    for flag in ["--trace", "--report"] {
        for command in [&["run", "--raw", "-p", "one", "-n", "1"][..], &["bench", "-p", "8", "-n", "0"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_silicide"))
                .args(command)
                .args(["--device", "cpu", "-m"])
                .arg(samples::testdata("models/llama-tied-q8_0.gguf"))
                .args([flag, "/no/such/folder/file"])
                .output()
                .unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(told.contains("/no/such/folder/file") && output.stdout.is_empty(), "{told}");
        }
    }
}

#[test]
fn a_kernel_above_the_measured_limit_is_not_given_a_share_above_100_percent() {
    let output = Command::new(env!("CARGO_BIN_EXE_silicide"))
        .args(["run", "--device", "cpu", "--raw", "-p", "one two", "-n", "4", "--ignore-eos", "--profile"])
        .arg(samples::testdata("models/llama-tied-q8_0.gguf"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let shares = told.lines().filter_map(|line| line.rsplit('|').nth(1)).filter(|cell| cell.contains('%'));
    let shares: Vec<&str> = shares.filter(|cell| cell.contains('(')).map(str::trim).collect();
    assert!(!shares.is_empty(), "{told}");
    let is_explained = told.contains(">100%: faster than the limit measured here");
    assert_eq!(shares.iter().any(|share| share.starts_with('>')), is_explained, "{told}");
    for share in shares {
        let number = share.split('%').next().unwrap();
        assert!(number == ">100" || number.parse::<u32>().unwrap() <= 100, "{share}");
    }
}
