//! Formats of MLX: groups of elements whose codes, scales and biases lie in planes of their own.
//!
//! A weight row is three rows: codes packed into 32-bit words, least significant bits first and across word borders; a
//! scale per group; in the affine mode a bias per group. Rows are whole groups and groups are whole words, so consecutive
//! rows are one long row. Neighbours: `decode`, `encode`, `wgsl`; `minifloat` has the small floats.

mod decode;
mod encode;
mod wgsl;

use crate::parallel::{PARALLEL_RUN, spread};
use crate::simd::Isa;
use crate::{DType, FormatError};
use std::fmt;

/// How codes become values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MlxMode {
    /// `scale * code + bias`, with 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128.
    Affine,
    /// E2M1 floats under E8M0 scales, groups of 32.
    Mxfp4,
    /// E4M3 floats under E8M0 scales, groups of 32.
    Mxfp8,
    /// E2M1 floats under E4M3 scales, groups of 16.
    Nvfp4,
}

/// A format of MLX: mode, bits, group and the type of scales (and biases).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MlxFormat {
    mode: MlxMode,
    bits: u8,
    group: u8,
    scale: DType,
}

/// One thing for each plane: bytes to read or write, or a number of bytes. Only affine formats have biases; for the others
/// that plane is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MlxPlanes<T> {
    /// Codes, in little-endian 32-bit words.
    pub packed: T,
    /// Scales, one per group.
    pub scales: T,
    /// Biases, one per group.
    pub biases: T,
}

impl MlxMode {
    /// Every mode.
    pub const ALL: [MlxMode; 4] = [MlxMode::Affine, MlxMode::Mxfp4, MlxMode::Mxfp8, MlxMode::Nvfp4];

    /// Returns the name in `config.json`.
    pub const fn name(self) -> &'static str {
        match self {
            MlxMode::Affine => "affine",
            MlxMode::Mxfp4 => "mxfp4",
            MlxMode::Mxfp8 => "mxfp8",
            MlxMode::Nvfp4 => "nvfp4",
        }
    }

    /// Returns the mode of a name.
    pub fn from_name(name: &str) -> Option<MlxMode> {
        MlxMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns the bits, groups and types of scales that MLX has in this mode.
    const fn choices(self) -> (&'static [u8], &'static [u8], &'static [DType]) {
        match self {
            MlxMode::Affine => (&[2, 3, 4, 5, 6, 8], &[32, 64, 128], &[DType::F16, DType::BF16, DType::F32]),
            MlxMode::Mxfp4 => (&[4], &[32], &[DType::U8]),
            MlxMode::Mxfp8 => (&[8], &[32], &[DType::U8]),
            MlxMode::Nvfp4 => (&[4], &[16], &[DType::U8]),
        }
    }
}

impl fmt::Display for MlxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MlxFormat {
    /// Returns the format with these settings, if MLX has it.
    pub fn new(mode: MlxMode, bits: usize, group: usize, scale: DType) -> Result<MlxFormat, FormatError> {
        let (all_bits, groups, scales) = mode.choices();
        let known_bits = all_bits.iter().copied().find(|&known| usize::from(known) == bits);
        let known_group = groups.iter().copied().find(|&known| usize::from(known) == group);
        match (known_bits, known_group) {
            (Some(bits), Some(group)) if scales.contains(&scale) => {
                Ok(MlxFormat { mode, bits, group, scale })
            }
            _ => Err(FormatError::Mlx { mode, bits, group, scale }),
        }
    }

    /// Returns every format, a mode at a time.
    pub fn all() -> Vec<MlxFormat> {
        let mut all = Vec::new();
        for mode in MlxMode::ALL {
            let (all_bits, groups, scales) = mode.choices();
            for &bits in all_bits {
                for &group in groups {
                    all.extend(scales.iter().map(|&scale| MlxFormat { mode, bits, group, scale }));
                }
            }
        }
        all
    }

