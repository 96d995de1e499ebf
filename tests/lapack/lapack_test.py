"""Tests of LAPACK over Tessera: its block sizes (libtessera_lapack.so) and the LAPACK that `tessera run` selects.
usage: lapack_test.py [CASE], with the build folder in TESSERA_TEST_BUILD."""
import collections
import json
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from tool_test import BUILD, OPENBLAS, REFERENCE_LAPACK, ToolCase, first_existing, run, tessera  # noqa: E402

BLAS = BUILD / "lib" / "libtessera_blas.so"
BLOCKS = BUILD / "lib" / "libtessera_lapack.so"
BENCH = BUILD / "bin" / "lapack_bench"
REFERENCE_LAPACK64 = first_existing("/usr/lib/*/lapack64/liblapack64.so.3")
OPENBLAS_LAPACK = first_existing("/usr/lib/*/openblas*/liblapack.so.3")
DEVICES = {"TESSERA_DEVICES": "host:2", "TESSERA_OFFLOAD": "always", "TESSERA_TILE": "128", "TESSERA_VERBOSE": "1",
           "OPENBLAS_NUM_THREADS": "1"}
# LAPACK's calls of Level 3 show only if devices do not take its factorizations as a whole.
CAUGHT = ("potrf", "potrs", "posv", "getrf", "getrs", "gesv", "geqrf", "gelqf")
WHOLE = ("syevd", "syevr", "sygvd", "gesdd", "gesvd", "geev", "orgqr", "orglq", "ormqr", "ormlq", "ormtr", "larfb", "gels", "gelsd", "trtrs", "trtri", "lauum",
         "getri", "potri")
BY_LEVEL3 = {**DEVICES, "TESSERA_OFFLOAD": ",".join(["always", *(f"{routine}=never" for routine in CAUGHT + WHOLE)])}
ROUTINES = ("dpotrf", "dgetrf", "dgesv", "dgetri", "dpotri", "dtrtri", "dgeqrf", "dsyev", "dsygv", "dgesvd")


def calls(result):
    """(routine, k) of each call that ran on host devices, k = 0 where there is none."""
    lines = re.findall(r"(?m)^tessera: (\w+) (.*) on host:", result.stderr)
    found = []
    for routine, sizes in lines:
        k = re.search(r"\bk=(\d+)", sizes)
        found.append((routine, int(k.group(1)) if k else 0))
    return found


class LapackCase(ToolCase):
    def need(self, *files):
        if not all(file and pathlib.Path(file).exists() for file in files):
            self.skipTest("the programs or libraries of this test are not installed")

    def assert_correct(self, result):
        self.assert_good(result)
        for line in result.stdout.splitlines():
            self.assertTrue(json.loads(line)["correct"], line)


