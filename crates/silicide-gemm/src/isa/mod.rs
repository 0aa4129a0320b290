//! Instruction sets. A token is a value that only detection makes ([`Simd::detect`]) or a caller that vouches for the CPU
//! ([`Simd::assume`]): holding one is the proof that the instructions exist. So operations on registers are safe functions; only
//! those that read or write memory by pointer are not.
//!
//! | token | CPU | vector | integer dot product |
//! |---|---|---|---|
//! | [`Avx512`] | AVX-512 F, BW, DQ, CD, VL and VNNI | 16 lanes | `vpdpbusd`: unsigned by signed bytes |
//! | [`AvxVnni`] | AVX2, FMA, F16C, AVX-VNNI | 8 lanes | `vpdpbusd`: unsigned by signed bytes |
//! | [`Avx2`] | AVX2, FMA, F16C | 8 lanes | `vpmaddubsw`, `vpmaddwd` |
//! | [`Neon`] | NEON with dot products | 8 lanes in two registers | `sdot`: signed bytes |
//! | [`Portable`] | any | 8 lanes | plain Rust |
//!
//! A kernel is generic over the token and `#[inline(always)]`. Code gets an instruction set by being inlined into a function that
//! has it: [`Simd::run`] calls a [`Task`] in such a function.
//!
//! The functions of a token are compiled with its features too (`with_features!`): there, intrinsics that touch no memory are safe.
//!
//! What depends on the instruction set is a constant of it (`IntLanes`): lanes and with them NR, MR, KC, NC, and whether bodies are
//! compiled per kind of panel and per layout of weights. How the products of a group are summed is its own too: AVX2 adds those of
//! small codes in 16 bits (`CodeSums`). The width of the interleaving is the same for all: `q8::layout` says where another one goes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod half;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod portable_lane;

#[cfg(target_arch = "x86_64")]
pub use avx2::{Avx2, Avx2Lanes, AvxVnni};
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::{Avx512Vbmi, vbmi};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use portable::Portable;

use crate::prefetch::LINE;
use crate::q8::{MAX_KC, MAX_NC, NR_VECTORS};
use silicide_quant::f16;

/// Work that is compiled for an instruction set.
pub trait Task {
    /// The type that it returns.
    type Output;
    /// Does the work. Implementations are `#[inline(always)]`, as are the functions that they call.
    fn run(self) -> Self::Output;
}

mod sealed {
    /// Keeps tokens to this crate: views rely on what their kernels do.
    pub trait Sealed {}

    #[cfg(target_arch = "x86_64")]
    impl Sealed for super::Avx512 {}
    #[cfg(target_arch = "x86_64")]
    impl<const VNNI: bool> Sealed for super::Avx2Lanes<VNNI> {}
    #[cfg(target_arch = "aarch64")]
    impl Sealed for super::Neon {}
    impl Sealed for super::Portable {}
}

/// A cache line in memory.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct CacheLine(pub [u8; LINE]);

/// A token of an instruction set. There are no others than those of this crate.
pub trait Simd: sealed::Sealed + Copy + 'static {
    /// Whether `a * b + c` is one instruction. Without it, a fused product is a slow call.
    const FUSED: bool;
    /// The name: `avx512`, `avx-vnni`, `avx2`, `neon`, `portable`.
    const NAME: &'static str;

    /// Returns the token if this CPU has the instruction set.
    fn detect() -> Option<Self>;

    /// Returns the token without looking at the CPU.
    ///
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn assume() -> Self;

    /// Runs a task, compiled for the instruction set, in a function of its own.
    fn run<T: Task>(self, task: T) -> T::Output;

    /// Computes `a * b + c`, fused where that is one instruction.
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }

    /// Converts f16 to f32, as many elements as both slices have.
    fn widen_f16(self, from: &[f16], to: &mut [f32]);

    /// Converts f32 to f16, to nearest even, as many elements as both slices have.
    fn narrow_f16(self, from: &[f32], to: &mut [f16]);

    /// Copies a cache line, past the caches where the machine can.
    fn stream_line(self, from: &[u8; LINE], to: &mut CacheLine);
}

