#!/usr/bin/env python3
"""What `device_bench --json` measured, as a table in Markdown and as Figures 5 and 6 of the KBLAS paper (trsm.svg and trmm.svg)."""
import sys

import report

# Key in the JSON, name in the legend, colour (Okabe and Ito).
SERIES = [
    ("tessera", "Tessera, in place", "#0072b2"),
    ("tessera_workspace", "Tessera, with workspace", "#56b4e9"),
    ("cublas", "cuBLAS, in place", "#e69f00"),
    ("cublas_apart", "cuBLAS, from one matrix to another", "#d55e00"),
    ("paper", "recursion with cuBLAS at its leaves", "#999999"),
]
FEW = 32  # right-hand sides of the panels for few
HEADER = ["", "side", "order", "right-hand sides", "us", "of gemm", "x cuBLAS", "x paper's recursion", "with workspace, us", "x cuBLAS to another matrix"]


def rate(result, who):
    """TFLOP/s. gemm's are those of its own operations, twice as many."""
    if who not in result["seconds"]:
        return None
    return (2 if who == "gemm" else 1) * result["flops"] / result["seconds"][who] * 1e-12


def table(results):
    rows = []
    for (routine, side, order, columns), result in sorted(results.items()):
        times = result["seconds"].get
        own = times("tessera")
        workspace = f"{times('tessera_workspace') * 1e6:.1f}" if times("tessera_workspace") else ""
        rows.append([routine, side, order, columns, f"{own * 1e6:.1f}", report.quotient(rate(result, "tessera"), rate(result, "gemm"), "{:.0%}").replace("%", " %"),
                     report.quotient(times("cublas"), own), report.quotient(times("paper"), own), workspace,
                     report.quotient(times("cublas_apart"), times("tessera_workspace") or own)])
    return report.table(HEADER, rows)


def draw(results, routine):
    """One panel for each type and shape of which there is something."""
    series = [one for one in SERIES if any(one[0] in result["seconds"] for (name, *_), result in results.items() if name[1:] == routine)]
    shapes = [(f"{FEW} right-hand sides", lambda order, columns: columns == FEW), ("as many right-hand sides", lambda order, columns: columns == order)]
    panels = []
    for name in [letter + routine for letter in "sdcz"]:
        for words, is_shown in shapes:
            of_size = {order: result for (its_name, side, order, columns), result in results.items()
                       if (its_name, side) == (name, "left") and is_shown(order, columns)}
            if of_size:
                panels.append((f"{name}, {words}", report.lines_of(of_size, rate, series, "gemm")))
    return report.rates_picture(f"{routine} in device memory", panels, series, "cuBLAS gemm of the same shape", "rows of the triangle")


def report_of(files):
    results, failed, _ = report.read(files, lambda result: (result["routine"], result["side"], result["order"], result["columns"]))
    failures = [f"{' '.join(map(str, case))}: {result['error']}" for case, result in sorted(failed.items())]
    return {routine: draw(results, routine) for routine in ("trsm", "trmm")}, table(results), failures


if __name__ == "__main__":
    sys.exit(report.run(__doc__, report_of))
