//! The table of formats: `formats!` makes everything that lists formats from its rows, and checks them when it is compiled.

use super::Format;
use super::block::BlockMember;
use crate::simd::Isa;

/// Everything known about a format.
#[derive(Debug)]
#[non_exhaustive]
pub struct FormatInfo {
    /// The format.
    pub format: Format,
    /// Lower-case name.
    pub name: &'static str,
    /// Formats of similar layout: the name of their source file.
    pub family: &'static str,
    /// The type number in GGUF files.
    pub ggml_id: u32,
    /// Elements of a block.
    pub block_len: usize,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The alignment of GGML's struct of a block, in bytes. Members that it declares as bytes do not count.
    pub alignment: usize,
    /// The numbers of a block, in the order of the file.
    pub members: &'static [BlockMember],
    /// Decodes whole blocks; the safe door is [`Format::decode`].
    pub(super) decode: fn(Isa, &[u8], &mut [f32]),
    /// Encodes whole blocks; the safe door is [`Format::encode`].
    pub(super) encode: fn(Isa, &[f32], &mut [u8]),
    /// Decodes whole blocks to i8 codes and scales; the safe door is [`Format::decode_i8`].
    pub(super) decode_i8: fn(Isa, &[u8], &mut [i8], &mut [f32]),
    /// Elements that share a scale there; `None` without such a decoder.
    pub(super) i8_scale_len: Option<usize>,
}

impl FormatInfo {
    /// Returns the row if it agrees with `B`, the struct of its blocks.
    pub(super) const fn checked<B>(self) -> FormatInfo {
        assert!(size_of::<B>() == self.block_bytes, "the struct of the block has another size");
        assert!(align_of::<B>() == 1, "blocks lie at any address");
        assert!(self.block_bytes.is_multiple_of(self.alignment), "blocks in a row keep their alignment");
        assert!(
            matches!(self.i8_scale_len, None | Some(16 | 32)),
            "kernels have a scale per 16 or 32 elements"
        );
        assert!(
            self.i8_scale_len.is_none() || (self.block_len.is_multiple_of(32) && self.block_len <= 256),
            "kernels have blocks of 1 to 8 groups of 32"
        );
        let (mut bytes, mut i) = (0, 0);
        while i < self.members.len() {
            bytes += self.members[i].size();
            i += 1;
        }
        assert!(bytes == self.block_bytes, "members of the block are missing");
        self
    }
}

/// Declares [`Format`], its WGSL and the table from rows.
macro_rules! formats {
    ($(
        $(#[$documentation:meta])*
        $variant:ident(
            $name:literal, $ggml_id:literal, $family:ident::$block:ident,
            $len:literal, $bytes:literal, $alignment:literal, [$($wgsl:literal),+]
        ),
    )*) => {
        /// A block format of GGML. Copies of the value are free; [`Format::info`] is its row in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Format {
            $($(#[$documentation])* $variant,)*
        }

        impl Format {
            /// Every format, in declaration order.
            pub const ALL: [Format; COUNT] = [$(Format::$variant),*];

            /// Returns the text that decodes the format: `load_$NAME`, `eight_$NAME`, `sixteen_$NAME` and `SPREAD_$NAME`.
            pub const fn wgsl(self) -> &'static str {
                match self {
                    $(Format::$variant => $crate::format::wgsl::text!($($wgsl)+),)*
                }
            }
        }

        /// The number of formats.
        const COUNT: usize = [$($name),*].len();

        /// One row per format. Static: a constant would compile every decoder again in each crate that reads it.
        static FORMATS: [FormatInfo; COUNT] = [$(
            FormatInfo {
                format: Format::$variant,
                name: $name,
                family: stringify!($family),
                ggml_id: $ggml_id,
                block_len: $len,
                block_bytes: $bytes,
                alignment: $alignment,
                members: <$family::$block as block::Block<$len>>::MEMBERS,
                decode: block::decode_blocks::<$family::$block, $len>,
                encode: block::encode_blocks::<$family::$block, $len>,
                decode_i8: decode_i8::decode_blocks::<$family::$block, $len>,
                i8_scale_len: <$family::$block as block::Block<$len>>::I8_SCALE_LEN,
            }
            .checked::<$family::$block>(),
        )*];
    };
}
pub(super) use formats;
