//! Mutations. Each changes an input in place, in one spot, as the generator says: with the same seed, inputs are the same.
//!
//! | file | mutations of |
//! |---|---|
//! | `mod.rs` | bytes and numbers at the edges of their types |
//! | `gguf.rs` | counts, lengths, type tags, values, extents and offsets of a GGUF header |
//! | `json.rs` | the values of a JSON text, broken or not |
//! | `safetensors.rs` | the length prefix and the JSON header; a `config.json` before it |
//! | `template.rs` | the blocks and the words of a Jinja template |

mod gguf;
mod json;
mod safetensors;
mod template;

pub use gguf::gguf;
pub use json::json;
pub use safetensors::{checkpoint, safetensors};
pub use template::template;

use crate::target::{Seed, Target};
use fastrand::Rng;
use std::ops::Range;

/// Most mutations of one input.
const MOST: usize = 5;

/// Returns the seed that input `number` is without a mutation. At first every other input is a seed, until all have
/// been run.
pub fn plain(seeds: &[Seed], number: u64) -> Option<&Seed> {
    let turn = number.is_multiple_of(2).then_some(number / 2)?;
    seeds.get(usize::try_from(turn).ok()?)
}

/// Returns input `number` of the run that begins with `seed`: a seed of the target as it stands, or with one to five
/// mutations.
pub fn input(target: &Target, seeds: &[Seed], seed: u64, number: u64) -> Vec<u8> {
    if let Some(plain) = plain(seeds, number) {
        return plain.bytes.clone();
    }
    let mut random = Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut input = random.choice(seeds).map(|seed| seed.bytes.clone()).unwrap_or_default();
    // Half of the inputs have one mutation: more of them break most inputs early.
    let mutations = if random.bool() { 1 } else { random.usize(2..=MOST) };
    for _ in 0..mutations {
        match random.u8(..12) {
            0 => bytes(&mut input, &mut random),
            _ => (target.mutate)(&mut input, &mut random),
        }
    }
    input
}

/// Numbers at the edges of what lengths and counts may be.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    3,
    31,
    0xff,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    1 << 63,
    u64::MAX,
];

/// Returns a number near `value`, or one at an edge.
fn number_near(value: u64, random: &mut Rng) -> u64 {
    match random.u8(..8) {
        0 => value.wrapping_add(1),
        1 => value.wrapping_sub(1),
        2 => value.wrapping_mul(2),
        3 => value / 2,
        4 => value ^ (1 << random.u8(..64)),
        5 => random.u64(..) >> random.u8(..64),
        _ => random.choice(EDGES).unwrap_or(0),
    }
}

/// Returns a random range of at most `most` bytes of an input of `len` bytes.
fn range(len: usize, most: usize, random: &mut Rng) -> Range<usize> {
    let start = random.usize(..len.max(1)).min(len);
    start..(start + random.usize(..most)).min(len)
}

/// Changes bytes without regard to structure: flips, sets, cuts, inserts, copies.
pub fn bytes(bytes: &mut Vec<u8>, random: &mut Rng) {
    if bytes.is_empty() {
        return bytes.push(random.u8(..));
    }
    let at = random.usize(..bytes.len());
    let piece = range(bytes.len(), 64, random);
    match random.u8(..16) {
        0..=3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.u8(..8)),
        4..=6 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.u8(..)),
        7 => bytes.truncate(at),
        8 => bytes.insert(at, random.u8(..)),
        9 => drop(bytes.drain(piece)),
        10..=12 => {
            let number = random.choice(EDGES).unwrap_or(0).to_le_bytes();
            let width = random.choice([4, 8]).unwrap_or(8);
            bytes.iter_mut().skip(at).zip(number).take(width).for_each(|(byte, new)| *byte = new);
        }
        13 => {
            let copy = bytes.get(piece).unwrap_or_default().to_vec();
            bytes.iter_mut().skip(at).zip(copy).for_each(|(byte, new)| *byte = new);
        }
        _ => {
            let copy = bytes.get(piece).unwrap_or_default().to_vec();
            bytes.splice(at..at, copy);
        }
    }
}
