#!/usr/bin/env python3
"""silicide beside llama.cpp, on the same files in one run: tokens per second of prompts (pp) and generation (tg), and ratios.

    cargo build --release && pip install llama-cpp-python
    dev/bench/peers.py model-q4_1.gguf model-f16.gguf [-t 2] [-p 512] [-n 128] [-r 3] [--least 0.7]

Both run on the CPU, alternately, each time in a process of its own; the figures are medians.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def ours(path, a):
    program = ROOT / "target" / "release" / "silicide"
    command = [program, "bench", "-m", path, "--device", "cpu", "-t", str(a.t), "-p", str(a.p), "-n", str(a.n), "-r", "1", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"pp": report["pp"], "tg": report["tg"]}


def llama(path, a):
    command = [sys.executable, __file__, path, "-t", str(a.t), "-p", str(a.p), "-n", str(a.n), "--llama"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def measure_llama(a):
    """Runs in a process of its own: prints llama.cpp's figures for one file."""
    import llama_cpp as api

    parameters = api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = api.llama_model_load_from_file(a.models[0].encode(), parameters)
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
        assert api.llama_decode(context, batch) == 0
        api.llama_get_logits_ith(context, -1)
        api.llama_batch_free(batch)

    tokens = [(i * 7919 + 13) % vocabulary for i in range(max(a.p, a.n))]
    figures = {}
    for _ in range(2):  # the first is for warming up
        api.llama_memory_clear(api.llama_get_memory(context), True)
        begin = time.perf_counter()
        feed(tokens[: a.p], 0)
        figures["pp"] = a.p / (time.perf_counter() - begin)
        api.llama_memory_clear(api.llama_get_memory(context), True)
        begin = time.perf_counter()
        for i, token in enumerate(tokens[: a.n]):
            feed([token], i)
        figures["tg"] = a.n / (time.perf_counter() - begin)
    print(json.dumps(figures))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("models", nargs="+")
parser.add_argument("-t", type=int, default=2)
parser.add_argument("-p", type=int, default=512)
parser.add_argument("-n", type=int, default=128)
parser.add_argument("-r", type=int, default=3)
parser.add_argument("--least", type=float, default=0.0, help="end with 1 if a median ratio is below this")
parser.add_argument("--llama", action="store_true", help=argparse.SUPPRESS)
a = parser.parse_args()
if a.llama:
    measure_llama(a)
    sys.exit()
print("| model | test | silicide | llama.cpp | ratio | spread |\n|---|---|---|---|---|---|")
slow = 0
for path in a.models:
    pairs = [(ours(path, a), llama(path, a)) for _ in range(a.r)]
    for test, length in [("pp", a.p), ("tg", a.n)]:
        mine, theirs = ([pair[i][test] for pair in pairs] for i in (0, 1))
        ratios = [x / y for x, y in zip(mine, theirs)]
        slow += statistics.median(ratios) < a.least
        print(f"| {pathlib.Path(path).stem} | {test}{length} | {statistics.median(mine):.1f} | {statistics.median(theirs):.1f} | "
              f"{statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |", flush=True)
sys.exit(slow > 0)