class Blocks(LapackCase):
    # dgetri returns n times its block size to a workspace query. The library is opened locally, as by a module of
    # Python.
    WORKSPACE = """
import ctypes, sys
lapack, integer = ctypes.CDLL(sys.argv[1]), ctypes.c_int64 if sys.argv[2] == "64" else ctypes.c_int32
n, ask, info, wanted = integer(int(sys.argv[3])), integer(-1), integer(0), ctypes.c_double(0)
ref = ctypes.byref
lapack.dgetri_(ref(n), None, ref(n), None, ref(wanted), ref(ask), ref(info))
print(int(wanted.value) // n.value, int(wanted.value) % n.value, info.value)
"""

    def block_of_dgetri(self, lapack, bits, n, preload=BLOCKS, **settings):
        result = run(sys.executable, "-c", self.WORKSPACE, lapack, bits, n, LD_PRELOAD=str(preload), **settings)
        self.assert_good(result)
        block, rest, info = map(int, result.stdout.split())
        self.assertEqual((rest, info), (0, 0))
        return block, result.stderr

    def test_block_sizes(self):
        self.need(REFERENCE_LAPACK)
        for lapack, bits in ((REFERENCE_LAPACK, 32), (REFERENCE_LAPACK64, 64), (OPENBLAS_LAPACK, 32)):
            if lapack is None:
                continue
            with self.subTest(lapack=lapack):
                self.assertEqual(self.block_of_dgetri(lapack, bits, 3000, preload=""), (64, ""))
                self.assertEqual(self.block_of_dgetri(lapack, bits, 3000), (256, ""))
                self.assertEqual(self.block_of_dgetri(lapack, bits, 1000), (64, ""))
                self.assertEqual(self.block_of_dgetri(lapack, bits, 1000, TESSERA_LAPACK_BLOCK="96"), (96, ""))
                self.assertEqual(self.block_of_dgetri(lapack, bits, 3000, TESSERA_LAPACK_BLOCK="0"), (64, ""))

    def test_an_order_that_is_none(self):
        # The query that dgetri makes when it is called with n = -1, before it checks n.
        self.need(REFERENCE_LAPACK)
        question = """
import ctypes
ask, i, ref = ctypes.CDLL(None).ilaenv_, ctypes.c_int32, ctypes.byref
for n in (3000, 0, -1):
    print(i(ask(ref(i(1)), b"DGETRI", b" ", ref(i(n)), *[ref(i(-1))] * 3, ctypes.c_size_t(6), ctypes.c_size_t(1))).value)
"""
        result = run(sys.executable, "-c", question, LD_PRELOAD=f"{BLOCKS}:{REFERENCE_LAPACK}")
        self.assert_good(result)
        self.assertEqual(result.stdout.split(), ["256", "64", "64"])

    def test_wrong_setting(self):
        self.need(REFERENCE_LAPACK)
        for wrong in ("many", "-1", "12x", "99999999999"):
            block, told = self.block_of_dgetri(REFERENCE_LAPACK, 32, 3000, TESSERA_LAPACK_BLOCK=wrong)
            self.assertEqual(block, 256)
            self.assertRegex(told, r'^tessera: TESSERA_LAPACK_BLOCK="%s" is not valid: expected [^\n]*\n$' % wrong)

    def test_other_questions_reach_lapack(self):
        self.need(REFERENCE_LAPACK)
        question = """
import ctypes, sys
lapack = ctypes.CDLL(sys.argv[1], mode=getattr(ctypes, sys.argv[2]))
ask = ctypes.CDLL(None).ilaenv_
i, ref = ctypes.c_int32, ctypes.byref
for name in (b"DGETRF", b"DORMQR", b"DGEHRD", b"DHSEQR", b"NOSUCH"):
    for ispec in range(1, 17):
        sizes = [ref(i(n)) for n in (3000, 3000, 3000, -1)]
        print(name.decode(), ispec, i(ask(ref(i(ispec)), name, b"LN", *sizes, ctypes.c_size_t(6), ctypes.c_size_t(2))).value)
"""
        plain = run(sys.executable, "-c", question, REFERENCE_LAPACK, "RTLD_GLOBAL")
        self.assert_good(plain)
        # If LAPACK is opened locally, the querying library does not find it.
        for mode, preload in (("RTLD_GLOBAL", f"{BLOCKS}:{REFERENCE_LAPACK}"), ("RTLD_LOCAL", str(BLOCKS))):
            with self.subTest(mode=mode):
                result = run(sys.executable, "-c", question, REFERENCE_LAPACK, mode, LD_PRELOAD=preload)
                self.assert_good(result)
                changed = [(a, b) for a, b in zip(plain.stdout.splitlines(), result.stdout.splitlines(), strict=True) if a != b]
                self.assertEqual(changed, [("DGETRF 1 64", "DGETRF 1 512")])

    def test_results_and_sizes_of_the_calls(self):
        self.need(REFERENCE_LAPACK, BENCH)
        for routine in ROUTINES:
            with self.subTest(routine=routine):
                seen = {}
                for block in (0, 96):
                    result = run(BENCH, routine, "300", LD_PRELOAD=f"{BLAS}:{BLOCKS}", LD_LIBRARY_PATH=str(REFERENCE_LAPACK.parent),
                                 TESSERA_LAPACK_BLOCK=str(block), **BY_LEVEL3)
                    self.assert_correct(result)
                    seen[block] = collections.Counter(calls(result))
                self.assertTrue(seen[0] and seen[96])
                self.assertNotEqual(seen[0], seen[96])
                if routine in ("dgetrf", "dgesv"):
                    # The updates: the last block column has none, and the panels have smaller ones.
                    self.assertEqual(max(k for name, k in seen[0] if name == "dgemm"), 64)
                    self.assertEqual(max(k for name, k in seen[96] if name == "dgemm"), 96)
                    self.assertEqual(seen[96]["dgemm", 96], 3)


