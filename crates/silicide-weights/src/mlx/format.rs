//! How MLX stores quantised weights: modes, bits and groups.
//!
//! Numbers of `bits` bits lie one after the other in words of 32 bits, lowest bits first; every `group` of them
//! along the last axis shares a scale, and in affine mode a bias.

use silicide_quant::DType;
use std::fmt;

/// What the numbers and scales mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MlxMode {
    /// `scale * number + bias`.
    Affine,
    /// 4-bit floats under a power of two.
    Mxfp4,
    /// 8-bit floats under a power of two.
    Mxfp8,
    /// 4-bit floats under an 8-bit float.
    Nvfp4,
}

impl MlxMode {
    /// Every mode.
    pub const ALL: [MlxMode; 4] = [MlxMode::Affine, MlxMode::Mxfp4, MlxMode::Mxfp8, MlxMode::Nvfp4];

    /// The name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            MlxMode::Affine => "affine",
            MlxMode::Mxfp4 => "mxfp4",
            MlxMode::Mxfp8 => "mxfp8",
            MlxMode::Nvfp4 => "nvfp4",
        }
    }

    /// The mode of a name.
    pub fn from_name(name: &str) -> Option<MlxMode> {
        MlxMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The bits that the mode can have, the usual ones first.
    pub fn bits(self) -> &'static [u32] {
        match self {
            MlxMode::Affine => &[4, 2, 3, 5, 6, 8],
            MlxMode::Mxfp4 | MlxMode::Nvfp4 => &[4],
            MlxMode::Mxfp8 => &[8],
        }
    }

    /// The groups that the mode can have, the usual one first.
    pub fn groups(self) -> &'static [u32] {
        match self {
            MlxMode::Affine => &[64, 32, 128],
            MlxMode::Mxfp4 | MlxMode::Mxfp8 => &[32],
            MlxMode::Nvfp4 => &[16],
        }
    }

    /// The types that scales can have.
    pub fn scales(self) -> &'static [DType] {
        match self {
            MlxMode::Affine => &[DType::F32, DType::F16, DType::BF16],
            _ => &[DType::U8],
        }
    }
}

/// How a quantised weight is stored; only what exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MlxFormat {
    mode: MlxMode,
    bits: u32,
    group: u32,
    scales: DType,
}

impl MlxFormat {
    /// The format of these properties, if there is one.
    pub fn new(mode: MlxMode, bits: u32, group: u32, scales: DType) -> Option<MlxFormat> {
        let exists =
            mode.bits().contains(&bits) && mode.groups().contains(&group) && mode.scales().contains(&scales);
        exists.then_some(MlxFormat { mode, bits, group, scales })
    }

    /// What numbers and scales mean.
    pub fn mode(self) -> MlxMode {
        self.mode
    }

    /// Bits of a number.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Numbers that share a scale.
    pub fn group(self) -> u32 {
        self.group
    }

    /// The type of scales and biases.
    pub fn scales(self) -> DType {
        self.scales
    }

    /// Whether there are biases.
    pub fn has_biases(self) -> bool {
        self.mode == MlxMode::Affine
    }
}

impl fmt::Display for MlxFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MlxFormat { mode, bits, group, scales } = self;
        match mode {
            MlxMode::Affine => write!(f, "mlx affine {bits}-bit, groups of {group}, {scales} scales"),
            other => write!(f, "mlx {}", other.name()),
        }
    }
}
