"""Runs one netlib BLAS tester over the reference BLAS with a drop-in library and offload forced, under several tile
sizes and numbers of host devices, and reads its report. usage: run_netlib.py LIBRARY FOLDER TESTER [CPU_BLAS]

LIBRARY is preloaded; if it is a folder, its libblas.so.3 takes the place of the reference's, with CPU_BLAS behind it.
FOLDER holds the reference's libblas.so.3, the testers and their input. TESTER is xblat3d (Fortran) or xdcblat3
(CBLAS), say; those of Levels 1 and 2 are for a library that replaces libblas.so.3, which forwards them.
Runs the original input, whose matrices are at most 9 x 9, and sizes near the tile size.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

ROUTINES = {"s": ["gemm", "symm", "trmm", "trsm", "syrk", "syr2k"]}
ROUTINES["d"] = ROUTINES["s"]
ROUTINES["c"] = ROUTINES["z"] = ROUTINES["s"] + ["hemm", "herk", "her2k"]

# Tile size, host devices, sizes of matrices instead of the input's own (the testers have arrays of 65).
RUNS = [(8, 1, None), (8, 3, None), (32, 1, None), (32, 3, None), (8, 3, [7, 17, 40]), (32, 3, [33, 65])]
# Calls of CBLAS become those of Fortran first. So with CBLAS two types run each of these, one of them complex, and each
# type has three: with several tiles and devices, with sizes near the tile's, and with matrices of one tile.
RUNS_WITH_CBLAS = {"s": [RUNS[1], RUNS[2], RUNS[5]], "c": [RUNS[1], RUNS[2], RUNS[5]],
                   "d": [RUNS[0], RUNS[3], RUNS[4]], "z": [RUNS[0], RUNS[3], RUNS[4]]}
# As libblas.so.3 only the entry into the library differs.
RUNS_AS_SYSTEM_BLAS = [RUNS[1], RUNS[5]]


def fail(text, report):
    print(text)
    print(report[-6000:])
    sys.exit(1)


def with_sizes(text, sizes):
    if sizes is None:
        return text
    text, changed = re.subn(r"(?m)^\d+( +NUMBER OF VALUES OF N\n)[ \d]*?( +VALUES OF N)$",
                            lambda m: f"{len(sizes)}{m[1]}{' '.join(map(str, sizes))}{m[2]}", text)
    assert changed == 1
    return text


def input_of(folder, letter, is_cblas, level):
    if level == "1":
        return ""
    with open(os.path.join(folder, f"{letter}in{level}" if is_cblas else f"{letter}blat{level}.in"), encoding="ascii") as file:
        return file.read()


def execute(library, folder, tester, text, settings, cpu_blas):
    """Exit status, the tester's output, and the jobs on devices."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    with tempfile.TemporaryDirectory() as scratch:
        stats = os.path.join(scratch, "stats.json")
        environment.update(LD_LIBRARY_PATH=folder, TESSERA_STATS=stats, **settings)
        if os.path.isdir(library):
            environment.update(LD_LIBRARY_PATH=library, TESSERA_CPU_BLAS=cpu_blas)
        else:
            environment["LD_PRELOAD"] = library
        result = subprocess.run([os.path.join(folder, tester)], input=text, env=environment, cwd=scratch, timeout=800,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        report = result.stdout
        for name in sorted(os.listdir(scratch)):
            if name.endswith(".out"):
                with open(os.path.join(scratch, name), encoding="ascii") as file:
                    report += file.read()
        jobs = []
        if os.path.exists(stats):
            with open(stats, encoding="utf-8") as file:
                jobs = [json.loads(line) for line in file]
    return result.returncode, report, jobs


def run_forwarded(library, folder, tester, letter, is_cblas, level, cpu_blas):
    code, report, _ = execute(library, folder, tester, input_of(folder, letter, is_cblas, level), {}, cpu_blas)
    if code != 0 or re.search(r"FATAL|FAIL|SUSPECT|\*\*\*|\bNOT\b (?!TESTED)", report) or report.upper().count("PASS") < 10:
        fail(f"{tester}: exit {code}", report)
    print(f"{tester}: passed {report.upper().count('PASS')} tests")


def run(library, folder, tester, letter, is_cblas, tile, devices, sizes, cpu_blas):
    settings = {"TESSERA_OFFLOAD": "always", "TESSERA_DEVICES": f"host:{devices}", "TESSERA_TILE": str(tile)}
    if sizes:  # their operands may stay on devices, and each copy that does is compared with host memory
        settings |= {"TESSERA_RESIDENT": "verify", "TESSERA_RESIDENT_ANYWHERE": "1"}
    text = with_sizes(input_of(folder, letter, is_cblas, "3"), sizes)
    code, report, jobs = execute(library, folder, tester, text, settings, cpu_blas)

    what = f"{tester}, tile {tile}, host:{devices}, sizes {sizes or 'of the input'}"
    if code != 0:
        fail(f"{what}: exit {code}", report)
    if re.search(r"FATAL|FAIL|SUSPECT|\*\*\*|\bNOT\b (?!TESTED)", report):
        fail(f"{what}: not everything is right", report)
    for routine in ROUTINES[letter]:
        name = f"cblas_{letter}{routine}" if is_cblas else f"{letter}{routine}".upper()
        kinds = ["ERROR-EXITS", "COLUMN-MAJOR", "ROW-MAJOR"] if is_cblas else ["ERROR-EXITS", "COMPUTATIONAL"]
        for kind in kinds:
            if not re.search(rf"(?m)^ *{name} +PASSED THE (TESTS OF )?{kind}", report):
                fail(f"{what}: {name} has not passed {kind}", report)
    on_devices = {job["routine"] for job in jobs if any(device["tasks"] > 0 for device in job["devices"])}
    if on_devices != {letter + routine for routine in ROUTINES[letter]}:
        fail(f"{what}: only {sorted(on_devices)} ran on devices", report)
    print(f"{what}: passed, {len(jobs)} calls on devices")


def main():
    library, folder, tester = sys.argv[1:4]
    cpu_blas = sys.argv[4] if len(sys.argv) > 4 else ""
    match = re.fullmatch(r"xblat([123])([sdcz])|x([sdcz])cblat([123])", tester)
    letter, is_cblas, level = match[2] or match[3], match[1] is None, match[1] or match[4]
    if level != "3":
        run_forwarded(library, folder, tester, letter, is_cblas, level, cpu_blas)
        return
    runs = RUNS_AS_SYSTEM_BLAS if os.path.isdir(library) else RUNS_WITH_CBLAS[letter] if is_cblas else RUNS
    for tile, devices, sizes in runs:
        run(library, folder, tester, letter, is_cblas, tile, devices, sizes, cpu_blas)


if __name__ == "__main__":
    main()
