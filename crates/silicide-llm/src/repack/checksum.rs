//! A checksum of bytes at the speed of memory: eight lanes of multiplications, which do not wait for each other.
//!
//! ```text
//! for each word of 8 bytes, in turn: lane[i % 8] = rotate((lane[i % 8] ^ word) * K, 31)
//! ```
//!
//! Each step can be inverted, so two inputs of one length that differ in one word have different checksums. It finds accidents,
//! not attackers.

/// An odd number with as many ones as zeros.
const K: u64 = 0x9E37_79B9_7F4A_7C15;
const LANES: usize = 8;

/// Returns the checksum of `bytes`.
pub(super) fn of(bytes: &[u8]) -> u64 {
    let mut lanes: [u64; LANES] = std::array::from_fn(|lane| K.wrapping_mul(lane as u64 + 1));
    let (lines, rest) = bytes.as_chunks::<{ 8 * LANES }>();
    for line in lines {
        step(&mut lanes, line);
    }
    let mut last = [0; 8 * LANES];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    step(&mut lanes, &last);
    combine(&lanes, bytes.len() as u64)
}

/// Returns one checksum of several, in their order.
pub(super) fn combine(parts: &[u64], first: u64) -> u64 {
    let sum = parts.iter().fold(first ^ K, |sum, part| mix(sum, *part));
    mix(sum, sum >> 32)
}

#[inline(always)]
fn step(lanes: &mut [u64; LANES], line: &[u8; 8 * LANES]) {
    for (lane, word) in lanes.iter_mut().zip(line.as_chunks::<8>().0) {
        *lane = mix(*lane, u64::from_le_bytes(*word));
    }
}

#[inline(always)]
fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(K).rotate_left(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_change_the_checksum() {
        for length in [0, 1, 7, 8, 63, 64, 65, 200] {
            let mut bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let whole = of(&bytes);
            for at in 0..length {
                bytes[at] ^= 0x10;
                assert_ne!(of(&bytes), whole, "byte {at} of {length}");
                bytes[at] ^= 0x10;
            }
            assert_eq!(of(&bytes), whole);
            bytes.push(0);
            assert_ne!(of(&bytes), whole, "{length} bytes and a zero");
        }
        assert_ne!(combine(&[1, 2], 0), combine(&[2, 1], 0));
    }
}
