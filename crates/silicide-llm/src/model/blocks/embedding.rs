//! The token embedding and the output projection.

use super::Norm;
use crate::error::Result;
use crate::model::{ForwardInputs, Tensors};
use silicide_core::{Recorder, Weight};
use silicide_ops as ops;
use silicide_quant::DType;

/// The token embedding.
#[derive(Clone, Debug)]
pub struct Embedding {
    table: Weight,
    scale: Option<f32>,
}

impl Embedding {
    /// Loads the token embedding. Rows are multiplied by `scale` if it is given.
    pub fn load(tensors: &mut Tensors<'_>, scale: Option<f32>) -> Result<Embedding> {
        let extents = [tensors.vocabulary(), tensors.config().hidden];
        Ok(Embedding { table: tensors.matrix("token_embd.weight", extents)?, scale })
    }

    /// Records the embeddings of a pass's tokens, `[tokens, hidden]`.
    pub fn apply<R: Recorder>(&self, recorder: &mut R, inputs: &ForwardInputs<R::Value>) -> Result<R::Value> {
        let table = self.table.constant(recorder);
        let x = ops::gather_rows(recorder, &table, &inputs.tokens, DType::F32)?;
        match self.scale {
            Some(factor) => Ok(recorder.run_one(ops::unary::Unary::Scale { factor }, &[&x])?),
            None => Ok(x),
        }
    }
}

/// The final norm and the output projection (`lm_head`).
#[derive(Clone, Debug)]
pub struct Head {
    norm: Norm,
    weight: Weight,
}

impl Head {
    /// Loads the output projection, or takes the token embedding if the two are tied. They are tied by default if the file
    /// has no output projection.
    pub fn load(tensors: &mut Tensors<'_>, embedding: &Embedding) -> Result<Head> {
        let extents = [tensors.vocabulary(), tensors.config().hidden];
        let norm = Norm::load(tensors, "output_norm", tensors.config().hidden)?;
        let tied = tensors.config().tied.unwrap_or_else(|| !tensors.has("output.weight"));
        let weight = match tied {
            true => tensors.arrange_table(&embedding.table)?,
            false => tensors.factor("output.weight", extents)?,
        };
        Ok(Head { norm, weight })
    }

    /// Records the logits of the output rows, `[outputs, vocabulary]`.
    pub fn apply<R: Recorder>(
        &self,
        recorder: &mut R,
        x: &R::Value,
        inputs: &ForwardInputs<R::Value>,
    ) -> Result<R::Value> {
        let rows = match &inputs.outputs {
            Some(indices) => ops::gather_rows(recorder, x, indices, DType::F32)?,
            None => x.clone(),
        };
        let x = self.norm.apply(recorder, &rows)?;
        let weight = self.weight.constant(recorder);
        Ok(ops::linear(recorder, &x, &weight, None)?)
    }
}
