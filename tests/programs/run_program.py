"""Runs a program of the distribution with and without Tessera, and compares the outputs of both runs. usage:
  run_program.py results ARRANGEMENT OFFLOAD LIBRARIES ROUTINES [--over FOLDER[:FOLDER]] -- PROGRAM [ARGUMENT...]
  run_program.py suite   ARRANGEMENT OFFLOAD LIBRARIES ROUTINES [--over FOLDER[:FOLDER]] -- PYTHON PYTEST-ARGUMENT...

results       the program prints lines `NAME NUMBER...`: the first number is the size of a result, the others depend linearly on it and are
              no larger. Both runs must print the same names, and numbers that differ by rounding alone. `NAME.residual
              NUMBER` is an error in units of rounding and must be small in both runs.
suite         the tests of a Python package: all tests that pass without Tessera pass with it, and no others are skipped

ARRANGEMENT   preload: LD_PRELOAD=libtessera_blas.so; system: Tessera is the libblas.so.3 that the loader finds
OFFLOAD       always: every call is cut into tiles on two host devices; auto: the default, without a setting
LIBRARIES     folder with libtessera_blas.so and tessera/libblas.so.3
ROUTINES      sgemm,dtrsm,...: each of them must have run on the devices in several tiles (always), or must have been
              called (auto)
--over        folders with the libblas.so.3 and liblapack.so.3 for both runs, in place of the machine's choice
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

# Tiles smaller than the programs' matrices: the tests of the packages have matrices of three rows.
TILES = {"results": "16", "suite": "2"}
SECONDS = 1500
NOT_AVAILABLE = 77
LARGEST_RESIDUAL = 3
# Relative to the norm of a result. Factorisations amplify rounding by the condition of their matrices, at most about a
# thousand.
ROUNDING = {"s": 2e-5, "c": 2e-5, "d": 1e-11, "z": 1e-11}


def fail(text, result=None):
    print(text)
    if result is not None:
        print(f"exit {result.returncode}\nstdout:\n{result.stdout[-4000:]}\nstderr:\n{result.stderr[-4000:]}")
    sys.exit(1)


def environment(options, tessera, settings):
    """The environment of this process, without variables of the user that would affect a run."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_") and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    clean["OPENBLAS_NUM_THREADS"] = "1"
    clean["PYTHONDONTWRITEBYTECODE"] = "1"
    folders = list(options.over)
    if tessera and options.arrangement == "system":
        folders.insert(0, os.path.join(options.libraries, "tessera"))
    if folders:
        clean["LD_LIBRARY_PATH"] = ":".join(folders)
        if os.path.basename(options.command[0]).startswith("R"):
            # R's start script prepends its folders, including that of the system's libblas.so.3, to LD_LIBRARY_PATH.
            home = subprocess.run(["R", "RHOME"], capture_output=True, text=True, check=True).stdout.strip()
            clean["R_LD_LIBRARY_PATH"] = ":".join([*folders, os.path.join(home, "lib")])
    if tessera and options.arrangement == "preload":
        clean["LD_PRELOAD"] = os.path.join(options.libraries, "libtessera_blas.so")
    clean.update(settings)
    return clean


