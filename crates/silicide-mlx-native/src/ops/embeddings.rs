//! Rows of a table by id, in f32: one function for each kind of table. Ids are read while encoding, and compared with the table.

use super::support::{apart, count, float, positive};
use crate::encoder::{Dispatch, DispatchKind};
use crate::error::{Result, refuse};
use crate::gguf::GgmlType;
use crate::{CommandEncoder, DType, MlxBuffer};
use silicide::ops::gather_rows::GatherRows;
use silicide::quant::Encoding;
use silicide::{DType as Element, Recorder};

/// Reads the ids and compares them with the rows of the table.
pub(super) fn check_ids(
    encoder: &mut CommandEncoder,
    what: &str,
    ids: &MlxBuffer,
    tokens: usize,
    rows: usize,
) -> Result<()> {
    for (index, id) in encoder.host_values::<u32>(ids, tokens)?.into_iter().enumerate() {
        if id as usize >= rows {
            refuse!("{what}: token_ids[{index}]={id} exceeds vocabulary size {rows}");
        }
    }
    Ok(())
}

/// A lookup in a table of blocks.
struct BlockLookup<'a> {
    what: &'a str,
    ggml: GgmlType,
    vocab: usize,
    dim: usize,
    tokens: usize,
}

fn blocks(
    encoder: &mut CommandEncoder,
    [weight, ids, output]: [&MlxBuffer; 3],
    BlockLookup { what, ggml, vocab, dim, tokens }: BlockLookup<'_>,
) -> Result<()> {
    positive(what, &[("vocab_size", vocab), ("embed_dim", dim), ("n_tokens", tokens)])?;
    let values = ggml.block_values() as usize;
    let Some(row) = ggml.row_bytes(dim) else {
        refuse!("{what}: embed_dim = {dim} must be divisible by {values}")
    };
    if vocab.checked_mul(dim / values).is_none_or(|blocks| u32::try_from(blocks).is_err()) {
        refuse!("{what}: weight block count exceeds u32 shader indexing");
    }
    if tokens.checked_mul(dim).is_none_or(|elements| u32::try_from(elements).is_err()) {
        refuse!("{what}: output element count exceeds u32 shader indexing");
    }
    let types = (weight.dtype(), ids.dtype(), output.dtype());
    if types != (DType::U8, DType::U32, DType::F32) {
        refuse!("{what}: expected U8/U32/F32 buffers, got {}/{}/{}", types.0, types.1, types.2);
    }
    let lengths = [
        ("weight", weight, vocab * row),
        ("token_ids", ids, tokens * 4),
        ("output", output, tokens * dim * 4),
    ];
    for (name, buffer, bytes) in lengths {
        if buffer.data_byte_len() != bytes {
            refuse!("{what}: {name} must contain exactly {bytes} bytes, got {}", buffer.data_byte_len());
        }
    }
    apart(what, output, &[("weight", weight), ("token_ids", ids)])?;
    check_ids(encoder, what, ids, tokens, vocab)?;
    let (table, names) =
        (weight.tensor(ggml.silicide(), &[vocab, dim])?, ids.tensor(Element::U32, &[tokens])?);
    let y = output.tensor(Element::F32, &[tokens, dim])?;
    let op = GatherRows { encoding: Encoding::from(table.dtype()), to: Element::F32 };
    // Callers look at the grid of mlx-native: a thread for 16 values.
    let grid = [(dim / 16) as u64, tokens as u64, 1];
    let kernel = format!("{what}_f32");
    let dispatch = Dispatch::new(&kernel, tokens * dim, &[weight, ids], &[output])
        .grid(grid, [256, 1, 1], DispatchKind::Threads)
        .annotated();
    encoder.dispatch(dispatch, move |recorder| recorder.run_into(op, &[&table, &names], &[&y]))
}

