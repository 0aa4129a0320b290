#!/usr/bin/env python3
"""Writes tiny models for what no other golden model has, with llama.cpp's logits of them, into testdata/models.

Needs the packages numpy, gguf and llama-cpp-python:  python3 scripts/generate-tiny-models.py

    qwen2-yarn    biases on queries, keys and values; frequencies stretched by YaRN; an output matrix of its own
    mixtral       experts, five of which each token goes to two, in the architecture of Llama
    llama3-rope   frequency factors in the tensor rope_freqs.weight, as Llama 3.1 has them; tied embeddings

Weights are random, exact in F16 and stored in F32; logits are those of one batch of 48 tokens, with a cache of F32 and without
flash attention.
"""
import json
import pathlib

import gguf
import llama_cpp
import numpy as np

MODELS = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "models"
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INNER, VOCABULARY, TOKENS = 64, 2, 4, 2, 16, 128, 320, 48


def write(name, architecture, biases, tied, settings, factors=None, experts=None):
    random = np.random.default_rng(sum(name.encode()))

    def tensor(*shape, scale=0.1, center=0.0):
        return (center + scale * random.standard_normal(shape)).astype(np.float16).astype(np.float32)

    path = MODELS / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(VOCABULARY)
    settings(writer)
    # The tokenizer is that of the other tiny models.
    for key, field in gguf.GGUFReader(MODELS / "llama-tied.gguf").fields.items():
        if key.startswith("tokenizer."):
            kind = field.types[0]
            inner = field.types[1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub_type=inner)
    writer.add_tensor("token_embd.weight", tensor(VOCABULARY, HIDDEN, scale=1.0))
    writer.add_tensor("output_norm.weight", tensor(HIDDEN, scale=0.25, center=1.0))
    if not tied:
        writer.add_tensor("output.weight", tensor(VOCABULARY, HIDDEN, scale=0.3))
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
    for layer in range(LAYERS):
        rows = {"attn_q": HEADS * HEAD, "attn_k": KV_HEADS * HEAD, "attn_v": KV_HEADS * HEAD}
        for part, count in rows.items():
            writer.add_tensor(f"blk.{layer}.{part}.weight", tensor(count, HIDDEN, scale=0.2))
            if biases:
                writer.add_tensor(f"blk.{layer}.{part}.bias", tensor(count, scale=0.5))
        writer.add_tensor(f"blk.{layer}.attn_output.weight", tensor(HIDDEN, HEADS * HEAD, scale=0.2))
        of, suffix = ((experts,), "_exps") if experts else ((), "")
        if experts:
            writer.add_tensor(f"blk.{layer}.ffn_gate_inp.weight", tensor(experts, HIDDEN, scale=0.3))
        writer.add_tensor(f"blk.{layer}.ffn_gate{suffix}.weight", tensor(*of, INNER, HIDDEN, scale=0.2))
        writer.add_tensor(f"blk.{layer}.ffn_up{suffix}.weight", tensor(*of, INNER, HIDDEN, scale=0.2))
        writer.add_tensor(f"blk.{layer}.ffn_down{suffix}.weight", tensor(*of, HIDDEN, INNER, scale=0.2))
        for norm in ["attn_norm", "ffn_norm"]:
            writer.add_tensor(f"blk.{layer}.{norm}.weight", tensor(HIDDEN, scale=0.25, center=1.0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tokens = [int(token) for token in random.integers(0, 300, TOKENS)]
    logits(path, tokens).tofile(MODELS / f"{name}.llamacpp.f32.bin")
    (MODELS / f"{name}.json").write_text(json.dumps({"tokens": tokens}) + "\n")


def logits(path, tokens):
    api = llama_cpp
    parameters = api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = api.llama_model_load_from_file(str(path).encode(), parameters)
    options = api.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = 256
    options.n_threads = options.n_threads_batch = 1
    options.type_k = options.type_v = api.GGML_TYPE_F32
    options.flash_attn_type = 0
    context = api.llama_init_from_model(model, options)
    batch = api.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, True
        batch.seq_id[i][0] = 0
    assert api.llama_decode(context, batch) == 0
    rows = [np.ctypeslib.as_array(api.llama_get_logits_ith(context, i), (VOCABULARY,)) for i in range(len(tokens))]
    return np.concatenate([row.copy() for row in rows])


def yarn(writer):
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(4.0)
    writer.add_rope_scaling_orig_ctx_len(128)


def mixture(writer):
    writer.add_expert_count(5)
    writer.add_expert_used_count(2)


write("qwen2-yarn", "qwen2", biases=True, tied=False, settings=yarn)
write("llama3-rope", "llama", biases=False, tied=True, settings=lambda writer: None,
      factors=[1.0, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 8.0])
write("mixtral", "llama", biases=False, tied=False, settings=mixture, experts=5)
