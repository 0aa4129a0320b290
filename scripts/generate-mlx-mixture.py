#!/usr/bin/env python3
"""Writes testdata/models/mlx/qwen3moe-4bit: the tiny model qwen3moe.gguf quantized as MLX does, with its logits in float64.

Needs no packages:  python3 scripts/generate-mlx-mixture.py

Tensors have the names of mlx-lm: the experts of a layer are stacked in `mlp.switch_mlp.{gate,up,down}_proj`. Weights are affine, 4 bits
in groups of 32; router, embedding and head 8 bits in groups of 64; experts of the last layer are mxfp4. Logits are a forward pass in
float64 over the decoded weights. The same pass over the weights of qwen3moe.gguf must first give qwen3moe.s17.ref64.f32.bin.
"""
import itertools
import json
import math
import pathlib
import random
import shutil
import struct

MODELS = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "models"
OUT = MODELS / "mlx" / "qwen3moe-4bit"
LAYERS, HEADS, KV_HEADS, HEAD, USED, EPSILON, THETA = 2, 4, 2, 32, 2, 1e-6, 1e6
# The least distance between the shares of the last chosen and the first rejected expert.
MIN_GAP = 0.01
FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY, ALIGNMENT = 8, 9, 32
FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


class Gguf:
    """The tensors of a GGUF file of F32, by name: shape and numbers."""

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 8
        tensors, pairs = self.number("Q"), self.number("Q")
        for _ in range(pairs):
            self.string()
            self.value(self.number("I"))
        infos = []
        for _ in range(tensors):
            name = self.string()
            shape = [self.number("Q") for _ in range(self.number("I"))][::-1]
            assert self.number("I") == 0, "F32"
            infos.append((name, shape, self.number("Q")))
        start = -(-self.at // ALIGNMENT) * ALIGNMENT
        self.tensors = {
            name: (shape, struct.unpack_from(f"<{math.prod(shape)}f", self.data, start + offset))
            for name, shape, offset in infos
        }

    def number(self, form):
        (number,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return number

    def string(self):
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            inner = self.number("I")
            for _ in range(self.number("Q")):
                self.value(inner)
        else:
            self.number(FORMS[kind])


def half(number):
    """The nearest f16."""
    return struct.unpack("<e", struct.pack("<e", number))[0]


def affine(values, bits, group):
    """Codes, scales, biases and decoded numbers: code * scale + bias in each group."""
    most, codes, scales, biases, decoded = 2**bits - 1, [], [], [], []
    for start in range(0, len(values), group):
        part = values[start : start + group]
        bias = half(min(part))
        scale = half((max(part) - bias) / most) or half(1e-3)
        own = [min(most, max(0, round((value - bias) / scale))) for value in part]
        codes += own
        scales.append(scale)
        biases.append(bias)
        decoded += [code * scale + bias for code in own]
    return codes, scales, biases, decoded


def mxfp4(values, group=32):
    """Codes, scales and decoded numbers: a float of 4 bits times a power of two in each group."""
    codes, scales, decoded = [], [], []
    for start in range(0, len(values), group):
        part = values[start : start + group]
        exponent = math.floor(math.log2(max(map(abs, part)))) - 2
        scales.append(exponent + 127)
        for value in part:
            size = abs(value) / 2.0**exponent
            code = min(range(len(FP4)), key=lambda i: abs(FP4[i] - size))
            codes.append(code | (8 if value < 0 else 0))
            decoded.append((-FP4[code] if value < 0 else FP4[code]) * 2.0**exponent)
    return codes, scales, decoded


def packed(codes, bits):
    """Codes one after the other, the lowest bits of a word first."""
    number = 0
    data = bytearray()
    filled = 0
    for code in codes:
        number |= code << filled
        filled += bits
        while filled >= 8:
            data.append(number & 255)
            number >>= 8
            filled -= 8
    return bytes(data)


def in_checkpoint(name):
    """The name of a tensor in a checkpoint: each line of the table replaces a part of GGUF's name."""
    for line in (MODELS / "checkpoint-names.txt").read_text().splitlines():
        name = name.replace(*line.split())
    return name


class Model:
    """The forward pass, in float64, over tensors by GGUF's names."""

    def __init__(self, tensors):
        self.tensors = tensors
        self.gap = 1.0

    def matrix(self, name, index=0):
        shape, values = self.tensors[name]
        rows, k = shape[-2:]
        start = index * rows * k
        return [values[start + row * k : start + (row + 1) * k] for row in range(rows)]

    def norm(self, name, x):
        weights = self.tensors[name][1]
        scale = 1.0 / math.sqrt(sum(value * value for value in x) / len(x) + EPSILON)
        return [value * scale * weight for value, weight in zip(x, weights)]

    @staticmethod
    def product(matrix, x):
        return [math.fsum(a * b for a, b in zip(row, x)) for row in matrix]

    @staticmethod
    def rope(x, position):
        half_length = HEAD // 2
        out = list(x)
        for i in range(half_length):
            angle = position * THETA ** (-2.0 * i / HEAD)
            sine, cosine = math.sin(angle), math.cos(angle)
            a, b = x[i], x[i + half_length]
            out[i], out[i + half_length] = a * cosine - b * sine, a * sine + b * cosine
        return out

    def attention(self, layer, rows):
        name = lambda part: f"blk.{layer}.{part}.weight"
        query, key, value, output = (
            self.matrix(name(part)) for part in ["attn_q", "attn_k", "attn_v", "attn_output"]
        )
        heads = lambda x: [x[i : i + HEAD] for i in range(0, len(x), HEAD)]
        keys, values, outputs = [], [], []
        for position, x in enumerate(rows):
            turned = lambda norm, x: [self.rope(self.norm(name(norm), head), position) for head in heads(x)]
            queries = turned("attn_q_norm", self.product(query, x))
            keys.append(turned("attn_k_norm", self.product(key, x)))
            values.append(heads(self.product(value, x)))
            joined = []
            for head, q in enumerate(queries):
                group = head // (HEADS // KV_HEADS)
                scores = [math.fsum(a * b for a, b in zip(q, k[group])) / math.sqrt(HEAD) for k in keys]
                weights = softmax(scores)
                joined += [
                    math.fsum(weight * v[group][i] for weight, v in zip(weights, values)) for i in range(HEAD)
                ]
            outputs.append(self.product(output, joined))
        return outputs

    def experts(self, layer, x):
        name = lambda part: f"blk.{layer}.{part}.weight"
        shares = softmax(self.product(self.matrix(name("ffn_gate_inp")), x))
        order = sorted(range(len(shares)), key=lambda i: -shares[i])
        self.gap = min(self.gap, shares[order[USED - 1]] - shares[order[USED]])
        chosen = order[:USED]
        whole = sum(shares[i] for i in chosen)
        out = [0.0] * len(x)
        for i in chosen:
            gate = self.product(self.matrix(name("ffn_gate_exps"), i), x)
            up = self.product(self.matrix(name("ffn_up_exps"), i), x)
            inner = [g / (1.0 + math.exp(-g)) * u for g, u in zip(gate, up)]
            down = self.product(self.matrix(name("ffn_down_exps"), i), inner)
            out = [a + shares[i] / whole * b for a, b in zip(out, down)]
        return out

    def logits(self, tokens):
        table, head = self.matrix("token_embd.weight"), self.matrix("output.weight")
        rows = [list(table[token]) for token in tokens]
        for layer in range(LAYERS):
            normed = [self.norm(f"blk.{layer}.attn_norm.weight", x) for x in rows]
            rows = [add(x, y) for x, y in zip(rows, self.attention(layer, normed))]
            normed = [self.norm(f"blk.{layer}.ffn_norm.weight", x) for x in rows]
            rows = [add(x, self.experts(layer, y)) for x, y in zip(rows, normed)]
        return [logit for x in rows for logit in self.product(head, self.norm("output_norm.weight", x))]


def add(x, y):
    return [a + b for a, b in zip(x, y)]


def softmax(scores):
    largest = max(scores)
    weights = [math.exp(score - largest) for score in scores]
    return [weight / sum(weights) for weight in weights]


def nmse(got, truth):
    return sum((a - b) ** 2 for a, b in zip(got, truth)) / sum(b * b for b in truth)


def quantized(tensors):
    """The tensors of the checkpoint (type, shape, bytes), the settings of modules, and the decoded tensors."""
    stored, modules, decoded = {}, {}, {}
    for name, (shape, values) in tensors.items():
        title = in_checkpoint(name)
        if len(shape) == 1:
            stored[title] = ("F16", shape, struct.pack(f"<{len(values)}e", *values))
            decoded[name] = (shape, values)
            continue
        module = title.removesuffix(".weight")
        if "_exps" in name and name.startswith(f"blk.{LAYERS - 1}."):
            bits, group = 4, 32
            codes, scales, numbers = mxfp4(values)
            modules[module] = {"group_size": group, "bits": bits, "mode": "mxfp4"}
            planes = {"scales": ("U8", bytes(scales))}
        else:
            wide = name in ("token_embd.weight", "output.weight") or "ffn_gate_inp" in name
            bits, group = (8, 64) if wide else (4, 32)
            codes, scales, biases, numbers = affine(values, bits, group)
            if wide:
                modules[module] = {"group_size": group, "bits": bits}
            floats = lambda numbers: struct.pack(f"<{len(numbers)}e", *numbers)
            planes = {"scales": ("F16", floats(scales)), "biases": ("F16", floats(biases))}
        k = shape[-1]
        stored[title] = ("U32", [*shape[:-1], k * bits // 32], packed(codes, bits))
        for plane, (kind, data) in planes.items():
            stored[f"{module}.{plane}"] = (kind, [*shape[:-1], k // group], data)
        decoded[name] = (shape, numbers)
    return stored, modules, decoded


def main():
    tensors = Gguf(MODELS / "qwen3moe.gguf").tensors
    golden = json.loads((MODELS / "qwen3moe.json").read_text())
    sequence = next(sequence for sequence in golden["sequences"] if len(sequence["tokens"]) == 17)
    tokens = sequence["tokens"]
    truth = (MODELS / sequence["ref64"]).read_bytes()
    error = nmse(Model(tensors).logits(tokens), struct.unpack(f"<{len(truth) // 4}f", truth))
    assert error < 1e-13, f"the pass is not that of {sequence['ref64']}: {error}"
    stored, modules, decoded = quantized(tensors)
    # Tokens whose routing is no near tie, so that quantized activations choose the same experts.
    for seed in itertools.count():
        choice, model = random.Random(seed), Model(decoded)
        tokens = [choice.randrange(300) for _ in tokens]
        logits = model.logits(tokens)
        if model.gap > MIN_GAP:
            break
    OUT.mkdir(parents=True, exist_ok=True)
    header, data = {"__metadata__": {"format": "mlx"}}, b""
    for name in sorted(stored):
        kind, shape, own = stored[name]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (OUT / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    quantization = {"group_size": 32, "bits": 4, "mode": "affine", **modules}
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "hidden_size": 64,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "num_experts": 8,
        "num_experts_per_tok": USED,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "vocab_size": 320,
        "max_position_embeddings": 512,
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "hidden_act": "silu",
        "bos_token_id": 314,
        "eos_token_id": 315,
        "pad_token_id": 316,
        "quantization": quantization,
        "quantization_config": quantization,
    }
    (OUT / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    golden = {"tokens": tokens, "token_seed": seed, "shape": [len(tokens), 320], "router_min_gap": model.gap}
    (OUT / "golden.json").write_text(json.dumps(golden) + "\n")
    (OUT / "logits.ref64.f32.bin").write_bytes(struct.pack(f"<{len(logits)}f", *logits))
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copyfile(MODELS / "mlx" / "llama-bf16" / name, OUT / name)
    print(f"{len(data)} bytes, router gap {model.gap:.2e}, error of the pass over qwen3moe.gguf {error:.2e}")


if __name__ == "__main__":
    main()
