//! One lane of [`Portable`](super::Portable): weights are unpacked one row at a time, four codes to a 32-bit word. A body of eight lanes in
//! plain Rust is ten times the code, and no faster: without byte shuffles, lookups and transpositions are done byte by byte anyway.

use super::half::widen;
use super::{CodeLanes, FloatLanes, Task, WordLanes};

/// The unpacker of [`Portable`](super::Portable). Plain Rust: it needs no proof.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortableLane;

/// Lanes of [`Portable`](super::Portable): in a vector of a panel, the bytes from one code of a lane to its next.
const CODE_STEP: usize = <super::Portable as FloatLanes>::LANES;

impl FloatLanes for PortableLane {
    type Floats = f32;
    type Halves = u16;
    const LANES: usize = 1;

    #[inline(always)]
    fn zeros(self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn broadcast(self, value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn fma(self, a: f32, b: f32, c: f32) -> f32 {
        // As vectors of `Portable` do.
        if cfg!(target_arch = "aarch64") { a.mul_add(b, c) } else { a * b + c }
    }

    #[inline(always)]
    fn f16_floats(self, half: u16) -> f32 {
        widen(half)
    }

    #[inline(always)]
    fn bf16_floats(self, half: u16) -> f32 {
        f32::from_bits(u32::from(half) << 16)
    }
}

impl WordLanes for PortableLane {
    // The first byte is the lowest.
    type Words = u32;

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, _: usize) -> [u32; 4] {
        // SAFETY: sixteen bytes of the lane's row can be read, by this function's contract.
        unsafe { from.cast::<[u32; 4]>().read_unaligned() }.map(u32::from_le)
    }
}

/// Returns a word of four times the same byte.
const fn four_times(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

impl CodeLanes for PortableLane {
    const ZERO: i32 = 0;
    const UNPACK_PER_LAYOUT: bool = false;

    #[inline(never)]
    fn run_task<T: Task>(self, task: T) -> T::Output {
        task.run()
    }

    #[inline(always)]
    unsafe fn load_adjacent(self, from: *const u8) -> u32 {
        // SAFETY: four bytes can be read, by this function's contract.
        u32::from_le(unsafe { from.cast::<u32>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store_adjacent(self, word: u32, to: *mut u8) {
        // SAFETY: four bytes can be written, by this function's contract.
        unsafe { to.cast::<u32>().write_unaligned(word.to_le()) }
    }

    #[inline(always)]
    unsafe fn store_codes(self, word: u32, to: *mut u8) {
        for (i, code) in word.to_le_bytes().into_iter().enumerate() {
            // SAFETY: the vector has four bytes of each lane, byte `i` of all of them side by side (`Portable::Codes`).
            unsafe { *to.add(i * CODE_STEP) = code }
        }
    }

    #[inline(always)]
    fn low_nibbles(self, word: u32) -> u32 {
        word & four_times(15)
    }

    #[inline(always)]
    fn high_nibbles(self, word: u32) -> u32 {
        (word >> 4) & four_times(15)
    }

    #[inline(always)]
    fn center(self, word: u32) -> u32 {
        word ^ four_times(128)
    }

    #[inline(always)]
    fn signed_codes(self, word: u32) -> u32 {
        word
    }

    #[inline(always)]
    fn byte_bits(self, word: u32, shift: u32, mask: u8) -> u32 {
        (word >> shift) & four_times(mask)
    }

    #[inline(always)]
    fn word_bits(self, word: u32, shift: u32, mask: u8) -> u32 {
        (word >> shift) & u32::from(mask)
    }

    #[inline(always)]
    fn lookup(self, word: u32, table: &[u8; 16]) -> u32 {
        u32::from_le_bytes(word.to_le_bytes().map(|byte| table[usize::from(byte & 15)]))
    }

    #[inline(always)]
    fn nibble_pairs(self, word: u32) -> [u32; 2] {
        // Two bytes at a time: the lower nibble of each, then the upper one.
        let pair = |bytes: u32| {
            let apart = (bytes | bytes << 8) & 0x00ff_00ff;
            (apart | apart << 4) & four_times(15)
        };
        [pair(word & 0xffff), pair(word >> 16)]
    }

    #[inline(always)]
    fn spread_bits(self, word: u32, shift: u32) -> u32 {
        // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
        ((word >> shift) & 15).wrapping_mul(0x0204_0810) & four_times(16)
    }

    #[inline(always)]
    fn join<const SHIFT: u32>(self, word: u32, upper: u32) -> u32 {
        word | upper << SHIFT
    }

    #[inline(always)]
    fn to_floats(self, word: u32, zero: i32) -> f32 {
        (word as i32).wrapping_sub(zero) as f32
    }

    #[inline(always)]
    fn signed_byte(self, word: u32, shift: u32) -> f32 {
        f32::from((word >> shift) as i8)
    }

    #[inline(always)]
    fn f16_in_word(self, word: u32, shift: u32) -> f32 {
        widen((word >> shift) as u16)
    }
}
