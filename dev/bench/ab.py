#!/usr/bin/env python3
"""Compares two builds of silicide: speed of NEW over speed of OLD, with a confidence interval, against a bound.

    dev/bench/ab.py main HEAD                              # two revisions, built in silicide's cache folder
    dev/bench/ab.py old/silicide target/release/silicide   # two binaries; the same one twice is an A/A test
    dev/bench/ab.py main HEAD --quick                      # one format per model, 2 threads
    dev/bench/ab.py main HEAD --models 1b --formats q4_0,bf16 -t 2 --isa avx2 --depth 8192
    dev/bench/ab.py main HEAD --device vulkan -t 2         # on a GPU, or software Vulkan; the default is the CPU
    dev/bench/ab.py main HEAD --json run.json --plot run.svg
    dev/bench/ab.py --from run.json --least 0.99           # judge and print an earlier run again

Figures: generation (tg) and prompts (pp) in tokens per second, generation after `--depth` tokens (tg @ d), and the time to the first token
of a short prompt (ttft), for each model, format, instruction set and number of threads. Every sample is a process of its own.

Samples come in pairs, OLD NEW, NEW OLD, OLD NEW, ..., so that drift of the machine cancels. Each pair gives one ratio of speeds; for ttft
it is the time of OLD over the time of NEW, so below 1 is always slower. The interval of the median ratio is distribution-free: two order
statistics of the ratios, as many steps from the ends as keep a coverage of 95 % (10 pairs: the second and the ninth, 97.9 %).

A figure fails if the upper end of its interval is below the bound: 0.97 for block formats, 0.90 for F16, BF16 and F32. It is unclear if
only the lower end is, or with fewer than six pairs: more pairs or a quieter machine would tell. Exit code 1 if a figure fails, if NEW
can't run it, or if nothing was compared.
Model files that are missing are made by NEW.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import sys
import time

import builds
import drawing
import engines
import models
import targets

LEVEL = 0.95
LEAST_PAIRS = 10
TESTS = ["tg", "pp", "ttft"]
SIDES = ("old", "new")


def ratios(figure):
    """The ratio of speeds, NEW over OLD, of each pair. Times are inverted."""
    pairs = zip(figure["old"], figure["new"])
    return [old / new if figure["unit"] == "ms" else new / old for old, new in pairs]


def interval(values, level=LEVEL):
    """A distribution-free confidence interval of the median: two order statistics, and their coverage.

    The k-th smallest and the k-th largest of n values enclose the median unless fewer than k values lie on one side of it, which
    has the probability 2 * P(Binomial(n, 1/2) < k). `k` is the largest that keeps `level`, or 1 where no k does.
    """
    values, n = sorted(values), len(values)
    coverage = lambda k: 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n
    k = max((k for k in range(1, (n + 1) // 2 + 1) if coverage(k) >= level), default=1)
    return values[k - 1], values[n - k], coverage(k)


def tasks(a, depths):
    """What one process measures: the names and units of its figures, and a function from a build to their samples."""
    units = {f"{test}{length}": "tokens/s" for test, length in [("tg", a.n), ("pp", a.p)] if test in a.tests}

    def speeds(path, threads, isa, binary):
        lengths = [length if test in a.tests else 0 for test, length in [("pp", a.p), ("tg", a.n)]]
        found = engines.ours(path, threads, *lengths, isa, binary=binary)
        return [found[name[:2]] for name in units]

    def deep(depth):
        return lambda path, threads, isa, binary: [engines.ours(path, threads, 0, a.n, isa, depth, binary)["tg"]]

    if units:
        yield units, speeds
    for depth in depths:
        yield {f"tg{a.n} @ d{depth}": "tokens/s"}, deep(depth)
    if "ttft" in a.tests:
        yield {"ttft": "ms"}, lambda path, threads, isa, binary: [engines.first_token(path, threads, isa, binary) * 1e3]


def sample(figures, pairs, take, say):
    """Fills `figures`, which `take(side)` gives one sample of each, in alternating pairs. `Failed` names the side."""
    for turn in range(pairs):
        for side in engines.alternate(turn, SIDES):
            try:
                values = take(side)
            except engines.Failed as failure:
                raise engines.Failed(side, str(failure)) from None
            for figure, value in zip(figures, values):
                figure[side].append(value)
        running = ", ".join(f"{figure['test']} {statistics.median(ratios(figure)):.3f}" for figure in figures)
        say(f"pair {turn + 1} of {pairs}: {running}")


def sets(a, binaries):
    """The instruction sets to compare: None, the best, alone on a GPU, or if a build lacks the option."""
    if a.device != "cpu":
        return [None]
    lacking = [side.upper() for side in SIDES if "--isa" not in engines.run([binaries[side], "bench", "--help"])]
    if not lacking:
        return a.isa or engines.instruction_sets(engines.features()) or [None]
    engines.say(f"{' and '.join(lacking)} has no --isa: only the default instruction set is compared")
    return [None]


def measure(a, keep):
    """Everything that is measured, as it is stored. `keep` gets it after every step, for a run that is broken off."""
    compared = {side: builds.resolve(name) for side, name in zip(SIDES, (a.old, a.new))}
    binaries = {side: pathlib.Path(build["binary"]) for side, build in compared.items()}
    for side in SIDES:
        engines.say(f"{side.upper()}: {builds.title(compared[side])}")
    os.environ.setdefault("SILICIDE_PROGRAM", str(binaries["new"]))
    engines.device = a.device
    isas = sets(a, binaries)
    files = [(family, format, models.file(family, format)) for family, format in a.chosen]
    known = engines.features()
    run = {"when": time.strftime("%Y-%m-%d %H:%M"), "machine": engines.processor(), "device": a.device, "pairs": a.pairs, "builds": compared, "skipped": []}
    run["features"] = [name for name in engines.FEATURES if name in known]
    run |= {"busy_before": engines.warn_before(), "busy_meanwhile": 0.0, "load": [os.getloadavg()[0]], "figures": []}
    watch, done, warm = engines.Watch(), 0, set()
    parts = list(tasks(a, a.depth))
    total = len(files) * len(isas) * len(a.t) * sum(len(units) for units, _ in parts)
    for (family, format, path), isa, threads, (units, probe) in itertools.product(files, isas, a.t, parts):
        about = {"family": family, "format": format, "isa": isa, "threads": threads}
        figures = [about | {"test": test, "unit": unit, "old": [], "new": []} for test, unit in units.items()]
        take = lambda side: probe(path, threads, isa, binaries[side])
        place = f"figure {done + 1} of {total}: {models.label(about)}, {threads} thread{'s' if threads > 1 else ''}"
        try:
            if path not in warm:
                # Not counted: the page cache gets the file and both programs.
                sample([], 1, take, lambda _: engines.say(f"{place}, warm-up"))
                warm.add(path)
            sample(figures, a.pairs, take, lambda text: engines.say(f"{place}, {text}"))
            run["figures"] += figures
        except engines.Failed as failure:
            side, why = failure.args
            engines.say(f"SKIPPED: {side.upper()} can't run {place}: {why}")
            run["skipped"] += [about | {"test": test, "side": side, "why": why} for test in units]
        done += len(units)
        run |= {"busy_meanwhile": watch.foreign(), "load": [run["load"][0], os.getloadavg()[0]]}
        keep(run)
    return run


def judge(run, least=None):
    """Returns the rows of the table: each figure with its medians, its ratio and interval, its bound and the verdict."""
    judged = []
    for figure in run["figures"]:
        low, high, coverage = interval(ratios(figure))
        row = {key: figure[key] for key in ("family", "format", "isa", "threads", "test", "unit")}
        row |= {side: statistics.median(figure[side]) for side in SIDES} | {"ratio": statistics.median(ratios(figure))}
        row |= {"low": low, "high": high, "coverage": coverage, "bound": targets.kept(figure["format"]) if least is None else least}
        judged.append(row | {"verdict": verdict(row)})
    return judged


def verdict(row):
    if row["coverage"] < LEVEL:
        return "unclear"
    if row["high"] < row["bound"]:
        return "FAILED"
    if row["low"] < row["bound"]:
        return "unclear"
    return "faster" if row["low"] > 1 else "slower" if row["high"] < 1 else "same"


def name(row):
    return f"{models.label(row)}, {row['threads']} thread{'s' if row['threads'] > 1 else ''}, {row['test']}"


def report(run, judged):
    """Prints the machine, the builds and the table; returns what failed."""
    print(f"{run['machine']} ({' '.join(run['features'])}), {run['when']}, device {run.get('device', 'cpu')}")
    share = max(run["busy_before"], run["busy_meanwhile"])
    loads = " to ".join(f"{load:.1f}" for load in run["load"])
    print(f"load average {loads}; other processes used {run['busy_before']:.0%} of the CPU before and "
          f"{run['busy_meanwhile']:.0%} during the run\n")
    for side in SIDES:
        print(f"- {side.upper()}: {builds.title(run['builds'][side])}")
    if run["builds"]["old"]["sha256"] == run["builds"]["new"]["sha256"]:
        print("- the same program twice: an A/A test")
    coverage = f", interval of {judged[0]['coverage']:.1%}" if judged else ""
    print(f"\nMedians of {run['pairs']} alternating pairs{coverage}; tg and pp in tokens/s, ttft in ms; a ratio below 1 is slower.\n")
    head = ["model", "threads", "test", "OLD", "NEW", "NEW/OLD", "interval", "bound", "verdict"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in judged:
        print(f"| {models.label(row)} | {row['threads']} | {row['test']} | {row['old']:.1f} | {row['new']:.1f} | {row['ratio']:.3f} | "
              f"{row['low']:.3f} to {row['high']:.3f} | {row['bound']:g} | {row['verdict']} |")
    for row in run["skipped"]:
        print(f"\nSKIPPED {name(row)}: {row['side'].upper()} can't run it: {row['why']}")
    failed = [name(row) for row in judged if row["verdict"] == "FAILED"] + [name(row) for row in run["skipped"] if row["side"] == "new"]
    unclear = [name(row) for row in judged if row["verdict"] == "unclear"]
    print(f"\n{len(judged)} figures, {len(failed)} failed, {len(unclear)} unclear, {len(run['skipped'])} skipped")
    for what, names in [("FAILED", failed), ("unclear", unclear)]:
        print("".join(f"{what}: {name}\n" for name in names), end="")
    if run["pairs"] < LEAST_PAIRS:
        print(f"WARNING: {run['pairs']} pairs prove nothing; {LEAST_PAIRS} are needed")
    engines.warn_of_others(share)
    return failed


def plot(run, judged, path):
    """Draws a dot for each figure with its interval, and the bound's line."""
    part = lambda row: f"{row['format'].upper()} {row['isa'] or ''} {row['threads']}t {row['test']}".replace("  ", " ")
    keys = ("ratio", "low", "high", "bound")
    rows = [drawing.Interval(row["family"], part(row), *(row[key] for key in keys), row["verdict"] == "FAILED") for row in judged]
    notes = [f"Medians and intervals of {run['pairs']} alternating pairs. Orange: the bound. Red: the interval lies below it.",
             f"{run['machine']}, {run['when']}"]
    notes += [f"{side.upper()}: {builds.title(run['builds'][side])}" for side in SIDES]
    path.write_text(drawing.intervals("Speed of NEW over speed of OLD", rows, notes))
    engines.say(f"drew {path}")


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", nargs="?", help="a binary, or a git revision")
    parser.add_argument("new", metavar="NEW", nargs="?", help="a binary, or a git revision")
    parser.add_argument("--models", type=engines.words, default=list(models.FAMILIES), help="smollm2, 1b, experts")
    parser.add_argument("--formats", type=engines.words, help="only these: q4_0,q8_0; formats outside the table too: bf16,f32")
    parser.add_argument("--tests", type=engines.words, default=TESTS, help="tg,pp,ttft")
    parser.add_argument("-t", type=engines.numbers, help="numbers of threads (1,2)")
    parser.add_argument("--isa", type=engines.words, help="instruction sets (avx512,avx2: those that this CPU has)")
    parser.add_argument("--device", default="cpu", help="the device, as silicide takes it (cpu)")
    parser.add_argument("--depth", type=engines.numbers, default=[], help="tokens in the KV cache for tg @ d: 8192; takes long (no depth)")
    parser.add_argument("-p", type=int, default=512, help="tokens of a prompt (512)")
    parser.add_argument("-n", type=int, default=64, help="tokens to generate (64)")
    parser.add_argument("-r", "--pairs", type=int, default=LEAST_PAIRS, help=f"pairs of samples for each figure ({LEAST_PAIRS}, the least)")
    parser.add_argument("--few", action="store_true", help=f"allow fewer than {LEAST_PAIRS} pairs, to try this program; proves nothing")
    parser.add_argument("--quick", action="store_true", help="the first format of each model, 2 threads; --formats and -t still count")
    parser.add_argument("--least", type=float, metavar="X", help="a bound for all figures")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was measured, after every step")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, metavar="FILE", help="measure nothing: take what --json wrote")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE.svg", help="draw it")
    a = parser.parse_args(words)
    a.error = parser.error
    if bool(a.earlier) == bool(a.new) or bool(a.earlier) == bool(a.old):
        parser.error("give OLD and NEW, or --from FILE")
    for what, given, known in [("model", a.models, models.FAMILIES), ("test", a.tests, TESTS)]:
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"no {what} {', '.join(unknown)}; known are {', '.join(known)}")
    if a.pairs < (1 if a.few else LEAST_PAIRS):
        parser.error(f"{a.pairs} pairs are too few: at least {LEAST_PAIRS}, or --few to try this program")
    if min(a.p, a.n) < 1 or (a.least is not None and not a.least > 0):
        parser.error("-p, -n and --least take numbers above 0")
    firsts = [(family, models.FAMILIES[family][0]) for family in a.models]
    a.chosen = firsts if a.quick and not a.formats else models.chosen(a.models, a.formats)
    if not a.chosen:
        parser.error(f"no model of {', '.join(a.models)} has the format {', '.join(a.formats)}")
    a.t = a.t or ([2] if a.quick else [1, 2])
    return a


def main(words=None):
    a = arguments(words)
    keep = lambda run: a.json and a.json.write_text(json.dumps(run, indent=1) + "\n")
    try:
        run = json.loads(a.earlier.read_text()) if a.earlier else measure(a, keep)
    except (engines.Failed, OSError, ValueError) as failure:
        a.error(str(failure))
    judged = judge(run, a.least)
    failed = report(run, judged)
    if a.plot:
        plot(run, judged, a.plot)
    if not judged:
        print("nothing was compared")
    return int(bool(failed) or not judged)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