class Arrangement(LapackCase):
    def bench(self, routine, *options, **settings):
        result = tessera("run", *options, "--", BENCH, routine, "300", **{**DEVICES, **settings})
        self.assert_correct(result)
        return {name for name, _ in calls(result)}

    def test_whose_lapack(self):
        self.need(BENCH, REFERENCE_LAPACK, OPENBLAS_LAPACK)
        openblas = {"LD_LIBRARY_PATH": str(OPENBLAS_LAPACK.parent)}
        for routine in ("dgetrf", "dpotrf"):
            # OpenBLAS's own LU and Cholesky call no BLAS symbol; the reference's do.
            self.assertEqual(self.bench(routine, "--lapack", "own", **openblas), set())
            self.assertEqual(self.bench(routine, **openblas), {routine})
            by_level3 = {**openblas, "TESSERA_OFFLOAD": BY_LEVEL3["TESSERA_OFFLOAD"]}
            self.assertIn("dtrsm", self.bench(routine, "--lapack", "reference", **by_level3))
        self.assertIn("dgemm", self.bench("dgeqrf", "--lapack", "own", **openblas))

    def test_openblas_without_a_liblapack(self):
        self.need(OPENBLAS, REFERENCE_LAPACK)
        source = self.folder / "solve.c"
        source.write_text("""
#include <math.h>
#include <stdio.h>
void dgesv_(const int*, const int*, double*, const int*, int*, double*, const int*, int*);
enum { n = 250 };
static double A[n * n], x[n];
static int pivots[n];
int main(void) {
  const int order = n, one = 1;
  int info = 1;
  for (int i = 0; i < n * n; ++i) A[i] = sin(i * (1.0 + i));
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) x[i] += A[j * n + i] * (j + 1);
  dgesv_(&order, &one, A, &order, pivots, x, &order, &info);
  double worst = fabs((double)info);
  for (int i = 0; i < n; ++i) worst = fmax(worst, fabs(x[i] - (i + 1)));
  printf("%g\\n", worst);
  return !(worst < 1e-8);
}
""")
        program = self.folder / "solve"
        self.assert_good(run("cc", "-o", program, source, OPENBLAS, "-lm"))
        for option, expected in (("own", set()), ("auto", {"dgesv", "dgetrs", "dtrsm"})):
            result = tessera("run", "--lapack", option, "--", program, **DEVICES)
            self.assert_good(result)
            self.assertEqual({name for name, _ in calls(result)}, expected)


