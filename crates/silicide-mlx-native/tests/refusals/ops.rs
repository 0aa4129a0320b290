//! Elementwise functions, rows, embeddings, rotations, caches and attention.

use super::Refusals;
use mlx_native::DType::{self, BF16, F16, F32, U8, U16, U32};
use mlx_native::ops::argmax::dispatch_argmax_f32;
use mlx_native::ops::argsort::dispatch_argsort_desc_f32;
use mlx_native::ops::cumsum::dispatch_cumsum;
use mlx_native::ops::elementwise::{CastDirection, cast, elementwise_add, elementwise_mul};
use mlx_native::ops::flash_attn_vec::{FlashAttnVecParams, flash_attn_vec};
use mlx_native::ops::gelu::dispatch_gelu;
use mlx_native::ops::kv_cache_copy::{dispatch_kv_cache_copy, dispatch_kv_cache_copy_batch_f32};
use mlx_native::ops::rms_norm::dispatch_rms_norm_no_scale_f32;
use mlx_native::ops::rope_multi::{RopeMultiMode, RopeMultiParams, build_rope_multi_buffers};
use mlx_native::ops::scale_mask_softmax::{ScaleMaskSoftmaxParams, dispatch_scale_mask_softmax_f32};
use mlx_native::ops::sdpa::{SdpaParams, sdpa};
use mlx_native::ops::softcap::dispatch_softcap;
use mlx_native::ops::softmax_sample::dispatch_softmax_sample_f32;
use mlx_native::{
    EmbeddingDenseParams, EmbeddingGatherParams, EmbeddingQ4_0Params, embedding_gather,
    embedding_gather_dense, embedding_gather_q4_0,
};

#[test]
fn elementwise_functions() {
    let mut refusals = Refusals::new();
    let (a, small, halves) = (refusals.buffer(F32, 4), refusals.buffer(F32, 3), refusals.buffer(F16, 4));
    for dtype in [U8, U16, U32, DType::I32] {
        refusals.refused("unsupported dtype", |encoder, registry, device, y| {
            elementwise_add(encoder, registry, device.metal_device(), &a, &a, y, 4, dtype)
        });
    }
    for (a, b, n) in [(&a, &small, 4), (&a, &a, 0), (&a, &a, 5), (&a, &a, usize::MAX)] {
        refusals.refused("Invalid argument", |encoder, registry, device, y| {
            elementwise_mul(encoder, registry, device.metal_device(), a, b, y, n, F32)
        });
    }
    for n in [0, 5, usize::MAX] {
        refusals.refused("Invalid argument", |encoder, registry, device, y| {
            cast(encoder, registry, device.metal_device(), &halves, y, n, CastDirection::F16ToF32)
        });
    }
    refusals.refused("same type and element count", |encoder, registry, device, y| {
        dispatch_gelu(encoder, registry, device.metal_device(), &halves, y)
    });
    for cap in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let same = refusals.buffer(F32, 1024);
        refusals.refused("cap must be finite", |encoder, registry, device, y| {
            dispatch_softcap(encoder, registry, device.metal_device(), &same, y, &small, cap)
        });
    }
    refusals.end();
}

#[test]
fn rows() {
    let mut refusals = Refusals::new();
    let (x, params, halves) =
        (refusals.buffer(F32, 1024), refusals.buffer(F32, 4), refusals.buffer(F16, 1024));
    for (rows, dim, text) in [
        (0, 8, "rows must be greater than zero"),
        (1, 8193, "exceeds 8192"),
        (3, 8, "elements"),
        (1, 0, "dim"),
    ] {
        refusals.refused(text, |encoder, registry, device, y| {
            dispatch_cumsum(encoder, registry, device.metal_device(), &x, y, &params, rows, dim)
        });
    }
    for (x, rows, dim) in [(&x, 0, 8), (&x, 2, 0), (&x, 3, 8), (&x, u32::MAX, u32::MAX), (&halves, 2, 512)] {
        refusals.refused("rms_norm_no_scale_f32", |encoder, registry, device, y| {
            dispatch_rms_norm_no_scale_f32(encoder, registry, device.metal_device(), x, y, &params, rows, dim)
        });
    }
    for n in [0, 1025, u32::MAX] {
        let index = refusals.buffer(U32, 1);
        refusals.refused("Invalid argument", |encoder, registry, device, y| {
            dispatch_argmax_f32(encoder, registry, device.metal_device(), &x, &index, y, &params, n)
        });
    }
    for (rows, n) in [(0, 4), (4, 0), (3, 1000)] {
        refusals.refused("Invalid argument", |encoder, registry, device, y| {
            dispatch_argsort_desc_f32(encoder, registry, device.metal_device(), &x, y, rows, n)
        });
    }
    let mask = refusals.buffer(BF16, 64);
    let good = ScaleMaskSoftmaxParams { rows: 4, cols: 16, seq_q: 2, scale: 1.0 };
    for (params, mask, text) in [
        (ScaleMaskSoftmaxParams { rows: 3, ..good }, &mask, "multiple of seq_q"),
        (ScaleMaskSoftmaxParams { seq_q: 0, ..good }, &mask, "seq_q must be greater than zero"),
        (ScaleMaskSoftmaxParams { cols: 33, ..good }, &mask, "buffer too small: [2, 33]"),
        (good, &halves, "mask must be bf16"),
    ] {
        refusals.refused(text, |encoder, registry, device, y| {
            dispatch_scale_mask_softmax_f32(encoder, registry, device, &x, y, mask, &params)
        });
    }
    refusals.end();
}

