#!/usr/bin/env python3
"""Measures problems drawn at random: routine, type, letters, each size log-uniform from 32 to 40000 as far as memory and a time limit allow,
leading dimensions without gaps, padded or odd, page-locked or pageable memory, factors. Each alone, which is compared with the bound, and beside
cublasXt (the better block size), with `tessera bench problems`, results checked; pageable ones once more in page-locked memory.

usage: bench/survey.py SEED COUNT OUT [--build BUILD] [options] [-- options of tessera bench]
       bench/survey.py --draw OUT FILE...

OUT gets survey-SEED.json, a line of text for the worst problems (survey-SEED.md) and a picture (survey-SEED.svg): fraction of the bound over
arithmetic intensity, one point a problem. Problems whose bound is below 2 ms are limited by latency, and shown apart. --draw reads files
of this script, put together.
"""
import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

from report import load, split_at_dashes, table
from svg_picture import AXIS, GRID, Picture

ROUTINES = ["gemm", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm"]
HERMITIAN = {"hemm", "herk", "her2k"}
BYTES = {"s": 4, "d": 8, "c": 8, "z": 16}
LEAST, MOST = 32, 40000
# For the time limit only, roughly one H200: operations, and bytes over its link, a second.
FLOPS_PER_S = 50e12
LINK_BYTES_PER_S = 48e9
LATENCY_S = 2e-3
COLOURS = {"pinned": "#0072b2", "pageable": "#e69f00"}


def size(rng):
    return round(math.exp(rng.uniform(math.log(LEAST), math.log(MOST))))


def shapes(p):
    """Rows and columns of A, B, C as stored; B is None where there is none."""
    name, m, n = p["routine"][1:], p.get("m", p["n"]), p["n"]
    if name == "gemm":
        k = p["k"]
        a = (m, k) if p["transa"] == "N" else (k, m)
        b = (k, n) if p["transb"] == "N" else (n, k)
        return a, b, (m, n)
    if "k" in p:
        a = (n, p["k"]) if p["transa"] == "N" else (p["k"], n)
        return a, a if "2k" in name else None, (n, n)
    order = m if p["side"] == "L" else n
    return (order, order), (m, n), (m, n)


def flops(p):
    """As docs/bench.md counts them."""
    name, m, n, k = p["routine"][1:], p.get("m", p["n"]), p["n"], p.get("k", 0)
    order = m if p.get("side") == "L" else n
    real = {"gemm": 2 * m * n * k, "syrk": n * n * k, "herk": n * n * k, "syr2k": 2 * n * n * k, "her2k": 2 * n * n * k,
            "symm": 2 * m * n * order, "hemm": 2 * m * n * order, "trmm": m * n * order, "trsm": m * n * order}[name]
    return real * (4 if p["routine"][0] in "cz" else 1)


def moved_bytes(p):
    """Up and down: each operand once."""
    element = BYTES[p["routine"][0]]
    name = p["routine"][1:]
    a, b, c = (rows * cols * element for rows, cols in (shape or (0, 0) for shape in shapes(p)))
    if name in ("symm", "hemm", "trmm", "trsm"):
        a /= 2
    if "k" in p and name != "gemm":
        c /= 2
    if name in ("trmm", "trsm"):
        return a + c, c
    return a + b + (c if p["beta"] != 0 else 0), c


def draw_problem(rng):
    name = rng.choice(ROUTINES)
    kind = rng.choice("cz" if name in HERMITIAN else "sdcz")
    p = {"routine": kind + name, "n": size(rng)}
    if name == "gemm" or name in ("symm", "hemm", "trmm", "trsm"):
        p["m"] = size(rng)
    if name in ("gemm", "syrk", "herk", "syr2k", "her2k"):
        p["k"] = size(rng)
        ops = "NTC" if name == "gemm" else "NC" if name in HERMITIAN else "NT"
        p["transa"] = rng.choice(ops)
        if name == "gemm":
            p["transb"] = rng.choice(ops)
    else:
        p["side"] = rng.choice("LR")
    if name != "gemm":
        p["uplo"] = rng.choice("LU")
    if name in ("trmm", "trsm"):
        p["transa"] = rng.choice("NTC")
        p["diag"] = rng.choice("NU")
    else:
        p["beta"] = rng.choice([0.0, 1.0, 0.3])
    p["alpha"] = rng.choice([1.0, -1.0, 1.1])
    gaps = rng.choice(["none", "padded", "odd"])
    for key, shape in zip(("lda", "ldb", "ldc"), shapes(p)):
        if gaps != "none" and shape is not None:
            rows = shape[0]
            p[key] = rows + 32 - rows % 32 + 32 if gaps == "padded" else rows + 1 + rows % 2
    p["memory"] = rng.choice(["pinned", "pageable"])
    return p


def draw_problems(seed, count, memory_bytes, seconds):
    rng = random.Random(seed)
    problems = []
    while len(problems) < count:
        p = draw_problem(rng)
        held = sum(p.get(key, shape[0]) * shape[1] for key, shape in zip(("lda", "ldb", "ldc"), shapes(p)) if shape)
        bound = max(flops(p) / FLOPS_PER_S, max(moved_bytes(p)) / LINK_BYTES_PER_S)
        if held * BYTES[p["routine"][0]] <= memory_bytes and bound <= seconds:
            problems.append({"number": len(problems), **p})
    return problems


def measure(options, out, name, problems, memory, extra):
    """Results of `tessera bench problems`, in order. @param memory in which all are measured"""
    source, target = out / f"{name}.jsonl", out / f"{name}.json"
    source.write_text("".join(json.dumps(p) + "\n" for p in problems), encoding="utf-8")
    tool = pathlib.Path(options.build) / "bin" / "tessera"
    command = [tool, "bench", "problems", source, "--host", memory, "--json", target, "--check", "--repeats", str(options.repeats),
               *extra, *options.rest]
    log = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if not target.exists():
        sys.exit(f"{' '.join(map(str, command))}: status {log.returncode}\n{log.stdout[-4000:]}")
    runs = load(target)["runs"]
    source.unlink()
    target.unlink()
    return [run["results"][0] for run in runs if run["results"]]


def survey(options, out):
    problems = draw_problems(options.seed, options.count, options.memory * 1e9, options.seconds)
    records = []
    for memory in ("pinned", "pageable"):
        drawn = [p for p in problems if p["memory"] == memory]
        if not drawn or (memory == "pinned" and options.pageable_only):
            continue
        new = [{**p, "seconds": result["tessera"]["median_s"], "bound_s": result.get("bound_s"), "right": result["tessera"]["correct"],
                "tile": result["tessera"]["jobs"][0].get("tile_m")}
               for p, result in zip(drawn, measure(options, out, memory, drawn, memory, []))]
        # In a process of their own: pageable memory is slower where cublasXt has used it.
        if options.peer:
            for record, result in zip(new, measure(options, out, "peer", drawn, memory, ["--peer", "cublasxt"])):
                record["beside_s"] = result["tessera"]["median_s"]
                record["cublasxt_s"] = result.get("cublasxt", {}).get("median_s")
                record["right"] = record["right"] and result["tessera"]["correct"]
        if memory == "pageable" and options.peer:
            for record, result in zip(new, measure(options, out, "again", drawn, "pinned", [])):
                record["pinned_s"] = result["tessera"]["median_s"]
                record["right"] = record["right"] and result["tessera"]["correct"]
        records += new
    return sorted(records, key=lambda record: record["number"])


def words(record):
    letters = "".join(str(record[key]) for key in ("side", "uplo", "transa", "transb", "diag") if key in record)
    sizes = " x ".join(str(record[key]) for key in ("m", "n", "k") if key in record)
    lds = "odd ld, " if record.get("ldc", 0) % 2 else "padded, " if "ldc" in record else ""
    return f"{record['routine']} {letters} {sizes}, {lds}{record['memory']}"


def fraction(record):
    return record["bound_s"] / record["seconds"]


def ratio(record):
    return record["cublasxt_s"] / record["beside_s"] if record.get("cublasxt_s") else None


def report(records):
    """The text, and the picture."""
    long = [r for r in records if r["bound_s"] and r["bound_s"] >= LATENCY_S]
    short = [r for r in records if r["bound_s"] and r["bound_s"] < LATENCY_S]
    lines = [f"{len(records)} problems, {sum(r['right'] for r in records)} right; {len(long)} with a bound of {LATENCY_S * 1e3:g} ms or more.", ""]
    if long:
        fractions = sorted(map(fraction, long))
        lines += [f"Of the bound: median {100 * statistics.median(fractions):.0f} %, 95 % of them at or above {100 * fractions[len(fractions) // 20]:.0f} %, "
                  f"least {100 * fractions[0]:.0f} %; {sum(f >= 0.7 for f in fractions)} of {len(fractions)} at or above 70 %."]
        ratios = [ratio(r) for r in long if ratio(r)]
        if ratios:
            lines += [f"To cublasXt: median {statistics.median(ratios):.2f} x, least {min(ratios):.2f} x, {sum(x < 1 for x in ratios)} of {len(ratios)} below 1."]
        both = [r["pinned_s"] / r["seconds"] for r in long if r.get("pinned_s")]
        if both:
            lines += [f"Pageable to page-locked: median {100 * statistics.median(both):.0f} %, least {100 * min(both):.0f} %."]
        rows = []
        for r in sorted(long, key=lambda r: min(fraction(r), (ratio(r) or 9) * 0.7))[:40]:
            times = f"{ratio(r):.2f}" if ratio(r) else ""
            pageable = f"{100 * r['pinned_s'] / r['seconds']:.0f} %" if r.get("pinned_s") else ""
            rows.append([words(r), f"{1e3 * r['seconds']:.1f}", f"{1e3 * r['bound_s']:.1f}", f"{100 * fraction(r):.0f} %", times, pageable, r["tile"]])
        lines += ["", table(["problem", "ms", "bound, ms", "of the bound", "x cublasXt", "pageable of page-locked", "tile"], rows).rstrip()]
    return "\n".join(lines) + "\n", picture(long, short)


def picture(long, short):
    left, top, width, height = 70, 90, 760, 380
    drawing = Picture(left + width + 40, top + height + 70)
    drawing.title(left, "Problems drawn at random: fraction of the bound")
    for index, (name, colour) in enumerate([("page-locked", COLOURS["pinned"]), ("pageable", COLOURS["pageable"]), ("bound below 2 ms", "#bbbbbb")]):
        drawing.mark(0, left + index * 180, 56, colour)
        drawing.text(left + index * 180 + 10, 60, name, 12, "start")
    every = long + short
    if not every:
        return drawing.svg()
    intensities = {id(r): flops(r) / sum(moved_bytes(r)) for r in every}
    first, last = math.floor(math.log10(min(intensities.values()))), math.ceil(math.log10(max(intensities.values())))

    def x(value):
        return left + width * (math.log10(value) - first) / max(last - first, 1)

    def y(value):
        return top + height * (1 - min(value, 1.1) / 1.1)

    for tick in range(0, 11, 2):
        drawing.line(left, y(tick / 10), left + width, y(tick / 10), AXIS if tick == 0 else GRID)
        drawing.text(left - 8, y(tick / 10) + 4, f"{10 * tick} %", 11, "end")
    for power in range(first, last + 1):
        drawing.line(x(10**power), top + height, x(10**power), top + height + 4, AXIS)
        drawing.text(x(10**power), top + height + 18, f"{10**power:g}", 11)
    drawing.text(left + width / 2, top + height + 40, "operations per byte that crosses the link", 12)
    # The roof of a rate would rise until operations take as long as bytes; of a fraction it is level, and bends nowhere.
    drawing.line(left, y(1), left + width, y(1), "#222222", 1.5)
    balance = FLOPS_PER_S / LINK_BYTES_PER_S
    if 10**first < balance < 10**last:
        drawing.line(x(balance), y(0), x(balance), y(1.05), "#222222", 1, ' stroke-dasharray="4 2"')
        drawing.text(x(balance) - 6, y(1.04), "links", 11, "end")
        drawing.text(x(balance) + 6, y(1.04), "devices", 11, "start")
    for records, colour in ((short, None), (long, COLOURS)):
        for r in records:
            drawing.mark(0, x(intensities[id(r)]), y(fraction(r)), colour[r["memory"]] if colour else "#bbbbbb", f"{words(r)}: {100 * fraction(r):.0f} %")
    return drawing.svg()


def parse(arguments):
    arguments, rest = split_at_dashes(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    if arguments[:1] == ["--draw"]:
        parser.add_argument("--draw", metavar="OUT", required=True)
        parser.add_argument("files", nargs="+")
        return parser.parse_args(arguments)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("out")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--memory", type=float, default=16, help="gigabytes that a problem's matrices may take")
    parser.add_argument("--seconds", type=float, default=0.25, help="its bound on one GPU at most")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-peer", dest="peer", action="store_false", help="without cublasXt, and pageable problems in pageable memory only")
    parser.add_argument("--pageable-only", action="store_true", help="for machines without GPUs, which have no page-locked memory")
    options = parser.parse_args(arguments)
    options.rest, options.draw = rest, None
    return options


def main():
    options = parse(sys.argv[1:])
    out = pathlib.Path(options.draw or options.out)
    out.mkdir(parents=True, exist_ok=True)
    if options.draw:
        records = [record for file in options.files for record in load(file)["problems"]]
        name = "survey"
    else:
        records = survey(options, out)
        name = f"survey-{options.seed}"
        (out / f"{name}.json").write_text(json.dumps({"seed": options.seed, "problems": records}, indent=1) + "\n", encoding="utf-8")
    text, drawn = report(records)
    (out / f"{name}.md").write_text(text, encoding="utf-8")
    (out / f"{name}.svg").write_text(drawn, encoding="utf-8")
    print(text)
    return 0 if all(record["right"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
