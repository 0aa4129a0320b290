//! The README's sample output reproduces: its command, run on each instruction set of this CPU, prints its text.
#![allow(clippy::panic, clippy::unwrap_used)]

use silicide::hal::cpu::Isa;
use std::process::Command;

/// Returns the arguments and the text of the README's sample.
fn sample() -> (Vec<String>, String) {
    let readme = std::fs::read_to_string(samples::testdata("../README.md")).unwrap();
    let (_, rest) = readme.split_once("```text\n$ silicide ").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let (command, text) = block.split_once('\n').unwrap();
    let words = command.split('"').enumerate().flat_map(|(i, part)| match i % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        _ => vec![part.to_owned()],
    });
    (words.collect(), text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn the_sample_of_the_readme_reproduces_on_every_instruction_set() {
    let Some(model) = samples::model() else { return };
    let (mut arguments, expected) = sample();
    let named = arguments.iter_mut().find(|argument| *argument == "smollm2").unwrap();
    *named = model.to_str().unwrap().to_owned();
    for isa in Isa::available() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silicide"));
        let output =
            command.args(&arguments).args(["--device", "cpu", "--isa", isa.name()]).output().unwrap();
        assert!(output.status.success(), "{isa}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{isa}");
    }
}
