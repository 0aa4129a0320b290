//! Functions of mlx-native that are left out: the training form of attention, and DeepSeek's indexer, compressor, hyper-connections, sparse
//! attention, and routing and activations of experts. They encode nothing and return an error.

// Arguments are not looked at.
#![allow(unused_variables)]

use crate::error::{Result, refuse};
use crate::{CommandEncoder, KernelRegistry, MlxBuffer, MlxDevice};

/// Declares functions that return an error. All take what is in brackets, and then their own arguments.
macro_rules! left_out {
    ($common:tt $($(#[$doc:meta])* $name:ident $arguments:tt $(-> $returned:ty)?;)*) => {
        $(left_out_one! { $common [$(#[$doc])*] $name $arguments [$($returned)?] })*
    };
}

macro_rules! left_out_one {
    (
        [$($common:ident: $of:ty),*] [$($doc:tt)*] $name:ident($($argument:ident: $type:ty),* $(,)?) [$($returned:tt)*]
    ) => {
        $($doc)*
        ///
        /// Returns an error: it is left out here.
        #[allow(unused_parens)]
        pub fn $name($($common: $of,)* $($argument: $type),*) -> Result<($($returned)*)> {
            refuse!("{}: left out of silicide-mlx-native, as its README says", stringify!($name))
        }
    };
}

/// Declares a struct of public numbers.
macro_rules! params {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        /// Extents and options.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub struct $name {
            $(pub $field: $type,)*
        }
    };
}

/// Attention with what its gradient needs.
pub mod flash_attn_train {
    use super::*;

    super::super::support::register!();

    params!(FlashAttnTrainParams {
        batch: u32,
        n_q_heads: u32,
        n_kv_heads: u32,
        head_dim: u32,
        q_seq_len: u32,
        k_seq_len: u32,
        scale: f32,
        causal: bool,
    });

    left_out! {
        [encoder: &mut CommandEncoder, device: &MlxDevice, registry: &mut KernelRegistry]
        /// Attention with heads of 64.
        dispatch_flash_attn_train_fwd_bf16_d64(
            q_buf: &MlxBuffer, k_buf: &MlxBuffer, v_buf: &MlxBuffer, mask: Option<&MlxBuffer>, o_buf: &MlxBuffer,
            l_buf: &MlxBuffer, params: &FlashAttnTrainParams,
        );
        /// Attention with heads of 256.
        dispatch_flash_attn_train_fwd_bf16_d256(
            q_buf: &MlxBuffer, k_buf: &MlxBuffer, v_buf: &MlxBuffer, mask: Option<&MlxBuffer>, o_buf: &MlxBuffer,
            l_buf: &MlxBuffer, params: &FlashAttnTrainParams,
        );
        /// Gradients with heads of 64.
        dispatch_flash_attn_train_bwd_bf16_d64(
            q_buf: &MlxBuffer, k_buf: &MlxBuffer, v_buf: &MlxBuffer, o_buf: &MlxBuffer, l_buf: &MlxBuffer,
            do_buf: &MlxBuffer, mask: Option<&MlxBuffer>, dq_buf: &MlxBuffer, dk_buf: &MlxBuffer, dv_buf: &MlxBuffer,
            params: &FlashAttnTrainParams,
        );
        /// Gradients with heads of 256.
        dispatch_flash_attn_train_bwd_bf16_d256(
            q_buf: &MlxBuffer, k_buf: &MlxBuffer, v_buf: &MlxBuffer, o_buf: &MlxBuffer, l_buf: &MlxBuffer,
            do_buf: &MlxBuffer, mask: Option<&MlxBuffer>, dq_buf: &MlxBuffer, dk_buf: &MlxBuffer, dv_buf: &MlxBuffer,
            params: &FlashAttnTrainParams,
        );
    }

    /// Does nothing: kernels need no registration.
    pub fn register_bwd(_registry: &mut KernelRegistry) {}
}

/// The choice of positions for sparse attention.
pub mod deepseek_indexer {
    use super::*;

    super::super::support::register!();

    /// Heads.
    pub const DEEPSEEK_INDEXER_HEADS: usize = 64;
    /// Elements of a head.
    pub const DEEPSEEK_INDEXER_HEAD_DIM: usize = 128;
    /// Positions that are chosen.
    pub const DEEPSEEK_INDEXER_TOP_K: usize = 512;
    /// Tokens of a compressed position.
    pub const DEEPSEEK_INDEXER_RATIO: usize = 4;

    params!(DeepSeekIndexerParams {
        batch: u32,
        query_len: u32,
        kv_len: u32,
        start_pos: u32,
        ratio: u32,
        heads: u32,
        head_dim: u32,
        top_k: u32,
        offset: i32,
    });

    left_out! {
        []
        /// Elements of scratch memory.
        deepseek_indexer_topk_scratch_elements(batch: usize, queries: usize, kv_len: usize) -> usize;
    }

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// Scores and choices.
        dispatch_deepseek_indexer(
            q: &MlxBuffer, kv: &MlxBuffer, weights: &MlxBuffer, scratch: &MlxBuffer, output: &MlxBuffer,
            params: &DeepSeekIndexerParams,
        );
        /// Scores and choices, into columns of a matrix.
        dispatch_deepseek_indexer_into(
            q: &MlxBuffer, kv: &MlxBuffer, weights: &MlxBuffer, scratch: &MlxBuffer, topk_scratch: &MlxBuffer,
            output: &MlxBuffer, output_row_stride: usize, output_column_offset: usize, params: &DeepSeekIndexerParams,
        );
        /// Scores and choices, into columns of a matrix.
        dispatch_deepseek_indexer_into_mma(
            q: &MlxBuffer, kv: &MlxBuffer, weights: &MlxBuffer, scratch: &MlxBuffer, topk_scratch: &MlxBuffer,
            output: &MlxBuffer, output_row_stride: usize, output_column_offset: usize, params: &DeepSeekIndexerParams,
        );
    }
}

/// Compression of keys and values of several tokens.
pub mod deepseek_compressor {
    use super::*;

    super::super::support::register!();

    /// Tokens of a position that overlaps its neighbours.
    pub const DEEPSEEK_COMPRESS_RATIO_OVERLAP: usize = 4;
    /// Tokens of a long position.
    pub const DEEPSEEK_COMPRESS_RATIO_LONG: usize = 128;

    params!(DeepSeekCompressorParams {
        batch: u32,
        seq_len: u32,
        start_pos: u32,
        ratio: u32,
        head_dim: u32,
        cache_len: u32,
        epsilon: f32,
        write_cache: u32,
    });

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// Compression with a state.
        dispatch_deepseek_compressor(
            kv: &MlxBuffer, score: &MlxBuffer, ape: &MlxBuffer, norm: &MlxBuffer, kv_state: &MlxBuffer,
            score_state: &MlxBuffer, output: &MlxBuffer, cache: &MlxBuffer, params: &DeepSeekCompressorParams,
        );
    }
}

/// Several streams of activations, mixed at each layer.
pub mod deepseek_hyper_connection {
    use super::*;

    super::super::support::register!();

    /// Streams.
    pub const DEEPSEEK_HC_MULT: usize = 4;
    /// Steps of Sinkhorn's iteration.
    pub const DEEPSEEK_HC_SINKHORN_ITERS: usize = 20;
    /// The least sum of a row.
    pub const DEEPSEEK_HC_EPS: f32 = 1.0e-6;

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// Weights before, after and between streams.
        dispatch_hc_split_sinkhorn(
            mixes: &MlxBuffer, scale: &MlxBuffer, base: &MlxBuffer, pre: &MlxBuffer, post: &MlxBuffer,
            comb: &MlxBuffer, n_tokens: u32,
        );
        /// Weights of the last sum.
        dispatch_hc_head_weights(
            mixes: &MlxBuffer, scale: &MlxBuffer, base: &MlxBuffer, weights: &MlxBuffer, n_tokens: u32,
        );
        /// The input of a layer.
        dispatch_hc_pre(x: &MlxBuffer, weights: &MlxBuffer, output: &MlxBuffer, n_tokens: u32, n_embd: u32);
        /// The streams after a layer.
        dispatch_hc_post(
            x: &MlxBuffer, residual: &MlxBuffer, post: &MlxBuffer, comb: &MlxBuffer, output: &MlxBuffer, n_tokens: u32,
            n_embd: u32,
        );
    }
}

/// Attention over chosen positions.
pub mod deepseek_sparse_attention {
    use super::*;

    super::super::support::register!();

    /// Heads.
    pub const DEEPSEEK_SPARSE_HEADS: usize = 64;
    /// Elements of a head.
    pub const DEEPSEEK_SPARSE_HEAD_DIM: usize = 512;
    /// Positions that are chosen.
    pub const DEEPSEEK_INDEX_TOP_K: usize = 512;

    params!(DeepSeekSparseAttentionParams {
        batch: u32,
        query_len: u32,
        kv_len: u32,
        top_k: u32,
        heads: u32,
        head_dim: u32,
        scale: f32,
    });

    left_out! {
        []
        /// Elements of scratch memory.
        deepseek_sparse_attention_scratch_elements(batch: usize, queries: usize, top_k: usize) -> usize;
    }

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// Attention.
        dispatch_deepseek_sparse_attention(
            q: &MlxBuffer, kv: &MlxBuffer, sinks: &MlxBuffer, indices: &MlxBuffer, output: &MlxBuffer,
            params: &DeepSeekSparseAttentionParams,
        );
        /// Attention, with scratch memory.
        dispatch_deepseek_sparse_attention_with_scratch(
            q: &MlxBuffer, kv: &MlxBuffer, sinks: &MlxBuffer, indices: &MlxBuffer, scratch: &MlxBuffer,
            output: &MlxBuffer, params: &DeepSeekSparseAttentionParams,
        );
        /// Attention of many queries.
        dispatch_deepseek_sparse_attention_flash_prefill(
            q: &MlxBuffer, kv: &MlxBuffer, sinks: &MlxBuffer, indices: &MlxBuffer, gathered_kv: &MlxBuffer,
            mask: &MlxBuffer, invalid_global: &MlxBuffer, invalid_heads: &MlxBuffer, output: &MlxBuffer,
            params: &DeepSeekSparseAttentionParams,
        );
        /// Attention of few queries.
        dispatch_deepseek_sparse_attention_flash_decode(
            q: &MlxBuffer, kv: &MlxBuffer, sinks: &MlxBuffer, indices: &MlxBuffer, gathered_kv: &MlxBuffer,
            mask: &MlxBuffer, invalid_global: &MlxBuffer, invalid_heads: &MlxBuffer, output: &MlxBuffer,
            params: &DeepSeekSparseAttentionParams,
        );
    }
}

