#!/usr/bin/env python3
"""silicide beside llama.cpp, on the same files in one run: tokens per second of prompts (pp) and generation (tg), and ratios.

    dev/bench/peers.py                                    # all models of the table of targets, 1 and 2 threads
    dev/bench/peers.py --models smollm2,1b -t 2 -r 5      # some of them
    dev/bench/peers.py model-q4_1.gguf [--least 0.7]      # your own files
    dev/bench/peers.py --isa avx2,avx512                  # instruction sets one after the other, of both; see engines.LLAMA_BUILDS
    dev/bench/peers.py --json run.json --assert           # keep what was measured; end with 1 if a target is missed
    dev/bench/peers.py --from run.json --plot docs/peers.svg   # draw and judge an earlier run again

Builds silicide, finds llama-cpp-python or builds it, and makes the files that are missing, all in silicide's cache folder. Both run on the
CPU, in turns, each time in a process of its own; figures are medians. The machine's memory and its products of 8-bit integers are measured
in the same run. ik_llama.cpp is not run: its published figures are scaled by llama.cpp's in this run (see targets.py).
"""
import argparse
import contextlib
import itertools
import json
import pathlib
import statistics
import sys
import time

import drawing
import engines
import models
import targets


def wanted(a):
    """The files to measure: their family and format where they are ours."""
    if a.files:
        return [(None, pathlib.Path(name).stem, pathlib.Path(name)) for name in a.files]
    return [(family, format, models.file(family, format)) for family, format in models.chosen(a.models, a.formats)]


def measure(a):
    """Everything that is measured, as it is stored."""
    files = wanted(a)
    run = {"when": time.strftime("%Y-%m-%d %H:%M"), "machine": engines.processor(), "llama_cpp_python": engines.llama_version(a.isa[0])}
    run |= {"prompt": a.p, "count": a.n, "rounds": a.r, "busy_before": engines.warn_before(), "limits": [], "files": [], "kernels": []}
    watch = engines.Watch()
    known = {}
    for family, format, path in files:
        work = models.work(path)
        for threads, isa in itertools.product(a.t, a.isa):
            # Limits drift as speeds do: each file is compared with those of its own minutes, the better of before and after.
            before = known[threads, isa] if (threads, isa) in known else engines.limits(threads, isa)
            if a.limits == "once":
                known[threads, isa] = before
            file = {"family": family, "format": format, "threads": threads, "isa": isa, "work": work, "limits": len(run["limits"])}
            file |= {"silicide": [], "llama.cpp": [], "failed": {}}
            run["files"].append(file)
            for turn in range(a.r):
                for name in engines.alternate(turn):
                    if file["failed"]:
                        break
                    engines.say(f"{models.label(file)}, {threads} threads, round {turn + 1}: {name}")
                    try:
                        file[name].append(engines.ENGINES[name](path, threads, a.p, a.n, isa))
                    except engines.Failed as failure:
                        file["failed"][name] = str(failure)
                        engines.say(f"SKIPPED: {name} can't run {models.label(file)}: {failure}")
            after = before if file["failed"] or known else engines.limits(threads, isa)
            run["limits"].append({"threads": threads} | {limit: max(before[limit], after[limit]) for limit in before})
    if a.kernels:
        engines.say("kernels alone, 1 thread")
        for format in targets.MANY_ROWS:
            run["kernels"] += kernel(format)
            with contextlib.suppress(engines.Failed):  # not all formats can be interleaved
                run["kernels"] += kernel(format + targets.INTERLEAVED)
    run["busy_meanwhile"] = watch.foreign()
    return run


def joined(runs):
    """Several runs as one: all files and kernels, each with the limits of its own run."""
    run = runs[0] | {"files": [], "limits": [], "kernels": []}
    for each in runs:
        if each["machine"] != run["machine"] or (each["prompt"], each["count"]) != (run["prompt"], run["count"]):
            raise SystemExit("the runs are not of one machine and one length of tests")
        run["files"] += [file | {"limits": file["limits"] + len(run["limits"])} for file in each["files"]]
        run["limits"] += each["limits"]
        run["kernels"] += each["kernels"]
        for busy in ("busy_before", "busy_meanwhile"):
            run[busy] = max(run[busy], each[busy])
    return run


def kernel(format):
    measured = engines.rows("rows", "--format", format, "--rows", "1,512", "--threads", 1)
    return [row for row in measured if "rows" in row]


