"""The face for scipy.linalg: every function, type and layout as SciPy's own, and large problems on devices."""

import pathlib

import pytest

from conftest import ON_HOST_DEVICES

pytest.importorskip("scipy")
CASES = pathlib.Path(__file__).with_name("scipy_cases.py")
# Threads of two BLAS and of devices wait for each other in loops, where there are few processors.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


def test_all_cases_on_devices(python):
    result = python(CASES, **ON_HOST_DEVICES, **ONE_THREAD)
    assert "0 differ" in result.out
    for routine in ("dgetrf", "zgetrs", "dgetri", "dpotrf", "dpotrs", "dsytrf", "dtrtrs", "dsyevd", "zheevd", "dsygvd",
                    "dgesdd", "dgelsd"):
        assert result.on_devices(routine), routine


def test_all_cases_where_the_cpu_is_preferred(python):
    result = python(CASES, **{**ON_HOST_DEVICES, **ONE_THREAD, "TESSERA_OFFLOAD": "never"})
    assert "0 differ" in result.out and not result.on_devices("dgetrf")


@pytest.mark.parametrize("after", [False, True])
def test_is_put_in_place_whenever_scipy_comes(program, after):
    first = """
import numpy as np, scipy.linalg
from scipy.linalg import solve
"""
    second = "import tessera_blas; tessera_blas.install()\n"
    result = program((second + first if after else first + second) + """
a = np.random.default_rng(1).standard_normal((150, 150))
assert np.allclose(a @ solve(a, a), a)
q, r = scipy.linalg.qr(a)
assert np.allclose(q @ r, a)
functions = tessera_blas.info()["scipy"]["functions"]
assert {"scipy.linalg._basic.get_lapack_funcs", "numpy.asarray_chkfinite"} <= set(functions), functions
ours = scipy.linalg._basic.get_lapack_funcs, np.asarray_chkfinite
tessera_blas.uninstall()
assert not tessera_blas.info()["scipy"]["on"]
plain = scipy.linalg._basic.get_lapack_funcs, np.asarray_chkfinite
assert plain[0] is ours[0].__wrapped__ and plain[1] is ours[1].__wrapped__, plain
for function in (*plain, scipy.linalg.det, scipy.linalg.lu, scipy.linalg.qr):
    assert "tessera_blas" not in function.__code__.co_filename, function
""", **ON_HOST_DEVICES)
    # Those of the face: 16 right-hand sides more tell the condition of the matrix.
    assert any(" nrhs=166 " in line or " nrhs=16 " in line for line in result.on_devices("dgetrs"))


def test_functions_imported_before_are_plain_after_uninstall(program):
    result = program("""
import numpy as np, sys
import tessera_blas; tessera_blas.install()
from scipy.linalg import det, lu, qr, solve
tessera_blas.uninstall()
print("now", file=sys.stderr, flush=True)
a = np.random.default_rng(1).standard_normal((150, 150))
det(a), lu(a), qr(a), solve(a, a)
""", **ON_HOST_DEVICES)
    assert "tessera: d" not in result.err.split("now")[1]


def test_small_arrays_stay_with_scipy(program):
    program("""
import sys, numpy as np, scipy.linalg as sl, tessera_blas
tessera_blas.install()
a = 200 * np.eye(120) + np.ones((120, 120))
sl.inv(a), sl.qr(a), sl.eigh(a), sl.solve(a, a), sl.cho_solve(sl.cho_factor(a), a), sl.lu(a), sl.svd(a), sl.det(a)
assert not {"tessera_blas._scipy_functions", "tessera_blas._scipy_routines"} & set(sys.modules)
""")


def test_large_arrays_are_checked(program):
    program("""
import numpy as np, scipy.linalg as sl, tessera_blas
tessera_blas.install()
for kind in "fdFD":
    x = np.ones((1100, 1000), kind)
    for y in (x, x.T):
        assert np.asarray_chkfinite(y) is y
        for value in (np.nan, np.inf, -np.inf):
            x[-1, -1] = value
            try:
                np.asarray_chkfinite(y)
            except ValueError as error:
                assert str(error) == "array must not contain infs or NaNs", error
            else:
                raise AssertionError((kind, value))
            x[-1, -1] = 1
    huge = np.full((1100, 1000), np.finfo(kind).max, kind)
    with np.errstate(all="raise"):
        assert np.asarray_chkfinite(huge) is huge
assert np.asarray_chkfinite(np.ones((1100, 1000), "f"), "d").dtype == "d"
assert np.asarray_chkfinite(np.ones((1100, 1000)), order="F").flags.f_contiguous
assert type(np.asarray_chkfinite(np.matrix(np.ones((1100, 1000))))) is np.ndarray
assert tessera_blas.info()["scipy"]["on"]
""")


def test_cholesky_of_a_matrix_with_nan(program):
    """Reference LAPACK tells of it, so Tessera does. OpenBLAS does not."""
    result = program("""
import numpy as np, pytest, scipy.linalg as sl, tessera_blas
tessera_blas.install()
a = 4 * np.eye(100)
a[7, 5] = a[5, 7] = np.nan
for function in (np.linalg.cholesky, lambda x: sl.cholesky(x, check_finite=False), lambda x: sl.cho_factor(x, check_finite=False)):
    with pytest.raises(np.linalg.LinAlgError):
        function(a)
with pytest.raises(ValueError):
    sl.cholesky(a)
assert sl.lapack.dpotrf(a)[1] == 8
""", **ON_HOST_DEVICES)
    assert result.on_devices("dpotrf")


def test_an_unknown_release_is_left_alone(program):
    program("""
import numpy as np, scipy, scipy.linalg as sl
from scipy.linalg import _basic, _decomp_lu, _decomp_qr
import tessera_blas
scipy.__version__ = "9.9.9"
plain = _decomp_qr.qr
def qr(a, something_new=None): return plain(a)
_decomp_qr.qr = sl.qr = qr
def get_lapack_funcs(something_new, arrays): return ()
_decomp_lu.get_lapack_funcs = get_lapack_funcs
tessera_blas.install()
names = tessera_blas.info()["scipy"]["functions"]
assert "scipy.linalg._basic.get_lapack_funcs" in names, names
assert not [name for name in names if "_batched_linalg" in name or "qr" in name or "_decomp_lu.get" in name], names
assert sl.qr is qr and _decomp_lu.get_lapack_funcs is get_lapack_funcs
routine = _basic.get_lapack_funcs(("getrf",), (np.ones((90, 90)),))[0]
assert routine.dtype == "d" and routine.typecode == "d" and "getrf" in routine.__doc__
class Other:
    __doc__ = "lu,piv,info = dgetrf(a,[something_new,overwrite_a])"
    dtype, int_dtype = np.dtype("d"), np.dtype("i")
from tessera_blas import _scipy_routines
other = Other()
assert _scipy_routines._routine_for(other, None) is other
""", **ON_HOST_DEVICES)


def test_many_threads_at_once(program):
    result = program("""
import concurrent.futures, numpy as np, scipy.linalg as sl, tessera_blas
tessera_blas.install()
def work(seed):
    a = np.random.default_rng(seed).standard_normal((90, 90))
    for _ in range(5):
        assert np.allclose(sl.solve(a, a), np.eye(90), atol=1e-6)
        q, r = sl.qr(a)
        assert np.allclose(q @ r, a)
        w, v = sl.eigh(a + a.T)
        assert np.allclose((a + a.T) @ v, v * w)
    return seed
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert list(pool.map(work, range(24))) == list(range(24))
""", **ON_HOST_DEVICES)
    assert len(result.on_devices("dsyevd")) == 120
