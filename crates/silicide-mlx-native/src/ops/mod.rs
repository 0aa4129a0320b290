//! The functions: each encodes one dispatch, over ops of silicide.
//!
//! Arguments come as in mlx-native: encoder, registry, device, buffers, extents. The registry and the device are not used. Small buffers of
//! parameters are read while encoding.

mod activations;
mod attention;
mod delta;
mod dense;
pub mod elementwise;
mod embeddings;
mod fused_norms;
mod fused_products;
pub mod gather_bench;
pub mod gpu_sample;
pub mod kv_cache_copy;
mod left_out;
mod masked;
mod moe;
mod moves;
pub mod quantized_matmul;
pub mod quantized_matmul_ggml;
pub mod quantized_matmul_id_ggml;
mod rotary;
mod rows;
mod selection;
mod support;
mod turbo;

pub use activations::{gelu, sigmoid_mul, silu_mul, softcap, sqrt_elementwise};
pub use attention::{sdpa, sdpa_sliding};
pub use delta::{
    chunk_gated_delta_rule, chunk_gated_delta_rule_bank_split, chunk_gated_delta_rule_tri_solve_invert,
    compute_g_beta, gated_delta_net, gated_delta_net_chunk, gated_delta_net_chunk_o, gated_delta_net_decode,
    gated_delta_net_kkt, gated_delta_net_recompute_wu, ssm_conv, ssm_norm_gate, tri_solve,
};
pub use dense::{dense_gemm, dense_gemv_bf16, dense_mm_bf16, dense_mm_f16, dense_mm_f32_f32};
pub use embeddings::{
    embedding_dense, embedding_kquant, embedding_q2_k, embedding_q4_0, embedding_q4_k, embedding_q5_0,
    embedding_q8_0,
};
pub use fused_norms::{fused_norm_add, fused_residual_norm};
pub use fused_products::{
    fused_dual_proj_q4_0, fused_gate_up_silu_iq4_nl, fused_gate_up_silu_q4_K, fused_gate_up_silu_q6_K,
    fused_gate_up_silu_q8_0,
};
pub use left_out::{
    deepseek_activation_quant, deepseek_compressor, deepseek_hyper_connection, deepseek_indexer,
    deepseek_moe_activation, deepseek_moe_routing, deepseek_sparse_attention, deepseek_sparse_prefill_mask,
    flash_attn_train,
};
pub use masked::{
    flash_attn_prefill, flash_attn_prefill_d512, flash_attn_prefill_mask, flash_attn_vec, tree_attention,
};
pub use moe::{moe_dispatch, moe_gate};
pub use moves::{copy, gather, q_gate_deinterleave, qkv_split, repeat_tiled, transpose};
pub use quantized_matmul::{embedding, quantized_matmul_id};
pub use rotary::{deepseek_tail_rope, fused_head_norm_rope, rope, rope_multi, rope_train, vision_2d_rope};
pub use rows::{cumsum, l2_norm, rms_norm, scale_mask_softmax, softmax};
pub use selection::{argmax, argsort, softmax_sample};
pub use turbo::{flash_attn_vec_tq_hb, fwht_standalone, hadamard, hadamard_quantize_kv, tq_dequantize_kv};