    /// How codes become values.
    pub const fn mode(self) -> MlxMode {
        self.mode
    }

    /// Bits of a code.
    pub const fn bits(self) -> usize {
        self.bits as usize
    }

    /// Returns the elements of a group.
    pub const fn group(self) -> usize {
        self.group as usize
    }

    /// Returns the type of scales and biases.
    pub const fn scale_dtype(self) -> DType {
        self.scale
    }

    /// Returns whether there is a plane of biases.
    pub const fn has_biases(self) -> bool {
        matches!(self.mode, MlxMode::Affine)
    }

    /// Returns the bits that one element takes, scales and biases included.
    pub fn bits_per_element(self) -> f64 {
        let planes = if self.has_biases() { 2 } else { 1 };
        f64::from(self.bits) + (planes * 8 * self.scale.size()) as f64 / f64::from(self.group)
    }

    /// Returns the bytes of each plane for `elements` elements, which are whole groups.
    pub fn plane_bytes(self, elements: usize) -> Result<MlxPlanes<usize>, FormatError> {
        let (group, bits) = (self.group(), self.bits());
        if !elements.is_multiple_of(group) {
            return Err(FormatError::PartialBlock { elements, block_len: group });
        }
        let groups = elements / group;
        let scales = groups.saturating_mul(self.scale.size());
        // A group of at least 16 codes is a whole number of bytes.
        let packed = groups.saturating_mul(group * bits / 8);
        Ok(MlxPlanes { packed, scales, biases: if self.has_biases() { scales } else { 0 } })
    }

    /// Decodes whole groups with the fastest code that this machine runs. The planes must be exactly those of `out`.
    pub fn decode(self, planes: MlxPlanes<&[u8]>, out: &mut [f32]) -> Result<(), FormatError> {
        self.decode_with(Isa::best(), planes, out)
    }

    /// [`MlxFormat::decode`] with the code for a given instruction set. All produce the same values.
    pub fn decode_with(self, isa: Isa, planes: MlxPlanes<&[u8]>, out: &mut [f32]) -> Result<(), FormatError> {
        self.check(out.len(), planes)?;
        decode::run(self, isa, planes, out);
        Ok(())
    }

    /// Takes the codes of an affine format apart, a byte each; of others, leaves `codes` as they are. `packed` must be exactly
    /// the words of `codes`, which are a multiple of 32.
    pub fn codes(self, isa: Isa, packed: &[u8], codes: &mut [u8]) -> Result<(), FormatError> {
        let (elements, expected) = (codes.len(), codes.len() / 32 * 4 * self.bits());
        if !elements.is_multiple_of(32) {
            return Err(FormatError::PartialBlock { elements, block_len: 32 });
        }
        if packed.len() != expected {
            return Err(FormatError::Length { what: "packed codes", elements, expected, got: packed.len() });
        }
        if self.mode == MlxMode::Affine {
            decode::take_apart(self, isa, packed, codes);
        }
        Ok(())
    }

    /// Encodes whole groups with the fastest code that this machine runs, on as many threads. The planes must be exactly
    /// those of `values`. What stands for values that are not finite is unspecified.
    pub fn encode(
        self,
        values: &[f32],
        planes: MlxPlanes<&mut [u8]>,
        threads: usize,
    ) -> Result<(), FormatError> {
        let MlxPlanes { packed, scales, biases } = planes;
        self.check(values.len(), MlxPlanes { packed: &*packed, scales: &*scales, biases: &*biases })?;
        let run = self.plane_bytes(PARALLEL_RUN)?;
        let mut all_biases = biases.chunks_mut(run.biases.max(1));
        let jobs =
            values.chunks(PARALLEL_RUN).zip(packed.chunks_mut(run.packed)).zip(scales.chunks_mut(run.scales));
        let jobs = jobs.map(|((values, packed), scales)| {
            (values, MlxPlanes { packed, scales, biases: all_biases.next().unwrap_or_default() })
        });
        let isa = Isa::best();
        spread(threads, jobs, |(values, planes)| encode::run(self, isa, values, planes));
        Ok(())
    }

