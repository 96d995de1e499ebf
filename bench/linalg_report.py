#!/usr/bin/env python3
"""What linalg_bench.py measured, as a table in Markdown and a picture: how many times as fast as NumPy with the OpenBLAS of its wheel.

usage: bench/linalg_report.py OUT.svg FILE...    the table goes to standard output

FILE are lines of JSON, put together; of two of the same the last counts. Labels (--label): "numpy" is NumPy alone, "tessera" over
Tessera. Standard library only."""
import json
import pathlib
import sys

import report

WHO = [("tessera", "NumPy over Tessera", "#0072b2"), ("cupy", "CuPy, with copies", "#e69f00")]
HEADER = ["", "n", "NumPy alone, s", "over Tessera, s", "CuPy, s", "x NumPy", "x CuPy"]


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
    order = list(dict.fromkeys(routine for routine, _ in seconds))
    rows = []
    for routine, n in sorted(seconds, key=lambda key: (order.index(key[0]), key[1])):
        of = seconds[routine, n].get
        rows.append([routine, n] + [f"{of(who):.3g}" if of(who) else "" for who in ("numpy", "tessera", "cupy")] +
                    [report.quotient(of(who), of("tessera")) for who in ("numpy", "cupy")])
    return report.table(HEADER, rows)


def times_as_fast(of, who):
    return of["numpy"] / of[who] if "numpy" in of and who in of else None


def picture(seconds):
    panels = []
    for routine in dict.fromkeys(routine for routine, _ in seconds):
        lines = report.lines_of({n: of for (name, n), of in seconds.items() if name == routine}, times_as_fast, WHO, None)
        if lines:
            panels.append((routine, lines))
    return report.rates_picture("NumPy's linear algebra, times as fast as with its own OpenBLAS", panels, WHO, None, unit="times as fast")


def main():
    seconds = read(sys.argv[2:])
    print(table(seconds), end="")
    pathlib.Path(sys.argv[1]).write_text(picture(seconds), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
