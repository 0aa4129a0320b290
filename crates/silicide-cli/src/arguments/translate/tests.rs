use super::*;
use clap::CommandFactory;

fn translated(line: &str) -> Result<Translated, Error> {
    let words = ["silicide"].into_iter().chain(line.split(' ')).map(OsString::from);
    translate(&crate::Arguments::command(), words)
}

#[test]
fn flags_with_one_dash_become_long_flags_and_others_are_left() {
    for (given, meant) in [
        ("run -ctk f32", "run --cache-type-k f32"),
        ("run -ub 3 -c 5", "run --ubatch-size 3 -c 5"),
        ("run -dev cpu text", "run --device cpu text"),
        ("run -ngl 99 -fa -c5 -n-1", "run --gpu-layers 99 -c5 -n-1"),
        ("run --n_predict 3 --ctx_size=5", "run --n-predict 3 --ctx-size=5"),
        ("run -no-cnv --mirostat 0 --typical 1.0", "run --raw"),
        // Values are not flags.
        ("tokenize --text -ub --json", "tokenize --text -ub --json"),
        ("run -p -sys -sys -p -n 3", "run -p -sys --system-prompt -p -n 3"),
        ("run --raw -ub 3 -- -ub", "run --raw --ubatch-size 3 -- -ub"),
        // A command's own meaning comes first.
        ("bench -r 3 -p 5", "bench -r 3 -p 5"),
        ("run -r end", "run --stop end"),
        ("run -lm mmap -c 5", "run --load=map -c 5"),
        ("bench --load-mode=none", "bench --load=copy"),
        ("run -lm auto hi", "run hi"),
        ("run -lm mlock", "run --load=copy"),
        // Their colours and ours.
        ("run --color -p hi", "run -p hi"),
        ("run --color on -co off --color never", "run --no-color --no-color"),
        ("run --color always", "run --color always"),
    ] {
        let actual = translated(given).unwrap().arguments.join(&OsString::from(" "));
        assert_eq!(actual.to_str().unwrap(), format!("silicide {meant}"));
    }
}

#[test]
fn an_unknown_flag_is_an_error_that_names_it() {
    for (given, part) in [
        ("run smollm2 -hello", "-p \"-hello\""),
        ("run -ctkx f32", "has no flag -ctkx"),
        ("run -sky", "`silicide run` has no flag -sky"),
        ("bench -mmp 0", "`silicide bench` has no flag -mmp"),
        ("-hf user/repo", "silicide run -hf"),
        ("run -hf user/repo", "-hf user/repo is not supported: models come from files"),
        ("run --mirostat 2", "no such sampler"),
        ("run -lm fast", "-lm fast is not supported: the values are auto, mmap, none"),
        ("run -b", "-b needs a value"),
    ] {
        let error = translated(given).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(part)), "{given}: {error:?}");
    }
}

#[test]
fn a_load_mode_that_locks_memory_notes_that_memory_is_not_locked() {
    let notes = translated("run -lm mmap+mlock").unwrap().notes;
    assert_eq!(notes, ["-lm mmap+mlock: weights are not locked in memory; --mlock locks them"]);
    assert!(translated("run -lm mmap").unwrap().notes.is_empty());
}

#[test]
fn a_sentence_that_begins_with_a_dash_is_the_prompt() {
    let words = ["silicide", "run", "m.gguf", "- one\n- two", "--temp", "0"].map(OsString::from);
    let arguments = translate(&crate::Arguments::command(), words.into_iter()).unwrap().arguments;
    assert_eq!(arguments[3], "--prompt=- one\n- two");
}

/// The list of llama-cli's flags: names, and how many values they take.
fn foreign() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let list = include_str!("../../../tests/llama-cli-flags.txt");
    list.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words: Vec<&str> = line.split(' ').collect();
        let values = words.pop().unwrap();
        (words, values)
    })
}

#[test]
fn every_flag_of_llama_cli_is_taken_or_refused_by_name() {
    let command = crate::Arguments::command();
    let run = command.find_subcommand("run").unwrap();
    let own = OwnFlags::of(&command, run);
    let mut count = 0;
    for (names, values) in foreign() {
        for name in names {
            count += 1;
            if own.has(name) {
                assert_eq!(own.valued.contains(name), values != "none", "{name}");
                continue;
            }
            let row = llama::find(name).unwrap_or_else(|| panic!("{name} has no rule"));
            let expected = match values {
                "none" => Values::None,
                "one" => Values::One,
                "two" => Values::Two,
                _ => Values::Switch,
            };
            assert_eq!(row.values, expected, "{name}");
            if let Treatment::SameValue(other, _) = row.treatment {
                assert!(own.valued.contains(other), "{name} stands for {other}, which `run` lacks");
            }
            if let Treatment::Same(other) = row.treatment {
                assert!(own.has(other), "{name} stands for {other}, which `run` lacks");
                assert_eq!(own.valued.contains(other), values == "one", "{name} stands for {other}");
            }
        }
    }
    assert!(count > 300, "{count} names");
}

#[test]
fn a_foreign_flag_never_takes_the_prompt_for_its_value() {
    for (names, values) in foreign() {
        let given = match values {
            "none" | "switch" => "",
            "one" => " 7",
            _ => " 7 8",
        };
        for name in names.iter().filter(|name| !["-p", "--prompt", "-f", "--file"].contains(name)) {
            let Ok(done) = translated(&format!("run {name}{given} hello")) else { continue };
            assert_eq!(done.arguments.last().unwrap(), "hello", "{name}");
            let kept = done.arguments.iter().any(|argument| argument == "7");
            let dropped = done.arguments.len() == 3;
            assert!(kept || dropped || given.is_empty(), "{name}: {:?}", done.arguments);
        }
    }
}

#[test]
fn no_name_stands_in_two_rows_of_the_table() {
    let mut names: Vec<&str> = llama::TABLE.iter().flat_map(|flag| flag.names).copied().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
