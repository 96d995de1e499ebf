#!/usr/bin/env python3
"""Draws the results of `tessera bench ... --json FILE` as a bar chart: TFLOP/s (GFLOP/s if all are below 1) of Tessera, its peers and the bound.

usage: bench/chart.py FILE... -o chart.svg [--title TEXT]

One group of bars for each result: by size where all results are of one routine, by routine and size otherwise. Several files, and
the runs of `tessera bench all`, are put side by side. Needs nothing but Python's standard library.
"""
import argparse
import pathlib
import sys

from report import load, write_whole
from svg_picture import BOUND, CONTESTANTS, bars, unit_of


def size_text(result):
    sizes = [result[name] for name in ("m", "n", "k") if name in result]
    return str(sizes[0]) if len(set(sizes)) == 1 else "x".join(map(str, sizes))


def read_groups(files):
    """One (routine, size, TFLOP/s by series, devices) for each result in the files."""
    groups = []
    for name in files:
        document = load(name)
        for run in document.get("runs", [document]):
            for result in run["results"]:
                rates = {key: result[key]["tflops"] for key, _, _ in CONTESTANTS if key in result}
                if "bound_s" in result:
                    rates["bound"] = result["flops"] / result["bound_s"] * 1e-12
                groups.append((run["routine"], size_text(result), rates, run.get("devices", "")))
    if not groups:
        raise ValueError("no results")
    return groups


def default_title(groups):
    routines = list(dict.fromkeys(group[0] for group in groups))
    devices = list(dict.fromkeys(group[3] for group in groups))
    title = ", ".join(routines)
    if len(devices) == 1 and devices[0]:
        title += f" on {devices[0].replace(' ', ', ')}"
    return title


def draw(groups, title):
    series = [one for one in CONTESTANTS if any(one[0] in rates for _, _, rates, _ in groups)]
    top = max((value for _, _, rates, _ in groups for value in rates.values()), default=0)
    if not top > 0:
        raise ValueError("no result has a rate above 0")
    unit, factor = unit_of(top)
    one_routine = len({routine for routine, _, _, _ in groups}) == 1
    one_size = len({size for _, size, _, _ in groups}) == 1
    named = [(f"{routine} {size}", size if one_routine else routine, "" if one_routine or one_size else size,
              {key: value * factor for key, value in rates.items()}) for routine, size, rates, _ in groups]
    roof = BOUND[1] if any("bound" in rates for _, _, rates, _ in groups) else None
    names = "matrix size" if one_routine else "" if not one_size else f"matrix size {groups[0][1]}"
    return bars(title, unit, series, named, roof, names)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON of tessera bench")
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path, metavar="SVG")
    parser.add_argument("--title", help="without it, the routines and devices")
    options = parser.parse_args()
    try:
        groups = read_groups(options.files)
        picture = draw(groups, options.title or default_title(groups))
        write_whole(options.output, picture)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"chart.py: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
