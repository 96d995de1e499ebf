#!/usr/bin/env python3
"""Whole Python programs as people write them (examples/programs), unchanged, in four ways: NumPy alone, under `tessera run`, by
`python -m tessera_blas`, and ported to CuPy by hand with its copies (cupy_programs.py). Each run is a fresh process, without
rates from earlier runs, and repeats its computation.

  bench/programs.py --tessera build/release/bin/tessera --out programs.jsonl       the picture goes to programs.svg
  bench/programs.py --draw one.jsonl two.jsonl --out both.jsonl                    table and both.svg of earlier runs

Each run is one line of JSON in --out:
  first_s      the process with one computation: start, imports, devices, end; without set-up and checks
  median_s     of the later repeats; of the first one where there is no other
  seconds      of each repeat
  checksum     a number of the result, which all ways share but for a relative `bound`
A run that ended otherwise has "cut_after_s", or "failed" (its status) and "errors".

What is not installed is left out, and told on standard error. Status 1: a run failed, or its result is not right or not that of
the others. programs.sh does the same for Octave and R. Standard library only."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import report
import svg_picture

BENCH = pathlib.Path(__file__).resolve().parent
SOURCE = BENCH.parent
PROGRAMS = SOURCE / "examples" / "programs"

# Words that start each program, and packages that it needs beside NumPy.
SEVERAL = str(PROGRAMS / "programs.py")
COMMANDS = {
    "polar": ([SEVERAL, "polar"], ()),
    "gauss": ([SEVERAL, "gauss"], ()),
    "field": ([SEVERAL, "field"], ()),
    "pca": ([str(PROGRAMS / "pca.py")], ("scipy", "sklearn")),
    "ridge": ([str(PROGRAMS / "ridge.py")], ("scipy", "sklearn")),
    "least_squares": ([str(PROGRAMS / "least_squares.py")], ()),
    "network": ([SEVERAL, "network"], ()),
    "kalman": ([str(PROGRAMS / "kalman.py")], ()),
    "expm": ([str(PROGRAMS / "expm.py")], ("scipy",)),
    "subspace": ([str(PROGRAMS / "subspace.py")], ()),
    "canonical": ([str(PROGRAMS / "canonical.py")], ("scipy",)),
    "inverse": ([SEVERAL, "inverse"], ()),
    "solves": ([str(PROGRAMS / "solves.py")], ()),
}
# In the order of the runs: the first one that is right is what the others have to agree with.
WAYS = [("numpy", "NumPy", "#999999"), ("run", "tessera run", "#56b4e9"), ("package", "package", "#0072b2"), ("cupy", "CuPy", "#e69f00")]
QUICKER = WAYS[1:]


def tell(text):
    print(text, file=sys.stderr, flush=True)


def answer(command, environment):
    """@return what the command printed, or None and the last line of its errors"""
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    errors = result.stderr.strip().splitlines()
    return (result.stdout, "") if result.returncode == 0 else (None, errors[-1] if errors else f"status {result.returncode}")


class Ways:
    """Which ways this machine has, and the process of each program in each of them."""

    def __init__(self, options):
        self.python = options.python
        self.environment = dict(os.environ)
        self.tessera = options.tessera
        self.packages = self.of_python("numpy", "scipy", "sklearn")
        if "numpy" not in self.packages:
            sys.exit(f"programs.py: {self.python} has no NumPy")
        self.found = ["numpy"]
        self.of_cupy, self.package_settings = [], {}
        for way in ("run", "package", "cupy"):
            if way in options.ways:
                reason = getattr(self, f"find_{way}")()
                if reason is None:
                    self.found.append(way)
                else:
                    tell(f"left out: {way}: {reason}")
        self.found = [way for way in self.found if way in options.ways]

    def of_python(self, *names):
        """@return those of these packages that the Python has"""
        lines = f"import importlib.util as u; print(*[name for name in {names} if u.find_spec(name)])"
        printed, reason = answer([self.python, "-c", lines], self.environment)
        if printed is None:
            sys.exit(f"programs.py: {self.python}: {reason}")
        return printed.split()

    def find_run(self):
        if self.tessera is None:
            return "no `tessera` was found; --tessera names it"
        return None if answer([self.tessera, "--version"], self.environment)[0] is not None else f"{self.tessera} does not run"

    def find_package(self):
        """An installed package is taken as it is, else that of the source folder over the libraries beside the tool."""
        own = {"PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCE / "python"), os.environ.get("PYTHONPATH")]))}
        if self.tessera is not None:
            own["TESSERA_LIBRARIES"] = os.environ.get("TESSERA_LIBRARIES") or str(pathlib.Path(self.tessera).resolve().parent.parent / "lib")
        for settings in ({}, own):
            printed, reason = answer([self.python, "-c", "import tessera_blas; tessera_blas.install()"], {**self.environment, **settings})
            if printed is not None:
                self.package_settings = settings
                return None
        return reason

    def find_cupy(self):
        printed, reason = answer([self.python, str(BENCH / "cupy_programs.py"), "--list"], self.environment)
        self.of_cupy = (printed or "").split()
        return None if printed is not None else reason

    def why_not(self, program, way):
        """@return what a program lacks in this way, or None"""
        missing = [name for name in COMMANDS[program][1] if name not in self.packages]
        if missing:
            return f"no {missing[0]}"
        return "not in this CuPy" if way == "cupy" and program not in self.of_cupy else None

    def process(self, program, way):
        """@return words and environment"""
        words = {"numpy": [self.python], "run": [self.tessera, "run", "--", self.python], "package": [self.python, "-m", "tessera_blas"],
                 "cupy": [self.python]}[way]
        script = [str(BENCH / "cupy_programs.py"), program] if way == "cupy" else COMMANDS[program][0]
        return words + script, {**self.environment, **(self.package_settings if way == "package" else {})}


def run(program, way, ways, options):
    """One process. @return its line"""
    words, environment = ways.process(program, way)
    line = {"program": program, "way": way, "scale": options.scale}
    with tempfile.TemporaryDirectory() as cache:
        environment["XDG_CACHE_HOME"] = cache
        begin = time.perf_counter()
        try:
            result = subprocess.run(words + ["--scale", str(options.scale), "--repeats", str(options.repeats)], env=environment,
                                    capture_output=True, text=True, timeout=options.timeout)
        except subprocess.TimeoutExpired:
            return {**line, "cut_after_s": options.timeout}
        wall = time.perf_counter() - begin
    try:
        told = json.loads(result.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {**line, "failed": result.returncode, "errors": result.stderr[-500:]}
    seconds = told["seconds"]
    line.update(sizes=told["sizes"], first_s=round(wall - told["untimed_s"] - sum(seconds[1:]), 6),
                median_s=statistics.median(seconds[1:] or seconds), seconds=seconds, wall_s=round(wall, 6))
    line.update({key: told[key] for key in ("checksum", "residual", "bound", "correct")})
    if result.returncode != 0 and told["correct"]:
        # It computed, and did not end well.
        return {**line, "failed": result.returncode, "errors": result.stderr[-500:]}
    return line


def by_program(runs):
    """Runs by program, then by way. Of two of the same the last one counts."""
    found = {}
    for one in runs:
        found.setdefault(one["program"], {})[one["way"]] = one
    return {program: found[program] for program in COMMANDS if program in found}


def judge(of_ways):
    """@param of_ways runs of one program @return by way: what is wrong with it, in a word or two; what is right is missing"""
    wrong = {}
    expected = None
    for way in (way for way, *_ in WAYS if way in of_ways):
        one = of_ways[way]
        if "cut_after_s" in one:
            wrong[way] = f"> {one['cut_after_s']:g} s"
        elif "failed" in one:
            wrong[way] = "failed"
        elif not one["correct"] or one["checksum"] is None:
            wrong[way] = "wrong"
        elif expected is None:
            expected = one
        elif one["sizes"] != expected["sizes"] or not abs(one["checksum"] - expected["checksum"]) <= one["bound"] * abs(expected["checksum"]):
            wrong[way] = "other result"
    return wrong


def table(programs, key):
    """@param key first_s or median_s @return the table, and by program and way: how many times as fast as NumPy alone"""
    rows, times = [], {}
    for program, of_ways in programs.items():
        wrong = judge(of_ways)
        seconds = {way: one[key] for way, one in of_ways.items() if way not in wrong}
        alone = seconds.get("numpy")
        times[program] = {way: alone / seconds[way] for way, *_ in QUICKER if way in seconds and alone is not None}
        rows.append([program, f"{alone:.3g}" if alone is not None else wrong.get("numpy", "")] +
                    [wrong.get(way) or report.quotient(alone, seconds.get(way)) for way, *_ in QUICKER])
    medians = []
    for way, *_ in QUICKER:
        of_way = [of[way] for of in times.values() if way in of]
        medians.append(f"{statistics.median(of_way):.2f}" if of_way else "")
    rows.append(["median", "", *medians])
    return report.table(["", "NumPy, s"] + [f"{words}, x" for _, words, _ in QUICKER], rows), times


def summary(times):
    """What the package has to show beside the two others."""
    lines = []
    over_run = [of["package"] / of["run"] for of in times.values() if "package" in of and "run" in of]
    if over_run:
        lines.append(f"The package beside `tessera run`: {statistics.median(over_run):.2f} x in the median, {min(over_run):.2f} x at least.")
    of_package = {program: of["package"] for program, of in times.items() if "package" in of}
    if of_package:
        least = min(of_package, key=of_package.get)
        lines.append(f"The package beside NumPy alone: {of_package[least]:.2f} x at least ({least}).")
    return "\n".join(lines) + "\n\n" if lines else ""


def picture(times):
    series = [way for way in QUICKER if any(way[0] in of for of in times.values())]
    groups = [(program, program, "", {**of, "bound": 1}) for program, of in times.items() if of]
    if not groups:
        return None
    return svg_picture.bars("Whole Python programs, times as fast as NumPy alone", "times as fast", series, groups, "NumPy alone", "")


def show(runs, options):
    """Prints tables, draws the picture. @return the status"""
    programs = by_program(runs)
    steady, times = table(programs, "median_s")
    first, _ = table(programs, "first_s")
    print(f"Later repeats, medians\n\n{steady}\n{summary(times)}Processes with one computation: start, imports, devices, end\n\n{first}", end="")
    drawn = picture(times)
    if drawn is not None:
        report.write_whole(options.out.with_suffix(".svg"), drawn)
    failures = [(of_ways[way], words) for of_ways in programs.values() for way, words in judge(of_ways).items()]
    for one, words in failures:
        print(f"\nNOT RIGHT ({words}): {json.dumps(one)}")
    return 1 if failures or not programs else 0


def measure(options):
    """@return the lines of all runs, which are in the file of --out, too"""
    ways = Ways(options)
    runs = []
    with options.out.open("w", encoding="utf-8") as file:
        for program in options.programs:
            for way in ways.found:
                reason = ways.why_not(program, way)
                if reason is not None:
                    tell(f"left out: {program}, {way}: {reason}")
                    continue
                runs.append(run(program, way, ways, options))
                text = json.dumps(runs[-1])
                print(text, file=file, flush=True)
                tell(text)
    return runs


def some_of(names):
    def chosen(text):
        wanted = text.split(",")
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"no such one: {unknown[0]}; there are {', '.join(names)}")
        return [name for name in names if name in wanted]
    return chosen


def find_tool():
    built = SOURCE / "build" / "release" / "bin" / "tessera"
    return str(built) if built.exists() else shutil.which("tessera")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=some_of(list(COMMANDS)), default=list(COMMANDS), metavar="LIST", help=f"of {','.join(COMMANDS)}")
    ways = [way for way, *_ in WAYS]
    parser.add_argument("--ways", type=some_of(ways), default=ways, metavar="LIST", help=f"of {','.join(ways)}")
    parser.add_argument("--scale", type=float, default=1, help="factor of all sizes")
    parser.add_argument("--repeats", type=int, default=3, help="computations in one process")
    parser.add_argument("--tessera", default=find_tool(), metavar="PATH", help="the tool; without it that of build/release, or of PATH")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python of the programs")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each process")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("programs.jsonl"), metavar="FILE", help="lines of JSON; the picture lies beside it")
    parser.add_argument("--draw", nargs="+", metavar="FILE", help="run nothing: table and picture of these files, put together")
    options = parser.parse_args()
    if options.scale <= 0 or options.repeats < 1:
        parser.error("--scale and --repeats are positive")
    if options.out.suffix == ".svg":
        parser.error("--out is the file of the lines")
    if "tessera" in os.environ.get("LD_PRELOAD", ""):
        parser.error("NumPy would not be alone: LD_PRELOAD has Tessera")
    if options.draw:
        runs = [json.loads(line) for name in options.draw for line in pathlib.Path(name).read_text(encoding="utf-8").splitlines() if line]
    else:
        runs = measure(options)
    return show(runs, options)


if __name__ == "__main__":
    sys.exit(main())
