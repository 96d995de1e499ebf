#!/usr/bin/env python3
"""What `batch_bench --json` measured, as tables in Markdown and as Figures 12 to 16 of the paper on batches of different sizes.

usage: bench/batch_report.py OUT FILE...    OUT/fig12a.svg, ... of what was measured; the tables go to standard output

Results of several files are put together. Where one case is in several of them, the last counts. Standard library only.
"""
import json
import pathlib
import sys

from svg_picture import BOUND, rates_over_sizes

# Key in the JSON (of a loop and a graph: how it begins), name in the legend, colour (Okabe and Ito).
SERIES = [
    ("tessera", "Tessera", "#0072b2"),
    ("tessera_bounds", "Tessera, without workspace", "#56b4e9"),
    ("grouped", "cuBLAS, grouped", "#e69f00"),
    ("loop", "loop of cuBLAS calls over streams", "#999999"),
    ("graph", "the loop as a graph", "#cc79a7"),
]
ONE_SIZE = [SERIES[0], ("cublas", "cuBLAS, batched", "#e69f00")]
ROOF = ("roof (copy rate or large gemm)", BOUND[2])

# The paper's figures: file, title, routines, shape. Where the paper has dsyrk, complex types have herk, and for dsymm hemm.
FIGURES = [
    ("fig12a", "gemm, square", ["gemm"], "square"),
    ("fig12b", "gemm, k = 16", ["gemm"], "k=16"),
    ("fig13", "syrk and herk, k = 32", ["syrk", "herk"], "k=32"),
    ("fig14", "symm and hemm, square", ["symm", "hemm"], "square"),
    ("fig15", "trmm, square", ["trmm"], "square"),
    ("fig16a", "trsm, square", ["trsm"], "square"),
    ("fig16b", "trsm from the right, n = 32", ["trsm"], "n=32"),
]


def read(files):
    """The results by (routine, shape, x), and what failed."""
    results, failed = {}, {}
    for name in files:
        report = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
        for result in report["variable"] + report["fixed"]:
            key = result["routine"], result["shape"], result["x"]
            results.pop(key, None)
            failed.pop(key, None)
            (failed if "error" in result else results)[key] = result
    return results, failed


def seconds_of(result, who):
    """Of one contestant; of loops and graphs, whose names end in the number of streams, the best one."""
    every = result["seconds"]
    return every[who] if who in every else min((every[name] for name in every if name.startswith(who + "_") and who in ("loop", "graph")), default=None)


def rate(result, who):
    """GFLOP/s"""
    seconds = result["roof_s"] if who == "roof" else seconds_of(result, who)
    return None if seconds is None else result["flops"] / seconds * 1e-9


def quotient(over, under, form):
    return "" if over is None or under is None else form.format(over / under)


def times(result, who):
    """How many times as quick as that contestant Tessera is."""
    return quotient(seconds_of(result, who), seconds_of(result, "tessera"), "{:.2f}")


def tables(results):
    lines = ["| | shape | x | us | GFLOP/s | x grouped | x loop over streams | x graph | of the roof | of own gemm | x without workspace | x without bounds | on the host, us |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    one_size = ["| | n | problems | us | GFLOP/s | x cuBLAS | of the roof | of own gemm | on the host, us |", "|---|---|---|---|---|---|---|---|---|"]
    for (routine, shape, x), result in sorted(results.items()):
        gemm = results.get((routine[0] + "gemm", shape, x))
        first = f"{seconds_of(result, 'tessera') * 1e6:.1f} | {rate(result, 'tessera'):.1f}"
        of_roof = quotient(result["roof_s"], seconds_of(result, "tessera"), "{:.0%}")
        of_gemm = "" if gemm is None or gemm is result else quotient(rate(result, "tessera"), rate(gemm, "tessera"), "{:.0%}")
        on_host = f"{result['host_seconds']['tessera'] * 1e6:.1f}"
        if shape == "one size":
            one_size.append(f"| {routine} | {x} | {result['count']} | {first} | {times(result, 'cublas')} | {of_roof} | {of_gemm} | {on_host} |")
        else:
            lines.append(f"| {routine} | {shape} | {x} | {first} | {times(result, 'grouped')} | {times(result, 'loop')} | {times(result, 'graph')} | {of_roof} | {of_gemm} "
                         f"| {times(result, 'tessera_bounds')} | {times(result, 'tessera_workspace')} | {on_host} |")
    return "\n\n".join("\n".join(table) for table in (lines, one_size) if len(table) > 2)


def draw(results, title, routines, shape, series, x_name):
    """One panel for each routine and type of which there is something."""
    panels, shown = [], []
    for name in [letter + routine for routine in routines for letter in "sdcz"]:
        of_name = {x: result for (routine, its_shape, x), result in results.items() if routine == name and its_shape == shape}
        lines = [([(x, rate(result, "roof") * 1e-3) for x, result in of_name.items()], "roof", BOUND[2], None)]
        for mark, (who, words, colour) in enumerate(series):
            points = [(x, rate(result, who) * 1e-3) for x, result in of_name.items() if rate(result, who) is not None]
            if points:
                lines.append((points, words, colour, mark))
                shown.append(who)
        if of_name:
            panels.append((name, lines))
    if not panels:
        return None
    legend = [(words, colour) for who, words, colour in series if who in shown] + [ROOF]
    return rates_over_sizes(title, legend, panels, x_name)


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder, (results, failed) = pathlib.Path(sys.argv[1]), read(sys.argv[2:])
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {name: draw(results, f"Batches of different sizes: {title}", routines, shape, SERIES, "sizes drawn from 1 to")
                for name, title, routines, shape in FIGURES}
    for routine in ("gemm", "trsm"):
        pictures["one_size_" + routine] = draw(results, f"Batches of one size: {routine}", [routine], "one size", ONE_SIZE, "n")
    for name, picture in pictures.items():
        if picture is not None:
            (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    print(tables(results))
    for (routine, shape, x), result in sorted(failed.items()):
        print(f"\nFAILED: {routine}, {shape}, {x}: {result['error']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
