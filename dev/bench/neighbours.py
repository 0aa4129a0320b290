#!/usr/bin/env python3
"""What busy neighbours leave of decoding speed: alone, beside one process pinned to a core, beside three that go where they like.

    dev/bench/neighbours.py [model.gguf ...] [-t 2] [-n 64] [-r 3] [--assert]

silicide and llama.cpp take turns; each is compared with itself alone in the same round. Without a file it is SmolLM2 in Q4_0, made if it is
not there. --assert ends with 1 if silicide keeps less than 0.55 of its speed beside one, or 0.3 beside three; --least gives other numbers.
Neighbours end with this program, however it ends.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import engines
import models

CONDITIONS = {"alone": [], "one pinned": ["pinned"], "three": ["free"] * 3}
# Burns a core for as long as its parent is the one that started it: so it ends even where the parent had no time to end it.
BURN = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(100000):
        pass
"""


def start(core):
    """A busy process, on one core if told."""
    process = subprocess.Popen([sys.executable, "-c", BURN, str(os.getpid())], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    return process


@contextlib.contextmanager
def neighbours(kinds):
    """Busy processes, ended one by one at the end."""
    busy = []
    try:
        for kind in kinds:
            busy.append(start(max(os.sched_getaffinity(0)) if kind == "pinned" else None))
        time.sleep(0.3 if kinds else 0)  # until the scheduler has noticed them
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(path, a):
    """Tokens per second by engine and condition, a list of rounds."""
    rounds = []
    for turn in range(a.r):
        speeds = {name: {} for name in engines.ENGINES}
        for condition, kinds in CONDITIONS.items():
            with neighbours(kinds):
                for name in engines.alternate(turn):
                    engines.say(f"{path.stem}, round {turn + 1}, {condition}: {name}")
                    speeds[name][condition] = engines.ENGINES[name](path, a.t, 0, a.n)["tg"]
        rounds.append(speeds)
    return rounds


def judge(run, least):
    """Prints the table; says how many targets were missed."""
    print(f"{run['machine']}, {run['when']}, {run['threads']} threads, tg{run['count']}, medians of {run['rounds']} alternating rounds\n")
    print("| model | engine | beside | tokens/s | kept | spread | missed |\n" + "|---" * 7 + "|")
    missed = 0
    for model, rounds in run["models"].items():
        for name in engines.ENGINES:
            for condition in CONDITIONS:
                speeds = [speeds[name][condition] for speeds in rounds]
                kept = [speeds[name][condition] / speeds[name]["alone"] for speeds in rounds]
                wanted = least.get(condition) if name == "silicide" else None
                short = wanted is not None and statistics.median(kept) < wanted
                missed += short
                print(f"| {model} | {name} | {condition} | {statistics.median(speeds):.1f} | {statistics.median(kept):.2f} | "
                      f"{min(kept):.2f} to {max(kept):.2f} | {f'at least {wanted}' if short else ''} |")
            alone = [speeds[name]["alone"] for speeds in rounds]
            if engines.spread(alone) > engines.SPREAD:
                engines.say(f"WARNING: {name} alone differs by {engines.spread(alone):.0%} from round to round: the machine is noisy")
    print(f"\n{missed} targets missed")
    if run["busy_before"] > engines.FOREIGN:
        print(f"WARNING: the machine was noisy: others used {run['busy_before']:.0%} of it before the first round")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="GGUF files (SmolLM2 in Q4_0)")
    parser.add_argument("-t", type=int, default=2, help="threads (2)")
    parser.add_argument("-n", type=int, default=64, help="tokens to generate (64)")
    parser.add_argument("-r", type=int, default=3, help="rounds (3)")
    parser.add_argument("--least", type=float, nargs=2, metavar=("ONE", "THREE"), default=[0.55, 0.3], help="what must be kept (0.55 0.3)")
    parser.add_argument("--assert", dest="strict", action="store_true", help="end with 1 if less is kept")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, metavar="FILE", help="measure nothing: take what --json wrote")
    a = parser.parse_args()
    # A polite request to end runs the same code as Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if a.earlier:
        run = json.loads(a.earlier.read_text())
    else:
        run = {"when": time.strftime("%Y-%m-%d %H:%M"), "machine": engines.processor(), "threads": a.t, "count": a.n, "rounds": a.r}
        run["busy_before"] = engines.warn_before()
        run["models"] = {path.stem: measure(path, a) for path in a.files or [models.file("smollm2", "q4_0")]}
    if a.json:
        a.json.write_text(json.dumps(run, indent=1) + "\n")
    missed = judge(run, dict(zip(list(CONDITIONS)[1:], a.least)))
    sys.exit(a.strict and missed > 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
