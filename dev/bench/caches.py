#!/usr/bin/env python3
"""What types of the KV cache cost a model, as tables and a plot, of what `bench --json caches` printed.

    cargo run --release -p bench -- --json caches --model smollm2.gguf --text README.md > run.jsonl
    dev/bench/caches.py run.jsonl --plot docs/caches.svg
"""
import argparse
import json
import pathlib

import drawing

SIDES = {"both": "keys and values", "keys": "keys alone", "values": "values alone"}


def side(row):
    """Which part of the cache is not f16."""
    if row["keys"] == row["values"]:
        return "both"
    return "keys" if row["values"] == "f16" else "values" if row["keys"] == "f16" else "pair"


def table(rows, context):
    rows = [row for row in rows if row["context"] == context]
    exact = next(row for row in rows if row["keys"] == row["values"] == "f16")
    print(f"\nContext of {context}, {exact['scored']} tokens scored; f16: perplexity {exact['ppl']:.3f}, {exact['bytes']:.0f} bytes for a token.\n")
    print("| keys | values | bytes | of f16 | perplexity | KL | same token |\n|---|---|--:|--:|--:|--:|--:|")
    for row in rows:
        print(f"| {row['keys']} | {row['values']} | {row['bytes']:.0f} | {row['bytes'] / exact['bytes']:.3f} | "
              f"{100 * (row['ratio'] - 1):+.2f}% | {row['kl']:.5f} | {100 * row['agreed']:.1f}% |")


def plot(rows, path, note):
    charts = []
    for context in sorted({row["context"] for row in rows}):
        of = [row for row in rows if row["context"] == context]
        exact = next(row for row in of if row["keys"] == row["values"] == "f16")["bytes"]
        for kind, name in SIDES.items():
            series = {}
            for row in sorted((row for row in of if side(row) == kind and row["kl"] > 0), key=lambda row: row["bytes"]):
                # Bits of the part that is not f16.
                bits = 16 * row["bytes"] / exact if kind == "both" else 32 * row["bytes"] / exact - 16
                series.setdefault(family(row["keys"] if kind != "values" else row["values"]), []).append([bits, 1000 * row["kl"]])
            if not series:
                continue
            charts.append(drawing.Curves(f"{name[0].upper() + name[1:]}, context of {context}", "bits of an element, with scales",
                                         "KL to f16, 1/1000 nats", series, log_x=False, log_y=True))
    path.write_text(drawing.curves(charts, [note] if note else [], columns=len(SIDES)))


def family(name):
    return "TurboQuant" if name.startswith("tq") else "blocks, rotated" if name.endswith("+h") else "blocks"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path, nargs="+", help="what `bench caches` printed")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE.svg", help="draw it")
    parser.add_argument("--note", default="", help="a line under the plot")
    a = parser.parse_args()
    rows = [json.loads(line) for run in a.runs for line in run.read_text().splitlines() if line.strip()]
    for context in sorted({row["context"] for row in rows}):
        table(rows, context)
    if a.plot:
        plot(rows, a.plot, a.note)


if __name__ == "__main__":
    main()