/// The most lanes of any vector.
pub(crate) const MAX_LANES: usize = 16;

/// Vectors of f32, one lane to an output. Types of vectors are plain data: any bytes are one.
pub(crate) trait FloatLanes: Copy + 'static {
    /// A vector of f32.
    type Floats: Copy;
    /// As many elements of 16 bits.
    type Halves: Copy;
    /// f32s in a vector, at most [`MAX_LANES`].
    const LANES: usize;

    /// Returns zeros.
    fn zeros(self) -> Self::Floats;
    /// Returns `value` in all lanes.
    fn broadcast(self, value: f32) -> Self::Floats;
    /// Computes `a * b + c`, rounded once where the machine can.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Converts f16 to f32.
    fn f16_floats(self, halves: Self::Halves) -> Self::Floats;
    /// Converts bf16 to f32.
    fn bf16_floats(self, halves: Self::Halves) -> Self::Floats;

    /// Loads a vector.
    ///
    /// # Safety
    /// `LANES` f32s can be read, at any alignment.
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::Floats {
        const { assert!(size_of::<Self::Floats>() == 4 * Self::LANES) };
        // SAFETY: `LANES` f32s can be read, by this function's contract: the bytes of a vector.
        unsafe { from.cast::<Self::Floats>().read_unaligned() }
    }

    /// Loads a vector of f16, or of bf16.
    ///
    /// # Safety
    /// `LANES` elements of 16 bits can be read, at any alignment.
    #[inline(always)]
    unsafe fn load_halves(self, from: *const u16) -> Self::Halves {
        const { assert!(size_of::<Self::Halves>() == 2 * Self::LANES) };
        // SAFETY: `LANES` elements can be read, by this function's contract: the bytes of a vector.
        unsafe { from.cast::<Self::Halves>().read_unaligned() }
    }

    /// Stores a vector.
    ///
    /// # Safety
    /// `LANES` f32s can be written, at any alignment.
    #[inline(always)]
    unsafe fn store(self, floats: Self::Floats, to: *mut f32) {
        const { assert!(size_of::<Self::Floats>() == 4 * Self::LANES) };
        // SAFETY: `LANES` f32s can be written, by this function's contract: the bytes of a vector.
        unsafe { to.cast::<Self::Floats>().write_unaligned(floats) }
    }
}

/// Vectors of words: four bytes of each lane, as memory has them.
pub(crate) trait WordLanes: FloatLanes {
    /// A vector of words.
    type Words: Copy;

    /// Loads 16 bytes of each of `LANES` rows: word `i` has bytes `4i..4i + 4` of each.
    ///
    /// # Safety
    /// 16 bytes can be read at `from + lane * stride` for every lane.
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [Self::Words; 4];
}

/// Vectors for dense products: elements of transposed rows.
pub(crate) trait DenseFloats: WordLanes {
    /// Vectors that the machine has registers for.
    const REGISTERS: usize;

    /// Returns words that are f32s.
    fn f32_words(self, words: Self::Words) -> Self::Floats;
    /// Converts the first and the second f16 of every word to f32.
    fn f16_pairs(self, words: Self::Words) -> [Self::Floats; 2];
    /// Converts the first and the second bf16 of every word to f32.
    fn bf16_pairs(self, words: Self::Words) -> [Self::Floats; 2];
}

/// Vectors of bytes that weights are unpacked with, one 32-bit lane to an output.
pub(crate) trait CodeLanes: WordLanes {
    /// The offset that [`CodeLanes::signed_codes`] adds to signed codes.
    const ZERO: i32;
    /// Whether unpacking is compiled for each layout of weights, rather than once with a branch per load.
    const UNPACK_PER_LAYOUT: bool = true;

    /// Runs a task, compiled for the instruction set, in a function of its own.
    fn run_task<T: Task>(self, task: T) -> T::Output;

    /// Loads four bytes of each lane, side by side.
    ///
    /// # Safety
    /// `4 * LANES` bytes can be read.
    #[inline(always)]
    unsafe fn load_adjacent(self, from: *const u8) -> Self::Words {
        const { assert!(size_of::<Self::Words>() == 4 * Self::LANES) };
        // SAFETY: `4 * LANES` bytes can be read, by this function's contract.
        unsafe { from.cast::<Self::Words>().read_unaligned() }
    }