def figures(run):
    """The figures of a run: one for each file, number of threads and test that both engines ran."""
    found = []
    for file in run["files"]:
        if file["failed"]:
            continue
        limits = run["limits"][file["limits"]]
        for test, length in [("tg", run["count"]), ("pp", run["prompt"])]:
            mine, theirs = ([figures[test] for figures in file[name] if test in figures] for name in engines.ENGINES)
            if not mine or not theirs:
                continue
            ratios = [x / y for x, y in zip(mine, theirs)]
            speed = statistics.median(mine)
            figure = {"file": file, "test": test, "name": f"{test}{length}", "speed": speed, "theirs": statistics.median(theirs)}
            figure |= {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
            figure["noise"] = max(engines.spread(mine), engines.spread(theirs))
            ik = targets.over_ik(file["family"], file["format"], file["threads"], test)
            figure["ik"] = figure["ratio"] / ik if ik else None
            if test == "tg":
                figure["bound"] = speed * file["work"]["bytes"] / limits["memory"]
            else:
                figure["bound"] = speed * 2 * file["work"]["weights"] / limits["integers"] if "integers" in limits else None
            found.append(figure)
    return found


def judge(run, least):
    """Prints the tables; says how many targets were missed."""
    print(f"{run['machine']}, {run['when']}, llama-cpp-python {run['llama_cpp_python']}, medians of {run['rounds']} alternating rounds")
    print("Tokens per second. Bound: part of the speed at which memory can be read (tg) or of the peak of 8-bit products (pp), measured in")
    print("the same run. ik: over ik_llama.cpp, which was not run: its published ratio to llama.cpp, scaled by llama.cpp's speed here.\n")
    head = ["model", "threads", "test", "silicide", "llama.cpp", "ratio", "spread", "bound", "ik", "missed"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    missed = 0
    for figure in figures(run):
        file = figure["file"]
        over, over_ik, bound = targets.least(file["family"], file["format"], figure["test"])
        over = max(filter(None, [over, least]), default=None)
        reached = [("ratio", figure["ratio"], over), ("ik", figure["ik"], over_ik), ("bound", figure["bound"], bound)]
        short = [f"{what} {least:.3g}" for what, got, least in reached if got is not None and least is not None and got < least]
        missed += len(short)
        part = lambda value: "" if value is None else f"{value:.2f}"
        print(f"| {models.label(file)} | {file['threads']} | {figure['name']} | {figure['speed']:.1f} | "
              f"{figure['theirs']:.1f} | {figure['ratio']:.2f} | "
              f"{figure['low']:.2f} to {figure['high']:.2f} | {part(figure['bound'])} | {part(figure['ik'])} | {', '.join(short)} |")
    failed = [file for file in run["files"] if file["failed"]]
    for file in failed:
        reasons = "; ".join(f"{name}: {why}" for name, why in file["failed"].items())
        print(f"\nSKIPPED {models.label(file)}, {file['threads']} threads: {reasons}")
    missed += len(failed)
    missed += judge_kernels(run)
    for threads in sorted({limits["threads"] for limits in run["limits"]}):
        measured = [limits for limits in run["limits"] if limits["threads"] == threads]
        for name, unit in [("memory", "GB/s"), ("integers", "GOP/s")]:
            values = [limits[name] / 1e9 for limits in measured if name in limits]
            if values:
                median, least, most = statistics.median(values), min(values), max(values)
                print(f"\n{name}, {threads} threads: {median:.1f} {unit}, {least:.1f} to {most:.1f}", end="")
    print(f"\n\n{missed} targets missed")
    warn(run)
    return missed


def judge_kernels(run):
    """Prints kernels alone, each in its better form; says how many targets were missed."""
    missed, best = 0, {}
    for row in run["kernels"]:
        format, few = row["format"].removesuffix(targets.INTERLEAVED), row["rows"] == 1
        got = row["of_memory"] if few else row["of_peak"]
        if got is not None and got > best.get((format, few), (0, None))[0]:
            best[format, few] = got, row
    for (format, few), (got, row) in best.items():
        least = targets.ONE_ROW if few else targets.MANY_ROWS[format]
        missed += got < least
        print(f"\nkernel alone, 1 thread, {row['rows']} x 8192 x 2048, {row['format']}: "
              f"{row['bytes_per_second'] / 1e9:.1f} GB/s of weights, "
              f"{got:.3f} of {'memory' if few else 'the peak'}, at least {least:.3f}{'  MISSED' if got < least else ''}", end="")
    print()
    return missed


def warn(run):
    """Says what makes the figures doubtful."""
    noisy = [figure for figure in figures(run) if figure["noise"] > engines.SPREAD]
    engines.warn_of_others(max(run["busy_before"], run["busy_meanwhile"]))
    if noisy:
        names = ", ".join(f"{models.label(figure['file'])} {figure['name']} at {figure['file']['threads']}" for figure in noisy)
        print(f"WARNING: one engine's runs differ by more than {engines.SPREAD:.0%}: {names}")


def plot(run, path):
    """Draws the figures with the most threads as bars: how many times as fast as llama.cpp."""
    threads = max(file["threads"] for file in run["files"])
    shown = {"smollm2": "SmolLM2 135M", "1b": "1B, random", "experts": "32 experts, random"}
    panels = []
    for test, title in [("tg", "Generation"), ("pp", "Prompt")]:
        chosen = [figure for figure in figures(run) if figure["test"] == test and figure["file"]["threads"] == threads]
        bars = [
            drawing.Bar(
                group=shown.get(figure["file"]["family"], ""),
                name=figure["file"]["format"].upper() if figure["file"]["family"] else figure["file"]["format"],
                value=figure["ratio"],
                spread=(figure["low"], figure["high"]),
                columns=(f"{figure['ratio']:.2f}\u00d7", f"{figure['speed']:.0f}"),
                mark=figure["ratio"] / figure["ik"] if figure["ik"] else None,
            )
            for figure in chosen
        ]
        if bars:
            panels.append(drawing.Bars(f"{title} ({chosen[0]['name']}): speed over llama.cpp's", ("ratio", "tokens/s"), bars))
    legend = ["silicide, with the range of all runs", "llama.cpp", "ik_llama.cpp: published figures, scaled by llama.cpp's in this run"]
    note = f"{run['machine']}, {threads} threads, medians of {run['rounds']} alternating runs on the same files."
    path.write_text(drawing.bars(panels, legend, [note]))
    engines.say(f"drew {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="GGUF files of your own, instead of the models of the targets")
    parser.add_argument("--models", type=engines.words, default=list(models.FAMILIES), help="smollm2, 1b, experts")
    parser.add_argument("--formats", type=engines.words, help="only these: q4_0,q8_0")
    parser.add_argument("-t", type=engines.numbers, default=[1, 2], help="numbers of threads (1,2)")
    parser.add_argument("--isa", type=engines.words, default=[None], help="instruction sets: avx2,avx512 (llama.cpp is built for avx2 too; with others it takes the best)")
    parser.add_argument("-p", type=int, default=512, help="tokens of a prompt (512)")
    parser.add_argument("-n", type=int, default=128, help="tokens to generate (128)")
    parser.add_argument("-r", type=int, default=3, help="rounds (3)")
    parser.add_argument("--limits", choices=["each", "once"], default="each",
                        help="measure the machine's limits before and after each file, or once in the run (each)")
    parser.add_argument("--kernels", action=argparse.BooleanOptionalAction,
                        help="measure kernels alone too; so it is unless files are given")
    parser.add_argument("--least", type=float, help="a target for all ratios to llama.cpp; implies --assert")
    parser.add_argument("--assert", dest="strict", action="store_true", help="end with 1 if a target is missed or a file skipped")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--from", dest="earlier", type=engines.words, metavar="FILES",
                        help="measure nothing: take what --json wrote, of several runs on one machine together")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE.svg", help="draw it")
    a = parser.parse_args()
    unknown = [name for name in a.models if name not in models.FAMILIES]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; known are {', '.join(models.FAMILIES)}")
    if a.kernels is None:
        a.kernels = not a.files
    run = joined([json.loads(pathlib.Path(name).read_text()) for name in a.earlier]) if a.earlier else measure(a)
    if a.json:
        a.json.write_text(json.dumps(run, indent=1) + "\n")
    missed = judge(run, a.least)
    if a.plot:
        plot(run, a.plot)
    sys.exit(missed > 0 and (a.strict or a.least is not None))


if __name__ == "__main__":
    main()
