#!/usr/bin/env python3
"""What `lapack_batch_bench --json` measured, as tables in Markdown and in the manner of the figures of the paper on very small
matrices (Haidar, Abdelfattah, Zounon, Tomov, Dongarra), beside its model (lapack_batch_model.py).

usage: bench/lapack_batch_report.py OUT FILE... [--batch N] [--column-cycles N] ...

OUT/fig1.svg   bandwidth: compulsory traffic over time                 OUT/fig2.svg   Cholesky: measured, peers, model
OUT/fig5.svg   problems of a multiprocessor, in shared memory          OUT/fig6.svg   the same in registers
OUT/fig7.svg   LU: what the designs' bounds are                        OUT/fig8.svg   LU: measured, peers, model
OUT/getrs.svg, ...   the other routines, as fig8. The tables go to standard output.

Results of several files are put together. Where one case is in several of them, the last counts; the machine is the last file's.
Standard library only.
"""
import argparse
import json
import pathlib
import sys

import lapack_batch_model as model
from svg_picture import BOUND, rates_over_sizes

# Key in the JSON, name in the legend, colour (Okabe and Ito).
SERIES = [
    ("tessera", "Tessera", "#0072b2"),
    ("cublas", "cuBLAS and cuSOLVER", "#e69f00"),
    ("cublas_matinv", "cuBLAS, not factored before", "#56b4e9"),
    ("magma", "MAGMA", "#009e73"),
]
ROOF = ("roof (copy rate or large gemm)", BOUND[2])
MODEL = ("model: the best design", "#d55e00")
DESIGN_LINES = [("registers", "model: in registers", "#d55e00"), ("shared", "model: in shared memory", "#cc79a7"),
                ("panels", "model: by panels", "#56b4e9")]

# File, title, routine, triangle.
FIGURES = [("fig2", "Cholesky", "potrf", "lower"), ("potrf_upper", "Cholesky, upper", "potrf", "upper"), ("fig8", "LU", "getrf", ""),
           ("getrf_nopiv", "LU without interchanges", "getrf_nopiv", ""), ("getrs", "solves with LU factors", "getrs", ""),
           ("potrs", "solves with Cholesky factors", "potrs", "lower"), ("gesv", "LU and solve", "gesv", ""),
           ("posv", "Cholesky and solve", "posv", "lower"), ("potri", "inverses of Cholesky factors", "potri", "lower"),
           ("getri", "inverses of LU factors", "getri", "")]


def read(files):
    """The results by (type and routine, triangle, n, batch), what failed, and the last file's machine."""
    results, failed, report = {}, {}, {}
    for name in files:
        report = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
        for result in report["results"]:
            key = result["routine"], result["uplo"], result["n"], result.get("batch", result.get("asked"))
            results.pop(key, None)
            failed.pop(key, None)
            if "error" in result or "wrong" in result:
                failed[key] = result
            if "seconds" in result:
                results[key] = result
    return results, failed, report


def rate(result, who):
    """GFLOP/s"""
    seconds = result["seconds"].get(who)
    return None if seconds is None else result["flops"] / seconds * 1e-9


def quotient(over, under, form):
    return "" if over is None or under is None else form.format(over / under)


def tables(results, machine):
    """One for each routine, triangle and type."""
    order = {name: index for index, name in enumerate(model.ROUTINES)}
    kinds = sorted({key[:2] for key in results}, key=lambda key: (order[key[0][1:]], key[1], "sdcz".index(key[0][0])))
    texts = []
    for routine, uplo in kinds:
        lines = [f"### {routine} {uplo}".rstrip(), ""]
        of_kind = [(n, batch, result) for (its_routine, its_uplo, n, batch), result in sorted(results.items()) if (its_routine, its_uplo) == (routine, uplo)]
        peers = [(who, words) for who, words, _ in SERIES[1:] if any(who in result["seconds"] for *_, result in of_kind)]
        heads = ["n", "problems", "us", "GFLOP/s", "GB/s"] + [f"{words}, GFLOP/s" for _, words in peers] + [f"x {words}" for _, words in peers]
        heads += ["of the memory's roof", "of the roof", "of the model", "design"]
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for n, batch, result in of_kind:
            seconds = result["seconds"].get("tessera")
            best = model.bounds_of(result, machine)[1]
            cells = [str(n), str(batch), "" if seconds is None else f"{seconds * 1e6:.1f}", quotient(result["flops"] * 1e-9, seconds, "{:.1f}"),
                     quotient(result["bytes"] * 1e-9, seconds, "{:.0f}")]
            cells += [quotient(result["flops"] * 1e-9, result["seconds"].get(who), "{:.1f}") for who, _ in peers]
            cells += [quotient(result["seconds"].get(who), seconds, "{:.2f}") for who, _ in peers]
            cells += [quotient(result["memory_roof_s"], seconds, "{:.0%}"), quotient(result["roof_s"], seconds, "{:.0%}"),
                      quotient(None if best is None else best.seconds, seconds, "{:.0%}"), "" if best is None else best.design]
            lines.append("| " + " | ".join(cells) + " |")
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def by_size(results, name, uplo, batch):
    """Of each n the result with the most problems up to that number, or the fewest."""
    of_name = {}
    for (routine, its_uplo, n, count), result in results.items():
        if (routine, its_uplo) == (name, uplo):
            of_name.setdefault(n, {})[count] = result
    return {n: counts[max((count for count in counts if count <= batch), default=min(counts))] for n, counts in of_name.items()}


