//! Data of big-endian files: numbers with their highest byte first, which everything else here expects last.
//!
//! Blocks of a format hold numbers of several widths. They are swapped as a big-endian machine running ggml reads
//! them: halves, words and floats are swapped, strings of single bytes are not.

use silicide_quant::{DType, Format};

/// Numbers of the same width in a row, inside a block.
struct Field {
    /// First byte in the block.
    at: usize,
    /// Bytes of a number.
    width: usize,
    /// How many.
    count: usize,
}

const fn field(at: usize, width: usize, count: usize) -> Field {
    Field { at, width, count }
}

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
            for block in bytes.chunks_exact_mut(format.block_bytes()) {
                fields(format).iter().for_each(|field| field.swap(block));
            }
        }
        plain => bytes.chunks_exact_mut(plain.size()).for_each(<[u8]>::reverse),
    }
}

impl Field {
    fn swap(&self, block: &mut [u8]) {
        let numbers = block.get_mut(self.at..).unwrap_or_default().chunks_exact_mut(self.width);
        numbers.take(self.count).for_each(<[u8]>::reverse);
    }
}

/// Returns the numbers wider than a byte in a block of a format.
fn fields(format: Format) -> &'static [Field] {
    match format {
        Format::Q4_0 | Format::Q8_0 | Format::Iq4Nl | Format::Q1_0 | Format::Q2_0 => {
            &const { [field(0, 2, 1)] }
        }
        // Scale and minimum, scale and sum.
        Format::Q4_1 | Format::Q8_1 | Format::Q4K | Format::Q5K => &const { [field(0, 2, 2)] },
        // Scale; then fifth bits, read as one word.
        Format::Q5_0 => &const { [field(0, 2, 1), field(2, 4, 1)] },
        Format::Q5_1 => &const { [field(0, 2, 2), field(4, 4, 1)] },
        // Scales come last.
        Format::Q2K => &const { [field(80, 2, 2)] },
        Format::Q3K => &const { [field(108, 2, 1)] },
        Format::Q6K => &const { [field(208, 2, 1)] },
        Format::Tq1_0 => &const { [field(52, 2, 1)] },
        Format::Tq2_0 => &const { [field(64, 2, 1)] },
        // A float, bytes, then sums as halves.
        Format::Q8K => &const { [field(0, 4, 1), field(260, 2, 16)] },
        // Per 32: four indices of a byte each, then a word of signs and scale.
        Format::Iq2Xxs => {
            &const {
                [
                    field(0, 2, 1),
                    field(6, 4, 1),
                    field(14, 4, 1),
                    field(22, 4, 1),
                    field(30, 4, 1),
                    field(38, 4, 1),
                    field(46, 4, 1),
                    field(54, 4, 1),
                    field(62, 4, 1),
                ]
            }
        }
        Format::Iq2Xs => &const { [field(0, 2, 33)] },
        Format::Iq2S | Format::Iq3S => &const { [field(0, 2, 1)] },
        // Indices are bytes; signs and scales words.
        Format::Iq3Xxs => &const { [field(0, 2, 1), field(66, 4, 8)] },
        Format::Iq1S => &const { [field(0, 2, 1), field(34, 2, 8)] },
        Format::Iq1M => &const { [field(48, 2, 4)] },
        Format::Iq4Xs => &const { [field(0, 2, 2)] },
        // Scales of one byte.
        Format::Mxfp4 | Format::Nvfp4 => &[],
        // The test below fails for a format that is missing here.
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_in_their_blocks() {
        for format in Format::ALL {
            let single_bytes = matches!(format, Format::Mxfp4 | Format::Nvfp4);
            assert_eq!(fields(format).is_empty(), single_bytes, "{format}");
            for field in fields(format) {
                assert!(field.at + field.width * field.count <= format.block_bytes(), "{format}");
            }
        }
    }

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

    /// Returns the members of a block in the order of the file: how many numbers of how many bytes.
    fn members(format: Format) -> &'static [(usize, usize)] {
        match format {
            Format::Q4_0 | Format::Iq4Nl | Format::Q1_0 | Format::Q2_0 => &[(1, 2), (16, 1)],
            Format::Q4_1 => &[(2, 2), (16, 1)],
            Format::Q5_0 => &[(1, 2), (1, 4), (16, 1)],
            Format::Q5_1 => &[(2, 2), (1, 4), (16, 1)],
            Format::Q8_0 => &[(1, 2), (32, 1)],
            Format::Q8_1 => &[(2, 2), (32, 1)],
            Format::Q2K => &[(16, 1), (64, 1), (2, 2)],
            Format::Q3K => &[(32, 1), (64, 1), (12, 1), (1, 2)],
            Format::Q4K => &[(2, 2), (12, 1), (128, 1)],
            Format::Q5K => &[(2, 2), (12, 1), (32, 1), (128, 1)],
            Format::Q6K => &[(128, 1), (64, 1), (16, 1), (1, 2)],
            Format::Q8K => &[(1, 4), (256, 1), (16, 2)],
            Format::Iq1S => &[(1, 2), (32, 1), (8, 2)],
            Format::Iq1M => &[(32, 1), (16, 1), (4, 2)],
            Format::Iq2Xxs => {
                // Eight times four codes and a word.
                const {
                    let mut all = [(1, 2); 17];
                    let mut i = 1;
                    while i < 17 {
                        (all[i], all[i + 1]) = ((4, 1), (1, 4));
                        i += 2;
                    }
                    &{ all }
                }
            }
            Format::Iq2Xs => &[(1, 2), (32, 2), (8, 1)],
            Format::Iq2S => &[(1, 2), (64, 1), (8, 1), (8, 1)],
            Format::Iq3Xxs => &[(1, 2), (64, 1), (8, 4)],
            Format::Iq3S => &[(1, 2), (64, 1), (8, 1), (32, 1), (4, 1)],
            Format::Iq4Xs => &[(1, 2), (1, 2), (4, 1), (128, 1)],
            Format::Tq1_0 => &[(48, 1), (4, 1), (1, 2)],
            Format::Tq2_0 => &[(64, 1), (1, 2)],
            Format::Mxfp4 => &[(1, 1), (16, 1)],
            Format::Nvfp4 => &[(4, 1), (32, 1)],
            _ => &[],
        }
    }

    #[test]
    fn exactly_the_wide_members_of_every_block_are_swapped() {
        for format in Format::ALL {
            let mut expected: Vec<u8> = Vec::new();
            let mut at = 0u16;
            for &(count, width) in members(format) {
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
