//! Weight matrices in whatever format a file has them.

use crate::error::{Error, Result};
use crate::model::Tensors;
use silicide::weights::Entry;
use silicide::{Buffer, Device, Recorder, ops};

/// A matrix of `[rows, columns]` weights, used where it lies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Weight {
    /// In one piece, of any element or block type.
    Whole(Buffer),
}

impl Weight {
    /// A matrix that was loaded.
    pub(crate) fn loaded(weight: silicide::Weight, entry: &Entry<'_>) -> Result<Weight> {
        match weight {
            silicide::Weight::Whole(buffer) => Ok(Weight::Whole(buffer)),
            _ => Err(entry
                .dtype()
                .err()
                .map_or(Error::Device(silicide::Error::ZeroSize { what: "weight" }), Error::from)),
        }
    }

    /// A matrix without memory.
    pub(crate) fn planned(device: &Device, entry: &Entry<'_>) -> Result<Weight> {
        Ok(Weight::Whole(Buffer::new(device, entry.dtype()?, entry.shape())?))
    }

    /// Records `x · weightᵀ`.
    pub fn multiply<R: Recorder>(&self, recorder: &mut R, x: &R::Value) -> Result<R::Value> {
        match self {
            Weight::Whole(weight) => {
                let weight = recorder.constant(weight);
                Ok(ops::matmul(recorder, x, &weight)?)
            }
        }
    }

    /// Records a lookup of rows, as f32.
    pub fn rows<R: Recorder>(&self, recorder: &mut R, indices: &R::Value) -> Result<R::Value> {
        match self {
            Weight::Whole(weight) => {
                let weight = recorder.constant(weight);
                Ok(ops::gather_rows::gather_rows(recorder, &weight, indices, silicide::DType::F32)?)
            }
        }
    }
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
        let weight = tensors.matrix(&format!("{name}.weight"), [outputs, inputs])?;
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
