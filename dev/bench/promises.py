#!/usr/bin/env python3
"""What is promised of running a model on the CPU, checked against llama.cpp and the clock; ends with 1 if one is broken.

    cargo build --release && pip install llama-cpp-python
    dev/bench/promises.py model-f16.gguf model-q4_0.gguf --text LICENSE.txt

- perplexity within 0.5 % of what llama.cpp computes from the same file and text (windows of 512, second halves scored);
- the first token within 150 ms of a short prompt, once the file is cached;
- resident memory at most 2 % above the estimate, the same after 200 as after 2,000 tokens, and within 2 % of it where the context is full.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "target" / "release" / "silicide"
WINDOW = 512


def silicide(*arguments):
    command = [PROGRAM, *map(str, arguments), "--device", "cpu", "-t", "2", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def llama_perplexity(path, text):
    import llama_cpp
    import numpy as np

    model = llama_cpp.Llama(path, n_ctx=WINDOW, n_batch=WINDOW, n_threads=2, n_threads_batch=2,
                            logits_all=True, flash_attn=True, verbose=False)
    tokens = model.tokenize(text, add_bos=False, special=False)
    total, count = 0.0, 0
    for start in range(0, len(tokens) - WINDOW + 1, WINDOW):
        window = tokens[start : start + WINDOW]
        model.reset()
        model.eval(window)
        logits = np.asarray(model.scores[WINDOW // 2 : WINDOW - 1], dtype=np.float64)
        highest = logits.max(axis=1, keepdims=True)
        sums = np.log(np.exp(logits - highest).sum(axis=1)) + highest[:, 0]
        following = window[WINDOW // 2 + 1 :]
        total += float((sums - logits[np.arange(len(following)), following]).sum())
        count += len(following)
    return math.exp(total / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--text", required=True, help="a text of some thousand tokens")
    arguments = parser.parse_args()
    broken = 0

    def promise(model, what, got, limit):
        nonlocal broken
        kept = got <= limit
        broken += not kept
        print(f"{pathlib.Path(model).name:28} {what:34} {got:10.3f} of at most {limit:10.3f}  {'kept' if kept else 'BROKEN'}")

    for model in arguments.models:
        ours = silicide("perplexity", "-m", model, "-f", arguments.text, "-c", WINDOW)["ppl"]
        theirs = llama_perplexity(model, pathlib.Path(arguments.text).read_bytes())
        print(f"{pathlib.Path(model).name:28} perplexity {ours:.3f}, llama.cpp {theirs:.3f}")
        promise(model, "difference of perplexity, %", abs(ours / theirs - 1) * 100, 0.5)
        prompt = ["-m", model, "-p", "Why is the sky blue?", "--temp", 0]
        silicide("run", *prompt, "-n", 1)
        first = min(silicide("run", *prompt, "-n", 2)["timings"]["first_token_seconds"] for _ in range(3))
        promise(model, "first token, ms", first * 1e3, 150)
        peaks = []
        for count in [200, 2000]:
            memory = silicide("run", *prompt, "-n", count, "--ignore-eos", "-c", 2304)["memory"]
            peaks.append(memory["peak"] / 2**20)
            promise(model, f"resident after {count}, MiB", peaks[-1], memory["estimate"] * 1.02 / 2**20)
        promise(model, "growth from 200 to 2000 tokens, MiB", peaks[1] - peaks[0], 2)
        # A long prompt fills the working memory too.
        beginning = pathlib.Path(arguments.text).read_text()[:3000]
        filled = ["-m", model, "-p", beginning, "--raw", "--temp", 0, "-n", 2000, "--ignore-eos", "-c", 2048]
        memory = silicide("run", *filled)["memory"]
        promise(model, "peak from the estimate, %", abs(memory["peak"] / memory["estimate"] - 1) * 100, 2)
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