def run(options, command, tessera=False, **settings):
    try:
        return subprocess.run(command, env=environment(options, tessera, settings), capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        fail(f"not finished after {SECONDS} s: {' '.join(command)}")


def check_devices(path, routines):
    """Every routine ran in several tiles, and nothing ran elsewhere. The division among devices may vary."""
    cut, ran = set(), set()
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            job = json.loads(line)
            devices = [device["device"] for device in job["devices"]]
            if sorted(devices) != ["host:0", "host:1"]:
                fail(f"job {number} ran on {devices}")
            ran.add(job["routine"])
            if sum(device["tasks"] for device in job["devices"]) >= 4:
                cut.add(job["routine"])
    if missing := [routine for routine in routines if routine not in cut]:
        fail(f"no call in several tiles of {', '.join(missing)}; there were {number} calls of {', '.join(sorted(ran))}")
    print(f"{number} calls of {', '.join(sorted(ran))} ran on host devices")


def check_seen(text, routines):
    """The lines of TESSERA_VERBOSE, which name the place of each call."""
    seen = set(re.findall(r"^tessera: ([sdcz][a-z0-9]+) .* on (?:the CPU BLAS|cuda:)", text, re.MULTILINE))
    if missing := [routine for routine in routines if routine not in seen]:
        fail(f"no call seen of {', '.join(missing)}, but of {', '.join(sorted(seen))}")
    print(f"calls of {', '.join(sorted(seen))} were seen")


def run_with_tessera(options, command):
    """Runs the command in the arrangement. Checks where its calls ran, and that the library was silent."""
    if options.offload == "always":
        with tempfile.TemporaryDirectory() as folder:
            stats = os.path.join(folder, "stats.jsonl")
            result = run(options, command, True, TESSERA_OFFLOAD="always", TESSERA_DEVICES="host:2",
                         TESSERA_TILE=TILES[options.check], TESSERA_STATS=stats)
            if result.returncode != 0:
                fail("the program failed with Tessera", result)
            if not os.path.exists(stats):
                fail("no call reached Tessera", result)
            check_devices(stats, options.routines)
    else:
        result = run(options, command, True)
        if result.returncode != 0:
            fail("the program failed with Tessera", result)
        # Wrappers of a test runner close or capture standard error, and the lines with it.
        if options.check == "results":
            check_seen(run(options, command, True, TESSERA_VERBOSE="1").stderr, options.routines)
    if "tessera: " in result.stderr:
        fail("the library said something that nobody asked for", result)
    return result


def numbers_of(result):
    lines = {}
    for line in result.stdout.splitlines():
        name, *values = line.split()
        lines.setdefault(name, []).append([float(value) for value in values])
    return lines


def check_results(options, command):
    plain = run(options, command)
    if plain.returncode != 0:
        fail("the program fails without Tessera", plain)
    expected, printed = numbers_of(plain), numbers_of(run_with_tessera(options, command))
    if expected.keys() != printed.keys() or not expected:
        fail(f"names differ: {expected.keys() ^ printed.keys()}")
    wrong, residuals = [], 0
    for name in expected:
        for before, after in zip(expected[name], printed[name], strict=True):
            if name.endswith(".residual"):
                residuals += 1
                if not (before[0] < LARGEST_RESIDUAL and after[0] < LARGEST_RESIDUAL):
                    wrong.append(f"{name}: {after[0]} with, {before[0]} without Tessera")
                continue
            bound = ROUNDING[name[0]] * abs(before[0])
            if not all(abs(x - y) <= bound for x, y in zip(before, after, strict=True)):
                wrong.append(f"{name}: {after} instead of {before}")
    if wrong:
        fail("\n".join(wrong))
    print(f"{len(expected)} results agree, {residuals} residuals are small")


def outcomes(options, command, start):
    """Runs pytest by start(command); returns its verdict on each test."""
    python, *arguments = command
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        result = start([python, "-c", f"import os, sys, pytest; os.chdir({folder!r}); "
                        f"status = pytest.main(['-q', '-p', 'no:cacheprovider', '--junitxml', {report!r}, *sys.argv[1:]]); "
                        "sys.exit(status > 1)", *arguments])
        if result.returncode != 0 or not os.path.exists(report):
            fail("the tests did not run", result)
        verdicts = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            verdict = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
            verdicts.setdefault(f"{case.get('classname')}.{case.get('name')}", []).append(verdict)
    return verdicts, result


def check_suite(options, command):
    plain, _ = outcomes(options, command, lambda pytest: run(options, pytest))
    passed = [name for name, verdict in plain.items() if set(verdict) == {"passed"}]
    if not passed:
        fail("no test passes without Tessera")
    with_tessera, result = outcomes(options, command, lambda pytest: run_with_tessera(options, pytest))
    if wrong := [name for name in passed if with_tessera.get(name) != plain[name]]:
        fail("pass without Tessera only:\n" + "\n".join(wrong), result)
    print(f"{len(passed)} tests pass, {len(plain) - len(passed)} are skipped or fail without Tessera as well")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("check", choices=("results", "suite"))
    parser.add_argument("arrangement", choices=("preload", "system"))
    parser.add_argument("offload", choices=("always", "auto"))
    parser.add_argument("libraries")
    parser.add_argument("routines", type=lambda text: text.split(","))
    parser.add_argument("--over", type=lambda text: text.split(":"), default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if not shutil.which(options.command[0]):
        print(f"skipped: there is no {options.command[0]}")
        sys.exit(NOT_AVAILABLE)
    {"results": check_results, "suite": check_suite}[options.check](options, options.command)


if __name__ == "__main__":
    main()
