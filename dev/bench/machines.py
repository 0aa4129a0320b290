#!/usr/bin/env python3
"""Draws the tables of dev/bench/README.md that compare with llama.cpp: two panels for each machine, one above the other.

    dev/bench/machines.py --plot docs/peers.svg

A table is drawn if it has the columns of `peers.py` and stands under a heading of the fourth level, which names the machine. So the figures that
are shown are those that are written down. Rows of two threads are drawn.
"""
import argparse
import pathlib

import drawing
import engines

THREADS = "2"
GROUPS = {"smollm2": "SmolLM2 135M", "1b": "1B, random", "experts": "32 experts, random"}
COLUMNS = ["model", "threads", "test", "silicide", "llama.cpp", "ratio", "spread"]


def tables(text):
    """Pairs of a heading and its rows, each a dictionary by column, of the tables that `peers.py` has printed."""
    found, heading, columns = [], None, None
    for line in text.splitlines():
        if line.startswith("#"):
            heading, columns = (line.removeprefix("#### ") if line.startswith("#### ") else None), None
        if not line.startswith("|"):
            columns = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if columns is None:
            columns = cells if heading and cells[: len(COLUMNS)] == COLUMNS else []
            if columns:
                found.append((heading, []))
        elif columns and not line.startswith("|---"):
            found[-1][1].append(dict(zip(columns, cells)))
    return found


def bar(row):
    family, _, rest = row["model"].partition(" ")
    name = rest.split(" (")[0].upper()
    spread = tuple(float(end) for end in row["spread"].split(" to "))
    ratio = float(row["ratio"])
    return drawing.Bar(GROUPS.get(family, family), name, ratio, spread, (f"{ratio:.2f}\u00d7", f"{float(row['silicide']):.0f}"))


def plot(text):
    """The plot of all tables, as SVG."""
    parts = []
    for heading, rows in tables(text):
        panels = []
        for test, title in [("tg", "Generation"), ("pp", "Prompt")]:
            chosen = [row for row in rows if row["test"].startswith(test) and row["threads"] == THREADS]
            if chosen:
                panels.append(drawing.Bars(f"{title} ({chosen[0]['test']})", ("ratio", "tokens/s"), [bar(row) for row in chosen]))
        parts.append(drawing.titled(heading, drawing.bars(panels, ["silicide, with the range of all runs", "llama.cpp"], [])))
    return drawing.stacked(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE.svg", required=True, help="the file to write")
    a = parser.parse_args()
    text = plot((engines.HERE / "README.md").read_text())
    a.plot.write_text(text)
    engines.say(f"drew {a.plot}")


if __name__ == "__main__":
    main()