#[test]
fn samples() {
    let mut refusals = Refusals::new();
    let (logits, token, params) = (refusals.buffer(F32, 8), refusals.buffer(U32, 1), refusals.buffer(F32, 4));
    for (n, temperature, random, text) in [
        (0, 1.0, 0.5, "greater than zero"),
        (8, 0.0, 0.5, "temperature must be finite"),
        (8, f32::NAN, 0.5, "temperature must be finite"),
        (8, 1.0, 1.0, "random_val must be in [0, 1)"),
        (8, 1.0, -0.1, "random_val must be in [0, 1)"),
        (8, 1.0, f32::NAN, "random_val must be in [0, 1)"),
        (9, 1.0, 0.5, "buffer too small: [1, 9]"),
    ] {
        refusals.refused(text, |encoder, registry, device, probability| {
            let (of, scratch) = (device.metal_device(), &logits);
            dispatch_softmax_sample_f32(
                encoder,
                registry,
                of,
                &logits,
                scratch,
                &token,
                probability,
                &params,
                n,
                temperature,
                random,
            )
        });
    }
    refusals.end();
}

#[test]
fn embeddings() {
    let mut refusals = Refusals::new();
    let (table, mut ids) = (refusals.buffer(F32, 12), refusals.buffer(U32, 2));
    ids.as_mut_slice().unwrap().copy_from_slice(&[2u32, 3]);
    let params = EmbeddingDenseParams { vocab_size: 3, embed_dim: 4, n_tokens: 2 };
    refusals.refused("exceeds vocabulary", |encoder, registry, device, y| {
        embedding_gather_dense(encoder, registry, device, &table, &ids, y, &params)
    });
    for params in [
        EmbeddingDenseParams { vocab_size: 0, ..params },
        EmbeddingDenseParams { embed_dim: 0, ..params },
        EmbeddingDenseParams { n_tokens: 0, ..params },
        EmbeddingDenseParams { n_tokens: 3, ..params },
        EmbeddingDenseParams { vocab_size: usize::MAX, ..params },
    ] {
        refusals.refused("Invalid argument", |encoder, registry, device, y| {
            embedding_gather_dense(encoder, registry, device, &table, &ids, y, &params)
        });
    }
    // Of blocks: all buffers have exactly the bytes that they need.
    let (blocks, exact) = (refusals.buffer(U8, 3 * 18), refusals.buffer(F32, 64));
    let good = EmbeddingQ4_0Params { vocab_size: 3, embed_dim: 32, n_tokens: 2 };
    for (params, weight, to, text) in [
        (EmbeddingQ4_0Params { embed_dim: 33, ..good }, &blocks, &exact, "divisible by 32"),
        (EmbeddingQ4_0Params { n_tokens: 0, ..good }, &blocks, &exact, "greater than zero"),
        (EmbeddingQ4_0Params { vocab_size: 4, ..good }, &blocks, &exact, "must contain exactly"),
        (good, &table, &exact, "expected U8/U32/F32"),
        (good, &blocks, &exact, "token_ids[1]=3"),
    ] {
        refusals.refused(text, |encoder, registry, device, _| {
            embedding_gather_q4_0(encoder, registry, device, weight, &ids, to, &params)
        });
    }
    let good = EmbeddingGatherParams { embed_dim: 64, group_size: 32, bits: 4, n_tokens: 2 };
    let (packed, scales) = (refusals.buffer(U32, 32), refusals.buffer(BF16, 8));
    for (params, ids, text) in [
        (EmbeddingGatherParams { bits: 8, ..good }, &ids, "bits must be 4 or 6"),
        (EmbeddingGatherParams { embed_dim: 65, ..good }, &ids, "packing quantum"),
        (good, &scales, "token_ids must be u32"),
    ] {
        refusals.refused(text, |encoder, registry, device, y| {
            let of = device.metal_device();
            embedding_gather(encoder, registry, of, &packed, &scales, &scales, ids, y, &params)
        });
    }
    refusals.refused("output must be f32", |encoder, registry, device, _| {
        let (of, to) = (device.metal_device(), &scales);
        embedding_gather(encoder, registry, of, &packed, &scales, &scales, &ids, to, &good)
    });
    refusals.end();
}

