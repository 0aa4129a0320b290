//! Weight matrices in whatever format a file has them.

use crate::error::{Error, Result};
use crate::model::Tensors;
use silicide_core::{Buffer, Device, PlanarWeight, Recorder};
use silicide_ops as ops;
use silicide_ops::gather_rows::gather_rows;
use silicide_ops::mlx::MlxOperands;
use silicide_quant::DType;
use silicide_quant::{Format, MlxFormat};
use silicide_weights::{Entry, Stored};

/// A matrix of `[rows, columns]` weights, used where it lies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Weight {
    /// In one piece, of any element or block type.
    Whole(Buffer),
    /// In planes, as MLX quantises.
    Planes(Box<Planes<Buffer>>),
    /// Interleaved, for products on the CPU.
    Interleaved(Interleaved<Buffer>),
}

/// A matrix whose blocks were interleaved.
#[derive(Clone, Debug)]
pub struct Interleaved<V> {
    /// The format of the blocks.
    pub format: Format,
    /// Their bytes, `[rows, bytes of a row]`.
    pub bytes: V,
}

/// The planes of a matrix that MLX quantised.
#[derive(Clone, Debug)]
pub struct Planes<V> {
    /// The format.
    pub format: MlxFormat,
    /// Codes.
    pub packed: V,
    /// Scales.
    pub scales: V,
    /// Biases, of affine formats.
    pub biases: Option<V>,
}

impl<V> Planes<V> {
    fn operands(&self) -> MlxOperands<'_, V> {
        let Planes { format, packed, scales, biases } = self;
        MlxOperands { format: *format, packed, scales, biases: biases.as_ref() }
    }
}

/// A weight as values of a recorder.
enum Constant<V> {
    Whole(V),
    Planes(Planes<V>),
    Interleaved(Interleaved<V>),
}

impl Weight {
    /// A matrix that was loaded.
    pub(crate) fn loaded(weight: silicide_core::Weight, entry: &Entry<'_>) -> Result<Weight> {
        match weight {
            silicide_core::Weight::Whole(buffer) => Ok(Weight::Whole(buffer)),
            silicide_core::Weight::Planar(planar) => {
                let PlanarWeight { format, packed, scales, biases, .. } = *planar;
                Ok(Weight::Planes(Box::new(Planes { format, packed, scales, biases })))
            }
            _ => Err(unknown(entry)),
        }
    }

    /// A matrix without memory.
    pub(crate) fn planned(device: &Device, entry: &Entry<'_>) -> Result<Weight> {
        let Stored::Mlx(format) = entry.stored() else {
            return Ok(Weight::Whole(Buffer::new(device, entry.dtype()?, entry.shape())?));
        };
        let &[rows, columns] = entry.shape().axes() else { return Err(unknown(entry)) };
        let (words, groups) = (columns * format.bits() / 32, columns / format.group());
        let scale = || Buffer::new(device, format.scale_dtype(), [rows, groups]);
        Ok(Weight::Planes(Box::new(Planes {
            format,
            packed: Buffer::new(device, DType::U32, [rows, words])?,
            scales: scale()?,
            biases: format.has_biases().then(scale).transpose()?,
        })))
    }

    fn constant<R: Recorder>(&self, recorder: &mut R) -> Constant<R::Value> {
        match self {
            Weight::Whole(weight) => Constant::Whole(recorder.constant(weight)),
            Weight::Planes(planes) => Constant::Planes(Planes {
                format: planes.format,
                packed: recorder.constant(&planes.packed),
                scales: recorder.constant(&planes.scales),
                biases: planes.biases.as_ref().map(|biases| recorder.constant(biases)),
            }),
            Weight::Interleaved(Interleaved { format, bytes }) => {
                Constant::Interleaved(Interleaved { format: *format, bytes: recorder.constant(bytes) })
            }
        }
    }

    /// Records `x · weightᵀ`.
    pub fn multiply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        Ok(match self.constant(recorder) {
            Constant::Whole(weight) => ops::matmul(recorder, x, &weight)?,
            Constant::Planes(planes) => ops::mlx_matmul(recorder, x, &planes.operands())?,
            Constant::Interleaved(weight) => {
                ops::interleaved_matmul(recorder, x, &weight.bytes, weight.format)?
            }
        })
    }

    /// Records the products of `x` with the matrices that `ids` names, where this is those of all experts.
    pub fn multiply_by_expert<R: Recorder>(
        &self,
        recorder: &mut R,
        x: &R::Value,
        ids: &R::Value,
    ) -> Result<R::Value> {
        Ok(match self.constant(recorder) {
            Constant::Whole(weight) => ops::expert_matmul(recorder, x, &weight, ids)?,
            Constant::Interleaved(weight) => {
                ops::interleaved_expert_matmul(recorder, x, (&weight.bytes, weight.format), ids)?
            }
            Constant::Planes(planes) => {
                let what = format!("experts in planes of {} can't be multiplied with", planes.format);
                return Err(silicide_core::Error::BadParameter { op: "expert_matmul", what }.into());
            }
        })
    }

    /// Records a lookup of rows, as f32. Interleaved matrices are for products only.
    pub fn rows<R: Recorder>(&self, recorder: &mut R, indices: &R::Value) -> Result<R::Value> {
        Ok(match self.constant(recorder) {
            Constant::Whole(weight) => gather_rows(recorder, &weight, indices, DType::F32)?,
            Constant::Planes(planes) => {
                ops::mlx_gather_rows(recorder, &planes.operands(), indices, DType::F32)?
            }
            Constant::Interleaved(weight) => {
                let what = format!("rows of interleaved {} can't be looked up", weight.format);
                return Err(silicide_core::Error::BadParameter { op: "gather_rows", what }.into());
            }
        })
    }
}

fn unknown(entry: &Entry<'_>) -> Error {
    Error::Device(silicide_core::Error::BadParameter {
        op: "matmul",
        what: format!("tensor {:?} of {} can't be used as a matrix", entry.name(), entry.stored()),
    })
}

/// `x · weightᵀ + bias`.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Weight,
    bias: Option<Buffer>,
}

impl Linear {
    /// The tensors `name.weight` of `[outputs, inputs]` and, where the file has it, `name.bias`.
    pub fn load(tensors: &mut Tensors<'_>, name: &str, [outputs, inputs]: [usize; 2]) -> Result<Linear> {
        let weight = tensors.factor(&format!("{name}.weight"), [outputs, inputs])?;
        let bias = tensors.optional_vector(&format!("{name}.bias"), outputs)?;
        Ok(Linear { weight, bias })
    }

    /// Records the product, and the sum with the bias.
    pub fn apply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        let y = self.weight.multiply(recorder, x)?;
        let Some(bias) = &self.bias else { return Ok(y) };
        let bias = recorder.constant(bias);
        recorder.run_into(ops::binary::Binary::Add, &[&y, &bias], &[&y])?;
        Ok(y)
    }
}
