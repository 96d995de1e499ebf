#!/usr/bin/env python3
"""What `batch_bench --json` measured, as tables in Markdown and as Figures 12 to 16 of the paper on batches of different sizes (fig12a.svg, ...)."""
import sys

import report
from report import quotient

# Key in the JSON (of a loop and a graph: how it begins), name in the legend, colour (Okabe and Ito).
SERIES = [
    ("tessera", "Tessera", "#0072b2"),
    ("tessera_bounds", "Tessera, without workspace", "#56b4e9"),
    ("grouped", "cuBLAS, grouped", "#e69f00"),
    ("loop", "loop of cuBLAS calls over streams", "#999999"),
    ("graph", "the loop as a graph", "#cc79a7"),
]
ONE_SIZE = [SERIES[0], ("cublas", "cuBLAS, batched", "#e69f00")]

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
HEADER = ["", "shape", "x", "us", "GFLOP/s", "x grouped", "x loop over streams", "x graph", "of the roof", "of own gemm", "x without workspace", "x without bounds",
          "on the host, us"]
HEADER_ONE_SIZE = ["", "n", "problems", "us", "GFLOP/s", "x cuBLAS", "of the roof", "of own gemm", "on the host, us"]


def seconds_of(result, who):
    """Of one contestant; of loops and graphs, whose names end in the number of streams, the best one."""
    every = {"roof": result["roof_s"], **result["seconds"]}
    return every[who] if who in every else min((every[name] for name in every if name.startswith(who + "_") and who in ("loop", "graph")), default=None)


def rate(result, who):
    return report.tflops(result, seconds_of(result, who))


def tables(results):
    different, one_size = [], []
    for (routine, shape, x), result in sorted(results.items()):
        own = seconds_of(result, "tessera")
        gemm = results.get((routine[0] + "gemm", shape, x))
        first = [f"{own * 1e6:.1f}", f"{result['flops'] / own * 1e-9:.1f}"]
        of_roof = quotient(result["roof_s"], own, "{:.0%}")
        of_gemm = "" if gemm is None or gemm is result else quotient(rate(result, "tessera"), rate(gemm, "tessera"), "{:.0%}")
        on_host = f"{result['host_seconds']['tessera'] * 1e6:.1f}"

        def times(*names, own=own, result=result):
            return [quotient(seconds_of(result, who), own) for who in names]

        if shape == "one size":
            one_size.append([routine, x, result["count"], *first, *times("cublas"), of_roof, of_gemm, on_host])
        else:
            different.append([routine, shape, x, *first, *times("grouped", "loop", "graph"), of_roof, of_gemm, *times("tessera_bounds", "tessera_workspace"), on_host])
    return "\n".join(report.table(header, rows) for header, rows in ((HEADER, different), (HEADER_ONE_SIZE, one_size)) if rows)


def draw(results, title, routines, shape, series, x_name):
    """One panel for each routine and type of which there is something."""
    panels = []
    for name in [letter + routine for routine in routines for letter in "sdcz"]:
        of_name = {x: result for (routine, its_shape, x), result in results.items() if (routine, its_shape) == (name, shape)}
        if of_name:
            panels.append((name, report.lines_of(of_name, rate, series)))
    return report.rates_picture(title, panels, series, "roof (copy rate or large gemm)", x_name)


def report_of(files):
    results, failed, _ = report.read(files, lambda result: (result["routine"], result["shape"], result["x"]), ("variable", "fixed"))
    pictures = {name: draw(results, f"Batches of different sizes: {title}", routines, shape, SERIES, "sizes drawn from 1 to")
                for name, title, routines, shape in FIGURES}
    for routine in ("gemm", "trsm"):
        pictures["one_size_" + routine] = draw(results, f"Batches of one size: {routine}", [routine], "one size", ONE_SIZE, "n")
    return pictures, tables(results), [f"{routine}, {shape}, {x}: {result['error']}" for (routine, shape, x), result in sorted(failed.items())]


if __name__ == "__main__":
    sys.exit(report.run(__doc__, report_of))
