"""Runs one netlib BLAS tester over the reference BLAS with the drop-in library preloaded and offload forced, under several tile
sizes and numbers of host devices, and reads its report. usage: run_netlib.py LIBRARY FOLDER TESTER

FOLDER holds the reference's libblas.so.3, the testers and their input. TESTER is xblat3d (Fortran) or xdcblat3 (CBLAS), say.
Besides the original input, whose matrices are at most 9 x 9, sizes about the tile size are run.
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


def run(library, folder, tester, letter, is_cblas, tile, devices, sizes):
    with open(os.path.join(folder, f"{letter}in3" if is_cblas else f"{letter}blat3.in"), encoding="ascii") as file:
        text = with_sizes(file.read(), sizes)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    with tempfile.TemporaryDirectory() as scratch:
        stats = os.path.join(scratch, "stats.json")
        environment.update(LD_PRELOAD=library, LD_LIBRARY_PATH=folder, TESSERA_OFFLOAD="always", TESSERA_STATS=stats,
                           TESSERA_DEVICES=f"host:{devices}", TESSERA_TILE=str(tile))
        result = subprocess.run([os.path.join(folder, tester)], input=text, env=environment, cwd=scratch, timeout=800,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        report = result.stdout
        if not is_cblas:
            with open(os.path.join(scratch, f"{letter}blat3.out"), encoding="ascii") as file:
                report += file.read()
        with open(stats, encoding="utf-8") as file:
            jobs = [json.loads(line) for line in file]

    what = f"{tester}, tile {tile}, host:{devices}, sizes {sizes or 'of the input'}"
    if result.returncode != 0:
        fail(f"{what}: exit {result.returncode}", report)
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
    library, folder, tester = sys.argv[1:]
    match = re.fullmatch(r"xblat3([sdcz])|x([sdcz])cblat3", tester)
    for tile, devices, sizes in RUNS:
        run(library, folder, tester, match[1] or match[2], match[1] is None, tile, devices, sizes)


if __name__ == "__main__":
    main()
