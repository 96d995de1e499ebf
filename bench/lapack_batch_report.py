#!/usr/bin/env python3
"""What `lapack_batch_bench --json` measured, as tables in Markdown and in the manner of the figures of the paper on very small matrices (Haidar, Abdelfattah,
Zounon, Tomov, Dongarra): fig1.svg, compulsory traffic over time; fig2.svg, Cholesky; fig8.svg, LU; getrs.svg, ..., the other routines.

usage: bench/lapack_batch_report.py OUT FILE... [--batch N]
"""
import sys

import report
from report import quotient

# Key in the JSON, name in the legend, colour (Okabe and Ito).
SERIES = [
    ("tessera", "Tessera", "#0072b2"),
    ("cublas", "cuBLAS and cuSOLVER", "#e69f00"),
    ("cublas_matinv", "cuBLAS, not factored before", "#56b4e9"),
    ("magma", "MAGMA", "#009e73"),
]
# File, title, routine, triangle.
FIGURES = [("fig2", "Cholesky", "potrf", "lower"), ("potrf_upper", "Cholesky, upper", "potrf", "upper"), ("fig8", "LU", "getrf", ""),
           ("getrf_nopiv", "LU without interchanges", "getrf_nopiv", ""), ("getrs", "solves with LU factors", "getrs", ""),
           ("potrs", "solves with Cholesky factors", "potrs", "lower"), ("gesv", "LU and solve", "gesv", ""),
           ("posv", "Cholesky and solve", "posv", "lower"), ("potri", "inverses of Cholesky factors", "potri", "lower"),
           ("getri", "inverses of LU factors", "getri", "")]
TRAFFIC = [("getrf", "LU", "#0072b2"), ("potrf", "Cholesky", "#e69f00"), ("getrs", "solves with LU factors", "#009e73")]
ROUTINES = ("getrf", "potrf", "getrf_nopiv", "getrs", "potrs", "gesv", "posv", "potri", "getri")


def rate(result, who):
    return report.tflops(result, result["roof_s"] if who == "roof" else result["seconds"].get(who))


def tables(results):
    """One for each routine, triangle and type."""
    kinds = sorted({key[:2] for key in results}, key=lambda key: (ROUTINES.index(key[0][1:]), key[1], "sdcz".index(key[0][0])))
    texts = []
    for kind in kinds:
        of_kind = [(n, batch, result) for (*its, n, batch), result in sorted(results.items()) if tuple(its) == kind]
        peers = [(who, words) for who, words, _ in SERIES[1:] if any(who in result["seconds"] for *_, result in of_kind)]
        header = ["n", "problems", "us", "GFLOP/s", "GB/s"] + [f"{words}, GFLOP/s" for _, words in peers] + [f"x {words}" for _, words in peers]
        rows = []
        for n, batch, result in of_kind:
            seconds, flops = result["seconds"].get, result["flops"] * 1e-9
            own = seconds("tessera")
            rows.append([n, batch, "" if own is None else f"{own * 1e6:.1f}", quotient(flops, own, "{:.1f}"), quotient(result["bytes"] * 1e-9, own, "{:.0f}")] +
                        [quotient(flops, seconds(who), "{:.1f}") for who, _ in peers] + [quotient(seconds(who), own) for who, _ in peers] +
                        [quotient(result[roof], own, "{:.0%}") for roof in ("memory_roof_s", "roof_s")])
        texts.append(f"### {' '.join(kind)}".rstrip() + "\n\n" + report.table(header + ["of the memory's roof", "of the roof"], rows))
    return "\n".join(texts)


def by_size(results, name, uplo, batch):
    """Of each n the result with the most problems up to that number, or the fewest."""
    of_name = {}
    for (routine, its_uplo, n, count), result in results.items():
        if (routine, its_uplo) == (name, uplo):
            of_name.setdefault(n, {})[count] = result
    return {n: counts[max((count for count in counts if count <= batch), default=min(counts))] for n, counts in of_name.items()}


def draw(results, title, routine, uplo, batch):
    """One panel for each type of which there is something."""
    of_type = [(letter + routine, by_size(results, letter + routine, uplo, batch)) for letter in "sdcz"]
    panels = [(name, report.lines_of(of_size, rate, SERIES)) for name, of_size in of_type if of_size]
    return report.rates_picture(f"{title}: {batch} problems, fewer of large ones", panels, SERIES, "roof (copy rate or large gemm)")


def draw_traffic(results, copy_rate, batch):
    """GB/s of Tessera, and of a copy."""
    panels = []
    for letter in "sdcz":
        of_size = {}  # by routine
        for routine, _, _ in TRAFFIC:
            for n, result in by_size(results, letter + routine, "lower" if routine == "potrf" else "", batch).items():
                if "tessera" in result["seconds"]:
                    of_size.setdefault(n, {"copy": copy_rate * 1e-9})[routine] = result["bytes"] / result["seconds"]["tessera"] * 1e-9
        if of_size:
            panels.append((letter, report.lines_of(of_size, dict.get, TRAFFIC, "copy")))
    return report.rates_picture("Compulsory traffic", panels, TRAFFIC, "copy", unit="GB/s")


def report_of(files, batch):
    results, failed, last = report.read(files, lambda result: (result["routine"], result["uplo"], result["n"], result.get("batch", result.get("asked"))))
    pictures = {name: draw(results, title, routine, uplo, batch) for name, title, routine, uplo in FIGURES}
    pictures["fig1"] = draw_traffic(results, last["copy_bytes_per_s"], batch)
    head = f"{last.get('gpu', '')}, copy {last['copy_bytes_per_s'] * 1e-9:.0f} GB/s; MAGMA: {last.get('magma', 'none')}\n\n"
    failures = [f"{routine} {uplo} n = {n}, {count} problems: " +
                (result.get("error") or "; ".join(f"{who}: {why}" for who, why in result["wrong"].items()))
                for (routine, uplo, n, count), result in sorted(failed.items())]
    return pictures, head + tables(results), failures


def main():
    batch = 10000  # problems in the pictures, or the next smaller number that is there
    if "--batch" in sys.argv[:-1]:
        at = sys.argv.index("--batch")
        batch = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    return report.run(__doc__, lambda files: report_of(files, batch))


if __name__ == "__main__":
    sys.exit(main())
