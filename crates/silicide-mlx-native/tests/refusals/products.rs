//! Products.

use super::Refusals;
use mlx_native::DType::{self, BF16, F16, F32, U8, U32};
use mlx_native::ops::dense_gemv_bf16::dense_gemv_bf16_f32;
use mlx_native::ops::dense_mm_f16::{DenseMmF16F32Params, dense_matmul_f16_f32_tensor};
use mlx_native::ops::dense_mm_f32_f32::{DenseMmF32F32Params, dense_matmul_f32_f32_tensor};
use mlx_native::ops::quantized_matmul_ggml::{
    GgmlBatchedQuantizedMatmulInputStrides, GgmlBatchedQuantizedMatmulParams,
    GgmlQuantizedMatmulPerm021Params, quantized_matmul_ggml_batched_mm_strided_input,
    quantized_matmul_mm_tensor_perm021,
};
use mlx_native::{
    GgmlQuantizedMatmulIdParams, GgmlQuantizedMatmulParams, GgmlRoutingPolicy, GgmlType, IdMmScratch,
    MlxBuffer, QuantizedMatmulIdParams, QuantizedMatmulParams, quantized_matmul, quantized_matmul_ggml,
    quantized_matmul_id_ggml, quantized_matmul_id_ggml_pooled_pair_with_policy, quantized_matmul_id_into,
};

/// Bytes of a weight `[n, 64]` of Q4_0.
const fn q4_0(n: usize) -> usize {
    n * 36
}

#[test]
fn products_of_blocks() {
    let mut refusals = Refusals::new();
    let good = GgmlQuantizedMatmulParams { m: 2, n: 4, k: 64, ggml_type: GgmlType::Q4_0 };
    let (x, w) = (refusals.buffer(F32, 128), refusals.buffer(U8, q4_0(4)));
    let mut refused = |text: &str, params: GgmlQuantizedMatmulParams, x: &MlxBuffer, w: &MlxBuffer| {
        refusals.refused(text, |encoder, registry, device, y| {
            quantized_matmul_ggml(encoder, registry, device, x, w, y, &params)
        });
    };
    refused("M must be greater than zero", GgmlQuantizedMatmulParams { m: 0, ..good }, &x, &w);
    refused("N must be greater than zero", GgmlQuantizedMatmulParams { n: 0, ..good }, &x, &w);
    refused("K must be greater than zero", GgmlQuantizedMatmulParams { k: 0, ..good }, &x, &w);
    refused("K = 48", GgmlQuantizedMatmulParams { k: 48, ..good }, &x, &w);
    refused("buffer too small: [3, 64]", GgmlQuantizedMatmulParams { m: 3, ..good }, &x, &w);
    refused("buffer too small: [5, 64]", GgmlQuantizedMatmulParams { n: 5, ..good }, &x, &w);
    refused("buffer too small", GgmlQuantizedMatmulParams { m: u32::MAX, n: u32::MAX, ..good }, &x, &w);
    for ggml_type in [GgmlType::F32, GgmlType::F16, GgmlType::BF16, GgmlType::I16, GgmlType::I32] {
        refused("not a block type", GgmlQuantizedMatmulParams { ggml_type, ..good }, &x, &w);
    }
    let (halves, floats) = (refusals.buffer(F16, 128), refusals.buffer(F32, 64));
    for (x, w) in [(&halves, &w), (&x, &floats)] {
        refusals.refused("quantized_matmul_ggml", |encoder, registry, device, y| {
            quantized_matmul_ggml(encoder, registry, device, x, w, y, &good)
        });
    }
    refusals.refused("requires F32", |encoder, registry, device, _| {
        quantized_matmul_ggml(encoder, registry, device, &x, &w, &halves, &good)
    });
    refusals.end();
}

#[test]
fn strides_of_activations() {
    let mut refusals = Refusals::new();
    let params = GgmlBatchedQuantizedMatmulParams { batch: 2, m: 2, n: 4, k: 64, ggml_type: GgmlType::Q4_0 };
    let (x, w) = (refusals.buffer(F32, 256), refusals.buffer(U8, q4_0(8)));
    for (row_bytes, batch_bytes, text) in [
        (0, 512, "multiples of 32"),
        (260, 520, "multiples of 32"),
        (256, 520, "multiples of 32"),
        (128, 512, "do not fit"),
        (256, 256, "do not fit"),
        (512, 1024, "the layout reaches"),
        (1 << 62, 1 << 63, "the layout reaches"),
    ] {
        let strides = GgmlBatchedQuantizedMatmulInputStrides { row_bytes, batch_bytes };
        refusals.refused(text, |encoder, registry, device, y| {
            let (x, w) = (&x, &w);
            quantized_matmul_ggml_batched_mm_strided_input(
                encoder, registry, device, x, w, y, &params, &strides,
            )
        });
    }
    refusals.end();
}

