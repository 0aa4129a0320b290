//! Inputs as differences from a seed: a mutated model of 100 KB is a patch of 100 bytes.
//!
//! ```text
//! seed models/llama-tied-q8_0.gguf
//! copy 0 24              24 bytes of the seed from offset 0
//! insert ffffff7f        these bytes
//! copy 28 108676
//! ```

use crate::target::Seed;
use std::collections::HashMap;
use std::fmt::Write;

/// Bytes that must agree before a copy pays.
const BLOCK: usize = 16;

/// Returns the seed that `bytes` most likely came from: the one with the longest common start and end.
pub fn nearest<'a>(seeds: &'a [Seed], bytes: &[u8]) -> Option<&'a Seed> {
    let common = |seed: &&Seed| {
        let ends = seed.bytes.iter().rev().zip(bytes.iter().rev());
        agreement(&seed.bytes, 0, bytes) + ends.take_while(|(a, b)| a == b).count()
    };
    seeds.iter().max_by_key(common)
}

/// Returns the text of the patch that makes `bytes` from `seed`.
pub fn make(seed: &Seed, bytes: &[u8]) -> String {
    let mut places = HashMap::new();
    for (number, block) in seed.bytes.chunks_exact(BLOCK).enumerate() {
        places.entry(block).or_insert(number * BLOCK);
    }
    let mut text = format!("seed {}\n", seed.name);
    let (mut at, mut inserted, mut follows) = (0, Vec::new(), 0);
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        // Where the last copy ended, or would have ended had the inserted bytes been the seed's, or anywhere.
        let found = rest.get(..BLOCK).and_then(|block| places.get(block)).copied();
        let nearby = [follows, follows + inserted.len()].into_iter().chain(found);
        let best =
            nearby.map(|from| (agreement(&seed.bytes, from, rest), from)).max_by_key(|&(length, _)| length);
        match best {
            Some((length, from)) if length >= BLOCK || length == rest.len() => {
                flush(&mut text, &mut inserted);
                let _ = writeln!(text, "copy {from} {length}");
                at += length;
                follows = from + length;
            }
            _ => {
                inserted.extend(rest.first());
                at += 1;
            }
        }
    }
    flush(&mut text, &mut inserted);
    text
}

/// The number of bytes of `seed` from `from` on that `bytes` begins with.
fn agreement(seed: &[u8], from: usize, bytes: &[u8]) -> usize {
    let seed = seed.get(from..).unwrap_or_default();
    seed.iter().zip(bytes).take_while(|(a, b)| a == b).count()
}

fn flush(text: &mut String, inserted: &mut Vec<u8>) {
    if !inserted.is_empty() {
        text.push_str("insert ");
        inserted.drain(..).for_each(|byte| {
            let _ = write!(text, "{byte:02x}");
        });
        text.push('\n');
    }
}

/// Returns the bytes that a patch describes; `None` where the patch is broken or its seed is not among `seeds`.
pub fn apply(text: &str, seeds: &[Seed]) -> Option<Vec<u8>> {
    let mut lines = text.lines();
    let name = lines.next()?.strip_prefix("seed ")?;
    let seed = seeds.iter().find(|seed| seed.name == name)?;
    let mut bytes = Vec::new();
    for line in lines {
        match line.split_once(' ')? {
            ("copy", range) => {
                let (from, length) = range.split_once(' ')?;
                let (from, length): (usize, usize) = (from.parse().ok()?, length.parse().ok()?);
                bytes.extend(seed.bytes.get(from..from.checked_add(length)?)?);
            }
            ("insert", digits) => {
                for at in (0..digits.len()).step_by(2) {
                    bytes.push(u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?);
                }
            }
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate;
    use crate::targets::find;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_patch_gives_back_the_bytes_it_was_made_from() {
        let target = find("gguf_model").unwrap();
        let seeds = (target.seeds)();
        let seeds = seeds.get(..2).unwrap();
        for number in 0..40 {
            let bytes = mutate::input(&target, seeds, 3, number);
            let seed = seeds.first().unwrap();
            let text = make(seed, &bytes);
            assert!(apply(&text, seeds).unwrap() == bytes, "{number}");
        }
    }
}
