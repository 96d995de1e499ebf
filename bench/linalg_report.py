#!/usr/bin/env python3
"""What linalg_bench.py measured, as a table in Markdown and a picture: how many times as fast as NumPy with the OpenBLAS of its wheel.

usage: bench/linalg_report.py OUT.svg FILE...    the table goes to standard output

FILE are lines of JSON, put together; of two of the same the last counts. Labels (--label): "numpy" is NumPy alone, "tessera" over
Tessera. Standard library only."""
import json
import pathlib
import sys

from svg_picture import rates_over_sizes

WHO = [("tessera", "NumPy over Tessera", "#0072b2", 0), ("cupy", "CuPy, with copies", "#e69f00", 1)]
BASE = "numpy"


def read(files):
    """Median seconds by (routine, n), then by who."""
    seconds = {}
    for name in files:
        for line in pathlib.Path(name).read_text(encoding="utf-8").splitlines():
            if not line.startswith("{"):
                continue
            entry = json.loads(line)
            if not entry["right"]:
                raise SystemExit(f"{name}: a result is wrong: {line}")
            seconds.setdefault((entry["routine"], entry["n"]), {})[entry["who"]] = entry["median_s"]
    return seconds


def table(seconds):
    lines = ["| | n | NumPy alone, s | over Tessera, s | CuPy, s | x NumPy | x CuPy |", "|---|---|---|---|---|---|---|"]
    order = list(dict.fromkeys(routine for routine, _ in seconds))
    for routine, n in sorted(seconds, key=lambda key: (order.index(key[0]), key[1])):
        of = seconds[routine, n]

        def cell(who):
            return f"{of[who]:.3g}" if who in of else ""

        def ratio(over):
            return f"{of[over] / of['tessera']:.2f}" if over in of and "tessera" in of else ""

        lines.append(f"| {routine} | {n} | {cell(BASE)} | {cell('tessera')} | {cell('cupy')} | {ratio(BASE)} | {ratio('cupy')} |")
    return "\n".join(lines)


def picture(seconds):
    panels = []
    for routine in dict.fromkeys(routine for routine, _ in seconds):
        lines = []
        for who, words, colour, shape in WHO:
            points = [(n, of[BASE] / of[who]) for (name, n), of in sorted(seconds.items()) if name == routine and BASE in of and who in of]
            if points:
                lines.append((points, words, colour, shape))
        if lines:
            panels.append((routine, lines))
    return rates_over_sizes("NumPy's linear algebra, times as fast as with its own OpenBLAS", [(words, colour) for _, words, colour, _ in WHO],
                            panels, "n", unit="times as fast")


def main():
    out, files = pathlib.Path(sys.argv[1]), sys.argv[2:]
    seconds = read(files)
    print(table(seconds))
    out.write_text(picture(seconds), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