#[test]
fn activations_head_by_head() {
    let mut refusals = Refusals::new();
    let good =
        GgmlQuantizedMatmulPerm021Params { m: 2, n: 4, k: 64, head_dim: 32, ggml_type: GgmlType::Q4_0 };
    let (x, w, floats) =
        (refusals.buffer(BF16, 128), refusals.buffer(U8, q4_0(4)), refusals.buffer(F32, 128));
    let cases = [
        ("unsupported type", GgmlQuantizedMatmulPerm021Params { ggml_type: GgmlType::Q4_K, ..good }, &x),
        ("divisible by 32", GgmlQuantizedMatmulPerm021Params { head_dim: 16, ..good }, &x),
        ("divide K", GgmlQuantizedMatmulPerm021Params { head_dim: 96, ..good }, &x),
        ("head_dim must be greater than zero", GgmlQuantizedMatmulPerm021Params { head_dim: 0, ..good }, &x),
        ("input must be bf16", good, &floats),
        ("buffer too small: [1, 2, 3, 32]", GgmlQuantizedMatmulPerm021Params { m: 3, ..good }, &x),
    ];
    for (text, params, x) in cases {
        refusals.refused(text, |encoder, registry, device, y| {
            quantized_matmul_mm_tensor_perm021(encoder, registry, device, x, &w, y, &params)
        });
    }
    refusals.end();
}

#[test]
fn products_with_experts() {
    let mut refusals = Refusals::new();
    let good = GgmlQuantizedMatmulIdParams {
        n_tokens: 2,
        top_k: 2,
        n: 4,
        k: 64,
        n_experts: 3,
        expert_stride: q4_0(4) as u64,
        ggml_type: GgmlType::Q4_0,
    };
    let (x, w, ids) = (refusals.buffer(F32, 128), refusals.buffer(U8, q4_0(12)), refusals.buffer(U32, 4));
    let zero = |text, params| (text, params);
    let cases = [
        zero("n_tokens must be greater than zero", GgmlQuantizedMatmulIdParams { n_tokens: 0, ..good }),
        zero("top_k must be greater than zero", GgmlQuantizedMatmulIdParams { top_k: 0, ..good }),
        zero("n_experts must be greater than zero", GgmlQuantizedMatmulIdParams { n_experts: 0, ..good }),
        ("less than the 144 bytes", GgmlQuantizedMatmulIdParams { expert_stride: 143, ..good }),
        // Whole rows and single bytes between experts, past the weights.
        ("buffer too small: [504]", GgmlQuantizedMatmulIdParams { expert_stride: 180, ..good }),
        ("buffer too small: [434]", GgmlQuantizedMatmulIdParams { expert_stride: 145, ..good }),
        ("the weights cannot be counted", GgmlQuantizedMatmulIdParams { expert_stride: u64::MAX, ..good }),
        ("not a block type", GgmlQuantizedMatmulIdParams { ggml_type: GgmlType::F16, ..good }),
        ("K = 65", GgmlQuantizedMatmulIdParams { k: 65, ..good }),
        ("buffer too small: [3, 64]", GgmlQuantizedMatmulIdParams { n_tokens: 3, ..good }),
    ];
    for (text, params) in cases {
        refusals.refused(text, |encoder, registry, device, y| {
            quantized_matmul_id_ggml(encoder, registry, device, &x, &w, &ids, y, &params)
        });
    }
    let (halves, signed) = (refusals.buffer(F16, 128), refusals.buffer(DType::I32, 4));
    for (text, x, ids) in [("F32 input", &halves, &ids), ("U32 expert IDs", &x, &signed)] {
        refusals.refused(text, |encoder, registry, device, y| {
            quantized_matmul_id_ggml(encoder, registry, device, x, &w, ids, y, &good)
        });
    }
    refusals.end();
}

