#!/usr/bin/env python3
"""Draws the results of `tessera bench ... --json FILE` as a bar chart: TFLOP/s (GFLOP/s if all are below 1) of Tessera, its peers and the bound.

usage: bench/chart.py FILE... -o chart.svg [--title TEXT]

One group of bars for each result: by size where all results are of one routine, by routine and size otherwise. Several files, and
the runs of `tessera bench all`, are put side by side. Needs nothing but Python's standard library.
"""
import argparse
import json
import math
import sys
from xml.sax.saxutils import escape

# Series in drawing order: key, legend, colour. The palette is Okabe and Ito's, which colour-blind readers can tell apart.
SERIES = [
    ("tessera", "Tessera", "#0072b2"),
    ("cublasxt", "cublasXt", "#e69f00"),
    ("cpu", "CPU BLAS", "#999999"),
]
BOUND = ("bound", "bound (links and devices at their best)", "#222222")

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 64, 24, 84, 56
BAR, BAR_GAP, GROUP_GAP = 30, 3, 34
FONT = "font-family=\"Helvetica, Arial, sans-serif\""


def size_text(result):
    sizes = [result[name] for name in ("m", "n", "k") if name in result]
    return str(sizes[0]) if len(set(sizes)) == 1 else "x".join(map(str, sizes))


def read_groups(files):
    """One (routine, size, TFLOP/s by series, devices) for each result in the files."""
    groups = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            document = json.load(file)
        for run in document.get("runs", [document]):
            for result in run["results"]:
                rates = {key: result[key]["tflops"] for key, _, _ in SERIES if key in result}
                if "bound_s" in result:
                    rates["bound"] = result["flops"] / result["bound_s"] * 1e-12
                groups.append((run["routine"], size_text(result), rates, run.get("devices", "")))
    if not groups:
        raise ValueError("no results")
    return groups


def tick_step(top):
    """The smallest of 1, 2, 5 times a power of ten that cuts [0, top] into at most six parts."""
    power = 10 ** math.floor(math.log10(top / 6))
    return next(power * factor for factor in (1, 2, 5, 10) if top / (power * factor) <= 6)


def number(value):
    """Three significant digits without an exponent."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def default_title(groups):
    routines = list(dict.fromkeys(group[0] for group in groups))
    devices = list(dict.fromkeys(group[3] for group in groups))
    title = ", ".join(routines)
    if len(devices) == 1 and devices[0]:
        title += f" on {devices[0].replace(' ', ', ')}"
    return title


def draw(groups, title):
    series = [one for one in SERIES if any(one[0] in rates for _, _, rates, _ in groups)]
    has_bound = any("bound" in rates for _, _, rates, _ in groups)
    top = max((value for _, _, rates, _ in groups for value in rates.values()), default=0)
    if not top > 0:
        raise ValueError("no result has a rate above 0")
    unit, factor = ("TFLOP/s", 1) if top >= 1 else ("GFLOP/s", 1000)
    top *= factor
    groups = [(routine, size, {key: value * factor for key, value in rates.items()}, devices)
              for routine, size, rates, devices in groups]
    step = tick_step(top)
    ticks = math.ceil(top / step)
    group_width = len(series) * (BAR + BAR_GAP) - BAR_GAP
    width = max(560, LEFT + RIGHT + len(groups) * (group_width + GROUP_GAP))
    pitch = (width - LEFT - RIGHT) / len(groups)
    plot = HEIGHT - TOP - BOTTOM
    parts = []

    def y_of(value):
        return TOP + plot * (1 - value / (ticks * step))

    def text(x, y, words, size=12, anchor="middle", colour="#333333", extra=""):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" {FONT}{extra}>'
                     f"{escape(words)}</text>")

    def line(x1, y1, x2, y2, colour, thickness=1, extra=""):
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                     f'stroke-width="{thickness}"{extra}/>')

    text(LEFT, 28, title, 16, "start", "#111111", ' font-weight="bold"')
    x = LEFT
    for _, legend, colour in series:
        parts.append(f'<rect x="{x}" y="44" width="12" height="12" fill="{colour}"/>')
        text(x + 18, 54, legend, 12, "start")
        x += 34 + 7 * len(legend)
    if has_bound:
        line(x, 50, x + 18, 50, BOUND[2], 2, ' stroke-dasharray="4 2"')
        text(x + 24, 54, BOUND[1], 12, "start")

    for tick in range(ticks + 1):
        y = y_of(tick * step)
        line(LEFT, y, width - RIGHT, y, "#333333" if tick == 0 else "#e0e0e0")
        text(LEFT - 8, y + 4, f"{tick * step:g}", 12, "end")
    text(18, TOP + plot / 2, unit, 12, "middle", "#333333", f' transform="rotate(-90 18 {TOP + plot / 2:.1f})"')

    one_routine = len({routine for routine, _, _, _ in groups}) == 1
    one_size = len({size for _, size, _, _ in groups}) == 1
    for index, (routine, size, rates, _) in enumerate(groups):
        middle = LEFT + pitch * (index + 0.5)
        start = middle - group_width / 2
        for place, (key, _, colour) in enumerate(series):
            if key not in rates:
                continue
            x, y = start + place * (BAR + BAR_GAP), y_of(rates[key])
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{BAR}" height="{y_of(0) - y:.1f}" fill="{colour}">'
                         f"<title>{escape(f'{routine} {size}: {key} {number(rates[key])} {unit}')}</title></rect>")
            text(x + BAR / 2, y - 4, number(rates[key]), 10)
        if "bound" in rates:
            y = y_of(rates["bound"])
            line(start - 6, y, start + group_width + 6, y, BOUND[2], 2, ' stroke-dasharray="4 2"')
        text(middle, HEIGHT - BOTTOM + 18, size if one_routine else routine)
        if not one_routine and not one_size:
            text(middle, HEIGHT - BOTTOM + 33, size, 11)
    names = "matrix size" if one_routine else "" if not one_size else f"matrix size {groups[0][1]}"
    text(LEFT + (width - LEFT - RIGHT) / 2, HEIGHT - 12, names)

    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}">',
                      f'<rect width="{width}" height="{HEIGHT}" fill="#ffffff"/>', *parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON of tessera bench")
    parser.add_argument("-o", "--output", required=True, metavar="SVG")
    parser.add_argument("--title", help="without it, the routines and devices")
    options = parser.parse_args()
    try:
        groups = read_groups(options.files)
        picture = draw(groups, options.title or default_title(groups))
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(picture)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"chart.py: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
