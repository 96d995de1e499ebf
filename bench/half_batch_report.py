#!/usr/bin/env python3
"""What `half_batch_bench --json` measured, as tables in Markdown and as Figures 10 to 15, 18 and 19 of the paper on half and half-complex batches.

usage: bench/half_batch_report.py OUT FILE...    OUT/half-fig10a.svg, ... of what was measured; the tables go to standard output

Results of several files are put together. Where one case is in several of them, the last counts. Standard library only.
"""
import json
import pathlib
import sys

from svg_picture import BOUND, rates_over_sizes

# Key in the JSON, name in the legend, colour (Okabe and Ito).
TESSERA, STRIDED = ("tessera", "Tessera", "#0072b2"), ("tessera_strided", "Tessera, strided", "#56b4e9")
REAL = [TESSERA, STRIDED, ("cublas", "cublasHgemmBatched", "#e69f00"), ("cublas_strided", "cublasHgemmStridedBatched", "#f0e442"),
        ("cublas_single", "cublasGemmBatchedEx, sums in single", "#999999")]
COMPLEX = [TESSERA, STRIDED, ("planar", "cublasLt, planes", "#e69f00"), ("planar_converted", "cublasLt, with conversion", "#cc79a7"),
           ("four", "four products of planes", "#999999")]
ROOF = ("roof (copy rate or large product)", BOUND[2])
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
# Those of quotients.
QUOTIENTS = [("fig11", "half precision", "h", 128), ("fig13", "half-complex", "hc", 256)]
WORDS = {"square": "square", "rank16": "rank 16"}


def read(files):
    """The results by (type, shape, n, count), what failed, and the last file's machine."""
    results, failed, machine = {}, {}, {}
    for name in files:
        report = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
        machine = {key: report[key] for key in ("gpu", "copy_bytes_per_s", "peak_flops")}
        for result in report["results"]:
            key = result["type"], result["shape"], result["n"], result["count"]
            results.pop(key, None)
            failed.pop(key, None)
            (failed if "error" in result else results)[key] = result
    return results, failed, machine


def seconds_of(result, who):
    return result["roof_s"] if who == "roof" else result["seconds"].get(who)


def peer_seconds(result):
    """Of planes where cublasLt has none, four products."""
    return seconds_of(result, PEER[result["type"]]) or seconds_of(result, "four")


def tables(results):
    lines = ["| | shape | n | problems | us | GFLOP/s | of the roof | strided, us | x peer | x strided peer | x single sums | x with conversion | x four |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for (kind, shape, n, count), result in sorted(results.items()):
        own = seconds_of(result, "tessera")

        def times(who, over=own, of=result):
            return "" if seconds_of(of, who) is None else f"{seconds_of(of, who) / over:.2f}"
        strided = seconds_of(result, "tessera_strided")
        lines.append(f"| {kind}gemm | {WORDS[shape]} | {n} | {count} | {own * 1e6:.1f} | {result['flops'] / own * 1e-9:.1f} | {result['roof_s'] / own:.0%} | {strided * 1e6:.1f} "
                     f"| {peer_seconds(result) / own:.2f} | {times('cublas_strided', strided)} | {times('cublas_single')} | {times('planar_converted')} | {times('four')} |")
    return "\n".join(lines)


def rate_panels(results, kind, shapes, counts, most):
    for shape in shapes:
        for count in counts:
            of_panel = {n: result for (its, its_shape, n, its_count), result in results.items()
                        if (its, its_shape, its_count) == (kind, shape, count) and n <= most}
            if not of_panel:
                continue
            lines = [([(n, result["flops"] / result["roof_s"] * 1e-12) for n, result in sorted(of_panel.items())], "roof", BOUND[2], None)]
            for mark, (who, words, colour) in enumerate(SERIES[kind]):
                points = [(n, result["flops"] / result["seconds"][who] * 1e-12) for n, result in sorted(of_panel.items()) if who in result["seconds"]]
                if points:
                    lines.append((points, words, colour, mark % 4))
            yield f"{WORDS[shape]}, {count} problems", lines


def quotient_panels(results, kind, most):
    for shape in ("square", "rank16"):
        points = [(n, peer_seconds(result) / seconds_of(result, "tessera")) for (its, its_shape, n, count), result in sorted(results.items())
                  if (its, its_shape, count) == (kind, shape, 1000) and n <= most]
        if points:
            yield f"{WORDS[shape]}, 1000 problems", [(points, "Tessera", TESSERA[2], 0)]


def pictures(results):
    """(file, text of the picture) of what was measured."""
    for name, title, kind, shapes, counts, most in FIGURES:
        panels = list(rate_panels(results, kind, shapes, counts, most))
        if panels:
            legend = [(words, colour) for _, words, colour in SERIES[kind]] + [ROOF]
            yield name, rates_over_sizes(f"Batches of products: {title}", legend, panels, "n")
    for name, title, kind, most in QUOTIENTS:
        panels = list(quotient_panels(results, kind, most))
        if panels:
            legend = [("how many times as quick as " + ("cublasLt on planes" if kind == "hc" else "cublasHgemmBatched"), TESSERA[2])]
            yield name, rates_over_sizes(f"Batches of products: {title}", legend, panels, "n", "times")


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder, (results, failed, machine) = pathlib.Path(sys.argv[1]), read(sys.argv[2:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures(results):
        (folder / f"half-{name}.svg").write_text(picture, encoding="utf-8")
    print(f"{machine['gpu']}: {machine['copy_bytes_per_s'] * 1e-9:.0f} GB/s, {machine['peak_flops'] * 1e-12:.0f} TFLOP/s\n")
    print(tables(results))
    for (kind, shape, n, count), result in sorted(failed.items()):
        print(f"\nFAILED: {kind}gemm, {shape}, {n}, {count} problems: {result['error']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