/// Masks of chosen positions.
pub mod deepseek_sparse_prefill_mask {
    use super::*;

    super::super::support::register!();

    params!(DeepSeekSparsePrefillMaskParams {
        batch: u32,
        query_len: u32,
        kv_len: u32,
        top_k: u32,
        heads: u32
    });

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// A mask of bf16.
        dispatch_deepseek_sparse_prefill_mask(
            indices: &MlxBuffer, mask: &MlxBuffer, params: &DeepSeekSparsePrefillMaskParams,
        );
        /// A mask of f16.
        dispatch_deepseek_sparse_prefill_mask_f16(
            indices: &MlxBuffer, mask: &MlxBuffer, params: &DeepSeekSparsePrefillMaskParams,
        );
    }
}

/// Activations that are rounded to 8 and 4 bits, and stored as bf16 again.
pub mod deepseek_activation_quant {
    use super::*;

    super::super::support::register!();

    /// Elements of a row of keys.
    pub const DEEPSEEK_MAIN_WIDTH: usize = 512;
    /// The first elements of a row of keys, which are rounded.
    pub const DEEPSEEK_MAIN_QUANTIZED_WIDTH: usize = 448;
    /// Elements of a row of the indexer.
    pub const DEEPSEEK_INDEX_WIDTH: usize = 128;

