"""Runs one of LAPACK's own test programs over the reference LAPACK with Tessera's faces preloaded and offload forced,
under several tile sizes and numbers of devices, and reads its report: all tests that pass over the reference alone must
pass.
usage: run_testers.py LIBRARIES FOLDER TESTER INPUT[,INPUT...] [DEVICES]

LIBRARIES are preloaded, with colons between them; if it is a folder, its liblapack.so.3 and libblas.so.3 replace the
reference's. FOLDER holds the reference's liblapack.so.3, the programs and their input (Debian: liblapack-test). DEVICES
is a value of TESSERA_DEVICES, instead of host devices.
"""
import os
import re
import subprocess
import sys
import tempfile

# Paths of the linear equation programs: general, positive definite, indefinite and triangular matrices, QR, LQ, QR with
# pivoting, least squares.
PATHS = ("GE", "PO", "SY", "HE", "TR", "QR", "LQ", "QP", "LS")
# Tile size, host devices.
RUNS = [(8, 2)]
# By program and input: routines that must have run on devices, without the letter of the type. @ stands for sy or he,
# and ~ for or or un, in real or complex types. ormbr runs as ormqr and ormlq.
WANTED = {"xlintst": {"getrf", "potrf", "geqrf", "gelqf", "~gqr", "~glq", "getrs", "potrs", "gesv", "posv", "getri", "trtri", "trtrs", "potri", "gels", "gelsd", "sytrf", "sytrs", "sysv"},
          "svd.in": {"gesdd", "gesvd", "~mqr", "~mlq"}, "sep.in": {"@ev"}, "sg.in": {"@gv"}}
# By program: the only intercepted routines that may have run on the CPU. LAPACK computes singular values and least
# squares of matrices whose norms need scaling, and singular indefinite matrices.
MAY_STAY = {"xlintst": {"gesvd", "gels", "gelsd", "sytrf", "sytrs", "sysv", "hetrf", "hetrs", "hesv"}}
# If BLAS is ours, too, LAPACK's calls of it from the CPU stay there: on devices these many small products would take
# long.
PRODUCTS = {"gemm", "gemmt", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm"}


def fail(text, report):
    print(text)
    print(report[-6000:])
    sys.exit(1)


def input_of(folder, tester, name):
    with open(os.path.join(folder, name), encoding="ascii") as file:
        lines = file.read().splitlines(keepends=True)
    if not tester.startswith("xlintst"):
        # The first block size only: block sizes make no difference on devices.
        return re.sub(r"(?m)^\d+( +Number of (values of NB|parameter values))\b", r"1\1", "".join(lines))
    wanted = [line for line in lines if not re.match(r"[SDCZ][A-Z0-9]{2}\b", line) or line[1:3] in PATHS]
    return "".join(wanted)


def execute(libraries, folder, tester, text, settings):
    """Exit status, the report, and the routines that ran on devices and on the CPU, without the letter of the type."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    with tempfile.TemporaryDirectory() as scratch:
        summary = os.path.join(scratch, "summary")
        # One thread: the matrices are tiny.
        environment.update(LD_LIBRARY_PATH=folder, OPENBLAS_NUM_THREADS="1", TESSERA_SUMMARY=summary, **settings)
        if libraries and os.path.isdir(libraries):
            environment.update(LD_LIBRARY_PATH=libraries, TESSERA_CPU_LAPACK=os.path.join(folder, "liblapack.so.3"))
        elif libraries:
            environment["LD_PRELOAD"] = libraries
        result = subprocess.run([os.path.join(folder, tester)], input=text, env=environment, cwd=scratch, timeout=1500, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        told = ""
        if os.path.exists(summary):
            with open(summary, encoding="utf-8") as file:
                told = file.read()
    on_devices, on_cpu = (set(re.findall(rf"(?m)^tessera: \w(\w+) +\S+ +{place} ", told)) for place in ("devices", "CPU"))
    return result.returncode, result.stdout, on_devices, on_cpu


def verdicts(report):
    """The program's lines about its tests, in order."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in report.splitlines()]
    return [line for line in lines if re.search(r"passed|failed|\*\*\*|illegal|did not", line, re.IGNORECASE)]


def wanted_routines(tester, name):
    symmetric, orthogonal = ("he", "un") if tester[-1] in "cz" else ("sy", "or")
    return {routine for key, routines in WANTED.items() if tester.startswith(key) or name.endswith(key)
            for routine in (item.replace("@", symmetric).replace("~", orthogonal) for item in routines)}


def check(libraries, folder, tester, name, named):
    text = input_of(folder, tester, name)
    code, report, _, _ = execute("", folder, tester, text, {})
    expected = verdicts(report)
    if code != 0 or not any("passed" in line for line in expected):
        fail(f"{tester} over the reference alone: exit {code}", report)

    for tile, count in RUNS if named is None else [(16, None)]:
        devices = named or f"host:{count}"
        offload = ",".join(["always", *(f"{routine}=never" for routine in sorted(PRODUCTS))])
        settings = {"TESSERA_OFFLOAD": offload, "TESSERA_DEVICES": devices, "TESSERA_TILE": str(tile)}
        code, report, on_devices, on_cpu = execute(libraries, folder, tester, text, settings)
        what = f"{tester} < {name}, tile {tile}, {devices}"
        if code != 0:
            fail(f"{what}: exit {code}", report)
        found = verdicts(report)
        if found != expected:
            differing = [f"{a!r} instead of {b!r}" for a, b in zip(found, expected) if a != b]
            fail(f"{what}: differs from the reference's: {differing[:5]}, {len(found)} of {len(expected)} verdicts", report)
        missing = {routine for routine in wanted_routines(tester, name)
                   if not any(ran.startswith(routine) for ran in on_devices)}
        if missing:
            fail(f"{what}: on devices ran {sorted(on_devices)}, but no {sorted(missing)}", report)
        for key, may_stay in MAY_STAY.items():
            stayed = on_cpu - may_stay - PRODUCTS
            if tester.startswith(key) and stayed:
                fail(f"{what}: on the CPU ran {sorted(stayed)}", report)
        print(f"{what}: {len(found)} verdicts as the reference's; on devices {sorted(on_devices)}")


def main():
    libraries, folder, tester, names = sys.argv[1:5]
    if not os.path.exists(os.path.join(folder, tester)):
        print(f"no {tester} in {folder}")
        sys.exit(77)
    for name in names.split(","):
        check(libraries, folder, tester, name, sys.argv[5] if len(sys.argv) > 5 else None)


if __name__ == "__main__":
    main()
