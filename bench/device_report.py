#!/usr/bin/env python3
"""What `device_bench --json` measured, as a table in Markdown and as Figures 5 and 6 of the KBLAS paper.

usage: bench/device_report.py OUT FILE...    OUT/trsm.svg and OUT/trmm.svg; the table goes to standard output

Results of several files are put together. Where one case is in several of them, the last counts. Standard library only.
"""
import json
import pathlib
import sys

from svg_picture import BOUND, rates_over_sizes

# Key in the JSON, name in the legend, colour (Okabe and Ito).
SERIES = [
    ("tessera", "Tessera, in place", "#0072b2"),
    ("tessera_workspace", "Tessera, with workspace", "#56b4e9"),
    ("cublas", "cuBLAS, in place", "#e69f00"),
    ("cublas_apart", "cuBLAS, from one matrix to another", "#d55e00"),
    ("paper", "recursion with cuBLAS at its leaves", "#999999"),
]
FEW = 32  # right-hand sides of the panels for few


def read(files):
    """The results by (routine, side, order, columns)."""
    results = {}
    for name in files:
        for result in json.loads(pathlib.Path(name).read_text(encoding="utf-8"))["results"]:
            results[result["routine"], result["side"], result["order"], result["columns"]] = result
    return results


def rate(result, who):
    """TFLOP/s. gemm's are those of its own operations, twice as many."""
    if who not in result["seconds"]:
        return None
    return (2 if who == "gemm" else 1) * result["flops"] / result["seconds"][who] * 1e-12


def ratio(result, who, over):
    seconds = result["seconds"]
    return f"{seconds[over] / seconds[who]:.2f}" if who in seconds and over in seconds else ""


def table(results):
    lines = ["| | side | order | right-hand sides | us | of gemm | x cuBLAS | x paper's recursion | with workspace, us | x cuBLAS to another matrix |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for (routine, side, order, columns), result in sorted(results.items()):
        seconds = result["seconds"]
        workspace = f"{seconds['tessera_workspace'] * 1e6:.1f}" if "tessera_workspace" in seconds else ""
        apart = ratio(result, "tessera_workspace" if workspace else "tessera", "cublas_apart")
        share = f"{100 * rate(result, 'tessera') / rate(result, 'gemm'):.0f} %" if "gemm" in seconds else ""
        lines.append(f"| {routine} | {side} | {order} | {columns} | {seconds['tessera'] * 1e6:.1f} | {share} | {ratio(result, 'tessera', 'cublas')} "
                     f"| {ratio(result, 'tessera', 'paper')} | {workspace} | {apart} |")
    return "\n".join(lines)


def points_of(results, routine, who, is_shown):
    return [(order, rate(result, who)) for (name, side, order, columns), result in results.items()
            if name == routine and side == "left" and is_shown(order, columns) and rate(result, who) is not None]


def draw(results, routine):
    """One panel for each type and shape of which there is something."""
    shapes = [(f"{FEW} right-hand sides", lambda order, columns: columns == FEW), ("as many right-hand sides", lambda order, columns: columns == order)]
    panels = [(letter + routine, words, is_shown) for letter in "sdcz" for words, is_shown in shapes
              if points_of(results, letter + routine, "tessera", is_shown)]
    if not panels:
        return None
    shown = [one for one in SERIES if any(one[0] in result["seconds"] for (name, *_), result in results.items() if name[1:] == routine)]
    drawn = []
    for name, words, is_shown in panels:
        lines = [(points_of(results, name, "gemm", is_shown), "", BOUND[2], None)]
        lines += [(points_of(results, name, who, is_shown), words_of, colour, shape) for shape, (who, words_of, colour) in enumerate(shown)]
        drawn.append((f"{name}, {words}", lines))
    legend = [(words, colour) for _, words, colour in shown] + [("cuBLAS gemm of the same shape", BOUND[2])]
    return rates_over_sizes(f"{routine} in device memory", legend, drawn, "rows of the triangle")


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder, results = pathlib.Path(sys.argv[1]), read(sys.argv[2:])
    folder.mkdir(parents=True, exist_ok=True)
    for routine in ("trsm", "trmm"):
        picture = draw(results, routine)
        if picture is not None:
            (folder / f"{routine}.svg").write_text(picture, encoding="utf-8")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