/// Declares a module with a lookup in a table of blocks.
macro_rules! block_embedding {
    ($($(#[$doc:meta])* $module:ident { $($function:ident, $params:ident, $type:ident;)+ })*) => {$(
        $(#[$doc])*
        pub mod $module {
            use crate::error::Result;
            use crate::gguf::GgmlType;
            use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

            super::super::support::register!();

            $(
                /// Extents.
                #[derive(Clone, Copy, Debug, PartialEq, Eq)]
                pub struct $params {
                    /// Rows of the table.
                    pub vocab_size: usize,
                    /// Values of a row.
                    pub embed_dim: usize,
                    /// Rows to look up.
                    pub n_tokens: usize,
                }

                /// Encodes `output[i] = weight[token_ids[i]]`, decoded.
                pub fn $function(
                    encoder: &mut CommandEncoder,
                    _registry: &mut KernelRegistry,
                    _device: &MlxDevice,
                    weight: &MlxBuffer,
                    token_ids: &MlxBuffer,
                    output: &MlxBuffer,
                    params: &$params,
                ) -> Result<()> {
                    let $params { vocab_size: vocab, embed_dim: dim, n_tokens: tokens } = *params;
                    let (what, ggml) = (stringify!($function), GgmlType::$type);
                    let lookup = super::BlockLookup { what, ggml, vocab, dim, tokens };
                    super::blocks(encoder, [weight, token_ids, output], lookup)
                }
            )+
        }
    )*};
}

block_embedding! {
    /// Tables of Q2_K.
    embedding_q2_k { embedding_gather_q2_k, EmbeddingQ2KParams, Q2_K; }
    /// Tables of Q4_0.
    embedding_q4_0 { embedding_gather_q4_0, EmbeddingQ4_0Params, Q4_0; }
    /// Tables of Q4_K.
    embedding_q4_k { embedding_gather_q4_k, EmbeddingQ4KParams, Q4_K; }
    /// Tables of Q5_0.
    embedding_q5_0 { embedding_gather_q5_0, EmbeddingQ5_0Params, Q5_0; }
    /// Tables of Q5_K and Q6_K.
    embedding_kquant {
        embedding_gather_q5_k, EmbeddingQ5KParams, Q5_K;
        embedding_gather_q6_k, EmbeddingQ6KParams, Q6_K;
    }
    /// Tables of Q8_0.
    embedding_q8_0 { embedding_gather_q8_0, EmbeddingQ8_0Params, Q8_0; }
}

/// Tables of f32, f16 or bf16.
pub mod embedding_dense {
    use super::{Dispatch, Element, Encoding, GatherRows, Recorder, check_ids, count, float, positive};
    use crate::error::Result;
    use crate::{CommandEncoder, DType, KernelRegistry, MlxBuffer, MlxDevice};

    super::super::support::register!();

    /// Extents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EmbeddingDenseParams {
        /// Rows of the table.
        pub vocab_size: usize,
        /// Values of a row.
        pub embed_dim: usize,
        /// Rows to look up.
        pub n_tokens: usize,
    }

    /// Encodes `output[i] = weight[token_ids[i]]` in f32.
    pub fn embedding_gather_dense(
        encoder: &mut CommandEncoder,
        _registry: &mut KernelRegistry,
        _device: &MlxDevice,
        weight: &MlxBuffer,
        token_ids: &MlxBuffer,
        output: &MlxBuffer,
        params: &EmbeddingDenseParams,
    ) -> Result<()> {
        let what = "embedding_gather_dense";
        let (vocab, dim, tokens) = (params.vocab_size, params.embed_dim, params.n_tokens);
        positive(what, &[("vocab_size", vocab), ("embed_dim", dim), ("n_tokens", tokens)])?;
        let dtype = float(what, "weight", weight)?;
        super::super::support::typed(what, "token_ids", token_ids, DType::U32)?;
        super::super::support::typed(what, "output", output, DType::F32)?;
        let elements = count(what, &[tokens, dim])?;
        check_ids(encoder, what, token_ids, tokens, vocab)?;
        let table = weight.tensor(dtype, &[vocab, dim])?;
        let (names, y) =
            (token_ids.tensor(Element::U32, &[tokens])?, output.tensor(Element::F32, &[tokens, dim])?);
        let dispatch = Dispatch::new(what, elements, &[weight, token_ids], &[output]);
        encoder.dispatch(dispatch, move |recorder| {
            if table.dtype() == Element::F32 {
                let op = GatherRows { encoding: Encoding::from(Element::F32), to: Element::F32 };
                return recorder.run_into(op, &[&table, &names], &[&y]);
            }
            let rows = silicide::ops::gather_rows(recorder, &table, &names, table.dtype())?;
            super::super::support::cast_into(recorder, &rows, &y)
        })
    }
}