def draw(results, machine, title, routine, uplo, batch):
    """One panel for each type of which there is something."""
    panels, shown = [], set()
    for name in [letter + routine for letter in "sdcz"]:
        of_name = by_size(results, name, uplo, batch)
        if not of_name:
            continue
        lines = [([(n, result["flops"] / result["roof_s"] * 1e-12) for n, result in of_name.items()], "roof", ROOF[1], None)]
        bounds = [(n, result, model.bounds_of(result, machine)[1]) for n, result in of_name.items()]
        lines.append(([(n, result["flops"] / best.seconds * 1e-12) for n, result, best in bounds if best is not None], "model", MODEL[1], None))
        for mark, (who, words, colour) in enumerate(SERIES):
            points = [(n, rate(result, who) * 1e-3) for n, result in of_name.items() if rate(result, who) is not None]
            if points:
                lines.append((points, words, colour, mark))
                shown.add(who)
        panels.append((name, lines))
    if not panels:
        return None
    legend = [(words, colour) for who, words, colour in SERIES if who in shown] + [ROOF, MODEL]
    return rates_over_sizes(f"{title}: {batch} problems, fewer of large ones", legend, panels, "n")


def draw_designs(results, machine, batch):
    """LU: the bounds of the designs, beside what is measured."""
    panels = []
    for name in [letter + "getrf" for letter in "sdcz"]:
        of_name = by_size(results, name, "", batch)
        lines = []
        for design, words, colour in DESIGN_LINES:
            bounds = [(n, result, model.design_bound(design, "getrf", name[0], n, result["batch"], machine)) for n, result in of_name.items()]
            points = [(n, result["flops"] / bound.seconds * 1e-12) for n, result, bound in bounds if bound is not None]
            if points:
                lines.append((points, words, colour, None))
        points = [(n, rate(result, "tessera") * 1e-3) for n, result in of_name.items() if rate(result, "tessera") is not None]
        if points:
            lines.append((points, "Tessera", SERIES[0][2], 0))
        if lines:
            panels.append((name, lines))
    legend = [SERIES[0][1:]] + [(words, colour) for _, words, colour in DESIGN_LINES]
    return rates_over_sizes("LU: bounds of designs", legend, panels, "n") if panels else None


def draw_bandwidth(results, machine, batch):
    kinds = [("getrf", "", "LU", "#0072b2"), ("potrf", "lower", "Cholesky", "#e69f00"), ("getrs", "", "solves with LU factors", "#009e73")]
    panels = []
    for letter in "sdcz":
        lines = []
        for mark, (routine, uplo, words, colour) in enumerate(kinds):
            points = [(n, result["bytes"] / result["seconds"]["tessera"] * 1e-9)
                      for n, result in by_size(results, letter + routine, uplo, batch).items() if "tessera" in result["seconds"]]
            if points:
                lines.append((points, words, colour, mark))
        if lines:
            sizes = [n for points, *_ in lines for n, _ in points]
            lines.insert(0, ([(n, machine.bandwidth * 1e-9) for n in (min(sizes), max(sizes))], "copy", BOUND[2], None))
            panels.append((letter, lines))
    legend = [(words, colour) for *_, words, colour in kinds] + [("copy", BOUND[2])]
    return rates_over_sizes("Compulsory traffic", legend, panels, "n", "GB/s") if panels else None


def draw_resident(results, machine, design, title):
    """LU: how many problems a multiprocessor holds, with one in a block and with as many as is best."""
    panels = []
    for letter in "sdcz":
        sizes = sorted({n for routine, _, n, _ in results if routine == letter + "getrf"})
        held = [(n, one) for n in sizes for one in model.footprints(design, "getrf", letter, n, machine)]
        if held:
            panels.append((letter + "getrf", [([(n, model.resident(one, machine, most)) for n, one in held], words, colour, mark)
                                              for mark, (most, words, colour) in enumerate(RESIDENT)]))
    legend = [(words, colour) for _, words, colour in RESIDENT]
    return rates_over_sizes(f"LU {title}: what a multiprocessor holds", legend, panels, "n", "problems") if panels else None


RESIDENT = [(1, "one problem in a block", "#e69f00"), (model.WARP, "several in a block", "#0072b2")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON of lapack_batch_bench")
    parser.add_argument("--batch", type=int, default=10000, help="problems in the pictures, or the next smaller number that is there")
    model.add_machine_options(parser)
    options = parser.parse_args()
    results, failed, report = read(options.files)
    machine = model.machine_of(report, **model.given(options))
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {name: draw(results, machine, title, routine, uplo, options.batch) for name, title, routine, uplo in FIGURES}
    pictures["fig1"] = draw_bandwidth(results, machine, options.batch)
    pictures["fig5"] = draw_resident(results, machine, "shared", "in shared memory")
    pictures["fig6"] = draw_resident(results, machine, "registers", "in registers")
    pictures["fig7"] = draw_designs(results, machine, options.batch)
    for name, picture in pictures.items():
        if picture is not None:
            (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    print(f"{report.get('gpu', '')}, copy {machine.bandwidth * 1e-9:.0f} GB/s; MAGMA: {report.get('magma', 'none')}\n")
    print(tables(results, machine))
    for (routine, uplo, n, batch), result in sorted(failed.items()):
        what = result.get("error") or "; ".join(f"{who}: {why}" for who, why in result["wrong"].items())
        print(f"\nFAILED: {routine} {uplo} n = {n}, {batch} problems: {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
