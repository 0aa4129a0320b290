//! Data of big-endian files: numbers with their highest byte first, which everything else here expects last.
//!
//! Blocks of a format hold numbers of several widths. They are swapped as a big-endian machine running ggml reads
//! them: halves, words and floats are swapped, strings of single bytes are not.

use silicide_quant::{BlockMember, DType};

/// Returns a copy of `bytes` with every number's bytes reversed.
pub(super) fn swapped(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    swap(dtype, &mut copy);
    copy
}

/// Reverses the bytes of every number of whole elements or blocks.
pub(super) fn swap(dtype: DType, bytes: &mut [u8]) {
    match dtype {
        DType::Block(format) => {
            let blocks = bytes.chunks_exact_mut(format.block_bytes());
            blocks.for_each(|block| swap_block(format.info().members, block));
        }
        plain => bytes.chunks_exact_mut(plain.size()).for_each(<[u8]>::reverse),
    }
}

/// Reverses the bytes of the numbers of a block.
fn swap_block(members: &[BlockMember], mut block: &mut [u8]) {
    for member in members {
        let numbers = block.split_off_mut(..member.size()).unwrap_or_default();
        if member.width > 1 {
            numbers.chunks_exact_mut(member.width).for_each(<[u8]>::reverse);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Format;

    #[test]
    fn swapping_twice_changes_nothing() {
        for dtype in DType::ALL.into_iter().chain(Format::ALL.map(DType::Block)) {
            let bytes: Vec<u8> = (0..3 * dtype.size()).map(|i| (i * 7 + 1) as u8).collect();
            let once = swapped(dtype, &bytes);
            assert_eq!(swapped(dtype, &once), bytes, "{dtype}");
        }
        assert_eq!(swapped(DType::F32, &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 3, 2, 1, 8, 7, 6, 5]);
        let q4_0 = swapped(DType::Block(Format::Q4_0), &(0..36).collect::<Vec<u8>>());
        assert_eq!(q4_0[..4], [1, 0, 2, 3]);
        assert_eq!(q4_0[18..22], [19, 18, 20, 21]);
    }

    #[test]
    fn halves_and_words_of_a_block_are_swapped_and_bytes_are_not() {
        let q5_1 = swapped(DType::Block(Format::Q5_1), &(0..24).collect::<Vec<u8>>());
        assert_eq!(q5_1[..10], [1, 0, 3, 2, 7, 6, 5, 4, 8, 9]);
        // Scales come last.
        let q6_k = swapped(DType::Block(Format::Q6K), &(0..210).collect::<Vec<u8>>());
        assert_eq!(q6_k[205..], [205, 206, 207, 209, 208]);
        // Per 32: four indices of a byte each, then a word of signs and scale.
        let iq2_xxs = swapped(DType::Block(Format::Iq2Xxs), &(0..66).collect::<Vec<u8>>());
        assert_eq!(iq2_xxs[..10], [1, 0, 2, 3, 4, 5, 9, 8, 7, 6]);
        let mxfp4: Vec<u8> = (0..17).collect();
        assert_eq!(swapped(DType::Block(Format::Mxfp4), &mxfp4), mxfp4);
    }

    #[test]
    fn exactly_the_wide_members_of_every_block_are_swapped() {
        // silicide-quant compares the members with those of the reference.
        for format in Format::ALL {
            let mut expected: Vec<u8> = Vec::new();
            let mut at = 0u16;
            for &BlockMember { count, width, .. } in format.info().members {
                for _ in 0..count {
                    // Numbers are small enough for every byte of a block to have one of its own, but for the longest.
                    expected.extend((at..at + width as u16).rev().map(|byte| (byte % 251) as u8));
                    at += width as u16;
                }
            }
            let bytes: Vec<u8> = (0..format.block_bytes()).map(|byte| (byte % 251) as u8).collect();
            assert_eq!(swapped(format.into(), &bytes), expected, "{format}");
            let two = swapped(format.into(), &[&bytes[..], &bytes].concat());
            assert_eq!(two, [&expected[..], &expected].concat(), "{format}");
        }
    }
}