    params!(DeepSeekMxfp8Params { rows: u32, row_width: u32, quantized_width: u32, block_size: u32 });

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// Rounds blocks of 64 to E4M3 under a power of two.
        dispatch_deepseek_mxfp8_fake_quant_bf16(data: &MlxBuffer, params: &DeepSeekMxfp8Params);
        /// Rotates rows by a Hadamard transform, and rounds blocks of 32 to E2M1 under a power of two.
        dispatch_deepseek_hadamard_mxfp4_bf16(data: &MlxBuffer, rows: u32);
    }
}

/// The choice of experts by their scores, or by a table of tokens.
pub mod deepseek_moe_routing {
    use super::*;

    super::super::support::register!();

    /// Experts.
    pub const DEEPSEEK_MOE_EXPERTS: usize = 256;
    /// Experts of a token.
    pub const DEEPSEEK_MOE_TOP_K: usize = 6;
    /// The factor of weights.
    pub const DEEPSEEK_MOE_ROUTE_SCALE: f32 = 1.5;

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// By scores.
        dispatch_deepseek_moe_score_route(
            logits: &MlxBuffer, bias: &MlxBuffer, out_indices: &MlxBuffer, out_weights: &MlxBuffer, n_tokens: usize,
        );
        /// By a table of tokens.
        dispatch_deepseek_moe_hash_route(
            logits: &MlxBuffer, token_ids: &MlxBuffer, tid2eid: &MlxBuffer, out_indices: &MlxBuffer,
            out_weights: &MlxBuffer, n_tokens: usize, vocab_size: usize,
        );
        /// Replaces ids that are no expert.
        dispatch_deepseek_moe_sanitize_indices(
            indices: &MlxBuffer, safe_indices: &MlxBuffer, invalid_status: &MlxBuffer, n_tokens: usize,
        );
    }
}

/// The gated activation of experts, and the sum of their outputs.
pub mod deepseek_moe_activation {
    use super::*;

    super::super::support::register!();

    /// Columns of an expert's activations.
    pub const DEEPSEEK_MOE_INTER_DIM: usize = 2048;
    /// Columns of an expert's outputs.
    pub const DEEPSEEK_MOE_HIDDEN_DIM: usize = 4096;
    /// The largest factor of the activation.
    pub const DEEPSEEK_MOE_SWIGLU_LIMIT: f32 = 10.0;

    left_out! {
        [encoder: &mut CommandEncoder, registry: &mut KernelRegistry, device: &MlxDevice]
        /// `silu(min(gate, 10)) * clamp(up, -10, 10)`, times a weight of each row.
        dispatch_deepseek_moe_swiglu(
            gate: &MlxBuffer, up: &MlxBuffer, selected_weights: Option<&MlxBuffer>, output: &MlxBuffer,
            invalid_status: &MlxBuffer, rows: usize,
        );
        /// The weighted sum of the experts of each token, and the shared expert.
        dispatch_deepseek_moe_weighted_reduce(
            indices: &MlxBuffer, weights: &MlxBuffer, routed: &MlxBuffer, shared: &MlxBuffer, output: &MlxBuffer,
            invalid_status: &MlxBuffer, n_tokens: usize,
        );
    }
}