class Clients(LapackCase):
    """LU and Cholesky of interpreters reach the devices, by their names and by the Level 3 in them, and their results are right."""
    def check(self, *command, caught):
        self.check_run((), DEVICES, command, {(name, 0) for name in caught})
        self.check_run(("--lapack", "reference", "--lapack-block", "96"), BY_LEVEL3, command, {("dgemm", 96), ("dtrsm", 0)})

    def check_run(self, options, settings, command, expected):
        result = tessera("run", *options, "--", *command, **settings)
        self.assert_good(result)
        self.assertLess(max(map(float, result.stdout.split())), 1e-9, result.stdout)
        self.assertLessEqual(expected, set(calls(result)))

    def test_octave(self):
        self.need(shutil.which("octave-cli"), REFERENCE_LAPACK)
        self.check("octave-cli", "--no-gui", "--norc", "--eval",
                   "A = rand(300); [L, U, P] = lu(A); x = A \\ ones(300, 1); S = A * A' + 300 * eye(300); R = chol(S);"
                   "printf('%g %g %g\\n', norm(P * A - L * U), norm(A * x - 1), norm(R' * R - S) / norm(S))",
                   caught=("dgetrf", "dpotrf"))

    def debian_python(self, module):
        if not pathlib.Path("/usr/bin/python3").exists() or run("/usr/bin/python3", "-c", f"import {module}").returncode != 0:
            self.skipTest(f"the distribution's {module} is not installed")
        self.need(REFERENCE_LAPACK)
        if "liblapack.so.3" not in run("/usr/bin/python3", "-c", f"import {module}; print(open('/proc/self/maps').read())").stdout:
            self.skipTest(f"this {module} does not use liblapack.so.3")

    def test_numpy(self):
        self.debian_python("numpy.linalg")
        self.check("/usr/bin/python3", "-c", "import numpy as np; a = np.random.rand(300, 300); x = np.linalg.solve(a, np.ones(300));"
                   "s = a @ a.T + 300 * np.eye(300); l = np.linalg.cholesky(s); print(abs(a @ x - 1).max(), abs(l @ l.T - s).max())",
                   caught=("dgesv", "dpotrf"))

    def test_numpy_raises_what_it_raises_elsewhere(self):
        pythons = filter(pathlib.Path.exists, (pathlib.Path("/usr/bin/python3"), pathlib.Path(sys.executable)))
        python = next((each for each in pythons if run(each, "-c", "import numpy.linalg").returncode == 0), None)
        if python is None:
            self.skipTest("NumPy is not installed")
        code = """
import numpy as np
for bad in (np.nan, np.inf):
    for n in (3, 40):
        a = np.ones((n, n)) + np.eye(n)
        a[1, 1] = bad
        for name, solve in (("svd", np.linalg.svd), ("pinv", np.linalg.pinv), ("eigh", np.linalg.eigh), ("eigvalsh", np.linalg.eigvalsh),
                            ("lstsq", lambda a: np.linalg.lstsq(a, np.ones(n), rcond=None))):
            try:
                solve(a)
                print(name, bad, n)
            except np.linalg.LinAlgError:
                pass
print("done")
"""
        for settings in ({"TESSERA_OFFLOAD": "never"}, {"TESSERA_DEVICES": "host:3", "TESSERA_OFFLOAD": "always", "TESSERA_TILE": "32"}):
            result = run(python, "-c", code, LD_PRELOAD=str(BLOCKS), **settings)
            self.assert_good(result)
            # LAPACK's divide and conquer hands NaN on and tells of no error.
            self.assertEqual(result.stdout, "eigh nan 40\neigh inf 40\ndone\n")

    def test_scipy(self):
        self.debian_python("scipy.linalg")
        self.check("/usr/bin/python3", "-c", "import numpy as np, scipy.linalg as s; a = np.random.rand(300, 300); p, l, u = s.lu(a);"
                   "print(abs(p @ l @ u - a).max())", caught=("dgetrf",))

    def test_r(self):
        self.need(shutil.which("Rscript"), REFERENCE_LAPACK)
        self.check("Rscript", "--vanilla", "-e", "a = matrix(runif(90000), 300); x = solve(a, rep(1, 300));"
                   "s = crossprod(a) + 300 * diag(300); r = chol(s); cat(max(abs(a %*% x - 1)), max(abs(crossprod(r) - s)))",
                   caught=("dgesv", "dpotrf"))

    def test_error_exit_of_r(self):
        # R turns a wrong argument into an R error; a preloaded LAPACK would bring an xerbla_ that ends the process.
        self.need(shutil.which("Rscript"))
        code = ("dyn.load(file.path(R.home('modules'), 'lapack.so'));"
                "e = try(.Fortran('dtrtri', 'L', 'N', -1L, 1.0, 1L, 0L), silent = TRUE); cat(if (inherits(e, 'try-error')) e else 'nothing', 'alive')")
        result = tessera("run", "--", "Rscript", "--vanilla", "-e", code, **DEVICES)
        self.assert_good(result)
        self.assertRegex(result.stdout, r"(?s)DTRTRI.*error code -3.*alive")


if __name__ == "__main__":
    unittest.main()
