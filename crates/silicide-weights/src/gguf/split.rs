//! Models in several files: `name-00001-of-00003.gguf` and so on. Each is a whole GGUF file; their metadata says how
//! they belong together, and must agree with their names.

use super::file::GgufFile;
use super::value::Value;
use crate::bytes::FileReader;
use crate::error::{Error, Fault, Result};
use crate::limits;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Which of how many files a name says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The name up to the numbers.
    pub(crate) stem: String,
    /// From 1.
    pub(crate) number: u32,
    pub(crate) count: u32,
}

/// Reads the numbers in a name.
pub(crate) fn position(path: &Path) -> Option<Position> {
    let name = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
    let (rest, count) = name.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| {
        let plain = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    let position = Position { stem: stem.to_owned(), number: digits(number)?, count: digits(count)? };
    (1..=position.count).contains(&position.number).then_some(position)
}

/// Opens a file, and if it is one of several, all of them, in order.
pub(crate) fn open_all(path: &Path, reader: &mut FileReader<'_>) -> Result<Vec<GgufFile>> {
    let position = position(path).filter(|position| position.count > 1);
    let (paths, count) = match &position {
        None => (vec![path.to_owned()], 1),
        Some(position) => {
            let (got, limit) = (u64::from(position.count), limits::SHARDS as u64);
            if got > limit {
                let fault = Fault::TooMany { what: "the number of files of a model", got, limit };
                return Err(Error::malformed(path, 0, fault));
            }
            (siblings(path, position), got)
        }
    };
    let mut files = Vec::new();
    for (number, path) in (0u32..).zip(&paths) {
        let file = GgufFile::parse(reader.open(path)?)?.numbered(number);
        if count > 1 || file.get("split.count").is_some() {
            agree(&file, "split.count", count)?;
            agree(&file, "split.no", number.into())?;
        }
        files.push(file);
    }
    if let [first, _, ..] = files.as_slice() {
        agree(first, "split.tensors.count", files.iter().map(|file| file.entries().len() as u64).sum())?;
        no_doubles(&files)?;
    }
    Ok(files)
}

fn siblings(path: &Path, position: &Position) -> Vec<PathBuf> {
    let Position { stem, count, .. } = position;
    (1..=*count).map(|number| path.with_file_name(format!("{stem}-{number:05}-of-{count:05}.gguf"))).collect()
}

/// Refuses a file whose metadata says anything but `expected`.
fn agree(file: &GgufFile, key: &'static str, expected: u64) -> Result<()> {
    let value = file.get(key);
    let got = value.as_ref().and_then(Value::as_u64);
    if got == Some(expected) {
        return Ok(());
    }
    let got = match (got, value) {
        (Some(got), _) => got.to_string(),
        (None, Some(value)) => format!("of type {}", value.kind().name()),
        (None, None) => "missing".to_owned(),
    };
    let fault = Fault::Split { key, got, expected };
    Err(Error::malformed(file.bytes().path(), file.offset_of(key).unwrap_or(0), fault))
}

fn no_doubles(files: &[GgufFile]) -> Result<()> {
    let mut names = HashSet::new();
    for file in files {
        for entry in file.entries() {
            if !names.insert(entry.name()) {
                let fault = Fault::Duplicate { what: "tensor", name: entry.name().to_owned() };
                let offset = file.declared(entry.name()).unwrap_or(0);
                return Err(Error::malformed(file.bytes().path(), offset, fault));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names() {
        let read =
            |name: &str| position(Path::new(name)).map(|found| (found.stem, found.number, found.count));
        assert_eq!(read("models/a-b-00002-of-00003.gguf"), Some(("a-b".to_owned(), 2, 3)));
        assert_eq!(read("x-00001-of-00001.gguf"), Some(("x".to_owned(), 1, 1)));
        for other in [
            "x.gguf",
            "x-00000-of-00003.gguf",
            "x-00004-of-00003.gguf",
            "x-1-of-3.gguf",
            "x-00001-of-00003.bin",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        let found = position(Path::new("d/x-00002-of-00002.gguf")).unwrap();
        let siblings = siblings(Path::new("d/x-00002-of-00002.gguf"), &found);
        assert_eq!(siblings, [Path::new("d/x-00001-of-00002.gguf"), Path::new("d/x-00002-of-00002.gguf")]);
    }
}
