#!/usr/bin/env python3
"""Looks for cliffs: matmul over the number of rows, attention over the depth of the cache, and a whole model over that depth.

    dev/bench/sweep.py --json run.json --plot docs/sweep.svg --assert     # measure, keep, draw; end with 1 at a cliff
    dev/bench/sweep.py --only matmul --formats q4_0,q8_0 -t 1             # a part
    dev/bench/sweep.py --from run.json --plot docs/sweep.svg              # draw and judge an earlier run again

A step from one point to the next may lose at most 15 % of throughput: operations in a second of a product, bytes of the cache in a second
of a query, operations in a second of a prompt's attention. A model's tokens get dearer with depth, as there is more to read: what counts
there is the speed against a straight line through the times per token. A step that loses more is measured again, up to three times, and
each of its ends keeps its best figure: noise goes, cliffs stay.
"""
import argparse
import json
import pathlib
import sys
import time

import drawing
import engines
import models

LOSS = 0.15
# Powers of two with what is beside them: where a kernel's tiles end and where one kernel hands over to the next.
ROWS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 192, 255, 256, 257,
        384, 511, 512, 513, 768, 1023, 1024]
DEPTHS = [0, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384]
MODEL_DEPTHS = [0, 512, 1024, 2048, 4096, 8192, 16384]
FORMATS = ["q4_0", "q8_0", "q4_k", "q6_k", "bf16"]
PROMPT, COUNT = 512, 32


def joined(values):
    return ",".join(map(str, values))


