//! Code books of IQ1, IQ2 and IQ3 as numbers: a word is its levels, the first one in the lowest byte. Kernels look up whole words,
//! as bytes that are put together one by one and read as vectors would wait for memory.

use super::{iq1, iq2, iq3};

/// The words of a code book as numbers.
const fn eights<const N: usize>(book: &[[i8; 8]; N]) -> [u64; N] {
    let (mut words, mut word) = ([0; N], 0);
    while word < N {
        let mut lane = 0;
        while lane < 8 {
            words[word] |= (book[word][lane] as u8 as u64) << (8 * lane);
            lane += 1;
        }
        word += 1;
    }
    words
}

/// The same for words of four.
const fn fours<const N: usize>(book: &[[i8; 4]; N]) -> [u32; N] {
    let (mut words, mut word) = ([0; N], 0);
    while word < N {
        let [a, b, c, d] = book[word];
        words[word] = u32::from_le_bytes([a as u8, b as u8, c as u8, d as u8]);
        word += 1;
    }
    words
}

/// IQ1_S and IQ1_M: levels of -1, 0 and 1.
pub static IQ1: [u64; 2048] = eights(&iq1::IQ1_BOOK);
/// IQ2_XXS, without signs.
pub static IQ2_XXS: [u64; 256] = eights(&iq2::IQ2_XXS_BOOK);
/// IQ2_XS, without signs.
pub static IQ2_XS: [u64; 512] = eights(&iq2::IQ2_XS_BOOK);
/// IQ2_S, without signs.
pub static IQ2_S: [u64; 1024] = eights(&iq2::IQ2_S_BOOK);
/// IQ3_XXS, without signs.
pub static IQ3_XXS: [u32; 256] = fours(&iq3::IQ3_XXS_BOOK);
/// IQ3_S, without signs.
pub static IQ3_S: [u32; 512] = fours(&iq3::IQ3_S_BOOK);
