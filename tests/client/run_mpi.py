"""Runs unmodified MPI programs with the drop-in library preloaded into every rank, offload forced onto host
devices that the ranks divide, and checks their behaviour. usage:
  run_mpi.py LIBRARY CHECK LAUNCHER PROGRAM [LETTER]
LAUNCHER: a file, mpiexec of Open MPI or mpiexec.hydra.
CHECK:
  shares     PROGRAM is no MPI program but multiplies and checks its results: by TESSERA_VERBOSE and TESSERA_STATS each
             rank used its own devices, for more, as many and fewer devices than ranks, divided and not
  pblas      PROGRAM is ScaLAPACK's tester of the Level-3 PBLAS for type LETTER: its report is the same as without
             Tessera, and all tests passed; every rank's products ran on its own device
  lu, llt    PROGRAM is ScaLAPACK's tester of the LU or Cholesky factorisation: likewise, but for the measured columns
  hpl        PROGRAM is hpcc: HPL's residuals pass; likewise
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

RANKS = 4
OPEN_MPI = {
    # More ranks than processors, inside containers, as any user, without a network, and without spinning for each
    # other.
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm": "isolated", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
# The ranks must not see a launcher that surrounds this test.
OF_LAUNCHERS = re.compile(r"(TESSERA|OMPI|PMIX?|PALS|SLURM|MV2)_|MPI_LOCAL|LD_PRELOAD$")


def fail(text, report=""):
    print(text)
    print(report[-6000:])
    sys.exit(1)


def launch(library, launcher, program, folder, **settings):
    environment = {k: v for k, v in os.environ.items() if not OF_LAUNCHERS.match(k)}
    environment.update(OPEN_MPI, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", **settings)
    # The library is preloaded into the ranks, not into their launcher.
    preload = ["env", f"LD_PRELOAD={library}"] if library else []
    return subprocess.run([launcher, "-n", str(RANKS), *preload, *program], env=environment, cwd=folder, timeout=500,
                          capture_output=True, text=True)


def good(result, what):
    if result.returncode != 0:
        fail(f"{what}: exit {result.returncode}", result.stdout + result.stderr)
    return result


def jobs_in(stats):
    with open(stats, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def devices_of(job):
    return tuple(device["device"] for device in job["devices"])


def run_on_devices(library, launcher, program, folder, devices=RANKS, tile=16, **settings):
    stats = os.path.join(folder, "stats.json")
    if os.path.exists(stats):
        os.remove(stats)
    result = launch(library, launcher, program, folder, TESSERA_OFFLOAD="always", TESSERA_DEVICES=f"host:{devices}",
                    TESSERA_HOST_DEVICE="memory=16MiB", TESSERA_TILE=str(tile), TESSERA_STATS=stats, **settings)
    return result, jobs_in(stats) if os.path.exists(stats) else []


def check_shares(library, launcher, program):
    name = "Hydra" if "hydra" in os.path.basename(launcher) else "Open MPI"
    whole = ["host:0", "host:1"]
    cases = [(4, "auto", [["host:0"], ["host:1"], ["host:2"], ["host:3"]]),
             (6, "auto", [["host:0"], ["host:1", "host:2"], ["host:3"], ["host:4", "host:5"]]),
             (2, "auto", [["host:0"], ["host:0"], ["host:1"], ["host:1"]]),
             (2, "off", [whole] * RANKS),
             (2, "1/2", [["host:1"]] * RANKS)]
    for devices, share, expected in cases:
        what = f"host:{devices}, share {share}"
        with tempfile.TemporaryDirectory() as folder:
            result, jobs = run_on_devices(library, launcher, [program], folder, devices, TESSERA_SHARE=share,
                                          TESSERA_VERBOSE="1")
        good(result, what)
        calls = [int(line.split()[1]) for line in result.stdout.splitlines() if line.startswith("calls ")]
        if len(calls) != RANKS:
            fail(f"{what}: not {RANKS} ranks", result.stdout)
        ran = collections.Counter(devices_of(job) for job in jobs)
        if ran != collections.Counter(tuple(place) for place in expected for _ in range(calls[0])):
            fail(f"{what}: calls ran on {ran}")
        said = sorted(line.split("tessera: ")[1] for line in result.stderr.splitlines() if " on this host (" in line)
        wanted = []
        if share == "auto":
            for rank, place in enumerate(expected):
                sharers = expected.count(place)
                wanted.append(f"rank {rank} of {RANKS} on this host ({name}): {' '.join(place)}" +
                              (f", shared by {sharers} ranks" if sharers > 1 else ""))
        elif share != "off":
            wanted = ["rank 1 of 2 on this host (TESSERA_SHARE): host:1"] * RANKS
        if said != wanted:
            fail(f"{what}: said {said}, expected {wanted}", result.stderr)
        print(f"{what}: {len(jobs)} calls on {sorted(set(ran))}")


def check_jobs(what, jobs, routines):
    ran = collections.Counter((job["routine"], devices_of(job)) for job in jobs)
    expected = {(routine, (f"host:{rank}",)) for routine in routines for rank in range(RANKS)}
    if not expected <= set(ran) or any(len(devices) != 1 for _, devices in ran):
        fail(f"{what}: on devices ran {sorted(ran.items())}")
    if any(device["tasks"] == 0 for job in jobs for device in job["devices"]):
        fail(f"{what}: a device did nothing")
    print(f"{what}: {len(jobs)} calls on devices: {', '.join(sorted({routine for routine, _ in ran}))}")


def same_report(library, launcher, program, folder, cleaned, tile=16):
    """Runs without and with Tessera. @return the report and the calls that ran on devices"""
    plain = good(launch(None, launcher, program, folder), "without Tessera")
    result, jobs = run_on_devices(library, launcher, program, folder, tile=tile)
    good(result, "with Tessera")
    if cleaned(plain.stdout) != cleaned(result.stdout):
        fail("the report is another than without Tessera", result.stdout)
    return result.stdout, jobs


# Level-3 PBLAS: eight problems. Local parts are several tiles, offsets and blocks fall between them.
PBLAS_VARIANTS = {
    "DIAG": "N U N U U N N U", "SIDE": "L R L R R L R L", "TRANSA": "N N T T N N T T", "TRANSB": "N T N T T N T N",
    "UPLO": "U L U L L U L U", "M": "70 64 33 80 17 50 96 41", "N": "60 64 47 31 72 50 96 39", "K": "50 64 62 77 35 9 96 40",
}


def pblas_input(letter):
    is_complex = letter in "cz"
    number = (lambda re, im: f"({re}, {im})") if is_complex else (lambda re, im: str(re))
    lines = ["'Level 3 PBLAS'", "'ranks of one host'", "'unused' output file", "6 device out", "F stop on failures",
             "T test error exits", "0 verbosity", "10 leading dimension gap", "16.0 threshold", "32 logical block size",
             "3 process grids", "2 1 4 P", "2 4 1 Q", number(2.0, -4.0), number(3.0, -2.0), "8 problems"]
    for name, values in PBLAS_VARIANTS.items():
        if name == "TRANSA" and is_complex:
            values = values.replace("T T", "T C")
        lines.append(" ".join(v if v.isdigit() else f"'{v}'" for v in values.split()) + " " + name)
    for matrix, size in (("A", 110), ("B", 111), ("C", 112)):
        for name, values in (("M", [size] * 8), ("N", [size] * 8), ("IMB", [16, 8, 20, 5, 33, 16, 24, 7]),
                             ("INB", [16, 8, 20, 5, 33, 16, 24, 7]), ("MB", [16, 8, 20, 5, 33, 16, 24, 7]),
                             ("NB", [16, 8, 20, 5, 33, 16, 24, 7]), ("RSRC", [0] * 8), ("CSRC", [0] * 8),
                             ("I", [5, 1, 17, 21, 1, 12, 1, 25]), ("J", [5, 1, 17, 21, 1, 12, 1, 25])):
            lines.append(" ".join(map(str, values)) + f" {name}{matrix}")
    routines = ["GEMM", "SYMM", "HEMM", "SYRK", "HERK", "SYR2K", "HER2K", "TRMM", "TRSM", "GEADD", "TRADD"]
    for routine in routines:
        if is_complex or not routine.startswith("HE"):
            lines.append(f"{'P' + letter.upper() + routine:8}T")
    return "\n".join(lines) + "\n"


def check_pblas(library, launcher, program, letter):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, f"P{letter.upper()}BLAS3TST.dat"), "w", encoding="ascii") as file:
            file.write(pblas_input(letter))
        report, jobs = same_report(library, launcher, [program], folder, lambda text: text)
    summary = re.findall(rf"\|\s+P{letter.upper()}(\w+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", report)
    wanted = 11 if letter in "cz" else 8
    for routine, *counts in summary:
        # Complex symmetric updates have no conjugate, Hermitian ones no plain transpose: two problems on three grids.
        skipped = 6 if letter in "cz" and re.match("SYR|HER", routine) else 0
        if [int(count) for count in counts] != [24, 24 - skipped, 0, skipped]:
            fail(f"not all tests of {routine} passed: {counts}", report)
    if len(summary) != wanted:
        fail(f"not {wanted} routines: {summary}", report)
    check_jobs(f"{wanted} routines passed their tests", jobs, [f"{letter}gemm", f"{letter}trsm"])


def check_factorisation(library, launcher, program, check):
    grids = "2 number of grids\n2 1 P\n2 4 Q\n"
    # Condition estimates and refinement would make a hundred thousand products with one vector.
    refinement = "F"
    blocks = "2 number of NB\n8 20 NB\n2 number of NRHS\n1 33 NRHS\n2 number of NBRHS\n3 16 NBRHS\n"
    if check == "lu":
        text = f"'LU'\n'ranks of one host'\n'unused'\n6\n3\n60 97 150 M\n60 97 120 N\n{blocks}{grids}1.0 threshold\n{refinement}\n"
    else:
        text = f"'LLT'\n'ranks of one host'\n'unused'\n6\n'L'\n3\n60 97 150 N\n{blocks}{grids}3.0 threshold\n{refinement}\n"

    def without_times(report):
        lines = [line for line in report.splitlines() if line.startswith("WALL") or line.startswith("CPU")]
        return [(line.split()[:-4], line.split()[-1]) for line in lines]

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "LU.dat" if check == "lu" else "LLT.dat"), "w", encoding="ascii") as file:
            file.write(text)
        report, jobs = same_report(library, launcher, [program], folder, without_times)
    completed = re.search(r"(\d+) tests completed and passed residual checks", report)
    failed = re.search(r"(\d+) tests completed and failed", report)
    if not completed or int(completed[1]) < 20 or not failed or int(failed[1]) != 0:
        fail("not all tests passed", report)
    letter = os.path.basename(program)[1]
    routines = ["gemm", "trsm"] if check == "lu" else ["trsm"]
    check_jobs(f"{completed[1]} tests passed", jobs, [letter + routine for routine in routines])


# As hpcc reads it: one value a line (the rest of a line is a comment), 2 x 2 ranks.
HPL_INPUT = """HPL
ranks of one host
HPL.out
8 device out
2 problem sizes
240 301
1 block sizes
24
0 row-major ranks
1 grids
2
2
16.0 threshold
1 panel factorisations
2
1 recursive stopping criteria
4
1 panels in recursion
2
1 recursive panel factorisations
1
1 broadcasts
1
1 lookahead depths
1
2 swap
64 swapping threshold
0 L1
0 U
1 equilibration
8 alignment
separator
0 more sizes for PTRANS
1200
0 more block sizes for PTRANS
40
"""


def check_hpl(library, launcher, program):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "hpccinf.txt"), "w", encoding="ascii") as file:
            file.write(HPL_INPUT)
        result, jobs = run_on_devices(library, launcher, [program], folder, tile=32)
        good(result, "hpcc")
        with open(os.path.join(folder, "hpccoutf.txt"), encoding="ascii") as file:
            report = file.read()
    residuals = re.findall(r"\|\|Ax-b\|\|\S*.*=\s*(\S+)\s*\.*\s*(PASSED|FAILED)", report)
    if len(residuals) != 2 or any(verdict != "PASSED" or not float(value) < 16 for value, verdict in residuals):
        fail(f"residuals: {residuals}", report)
    if not re.search(r"(?m)^Success=1$", report):
        fail("not the end of a good run", report)
    check_jobs(f"residuals {' '.join(value for value, _ in residuals)} passed", jobs, ["dgemm", "dtrsm"])


def main():
    library, check, launcher, program = sys.argv[1:5]
    if check == "shares":
        check_shares(library, launcher, program)
    elif check == "pblas":
        check_pblas(library, launcher, program, sys.argv[5])
    elif check in ("lu", "llt"):
        check_factorisation(library, launcher, program, check)
    elif check == "hpl":
        check_hpl(library, launcher, program)
    else:
        fail(f"no such check: {check}")


if __name__ == "__main__":
    main()
