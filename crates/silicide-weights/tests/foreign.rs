//! Files that are no models: what the error says they are.
#![allow(clippy::unwrap_used)]

use silicide_weights::{Error, Source};

#[test]
fn errors_name_the_kind_of_a_file_that_is_not_a_model() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes, expected) in [
        ("x.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), "a PNG image"),
        ("notes.txt", b"hello\n", "plain text"),
        ("model.gguf", b"<!DOCTYPE html><html><head>", "a web page"),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("pytorch_model.bin", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "PyTorch"),
        ("empty.bin", b"", "an empty file"),
        ("empty.gguf", b"", "the file is empty"),
        ("empty.safetensors", b"", "the file is empty"),
        ("unknown.bin", b"\x01\x02\x03\xfe", "01 02 03 fe"),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let text = Source::open(&path).unwrap_err().to_string();
        assert!(text.contains(expected) && text.contains(name), "{name}: {text}");
    }
    let text = directory.path().join("notes.txt");
    assert!(matches!(Source::open(&text), Err(Error::Foreign { kind: "plain text", .. })));
}

#[test]
fn a_folder_of_git_lfs_pointers_says_so() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.json"), "{}").unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98362432\n";
    std::fs::write(directory.path().join("model.safetensors"), pointer).unwrap();
    let text = Source::open(directory.path()).unwrap_err().to_string();
    assert!(text.contains("model.safetensors") && text.contains("git lfs pull"), "{text}");
}