    /// Stores four bytes of each lane, side by side.
    ///
    /// # Safety
    /// `4 * LANES` bytes can be written.
    #[inline(always)]
    unsafe fn store_adjacent(self, words: Self::Words, to: *mut u8) {
        const { assert!(size_of::<Self::Words>() == 4 * Self::LANES) };
        // SAFETY: `4 * LANES` bytes can be written, by this function's contract.
        unsafe { to.cast::<Self::Words>().write_unaligned(words) }
    }

    /// Stores words in a vector of a panel.
    ///
    /// # Safety
    /// `to` is the place of the first lane's codes in a vector of a panel, which can be written.
    #[inline(always)]
    unsafe fn store_codes(self, words: Self::Words, to: *mut u8) {
        // SAFETY: panels have words side by side, unless the implementation says otherwise; there is room for the vector.
        unsafe { self.store_adjacent(words, to) }
    }

    /// Returns the lower nibbles of bytes.
    fn low_nibbles(self, words: Self::Words) -> Self::Words;
    /// Returns the upper nibbles of bytes.
    fn high_nibbles(self, words: Self::Words) -> Self::Words;
    /// Subtracts 128 from unsigned bytes: signed ones.
    fn center(self, words: Self::Words) -> Self::Words;
    /// Converts signed codes to what [`IntLanes::dot`] takes: adds [`CodeLanes::ZERO`].
    fn signed_codes(self, words: Self::Words) -> Self::Words;
    /// Returns the bits of `mask` of every byte, counted from bit `shift`. `shift` plus the bits of `mask` is at most 8.
    fn byte_bits(self, words: Self::Words, shift: u32, mask: u8) -> Self::Words;
    /// Returns the bits of `mask` of every lane's word, counted from bit `shift`.
    fn word_bits(self, words: Self::Words, shift: u32, mask: u8) -> Self::Words;
    /// Returns the table's entry for every byte. Bytes are below 16.
    fn lookup(self, words: Self::Words, table: &[u8; 16]) -> Self::Words;
    /// Returns the nibbles of each lane in order, the lower one of each byte first: eight to a word, so two words.
    fn nibble_pairs(self, words: Self::Words) -> [Self::Words; 2];
    /// Returns bit `shift + i` of each lane's word as bit 4 of its byte `i`.
    fn spread_bits(self, words: Self::Words, shift: u32) -> Self::Words;
    /// Returns `words | upper << SHIFT`, byte by byte. Bits of `upper` stay inside their byte.
    fn join<const SHIFT: u32>(self, words: Self::Words, upper: Self::Words) -> Self::Words;
    /// Converts every lane's word, less `zero`, to f32.
    fn to_floats(self, words: Self::Words, zero: i32) -> Self::Floats;
    /// Converts the signed byte from bit `shift` on of every lane's word to f32.
    fn signed_byte(self, words: Self::Words, shift: u32) -> Self::Floats;
    /// Converts the f16 from bit `shift` on, 0 or 16, of every lane's word to f32.
    fn f16_in_word(self, words: Self::Words, shift: u32) -> Self::Floats;
}

/// How the products of codes are summed, where that depends on the codes ([`IntLanes::SIGNED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeSums {
    /// Codes are signed bytes, as [`CodeLanes::signed_codes`] makes them.
    Signed,
    /// Codes are unsigned. The products of this number of words (2, 4 or 8) fit 16 bits together.
    Words(usize),
}

/// What the dot products of rows start from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DotStarts {
    /// [`IntLanes::START`].
    Constant,
    /// The i32 at `first` for the first row, and one after every `step` i32s for the others.
    PerRow { first: *const i32, step: usize },
}

impl DotStarts {
    /// Returns the start of a row.
    ///
    /// # Safety
    /// The row has one.
    #[inline(always)]
    pub(crate) unsafe fn of<I: IntLanes>(self, row: usize) -> i32 {
        match self {
            DotStarts::Constant => I::START,
            // SAFETY: the row has one, by this function's contract.
            DotStarts::PerRow { first, step } => unsafe { *first.add(row * step) },
        }
    }
}

