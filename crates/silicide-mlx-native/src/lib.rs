#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
// The signatures are those of mlx-native.
#![allow(clippy::too_many_arguments)]

mod buffer;
mod counters;
mod device;
mod dtype;
mod encoder;
pub mod encoder_worker;
mod error;
pub mod gguf;
pub mod graph;
mod hazard;
pub mod kernel_profile;
pub mod metal;
pub mod metal_capture;
pub mod ops;
mod pool;
mod registry;
mod routing;
mod session;
pub mod tq_oracle;
pub mod turboquant;
pub mod weight;

pub use buffer::MlxBuffer;
pub use counters::{
    auto_barrier_concurrent_count, auto_barrier_count, barrier_count, barrier_total_ns, cmd_buf_count,
    command_buffer_uses_unretained_references, commit_count, dispatch_count, gpu_busy_ns,
    pipeline_dispatch_buckets, reset_counters, reset_pipeline_dispatch_buckets, set_encode_trace, sync_count,
};
pub use device::MlxDevice;
pub use dtype::DType;
pub use encoder::{
    CapturedNode, CapturedOpKind, CommandEncoder, DispatchKind, DispatchRecord, KernelArg, MemRange,
    RecordedBinding,
};
pub use encoder_worker::EncoderWorker;
pub use error::{MlxError, Result};
pub use gguf::{
    GgmlType, GgufFile, GgufHeaderLimits, GgufMappedTensorSet, GgufMappedTensorStoragePlan, MetadataValue,
    TensorInfo,
};
pub use graph::{ComputeGraph, GraphExecutor, GraphSession, OpKind};
pub use hazard::{BufferRange, MemRangeRole, MemRanges};
pub use metal::MTLSize;
pub use ops::embedding::{EmbeddingGatherParams, embedding_gather};
pub use ops::embedding_dense::{EmbeddingDenseParams, embedding_gather_dense};
pub use ops::embedding_kquant::{
    EmbeddingQ5KParams, EmbeddingQ6KParams, embedding_gather_q5_k, embedding_gather_q6_k,
};
pub use ops::embedding_q2_k::{EmbeddingQ2KParams, embedding_gather_q2_k};
pub use ops::embedding_q4_0::{EmbeddingQ4_0Params, embedding_gather_q4_0};
pub use ops::embedding_q4_k::{EmbeddingQ4KParams, embedding_gather_q4_k};
pub use ops::embedding_q5_0::{EmbeddingQ5_0Params, embedding_gather_q5_0};
pub use ops::embedding_q8_0::{EmbeddingQ8_0Params, embedding_gather_q8_0};
pub use ops::quantized_matmul::{QuantizedMatmulParams, quantized_matmul, quantized_matmul_simd};
pub use ops::quantized_matmul_ggml::{
    GgmlBatchedQuantizedMatmulInputStrides, GgmlBatchedQuantizedMatmulParams, GgmlQuantizedMatmulParams,
    GgmlQuantizedMatmulPerm021Params, MM_ROUTING_THRESHOLD, dispatch_mm_for_test,
    dispatch_mm_q4_0_tensor_64x32_for_test, dispatch_mm_simd_for_test, quantized_matmul_ggml,
    quantized_matmul_ggml_batched_mm, quantized_matmul_ggml_batched_mm_strided_input,
    quantized_matmul_ggml_batched_mv, quantized_matmul_ggml_broadcast_batched_mm,
    quantized_matmul_ggml_with_policy, quantized_matmul_mm_tensor_perm021,
    quantized_matmul_mm_tensor_perm021_broadcast_batched, quantized_matmul_q2_k_batched_mv,
};
pub use ops::quantized_matmul_id::{QuantizedMatmulIdParams, quantized_matmul_id, quantized_matmul_id_into};
pub use ops::quantized_matmul_id_ggml::{
    GgmlIdMmDispatchParams, GgmlQuantizedMatmulIdParams, IdMmScratch, MM_ID_ROUTING_THRESHOLD,
    dispatch_id_mm_for_test, dispatch_id_mm_fused_gate_up_silu_for_test,
    dispatch_id_mm_with_prepared_schedule_for_test, quantized_matmul_id_ggml,
    quantized_matmul_id_ggml_mv_with_policy, quantized_matmul_id_ggml_pooled,
    quantized_matmul_id_ggml_pooled_pair, quantized_matmul_id_ggml_pooled_pair_with_policy,
    quantized_matmul_id_ggml_pooled_slotted, quantized_matmul_id_ggml_pooled_with_policy,
    quantized_matmul_id_ggml_with_policy, quantized_matmul_id_swiglu_q4_0,
};
pub use pool::MlxBufferPool;
pub use registry::{KernelRegistry, PipelineIdentity};
pub use routing::{GgmlRoutingPolicy, GgmlTensorMmPreference};
pub use session::EncoderSession;
pub use weight::{
    QuantizationConfig, QuantizedWeight, SafetensorsFile, TensorQuantConfig, load_quantized_weights,
    safetensors_to_metal_buffer,
};

/// Returns false: there are no residency sets.
#[doc(hidden)]
pub fn macos_15_or_newer_for_test() -> bool {
    false
}

/// Does nothing: there are no residency sets.
#[doc(hidden)]
pub fn reset_residency_env_cache_for_test() {}

/// Does nothing: there are no residency sets.
#[doc(hidden)]
pub fn reset_residency_test_counters() {}

/// Returns 0: there are no residency sets.
#[doc(hidden)]
pub fn residency_allocation_count_for_test() -> usize {
    0
}

/// Returns 0: there are no residency sets.
#[doc(hidden)]
pub fn residency_commit_call_count_for_test() -> usize {
    0
}