def on(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


def matmul(a, format, threads):
    """A curve over rows: what it is, its places, and how to measure some of them."""

    def points(rows):
        measured = engines.rows("rows", "--format", format, "--rows", joined(rows), "--threads", threads)
        return {row["rows"]: row["operations_per_second"] / 1e9 for row in measured if "rows" in row}

    return {"chart": f"matmul, {on(threads)}", "name": format, "unit": "GOP/s", "x": "rows"}, a.rows, points


def attention(a, threads):
    """Curves over depth: a query and a prompt, for each shape of heads."""
    engines.say(f"attention, {on(threads)}")
    shapes, shown = {}, {"query": "one query", "prompt": f"a prompt of {PROMPT}"}
    for row in engines.rows("depths", "--depths", joined(a.depths), "--threads", threads):
        shapes.setdefault((row["attention"], row["heads"], row["unit"]), {})[row["depth"]] = row["value"]
    for (kind, heads, unit), found in shapes.items():
        def points(depths, key=(kind, heads)):
            measured = engines.rows("depths", "--depths", joined(depths), "--threads", threads)
            return {row["depth"]: row["value"] for row in measured if (row["attention"], row["heads"]) == key}

        about = {"chart": f"attention, {shown[kind]}, {on(threads)}", "name": heads, "unit": unit, "x": "tokens in the cache"}
        yield about, found, points


def model(a, test, threads):
    """A curve over depth: tokens per second of generation or of prompts."""
    path = a.model or models.file("smollm2", "q4_0")

    def points(depths):
        lengths = ["-p", PROMPT if test == "pp" else 0, "-n", COUNT if test == "tg" else 0, "-t", threads, "-r", 1]
        # Beyond what the model was trained on words would make no sense, but speed does.
        command = [engines.program("silicide"), "bench", "-m", path, "--device", "cpu", "-d", joined(depths), *lengths, "--json"]
        return {row["depth"]: row["mean"] for row in json.loads(engines.run(command))["results"]}

    kind = {"tg": f"generation (tg{COUNT})", "pp": f"prompt (pp{PROMPT})"}[test]
    about = {"chart": f"{kind}, {on(threads)}", "name": path.stem, "unit": "tokens/s", "x": "tokens in the cache", "line": True}
    return about, a.model_depths, points


def line(points):
    """Speeds by a straight line through the times per token, fitted so that relative errors are least."""
    weights = [(x, 1 / y, y * y) for x, y in points]
    s, sx, sxx, st, sxt = (sum(w * f for w, f in zip([w for *_, w in weights], values)) for values in (
        [1] * len(weights), [x for x, *_ in weights], [x * x for x, *_ in weights],
        [t for _, t, _ in weights], [x * t for x, t, _ in weights]))
    slope = max(0.0, (s * sxt - sx * st) / (s * sxx - sx * sx)) if len(points) > 1 else 0.0
    base = (st - slope * sx) / s
    return [1 / max(base + slope * x, 1e-12) for x, _ in points]


def kept(curve):
    """What each step keeps of the throughput before it, with its two ends."""
    points = curve["points"]
    expected = line(points) if curve.get("line") else [1] * len(points)
    relative = [y / e for (_, y), e in zip(points, expected)]
    return [(now / before, points[i], points[i + 1]) for i, (before, now) in enumerate(zip(relative, relative[1:]))]


def settle(curve, points):
    """Measures steps that lose too much again, each three times at most: noise goes, cliffs stay."""
    tried = {}
    while True:
        lost = [tuple(x for x, _ in ends) for part, *ends in kept(curve) if part < 1 - LOSS]
        again = [step for step in lost if tried.get(step, 0) < 3]
        if not again:
            return curve
        for step in again:
            tried[step] = tried.get(step, 0) + 1
        places = sorted({x for step in again for x in step})
        engines.say(f"  {curve['name']}: again at {joined(places)}")
        found = points(places)
        curve["points"] = [[x, max(y, found.get(x, 0))] for x, y in curve["points"]]


def measure(a):
    """All curves, as they are stored."""
    run = {"when": time.strftime("%Y-%m-%d %H:%M"), "machine": engines.processor(), "busy_before": engines.warn_before(), "curves": []}
    watch = engines.Watch()
    asked = []
    if "matmul" in a.only:
        asked += [matmul(a, format, threads) for threads in a.t for format in a.formats]
    if "attention" in a.only:
        # Charts of one kind are neighbours.
        asked += sorted((curve for threads in a.t for curve in attention(a, threads)), key=lambda curve: curve[0]["chart"])
    if "model" in a.only:
        asked += [model(a, test, max(a.t)) for test in ("tg", "pp")]
    for about, places, points in asked:
        engines.say(f"{about['chart']}: {about['name']}")
        found = places if isinstance(places, dict) else points(places)
        run["curves"].append(settle(about | {"points": [[x, found[x]] for x in sorted(found)]}, points))
    run["busy_meanwhile"] = watch.foreign()
    return run


def judge(run):
    """Prints the worst step of each curve, and all that are cliffs; says how many those are."""
    print(f"{run['machine']}, {run['when']}\n\n| curve | | points | worst step keeps | from | to |\n" + "|---" * 6 + "|")
    cliffs = 0
    for curve in run["curves"]:
        steps = sorted(kept(curve))
        bad = [step for step in steps if step[0] < 1 - LOSS]
        cliffs += len(bad)
        for part, before, after in bad or steps[:1]:
            print(f"| {curve['chart']} | {curve['name']} | {len(curve['points'])} | {part:.2f}{' CLIFF' if bad else ''} | "
                  f"{before[0]}: {before[1]:.1f} {curve['unit']} | {after[0]}: {after[1]:.1f} |")
    print(f"\n{cliffs} steps lose more than {LOSS:.0%}")
    engines.warn_of_others(max(run["busy_before"], run["busy_meanwhile"]))
    return cliffs


def plot(run, path):
    charts = {}
    for curve in run["curves"]:
        empty = drawing.Curves(curve["chart"][0].upper() + curve["chart"][1:], curve["x"], curve["unit"], {}, log_y=curve["x"] == "rows")
        chart = charts.setdefault(curve["chart"], empty)
        chart.series[curve["name"]] = curve["points"]
        chart.alarms += [after for part, _, after in kept(curve) if part < 1 - LOSS]
    notes = [f"{run['machine']}, {run['when']}. Axes of rows, of tokens and of operations are logarithmic; "
             f"a red ring is a step that loses more than {LOSS:.0%}."]
    path.write_text(drawing.curves(list(charts.values()), notes))
    engines.say(f"drew {path}")


def main():
    words = lambda text: text.split(",")
    numbers = lambda text: sorted(int(number) for number in text.split(","))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=words, default=["matmul", "attention", "model"], help="matmul,attention,model")
    parser.add_argument("--formats", type=words, default=FORMATS, help=f"of weights in matmul ({joined(FORMATS)})")
    parser.add_argument("--rows", type=numbers, default=ROWS, help="numbers of rows")
    parser.add_argument("--depths", type=numbers, default=DEPTHS, help="tokens in the cache, for attention")
    parser.add_argument("--model", type=pathlib.Path, help="a GGUF file (SmolLM2 in Q4_0, made if it is not there)")
    parser.add_argument("--model-depths", type=numbers, default=MODEL_DEPTHS, help="tokens in the cache, for the model")
    parser.add_argument("-t", type=numbers, default=[1, 2], help="numbers of threads (1,2); the model gets the largest")
    parser.add_argument("--assert", dest="strict", action="store_true", help="end with 1 if a step loses too much")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, metavar="FILE", help="measure nothing: take what --json wrote")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE.svg", help="draw it")
    a = parser.parse_args()
    run = json.loads(a.earlier.read_text()) if a.earlier else measure(a)
    if a.json:
        a.json.write_text(json.dumps(run, indent=1) + "\n")
    cliffs = judge(run)
    if a.plot:
        plot(run, a.plot)
    sys.exit(a.strict and cliffs > 0)


if __name__ == "__main__":
    main()
