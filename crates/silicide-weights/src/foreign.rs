//! Files that are no weight files: what they are instead, and what to do about it.
//!
//! Users open wrong files: a web page that a browser saved, a Git LFS pointer, a PyTorch checkpoint. The first bytes tell
//! what it is.

use crate::error::{Error, Result};
use crate::gguf;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes that are looked at. A tar archive has its mark at byte 257, a PyTorch archive the name of its first member near 40.
const START: u64 = 1024;

const PYTORCH: (&str, &str) = (
    "a PyTorch checkpoint (pickle), which can run code when it is loaded",
    "use the model's safetensors or GGUF files, or convert it with its own tools",
);
const IMAGE: &str = "give a GGUF file or a folder with safetensors";
const ARCHIVE: &str = "unpack it, and give the file or folder inside";
const GGML: (&str, &str) =
    ("a GGML file from before GGUF (2023)", "download the model as GGUF; old files cannot be read any more");

/// Marks at fixed positions: the bytes, where they are, the kind of file, what to do.
const MARKS: [(&[u8], usize, &str, &str); 26] = [
    (b"\x89PNG\r\n", 0, "a PNG image", IMAGE),
    (b"\xff\xd8\xff", 0, "a JPEG image", IMAGE),
    (b"GIF8", 0, "a GIF image", IMAGE),
    (b"WEBP", 8, "a WebP image", IMAGE),
    (b"%PDF-", 0, "a PDF document", IMAGE),
    (b"lmgg", 0, GGML.0, GGML.1),
    (b"fmgg", 0, GGML.0, GGML.1),
    (b"tjgg", 0, GGML.0, GGML.1),
    (b"algg", 0, "a GGML adapter (LoRA) from before GGUF", "adapters are not supported"),
    (b"\x1f\x8b", 0, "a gzip archive", ARCHIVE),
    (b"\xfd7zXZ\0", 0, "an xz archive", ARCHIVE),
    (b"\x28\xb5\x2f\xfd", 0, "a zstd archive", ARCHIVE),
    (b"BZh", 0, "a bzip2 archive", ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7-Zip archive", ARCHIVE),
    (b"Rar!\x1a\x07", 0, "a RAR archive", ARCHIVE),
    (b"ustar", 257, "a tar archive", ARCHIVE),
    (b"\x89HDF\r\n", 0, "an HDF5 file (Keras)", "use the model's safetensors or GGUF files"),
    (b"\x93NUMPY", 0, "a NumPy array", "use the model's safetensors or GGUF files"),
    (b"TFL3", 4, "a TensorFlow Lite model", "use the model's safetensors or GGUF files"),
    (b"\x7fELF", 0, "a program", IMAGE),
    (b"SQLite format 3\0", 0, "a SQLite database", IMAGE),
    (
        b"version https://git-lfs",
        0,
        "a Git LFS pointer",
        "it stands for the file: run `git lfs pull`, or download the file itself",
    ),
    (b"\x80\x02", 0, PYTORCH.0, PYTORCH.1),
    (b"\x80\x03", 0, PYTORCH.0, PYTORCH.1),
    (b"\x80\x04", 0, PYTORCH.0, PYTORCH.1),
    (b"\x80\x05", 0, PYTORCH.0, PYTORCH.1),
];

/// The kind of a file that is not a model, and advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) kind: &'static str,
    pub(crate) advice: &'static str,
}

/// Refuses a well-known kind of file that holds no weights. An empty file is left to the parser of its format.
pub(crate) fn refuse(path: &Path) -> Result<()> {
    let beginning = Beginning::read(path).map_err(|error| Error::io(path, &error))?;
    match beginning.foreign() {
        Some(Foreign { kind, advice }) if !beginning.0.is_empty() => {
            Err(Error::Foreign { path: path.to_owned(), kind, advice })
        }
        _ => Ok(()),
    }
}

/// How a file begins.
#[derive(Debug)]
pub(crate) struct Beginning(Vec<u8>);

impl Beginning {
    /// Reads the first bytes of a file.
    pub(crate) fn read(path: &Path) -> std::io::Result<Beginning> {
        let mut start = Vec::new();
        File::open(path)?.take(START).read_to_end(&mut start)?;
        Ok(Beginning(start))
    }

    /// Returns whether the file begins with GGUF's magic number.
    pub(crate) fn is_gguf(&self) -> bool {
        self.0.starts_with(gguf::MAGIC)
    }

    /// Returns whether the file begins as safetensors files do: with the length of a JSON object, then the object.
    pub(crate) fn is_safetensors(&self) -> bool {
        let length = self.0.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        length.is_some_and(|length| length <= crate::limits::SAFETENSORS_HEADER)
            && self.0.get(8) == Some(&b'{')
    }

