#!/usr/bin/env python3
"""What `half_batch_bench --json` measured, as a table in Markdown and as Figures 10 to 15, 18 and 19 of the paper on half and half-complex batches
(half-fig10.svg, ...)."""
import sys

import report
from report import quotient

# Key in the JSON, name in the legend, colour (Okabe and Ito).
OWN = [("tessera", "Tessera", "#0072b2"), ("tessera_strided", "Tessera, strided", "#56b4e9")]
REAL = [*OWN, ("cublas", "cublasHgemmBatched", "#e69f00"), ("cublas_strided", "cublasHgemmStridedBatched", "#f0e442"),
        ("cublas_single", "cublasGemmBatchedEx, sums in single", "#999999")]
COMPLEX = [*OWN, ("planar", "cublasLt, planes", "#e69f00"), ("planar_converted", "cublasLt, with conversion", "#cc79a7"),
           ("four", "four products of planes", "#999999")]
SERIES = {"h": REAL, "bf": REAL, "hc": COMPLEX, "bfc": COMPLEX}
# Whom Tessera is compared with first: for bfloat16 cuBLAS has one function.
PEER = {"h": "cublas", "bf": "cublas_single", "hc": "planar", "bfc": "planar"}

# The paper's figures of rates: file, title, type, shapes, problems, largest size.
FIGURES = [
    ("fig10", "half precision", "h", ["square", "rank16"], [1000], 128),
    ("fig12", "half-complex", "hc", ["square", "rank16"], [1000], 256),
    ("fig14", "half precision, small batches", "h", ["square"], [10, 100], 128),
    ("fig15", "half-complex, small batches", "hc", ["square"], [10, 100], 256),
    ("fig18", "half precision, tiny squares", "h", ["square"], [10000, 100000], 16),
    ("fig19", "half-complex, tiny squares", "hc", ["square"], [10000, 100000], 16),
]
# Those of quotients: file, title, type, largest size, peer.
QUOTIENTS = [("fig11", "half precision", "h", 128, "cublasHgemmBatched"), ("fig13", "half-complex", "hc", 256, "cublasLt on planes")]
WORDS = {"square": "square", "rank16": "rank 16"}
HEADER = ["", "shape", "n", "problems", "us", "GFLOP/s", "of the roof", "strided, us", "x peer", "x strided peer", "x single sums", "x with conversion", "x four"]


def seconds_of(result, who):
    """@param who `peer`: of planes where cublasLt has none, four products"""
    if who == "peer":
        return seconds_of(result, PEER[result["type"]]) or seconds_of(result, "four")
    return result["roof_s"] if who == "roof" else result["seconds"].get(who)


def rate(result, who):
    return report.tflops(result, seconds_of(result, who))


def times_as_quick(result, _):
    return seconds_of(result, "peer") / seconds_of(result, "tessera")


def table(results):
    rows = []
    for (kind, shape, n, count), result in sorted(results.items()):
        own, strided = seconds_of(result, "tessera"), seconds_of(result, "tessera_strided")
        rows.append([f"{kind}gemm", WORDS[shape], n, count, f"{own * 1e6:.1f}", f"{result['flops'] / own * 1e-9:.1f}", f"{result['roof_s'] / own:.0%}",
                     f"{strided * 1e6:.1f}", quotient(seconds_of(result, "peer"), own), quotient(seconds_of(result, "cublas_strided"), strided)] +
                    [quotient(seconds_of(result, who), own) for who in ("cublas_single", "planar_converted", "four")])
    return report.table(HEADER, rows)


def panels_of(results, kind, shapes, counts, most, *drawn):
    """One for each shape and number of problems. @param drawn rate, series and roof, as for report.lines_of()"""
    panels = []
    for shape in shapes:
        for count in counts:
            of_size = {n: result for (*its, n, its_count), result in results.items() if (*its, its_count) == (kind, shape, count) and n <= most}
            if of_size:
                panels.append((f"{WORDS[shape]}, {count} problems", report.lines_of(of_size, *drawn)))
    return panels


def report_of(files):
    results, failed, machine = report.read(files, lambda result: (result["type"], result["shape"], result["n"], result["count"]))
    pictures = {}
    for name, title, kind, shapes, counts, most in FIGURES:
        panels = panels_of(results, kind, shapes, counts, most, rate, SERIES[kind])
        pictures["half-" + name] = report.rates_picture(f"Batches of products: {title}", panels, SERIES[kind], "roof (copy rate or large product)")
    for name, title, kind, most, peer in QUOTIENTS:
        series = [("tessera", f"how many times as quick as {peer}", OWN[0][2])]
        panels = panels_of(results, kind, WORDS, [1000], most, times_as_quick, series, None)
        pictures["half-" + name] = report.rates_picture(f"Batches of products: {title}", panels, series, None, unit="times")
    head = f"{machine['gpu']}: {machine['copy_bytes_per_s'] * 1e-9:.0f} GB/s, {machine['peak_flops'] * 1e-12:.0f} TFLOP/s\n\n"
    failures = [f"{kind}gemm, {shape}, {n}, {count} problems: {result['error']}" for (kind, shape, n, count), result in sorted(failed.items())]
    return pictures, head + table(results), failures


if __name__ == "__main__":
    sys.exit(report.run(__doc__, report_of))