#[test]
fn pairs_of_products_with_experts() {
    let mut refusals = Refusals::new();
    let params = GgmlQuantizedMatmulIdParams {
        n_tokens: 33,
        top_k: 1,
        n: 4,
        k: 64,
        n_experts: 2,
        expert_stride: q4_0(4) as u64,
        ggml_type: GgmlType::Q4_0,
    };
    let (x, w, ids) = (refusals.buffer(F32, 33 * 64), refusals.buffer(U8, q4_0(8)), refusals.buffer(U32, 33));
    let second = refusals.buffer(F32, 33 * 4);
    let scratch = IdMmScratch::alloc(&refusals.device, 2, 33).unwrap();
    let over_ids = IdMmScratch { hids: ids.clone(), ..scratch.clone() };
    let over_output = IdMmScratch { htpe: second.clone(), ..scratch.clone() };
    let small = IdMmScratch::alloc(&refusals.device, 2, 32).unwrap();
    let few = GgmlQuantizedMatmulIdParams { n_tokens: 32, ..params };
    let first = refusals.output.clone();
    for (text, params, outputs, mut scratch) in [
        ("output ranges must not overlap", params, [&second, &second], scratch.clone()),
        ("output range must not overlap input", params, [&first, &x], scratch.clone()),
        ("scratch range must not overlap ids", params, [&first, &second], over_ids),
        ("scratch range must not overlap an output", params, [&first, &second], over_output),
        ("requires the mm_id route", few, [&first, &second], scratch.clone()),
        ("room for", params, [&first, &second], small),
    ] {
        refusals.refused(text, |encoder, registry, device, _| {
            let policy = GgmlRoutingPolicy::default();
            let (x, w, ids, [first, second]) = (&x, &w, &ids, outputs);
            quantized_matmul_id_ggml_pooled_pair_with_policy(
                encoder,
                registry,
                device,
                x,
                w,
                w,
                ids,
                first,
                second,
                &mut scratch,
                &params,
                &policy,
            )
        });
    }
    assert!(IdMmScratch::alloc(&refusals.device, 0, 4).is_err());
    assert!(IdMmScratch::alloc(&refusals.device, u32::MAX, u32::MAX).is_err());
    refusals.end();
}

#[test]
fn products_of_planes() {
    let mut refusals = Refusals::new();
    let good = QuantizedMatmulParams { m: 2, k: 64, n: 4, group_size: 32, bits: 4 };
    let (x, w, scales) = (refusals.buffer(F32, 128), refusals.buffer(U32, 32), refusals.buffer(BF16, 8));
    for (text, params) in [
        ("bits must be 4, 6 or 8", QuantizedMatmulParams { bits: 5, ..good }),
        ("multiple of group_size", QuantizedMatmulParams { k: 48, ..good }),
        ("M must be greater than zero", QuantizedMatmulParams { m: 0, ..good }),
        ("buffer too small: [5, 8]", QuantizedMatmulParams { n: 5, ..good }),
        ("group_size = 0", QuantizedMatmulParams { group_size: 0, ..good }),
    ] {
        refusals.refused(text, |encoder, registry, device, _| {
            quantized_matmul(encoder, registry, device, &x, &w, &scales, &scales, &params)
        });
    }
    let halves = refusals.buffer(F16, 128);
    refusals.refused("input must be f32", |encoder, registry, device, _| {
        quantized_matmul(encoder, registry, device, &halves, &w, &scales, &scales, &good)
    });
    let params = QuantizedMatmulIdParams {
        m: 2,
        k: 64,
        n: 4,
        group_size: 32,
        bits: 4,
        n_expert_used: 1,
        num_experts: 1,
    };
    let floats = refusals.buffer(F32, 2);
    refusals.refused("ids must be u32", |encoder, registry, device, y| {
        let (x, w, s) = (&x, &w, &scales);
        quantized_matmul_id_into(encoder, registry, device, x, w, s, s, &floats, y, &params)
    });
    refusals.end();
}

#[test]
fn dense_products_in_batches() {
    let mut refusals = Refusals::new();
    let good = DenseMmF16F32Params { m: 2, n: 4, k: 32, src0_batch: 1, src1_batch: 2 };
    let (w, x) = (refusals.buffer(F16, 4 * 32), refusals.buffer(F32, 2 * 2 * 32));
    for (text, params) in [
        ("K = 31 must be at least 32", DenseMmF16F32Params { k: 31, ..good }),
        ("multiple of src0_batch", DenseMmF16F32Params { src0_batch: 2, src1_batch: 3, ..good }),
        ("at most 32767", DenseMmF16F32Params { src1_batch: 32768, ..good }),
        ("src0_batch must be greater than zero", DenseMmF16F32Params { src0_batch: 0, ..good }),
        ("buffer too small: [1, 5, 32]", DenseMmF16F32Params { n: 5, ..good }),
    ] {
        refusals.refused(text, |encoder, registry, device, y| {
            dense_matmul_f16_f32_tensor(encoder, registry, device, &w, &x, y, &params)
        });
    }
    let params = DenseMmF32F32Params { m: 2, n: 4, k: 32, src0_batch: 1, src1_batch: 2 };
    refusals.refused("src0 must be f32", |encoder, registry, device, y| {
        dense_matmul_f32_f32_tensor(encoder, registry, device, &w, &x, y, &params)
    });
    let params = mlx_native::ops::dense_mm_bf16::DenseMmBf16F32Params {
        m: 2,
        n: 4,
        k: 32,
        src0_batch: 1,
        src1_batch: 2,
    };
    refusals.refused("src0 must be bf16", |encoder, registry, device, y| {
        dense_gemv_bf16_f32(encoder, registry, device, &w, &x, y, &params)
    });
    refusals.end();
}