/// Words of a panel and of rows of activations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelWords {
    /// The first word: `NR_VECTORS` vectors of codes. The others follow.
    pub(crate) panel: *const u8,
    /// The number of words.
    pub(crate) count: usize,
    /// The first word of the first row, and bytes from one row to the next.
    pub(crate) x: *const u8,
    pub(crate) x_stride: usize,
}

/// Vectors of 32-bit integers for dot products, one lane to an output; and the shape of the kernels over them.
pub(crate) trait IntLanes: FloatLanes + Simd {
    /// The token that unpacks weights to panels: this one, or one that unpacks fewer lanes at a time.
    type Unpacker: CodeLanes;
    /// A vector of a panel: four codes of each lane, plain data.
    type Codes: Copy;
    /// An i32 for each lane.
    type Sums: Copy;
    /// MR: rows of the register tile, at most [`MAX_MR`](crate::q8::MAX_MR).
    const MR: usize;
    /// MR of signed codes, at most `MR`.
    const MR_SIGNED: usize = Self::MR;
    /// KC, in groups: the deepest panel. Callers may choose less.
    const KC: usize = MAX_KC;
    /// NC: the most outputs of panels that lie side by side. Callers may choose less.
    const NC: usize = MAX_NC;
    /// Whether the register tile is compiled for each kind of panel, rather than once with branches.
    const TILE_PER_LAYOUT: bool = true;
    /// The start value of sums for [`IntLanes::scale`].
    const START: i32;
    /// Whether dot products of signed codes, and of codes below 64, are computed in other ways: [`CodeSums`] matters.
    const SIGNED: bool;
    /// Bytes from one lane's first code to the next lane's, in a vector of a panel. 4 where words lie side by side.
    const LANE_BYTES: usize = 4;

    /// Returns what unpacks weights to panels.
    fn unpacker(self) -> Self::Unpacker;
    /// Loads a vector of a panel.
    ///
    /// # Safety
    /// `4 * LANES` bytes can be read.
    #[inline(always)]
    unsafe fn load_codes(self, from: *const u8) -> Self::Codes {
        const { assert!(size_of::<Self::Codes>() == 4 * Self::LANES) };
        // SAFETY: `4 * LANES` bytes can be read, by this function's contract.
        unsafe { from.cast::<Self::Codes>().read_unaligned() }
    }
    /// Returns `sum` in all lanes.
    fn broadcast_sum(self, sum: i32) -> Self::Sums;
    /// Adds the products of each lane's four codes with the four signed bytes of `x`. Codes are below 128, or come from
    /// [`CodeLanes::signed_codes`].
    fn dot(self, sums: Self::Sums, codes: Self::Codes, x: i32) -> Self::Sums;

    /// Returns the dot products of words of codes with as many words of every row at `x`.
    ///
    /// # Safety
    /// Every row has the words, and `starts` a number for each. Codes are as `kind` says.
    #[allow(clippy::needless_range_loop, reason = "the compiler does not unroll a zip of arrays")]
    #[inline(always)]
    unsafe fn row_dots<const ROWS: usize, const WORDS: usize>(
        self,
        codes: [Self::Codes; WORDS],
        kind: CodeSums,
        x: [*const u8; ROWS],
        starts: DotStarts,
    ) -> [Self::Sums; ROWS] {
        let _ = kind;
        let mut dots = [self.broadcast_sum(Self::START); ROWS];
        // SAFETY: rows have the words, and starts are there, by this function's contract.
        unsafe {
            for (row, dots) in dots.iter_mut().enumerate() {
                *dots = self.broadcast_sum(starts.of::<Self>(row));
            }
            for word in 0..WORDS {
                for row in 0..ROWS {
                    let x = x[row].add(4 * word).cast::<i32>().read_unaligned();
                    dots[row] = self.dot(dots[row], codes[word], x);
                }
            }
        }
        dots
    }