#[test]
fn rotations() {
    let refusals = Refusals::new();
    let good = RopeMultiParams {
        head_dim: 8,
        rope_dim: 8,
        n_heads: 1,
        seq_len: 1,
        freq_base: 1e4,
        mode: RopeMultiMode::Vision,
        sections: [2, 2, 0, 0],
    };
    assert!(build_rope_multi_buffers(&refusals.device, good).is_ok());
    for wrong in [
        RopeMultiParams { head_dim: 0, ..good },
        RopeMultiParams { rope_dim: 7, ..good },
        RopeMultiParams { rope_dim: 10, ..good },
        RopeMultiParams { sections: [2, 1, 0, 0], ..good },
        RopeMultiParams { sections: [u32::MAX, 5, 0, 0], ..good },
        RopeMultiParams { rope_dim: 4, ..good },
        RopeMultiParams { freq_base: f32::NAN, ..good },
        RopeMultiParams { freq_base: 0.0, ..good },
    ] {
        assert!(build_rope_multi_buffers(&refusals.device, wrong).is_err(), "{wrong:?}");
    }
    refusals.end();
}

#[test]
fn caches() {
    let mut refusals = Refusals::new();
    let rows = refusals.buffer(F32, 64);
    for (position, capacity) in [(8, 8), (u32::MAX, 8), (0, 0), (0, u32::MAX)] {
        refusals.refused("Invalid argument", |encoder, registry, device, cache| {
            let of = device.metal_device();
            dispatch_kv_cache_copy_batch_f32(encoder, registry, of, &rows, cache, 2, 32, capacity, position)
        });
    }
    for (position, new, sliding) in [(7, 2, false), (u32::MAX, 1, false), (0, 9, false), (0, 9, true)] {
        refusals.refused("kv_cache_copy", |encoder, registry, device, cache| {
            let of = device.metal_device();
            dispatch_kv_cache_copy(encoder, registry, of, &rows, cache, position, 16, new, 8, sliding)
        });
    }
    refusals.end();
}

#[test]
fn attention() {
    let mut refusals = Refusals::new();
    let (q, k) = (refusals.buffer(F32, 2 * 256), refusals.buffer(F32, 4 * 256));
    let good = FlashAttnVecParams {
        num_heads: 2,
        num_kv_heads: 1,
        head_dim: 256,
        kv_seq_len: 3,
        kv_capacity: 4,
        scale: 1.0,
        mask_type: 1,
        sliding_window: 0,
        softcap: 0.0,
        q_seq_len: 1,
    };
    for (params, text) in [
        (FlashAttnVecParams { head_dim: 128, ..good }, "head_dim must be 256 or 512"),
        (FlashAttnVecParams { num_heads: 0, ..good }, "num_heads"),
        (FlashAttnVecParams { num_kv_heads: 0, ..good }, "num_kv_heads"),
        (FlashAttnVecParams { num_heads: 3, num_kv_heads: 2, ..good }, "divisible by num_kv_heads"),
        (FlashAttnVecParams { kv_seq_len: 5, ..good }, "kv_capacity (4) must be >= kv_seq_len (5)"),
        (FlashAttnVecParams { kv_seq_len: 0, ..good }, "kv_seq_len"),
        (FlashAttnVecParams { q_seq_len: 4, ..good }, "do not fit"),
        (FlashAttnVecParams { scale: f32::NAN, ..good }, "scale must be finite"),
        (FlashAttnVecParams { kv_capacity: 5, ..good }, "buffer too small"),
    ] {
        refusals.refused(text, |encoder, registry, device, y| {
            flash_attn_vec(encoder, registry, device, &q, &k, &k, y, &q, &params)
        });
    }
    let good = SdpaParams {
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 256,
        seq_len: 1,
        kv_seq_len: 3,
        scale: 1.0,
        kv_capacity: 4,
        do_causal: true,
    };
    let halves = refusals.buffer(F16, 4 * 256);
    for (params, v, batch, text) in [
        (SdpaParams { n_heads: 3, n_kv_heads: 2, ..good }, &k, 1, "multiple of n_kv_heads"),
        (SdpaParams { kv_seq_len: 5, ..good }, &k, 1, "do not fit a capacity"),
        (SdpaParams { seq_len: 4, ..good }, &k, 1, "do not fit a capacity"),
        (SdpaParams { scale: f32::INFINITY, ..good }, &k, 1, "scale must be finite"),
        (SdpaParams { head_dim: 0, ..good }, &k, 1, "head_dim must be greater than zero"),
        (good, &k, 0, "batch_size must be greater than zero"),
        (good, &k, 2, "buffer too small"),
        (good, &halves, 1, "one type"),
    ] {
        refusals.refused(text, |encoder, registry, device, y| {
            sdpa(encoder, registry, device, &q, &k, v, y, &params, batch)
        });
    }
    refusals.end();
}
