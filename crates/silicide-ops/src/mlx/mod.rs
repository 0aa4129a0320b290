//! Weights in planes: how the CPU decodes them and how GPU kernels bind them. A weight is codes, scales and, in the affine mode,
//! biases.
//!
//! Planes are arguments one after the other: codes in u32 words `[.., n, k * bits / 32]`, then scales and biases
//! `[.., n, k / group]`. `weight` has what is the same for all encodings; the formats are in `silicide-quant`.

pub(crate) mod cases;
mod cpu;
pub(crate) mod gpu;

pub(crate) use cpu::Planes;

use silicide_core::kernel::Host;
use silicide_hal::{Count, Needs};
use silicide_quant::{MlxFormat, MlxPlanes, encode};
use smallvec::{SmallVec, smallvec};
use std::sync::LazyLock;

/// The values of a weight, as the format's decoder says; for references.
pub(crate) fn values(format: MlxFormat, given: &[Host]) -> Vec<f64> {
    let bytes = |i: usize| given.get(i).map_or(Vec::new(), |plane| encode(plane.dtype, &plane.values));
    let (packed, scales, biases) =
        (bytes(0), bytes(1), if format.has_biases() { bytes(2) } else { Vec::new() });
    let mut values = vec![0.0; packed.len() * 8 / format.bits()];
    let planes = MlxPlanes { packed: &packed[..], scales: &scales, biases: &biases };
    match format.decode(planes, &mut values) {
        Ok(()) => values.into_iter().map(f64::from).collect(),
        Err(_) => Vec::new(),
    }
}

/// Bytes of rows of `k` elements, in each plane.
pub(crate) fn row_bytes(format: MlxFormat, k: usize) -> SmallVec<[usize; 3]> {
    let scales = k / format.group() * format.scale_dtype().size();
    let mut bytes = smallvec![k / 8 * format.bits(), scales];
    if format.has_biases() {
        bytes.push(scales);
    }
    bytes
}

/// Every format, numbered for parameter words.
static FORMATS: LazyLock<Vec<MlxFormat>> = LazyLock::new(MlxFormat::all);

/// The format as a parameter word.
pub(crate) fn code(format: MlxFormat) -> u32 {
    FORMATS.iter().position(|known| *known == format).unwrap_or(FORMATS.len()) as u32
}

/// Adds the planes of a weight of `elements` to the needs of a program that reads them byte by byte; `None` where they end
/// inside a group.
pub(crate) fn read_planes(needs: Needs, format: MlxFormat, elements: Count) -> Option<Needs> {
    let group = format.group() as u64;
    if !elements.0.is_multiple_of(group) {
        return None;
    }
    let scales = Count(elements.0 / group) * format.scale_dtype().size();
    let needs = needs.read(Count(elements.0 / 8) * format.bits(), 1).read(scales, 1);
    Some(if format.has_biases() { needs.read(scales, 1) } else { needs })
}

/// The format of a parameter word.
#[inline(always)]
pub(crate) fn from_code(code: u32) -> Option<MlxFormat> {
    FORMATS.get(code as usize).copied()
}
