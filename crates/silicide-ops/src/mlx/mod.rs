//! What the ops over MLX weights share: a weight is two or three planes (codes, scales, in the affine mode biases), of
//! which this module knows the shapes, how the CPU decodes them and how GPU kernels bind them.
//!
//! Planes are arguments one after the other: codes in u32 words `[.., n, k * bits / 32]`, then scales and biases
//! `[.., n, k / group]`. Neighbours: `mlx_dequantize`, `mlx_gather_rows`, `mlx_matmul`; the formats are in
//! `silicide-quant`.

pub(crate) mod cases;
mod cpu;
pub(crate) mod gpu;

pub(crate) use cpu::Planes;

use silicide_core::kernel::{Host, TensorInfo};
use silicide_core::{Error, Result};
use silicide_hal::{Count, Needs};
use silicide_quant::{DType, MlxFormat, MlxPlanes, Shape, encode};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// A weight in planes, as an argument of an op.
#[derive(Clone, Copy, Debug)]
pub struct MlxOperands<'a, V> {
    /// The format.
    pub format: MlxFormat,
    /// Codes, in u32 words.
    pub packed: &'a V,
    /// Scales, one per group.
    pub scales: &'a V,
    /// Biases, one per group; affine formats have them.
    pub biases: Option<&'a V>,
}

impl<'a, V> MlxOperands<'a, V> {
    /// The planes after what comes first, as inputs of an op.
    pub(crate) fn after(&self, first: Option<&'a V>) -> SmallVec<[&'a V; 4]> {
        first.into_iter().chain([self.packed, self.scales]).chain(self.biases).collect()
    }
}

/// The number of planes.
pub(crate) fn planes(format: MlxFormat) -> usize {
    if format.has_biases() { 3 } else { 2 }
}

/// The logical shape of a weight whose planes are given, or what is wrong with them.
pub(crate) fn check(op: &'static str, format: MlxFormat, given: &[TensorInfo]) -> Result<Shape> {
    let [packed, others @ ..] = given else {
        return Err(Error::ArgumentCount { op, what: "planes", expected: planes(format), got: 0 });
    };
    if packed.dtype != DType::U32 {
        let expected = "u32, words of codes".to_owned();
        return Err(Error::DTypeMismatch { op, slot: "packed", expected, got: packed.dtype });
    }
    let (bits, group) = (format.bits(), format.group());
    let words = packed.shape.last();
    let k = words.saturating_mul(32) / bits;
    if packed.shape.axes().is_empty()
        || packed.elements() == 0
        || k * bits != words * 32
        || !k.is_multiple_of(group)
    {
        let expected = format!("rows of whole groups of {group} codes of {bits} bits");
        return Err(Error::Shape { op, slot: "packed", expected, got: packed.shape });
    }
    let bad_shape = |source| Error::bad_shape(op, source);
    let shape = packed.shape.with_last(k / group).map_err(bad_shape)?;
    for (slot, plane) in ["scales", "biases"].into_iter().zip(others) {
        if plane.dtype != format.scale_dtype() {
            let expected = format.scale_dtype().to_string();
            return Err(Error::DTypeMismatch { op, slot, expected, got: plane.dtype });
        }
        if plane.shape != shape {
            let expected = format!("{shape} for packed {}", packed.shape);
            return Err(Error::Shape { op, slot, expected, got: plane.shape });
        }
    }
    packed.shape.with_last(k).map_err(bad_shape)
}

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