    /// Returns the first bytes in hexadecimal, for messages.
    pub(crate) fn hexadecimal(&self) -> String {
        self.0.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns the kind of file, if it is a well-known one that holds no weights.
    pub(crate) fn foreign(&self) -> Option<Foreign> {
        // The first bytes of GGUF's magic number are a GGUF file that was cut.
        let cut = !self.0.is_empty() && gguf::MAGIC.starts_with(&self.0);
        if self.is_gguf() || cut || self.is_safetensors() {
            return None;
        }
        let known = |(kind, advice)| Some(Foreign { kind, advice });
        if self.0.is_empty() {
            return known(("an empty file", "download it again"));
        }
        if self.0.starts_with(b"PK\x03\x04") {
            let pickle = self.0.windows(8).any(|window| window == b"data.pkl");
            return known(if pickle { PYTORCH } else { ("a zip archive", ARCHIVE) });
        }
        let found = MARKS.iter().find(|(mark, at, ..)| {
            let end = at.saturating_add(mark.len());
            self.0.get(*at..end).is_some_and(|bytes| bytes == *mark)
        });
        match found {
            Some(&(_, _, kind, advice)) => known((kind, advice)),
            None if self.is_onnx() => known(("an ONNX model", "use the model's safetensors or GGUF files")),
            None => self.text().and_then(|text| known(kind_of_text(text))),
        }
    }

    /// Protocol buffers have no mark. ONNX begins with its version, then the name of the producer.
    fn is_onnx(&self) -> bool {
        matches!(self.0.as_slice(), [8, 1..=32, 18, length, ..] if *length < 64)
            && self.0.get(4..8).is_some_and(|name| name.iter().all(u8::is_ascii_graphic))
    }

    /// Returns the beginning as text, if it is text. A character may be cut at the end.
    fn text(&self) -> Option<&str> {
        let text = match std::str::from_utf8(&self.0) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(self.0.get(..error.valid_up_to())?).ok()?
            }
            Err(_) => return None,
        };
        let plain = |character: char| !character.is_control() || character.is_ascii_whitespace();
        text.chars().all(plain).then_some(text)
    }
}

fn kind_of_text(text: &str) -> (&'static str, &'static str) {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let is = |mark: &str| start.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark));
    if is("<!doctype html") || is("<html") || is("<head") {
        return (
            "a web page",
            "the browser saved the page about the file; use the download link of the file itself",
        );
    }
    if is("{") || is("[") {
        return ("JSON text", "give the folder that it lies in, with its safetensors files");
    }
    if is("<?xml") || is("<error") {
        return ("XML text", "often the error message of a download; download the file again");
    }
    ("plain text", "give a GGUF file or a folder with safetensors")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn kind(bytes: &[u8]) -> Option<&'static str> {
        Beginning(bytes.to_vec()).foreign().map(|foreign| foreign.kind)
    }

    #[test]
    fn well_known_files_are_named() {
        let mut tar = vec![0; 512];
        tar.splice(257..262, *b"ustar");
        let pickle = [b"PK\x03\x04".as_slice(), &[0; 26], b"archive/data.pklFB"].concat();
        for (bytes, expected) in [
            (b"".as_slice(), "an empty file"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
            (&pickle, PYTORCH.0),
            (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", PYTORCH.0),
            (b"PK\x03\x04\x14\0\0\0\x08\0a.txt", "a zip archive"),
            (b"\x08\x08\x12\x07pytorch\x1a\x052.1.0", "an ONNX model"),
            (b"\n\n<!DOCTYPE HTML><html>", "a web page"),
            (
                b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98362432\n",
                "a Git LFS pointer",
            ),
            (b"tjgg\x03\0\0\0\0\x7d\0\0", GGML.0),
            (b"lmgg\0\x7d\0\0", GGML.0),
            (b"{\"model_type\": \"llama\"}", "JSON text"),
            (b"hello\n", "plain text"),
            ("Gr\u{fc}\u{df}e \u{6f22}".as_bytes(), "plain text"),
            (b"\x1f\x8b\x08\0", "a gzip archive"),
            (&tar, "a tar archive"),
        ] {
            assert_eq!(kind(bytes), Some(expected), "{bytes:?}");
        }
    }

    #[test]
    fn weight_files_and_unknown_bytes_are_not_foreign() {
        for bytes in [
            b"GGUF\x03\0\0\0".as_slice(),
            b"GGU",
            b"\x10\0\0\0\0\0\0\0{\"a\":",
            b"\xff\xff\xff\xff\xff\xff\xff\xff{}",
            b"\x01\x02\x03",
        ] {
            assert_eq!(kind(bytes), None, "{bytes:?}");
        }
        // A character that the end of the beginning cuts is still text.
        let mut cut = "x".repeat(1023).into_bytes();
        cut.push("\u{fc}".as_bytes()[0]);
        assert_eq!(kind(&cut), Some("plain text"));
    }
}
