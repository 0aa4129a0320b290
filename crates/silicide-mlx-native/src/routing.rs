//! Choices of kernels in mlx-native. They are accepted and checked; silicide chooses its kernels itself.

use serde::{Deserialize, Serialize};

/// Which kernels multiply many rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GgmlTensorMmPreference {
    /// Those for matrix units, if there are any.
    #[default]
    AutoProbe,
    /// Those without.
    ForceSimd,
}

/// Choices of kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GgmlRoutingPolicy {
    /// Without effect.
    pub dense_q5k_canonical_q4x4: bool,
    /// Without effect.
    pub dense_decode_mvn: bool,
    /// Without effect.
    pub dense_decode_mv_ext: bool,
    /// Without effect.
    pub dense_q6k_mv_nr2: bool,
    /// Without effect.
    pub dense_q8_0_mv_nr2: bool,
    /// Without effect.
    pub dense_tensor_mm: GgmlTensorMmPreference,
    /// Without effect.
    pub allow_dense_large_tile_mm: bool,
    /// The most tokens of an expert product that does not need a schedule.
    pub expert_mm_threshold: u32,
    /// Without effect.
    pub expert_q6k_mv_nr2: bool,
    /// Without effect.
    pub expert_q8_0_mv_nr2: bool,
    /// Without effect.
    pub expert_tensor_mm: GgmlTensorMmPreference,
}

impl Default for GgmlRoutingPolicy {
    fn default() -> GgmlRoutingPolicy {
        GgmlRoutingPolicy {
            dense_q5k_canonical_q4x4: false,
            dense_decode_mvn: true,
            dense_decode_mv_ext: false,
            dense_q6k_mv_nr2: true,
            dense_q8_0_mv_nr2: true,
            dense_tensor_mm: GgmlTensorMmPreference::AutoProbe,
            allow_dense_large_tile_mm: true,
            expert_mm_threshold: crate::ops::quantized_matmul_id_ggml::MM_ID_ROUTING_THRESHOLD,
            expert_q6k_mv_nr2: true,
            expert_q8_0_mv_nr2: true,
            expert_tensor_mm: GgmlTensorMmPreference::AutoProbe,
        }
    }
}
