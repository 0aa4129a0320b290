//! Every file of the gallery gives its error, names and offset included; and the gallery is the generated one.
#![allow(clippy::unwrap_used)]

use fuzz::gallery::{cases, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_file_gives_its_error() {
    let wrong: Vec<String> = cases().iter().filter_map(|case| case.check(&root()).err()).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn files_are_those_that_are_generated() {
    let cases = cases();
    let mut expected = BTreeSet::new();
    for (path, bytes) in cases.iter().flat_map(|case| &case.files) {
        let stored = fs::read(root().join(path)).unwrap_or_default();
        assert!(stored == *bytes, "{path} is out of date; run cargo run -p fuzz --bin gallery");
        assert!(expected.insert(root().join(path)), "{path} is there twice");
    }
    assert_eq!(files_below(&root()), expected);
    assert!(cases.len() >= 40, "{}", cases.len());
}

fn files_below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.insert(path);
        }
    }
    files
}
