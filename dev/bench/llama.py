#!/usr/bin/env python3
"""One measurement of llama.cpp, in a process of its own: prints tokens per second of a prompt and of generation as JSON.

    dev/bench/llama.py model.gguf [-t 2] [-p 512] [-n 128]

Needs the package llama-cpp-python. Flash attention is on; each is measured once, after a quarter of it for warming up; 0 leaves one out.
"""
import argparse
import json
import time

import llama_cpp as api


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("-t", type=int, default=2, help="threads")
    parser.add_argument("-p", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("-n", type=int, default=128, help="tokens that are generated")
    a = parser.parse_args()
    parameters = api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = api.llama_model_load_from_file(a.model.encode(), parameters)
    if not model:
        raise SystemExit(f"llama.cpp can't load {a.model}")
    options = api.llama_context_default_params()
    options.n_ctx = options.n_batch = a.p + a.n + 64
    options.n_threads = options.n_threads_batch = a.t
    options.flash_attn_type = 1
    context = api.llama_init_from_model(model, options)
    vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))

    def feed(tokens, start):
        batch = api.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, start + i, 1, i + 1 == len(tokens)
            batch.seq_id[i][0] = 0
        if api.llama_decode(context, batch) != 0:
            raise SystemExit(f"llama.cpp failed at token {start}")
        api.llama_get_logits_ith(context, -1)
        api.llama_batch_free(batch)

    def speed(count, pieces):
        begin = time.perf_counter()
        for start, tokens in pieces:
            feed(tokens, start)
        return count / (time.perf_counter() - begin)

    tokens = [(i * 7919 + 13) % vocabulary for i in range(max(a.p, a.n))]
    tests = {"pp": (a.p, [(0, tokens[: a.p])]), "tg": (a.n, [(i, [token]) for i, token in enumerate(tokens[: a.n])])}
    figures = {}
    for name, (count, pieces) in tests.items():
        # A part is for warming up: it reads all weights and starts the threads.
        for part in ([(0, tokens[: max(a.p // 4, 1)])] if name == "pp" else pieces[: a.n // 4], pieces) if count else ():
            api.llama_memory_clear(api.llama_get_memory(context), True)
            figures[name] = speed(count, part)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
