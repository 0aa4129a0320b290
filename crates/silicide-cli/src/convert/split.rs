//! Models in several files, as llama.cpp's `gguf-split` writes them.
//!
//! `name-00002-of-00003.gguf` is the second of three files. Each has `split.no` (from 0), `split.count` and
//! `split.tensors.count`; the first has all other metadata. A file gets tensors in order until a limit is reached.

use super::plan::{Plan, Step};
use crate::error::Error;
use silicide_weights::gguf::GgufWriter;
use std::path::{Path, PathBuf};

/// Most files of a model: more have names that no program reads.
const MOST: usize = 9999;

/// How much a file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Bytes of tensor data.
    Bytes(u64),
    /// Tensors.
    Tensors(usize),
}

/// Reads a size such as `500M` or `2G`, in powers of 1000.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let unit = |suffix: char, factor: u64| {
        let digits = text.strip_suffix([suffix, suffix.to_ascii_lowercase()])?;
        digits.parse::<u64>().ok()?.checked_mul(factor)
    };
    let bytes = unit('M', 1_000_000).or_else(|| unit('G', 1_000_000_000));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| "expected a size such as 500M or 2G".to_owned())
}

/// A file to write: where, and which tensors.
pub(super) struct Shard {
    pub(super) path: PathBuf,
    pub(super) writer: GgufWriter,
    /// The first step, and how many follow.
    pub(super) first: usize,
    pub(super) count: usize,
}

/// The files of a plan: one without a limit. Every tensor is declared in its file.
pub(super) fn shards<'a>(
    plan: Plan<'a>,
    output: &Path,
    limit: Option<Limit>,
) -> Result<(Vec<Shard>, Vec<Step<'a>>), Error> {
    let Plan { writer, steps } = plan;
    let mut shards = match limit {
        None => vec![Shard { path: output.to_owned(), writer, first: 0, count: steps.len() }],
        Some(limit) => {
            let counts = cut(steps.iter().map(Step::bytes), limit);
            name(writer, &counts, output)?
        }
    };
    for shard in &mut shards {
        for step in steps.iter().skip(shard.first).take(shard.count) {
            shard.writer.tensor(&step.name, step.shape, step.choice.dtype)?;
        }
    }
    Ok((shards, steps))
}

/// How many tensors each file gets. A tensor larger than the limit has a file of its own.
fn cut(sizes: impl Iterator<Item = u64>, limit: Limit) -> Vec<usize> {
    let (mut counts, mut bytes) = (vec![0], 0u64);
    for size in sizes {
        let padded = size.next_multiple_of(32);
        let Some(count) = counts.last_mut() else { break };
        let full = match limit {
            Limit::Bytes(most) => bytes + padded > most,
            Limit::Tensors(most) => *count >= most,
        };
        if full && *count > 0 {
            counts.push(1);
            bytes = padded;
        } else {
            *count += 1;
            bytes += padded;
        }
    }
    counts
}

fn name(writer: GgufWriter, counts: &[usize], output: &Path) -> Result<Vec<Shard>, Error> {
    let total = counts.len();
    if total > MOST {
        return Err(Error::Usage(format!(
            "the model would be split into {total} files, at most {MOST} are allowed"
        )));
    }
    let stem = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let tensors: usize = counts.iter().sum();
    let (mut first, mut shards, mut whole) = (0, Vec::new(), Some(writer));
    for (number, &count) in counts.iter().enumerate() {
        let path = output.with_file_name(format!("{stem}-{:05}-of-{total:05}.gguf", number + 1));
        let mut writer = match whole.take() {
            Some(writer) => writer.renamed(&path),
            None => GgufWriter::new(&path),
        };
        writer.meta("split.no", &(number as u16))?;
        writer.meta("split.count", &(total as u16))?;
        writer.meta("split.tensors.count", &(tensors as i32))?;
        shards.push(Shard { path, writer, first, count });
        first += count;
    }
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_powers_of_1000() {
        assert_eq!(parse_size("500M"), Ok(500_000_000));
        assert_eq!(parse_size("2g"), Ok(2_000_000_000));
        for wrong in ["", "2", "0M", "2T", "M", "-1G", "99999999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_filled_in_order() {
        let sizes = [32, 64, 40, 200, 32];
        assert_eq!(cut(sizes.into_iter(), Limit::Bytes(128)), [2, 1, 1, 1]);
        assert_eq!(cut(sizes.into_iter(), Limit::Bytes(1000)), [5]);
        assert_eq!(cut(sizes.into_iter(), Limit::Tensors(2)), [2, 2, 1]);
        assert_eq!(cut(sizes.into_iter(), Limit::Bytes(1)), [1; 5]);
        assert_eq!(cut([].into_iter(), Limit::Tensors(2)), [0]);
    }
}
