//! Planes made into weights: `x.weight`, `x.scales` and `x.biases` become one tensor with its logical shape.

use super::settings::{Quantization, Settings};
use crate::entry::{Data, FileRegion, Stored, Tensor};
use crate::error::Fault;
use crate::names::NameIndex;
use silicide_quant::{DType, FormatError, MlxFormat, MlxMode, MlxPlanes, Shape};
use std::collections::HashSet;

/// A quantised weight where it lies: planes of bytes.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedWeight<'a> {
    /// How it is stored.
    pub format: MlxFormat,
    /// Its logical shape.
    pub shape: Shape,
    /// Its bytes; a plane that the format does not have is empty.
    pub planes: MlxPlanes<&'a [u8]>,
}

impl QuantizedWeight<'_> {
    /// Decodes all of it, row by row.
    pub fn decode(&self, out: &mut [f32]) -> Result<(), FormatError> {
        self.format.decode(self.planes, out)
    }

    /// Decodes as many elements as fit `out`, from element `first` on: whole groups.
    pub fn decode_from(&self, first: usize, out: &mut [f32]) -> Result<(), FormatError> {
        let (start, length) = (self.format.plane_bytes(first)?, self.format.plane_bytes(out.len())?);
        let planes = MlxPlanes {
            packed: cut(self.planes.packed, start.packed, length.packed),
            scales: cut(self.planes.scales, start.scales, length.scales),
            biases: cut(self.planes.biases, start.biases, length.biases),
        };
        self.format.decode(planes, out)
    }
}

/// Returns a piece of a plane; none if it is not all there, which decoding then refuses.
fn cut(plane: &[u8], start: usize, length: usize) -> &[u8] {
    start.checked_add(length).and_then(|end| plane.get(start..end)).unwrap_or_default()
}

/// The tensor that is at fault, and why.
type Blamed<T> = Result<T, (Box<str>, Fault)>;

/// Joins what belongs together; everything else stays as it is.
pub(crate) fn join(tensors: Vec<Tensor>, quantization: &Quantization) -> Blamed<Vec<Tensor>> {
    let name = |number: u32| tensors.get(number as usize).map_or(&[][..], |tensor| tensor.name.as_bytes());
    let index = NameIndex::build(tensors.len(), name).map_err(|number| {
        let name = tensors.get(number as usize).map(|tensor| tensor.name.clone()).unwrap_or_default();
        (name.clone(), Fault::Duplicate { what: "tensor", name: name.into() })
    })?;
    let find = |text: String| Some((index.find(text.as_bytes(), name)?, text));
    let mut joined = Vec::with_capacity(tensors.len());
    let mut used = HashSet::new();
    for tensor in &tensors {
        let Some(module) = tensor.name.strip_suffix(".weight") else {
            joined.push(tensor.clone());
            continue;
        };
        let (settings, own) = quantization.of(module);
        let scales = find(format!("{module}.scales"));
        let packed = tensor.stored == Stored::As(DType::U32);
        let Some(settings) = settings.filter(|_| scales.is_some() || own || packed) else {
            joined.push(tensor.clone());
            continue;
        };
        let plane = |found: Option<(u32, String)>, suffix: &str| {
            let found = found.and_then(|(number, _)| Some((number, tensors.get(number as usize)?)));
            found.ok_or_else(|| {
                let companion = format!("{module}.{suffix}");
                (tensor.name.clone(), Fault::Companion { tensor: tensor.name.to_string(), companion })
            })
        };
        let (number, scales) = plane(scales, "scales")?;
        used.insert(number);
        let biases = if settings.mode == MlxMode::Affine {
            let (number, biases) = plane(find(format!("{module}.biases")), "biases")?;
            used.insert(number);
            Some(biases)
        } else {
            None
        };
        joined.push(Weight { packed: tensor, scales, biases }.check(settings)?);
    }
    let companions: HashSet<Box<str>> = used
        .iter()
        .filter_map(|&number| tensors.get(number as usize))
        .map(|tensor| tensor.name.clone())
        .collect();
    joined.retain(|tensor| !companions.contains(&tensor.name));
    Ok(joined)
}

/// The planes of one weight.
struct Weight<'a> {
    packed: &'a Tensor,
    scales: &'a Tensor,
    biases: Option<&'a Tensor>,
}

impl Weight<'_> {
    fn check(&self, settings: Settings) -> Blamed<Tensor> {
        let Settings { mode, bits, group } = settings;
        let formats = MlxFormat::all();
        let mut known =
            formats.iter().filter(|format| format.mode() == mode).map(|format| format.scale_dtype());
        let scale_type = match self.scales.stored {
            Stored::As(dtype) if known.any(|known| known == dtype) => dtype,
            _ => {
                let expected = if mode == MlxMode::Affine { "f16, bf16 or f32" } else { "u8" };
                return Err(blame(self.scales, expected, self.scales.shape));
            }
        };
        let format = MlxFormat::new(mode, bits, group, scale_type);
        let (Ok(format), true) = (format, self.packed.stored == Stored::As(DType::U32)) else {
            return Err(blame(self.packed, "u32", self.packed.shape));
        };
        // The length of a row by the packed numbers, where they are whole groups; otherwise by the scales.
        let by_packed =
            whole(self.packed.shape.last(), 32, bits).filter(|row| row.checked_rem(group) == Some(0));
        let row = by_packed.or_else(|| self.scales.shape.last().checked_mul(group));
        let shapes = row.and_then(|row| {
            let packed = self.packed.shape.with_last(whole(row, bits, 32)?).ok()?;
            let scales = self.packed.shape.with_last(row.checked_div(group)?).ok()?;
            Some((packed, scales, self.packed.shape.with_last(row).ok()?))
        });
        let Some((packed, scales, shape)) = shapes else {
            let tensor = self.packed.name.to_string();
            return Err((self.packed.name.clone(), Fault::Overflow { tensor }));
        };
        if self.packed.shape != packed {
            return Err(blame(self.packed, "u32", packed));
        }
        for plane in [Some(self.scales), self.biases].into_iter().flatten() {
            if plane.shape != scales || plane.stored != self.scales.stored {
                return Err(blame(plane, scale_type.name(), scales));
            }
        }
        let place = |tensor: &Tensor| if let Data::One(place) = tensor.data { Some(place) } else { None };
        let planes = |packed: FileRegion| {
            let biases = self.biases.map_or(Some(packed.empty()), place)?;
            Some(MlxPlanes { packed, scales: place(self.scales)?, biases })
        };
        let data = place(self.packed).and_then(planes).map_or(Data::Unknown, Data::Planes);
        Ok(Tensor { name: self.packed.name.clone(), shape, stored: Stored::Mlx(format), data })
    }
}

/// `count * per / other`, if that is whole.
fn whole(count: usize, per: usize, other: usize) -> Option<usize> {
    let product = count.checked_mul(per)?;
    if product.checked_rem(other)? == 0 { product.checked_div(other) } else { None }
}

fn blame(plane: &Tensor, dtype: &str, shape: Shape) -> (Box<str>, Fault) {
    let got = format!("{} {}", plane.stored, plane.shape);
    let expected = format!("{dtype} {shape}");
    (plane.name.clone(), Fault::Plane { tensor: plane.name.to_string(), got, expected })
}