    /// Returns the dot products of words of a panel with as many words of `ROWS` rows.
    ///
    /// # Safety
    /// The panel and every row have the words, and `starts` a number for each row. Codes are as `kind` says.
    #[inline(always)]
    unsafe fn panel_dots<const ROWS: usize>(
        self,
        words: PanelWords,
        kind: CodeSums,
        starts: DotStarts,
    ) -> [[Self::Sums; NR_VECTORS]; ROWS] {
        let (_, PanelWords { panel, count, x, x_stride }) = (kind, words);
        let mut dots = [[self.broadcast_sum(Self::START); NR_VECTORS]; ROWS];
        // SAFETY: panel and rows have the words, and starts are there, by this function's contract.
        unsafe {
            for (row, dots) in dots.iter_mut().enumerate() {
                *dots = [self.broadcast_sum(starts.of::<Self>(row)); NR_VECTORS];
            }
            for word in 0..count {
                let panel = panel.add(word * 4 * NR_VECTORS * Self::LANES);
                let mut codes = [self.load_codes(panel); NR_VECTORS];
                for (i, codes) in codes.iter_mut().enumerate().skip(1) {
                    *codes = self.load_codes(panel.add(4 * i * Self::LANES));
                }
                for (row, dots) in dots.iter_mut().enumerate() {
                    let x = x.add(row * x_stride + 4 * word).cast::<i32>().read_unaligned();
                    for (dots, codes) in dots.iter_mut().zip(codes) {
                        *dots = self.dot(*dots, codes, x);
                    }
                }
            }
        }
        dots
    }

    /// Returns the address of the f32 sums of a register tile, as it is; or, where there are not enough registers for them, in a way that
    /// keeps them in memory.
    #[inline(always)]
    fn sums_address<T>(self, sums: *mut T) -> *mut T {
        sums
    }

    /// Returns what [`IntLanes::scale`] needs of scales.
    fn scale_offset(self, scales: Self::Floats) -> Self::Floats;
    /// Converts sums that began at [`IntLanes::START`] to f32, times scales of at most 22 bits of precision; rounded once.
    fn scale(self, sums: Self::Sums, scales: Self::Floats, offset: Self::Floats) -> Self::Floats;
}

/// An instruction set that unpacks and multiplies whole vectors, so codes need not pass through memory: it has GEMVs.
pub(crate) trait GemvLanes: IntLanes<Codes = <Self as WordLanes>::Words> + CodeLanes {
    /// Whether GEMVs over interleaved rows take up to sixteen rows of activations, in batches: there are registers for eight sums of integers,
    /// eight of floats and eight vectors of codes, and interleaved rows are one vector.
    const BATCHES: bool;
}

impl<I: CodeLanes + IntLanes<Codes = <I as WordLanes>::Words>> GemvLanes for I {
    const BATCHES: bool = I::LANES == MAX_LANES;
}

/// Returns a table of sixteen bytes as two words, for registers of 128 bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn table_words(table: &[u8; 16]) -> [i64; 2] {
    let table = u128::from_le_bytes(*table);
    [table as i64, (table >> 64) as i64]
}

/// Declares methods of a token. `run` is [`Simd::run`]. The bodies of others are compiled with the token's features, where intrinsics that
/// touch no memory are safe: the compiler proves these bodies, and the token the call.
macro_rules! with_features {
    ($token:ty, $features:literal, $vis:vis run) => {
        /// As [`Simd::run`].
        #[inline(always)]
        $vis fn run<T: Task>(self, task: T) -> T::Output {
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn run<T: Task>(task: T) -> T::Output {
                task.run()
            }
            let _: $token = self;
            // SAFETY: the token proves the features.
            unsafe { run(task) }
        }
    };
    ($token:ty, $features:literal,
     $($(#[$meta:meta])* $vis:vis fn $name:ident $(<const $constant:ident: $kind:ty>)?
        (self $(, $argument:ident: $type:ty)*) -> $output:ty $body:block)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name $(<const $constant: $kind>)? (self $(, $argument: $type)*) -> $output {
            #[inline]
            #[target_feature(enable = $features)]
            fn compiled $(<const $constant: $kind>)? ($($argument: $type),*) -> $output $body
            let _: $token = self;
            // SAFETY: the token proves the features.
            unsafe { compiled $(::<$constant>)? ($($argument),*) }
        }
    )*};
}
pub(crate) use with_features;