    fn check(self, elements: usize, got: MlxPlanes<&[u8]>) -> Result<(), FormatError> {
        let expected = self.plane_bytes(elements)?;
        let planes = [
            ("packed codes", expected.packed, got.packed.len()),
            ("scales", expected.scales, got.scales.len()),
            ("biases", expected.biases, got.biases.len()),
        ];
        for (what, expected, got) in planes {
            if expected != got {
                return Err(FormatError::Length { what, elements, expected, got });
            }
        }
        Ok(())
    }
}

/// `affine 4-bit, groups of 64, bf16 scales`.
impl fmt::Display for MlxFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MlxFormat { mode, bits, group, scale } = self;
        write!(f, "{mode} {bits}-bit, groups of {group}, {scale} scales")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_mlx_has() {
        assert_eq!(MlxFormat::all().len(), 6 * 3 * 3 + 3);
        let format = MlxFormat::new(MlxMode::Affine, 4, 64, DType::BF16).unwrap();
        assert_eq!(format.to_string(), "affine 4-bit, groups of 64, bf16 scales");
        assert_eq!(format.bits_per_element(), 4.5);
        assert_eq!(MlxFormat::new(MlxMode::Nvfp4, 4, 16, DType::U8).unwrap().bits_per_element(), 4.5);
        for (bits, group, scale) in [(7, 64, DType::F16), (4, 16, DType::F16), (4, 64, DType::F64)] {
            let error = MlxFormat::new(MlxMode::Affine, bits, group, scale).unwrap_err();
            assert_eq!(error, FormatError::Mlx { mode: MlxMode::Affine, bits, group, scale });
        }
        assert!(MlxFormat::new(MlxMode::Mxfp4, 4 + 256, 32, DType::U8).is_err());
        assert_eq!(MlxMode::from_name("mxfp8"), Some(MlxMode::Mxfp8));
    }

    #[test]
    fn codes_are_what_is_scaled() {
        for bits in [2, 3, 4, 5, 6, 8] {
            let format = MlxFormat::new(MlxMode::Affine, bits, 32, DType::F32).unwrap();
            let packed: Vec<u8> = (0..8 * bits).map(|i| (i * 89 + 7) as u8).collect();
            let (scales, biases) = ([1f32.to_le_bytes(); 2].concat(), [0u8; 8]);
            let mut values = [0.0; 64];
            format
                .decode(MlxPlanes { packed: &packed[..], scales: &scales, biases: &biases }, &mut values)
                .unwrap();
            for isa in Isa::available() {
                let mut codes = [0; 64];
                format.codes(isa, &packed, &mut codes).unwrap();
                assert_eq!(codes.map(f32::from), values, "{bits} {isa}");
            }
            assert!(format.codes(Isa::PORTABLE, &packed, &mut [0; 32]).is_err());
            assert!(format.codes(Isa::PORTABLE, &packed, &mut [0; 63]).is_err());
        }
    }

    #[test]
    fn refuses_other_lengths() {
        let format = MlxFormat::new(MlxMode::Affine, 3, 32, DType::F16).unwrap();
        let bytes = format.plane_bytes(64).unwrap();
        assert_eq!(bytes, MlxPlanes { packed: 24, scales: 4, biases: 4 });
        let mut out = [0.0; 64];
        let planes = MlxPlanes { packed: &[0; 24][..], scales: &[0; 4], biases: &[0; 4] };
        assert_eq!(format.decode(planes, &mut out), Ok(()));
        let short = MlxPlanes { biases: &[0; 2][..], ..planes };
        let error = FormatError::Length { what: "biases", elements: 64, expected: 4, got: 2 };
        assert_eq!(format.decode(short, &mut out), Err(error));
        let error = FormatError::PartialBlock { elements: 63, block_len: 32 };
        assert_eq!(format.decode(planes, &mut out[..63]), Err(error));
    }
}
