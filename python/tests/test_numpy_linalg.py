"""The face for numpy.linalg: every function, type and layout as NumPy's own, and large problems on devices."""

import pathlib

import pytest

from conftest import ON_HOST_DEVICES

CASES = pathlib.Path(__file__).with_name("linalg_cases.py")


def test_all_cases_on_devices(python):
    result = python(CASES, **ON_HOST_DEVICES)
    assert "0 differ" in result.out
    # Those of the face: NumPy's own calls are dgesv for solve and inv, and geqrf of a copy in columns for qr.
    for routine in ("dgetri", "zgetri", "dgelqf", "dgetrs", "dpotrf", "dsyevd", "zheevd", "dgesdd", "dgelsd"):
        assert result.on_devices(routine), routine


def test_all_cases_where_the_cpu_is_preferred(python):
    result = python(CASES, **{**ON_HOST_DEVICES, "TESSERA_OFFLOAD": "never"})
    assert "0 differ" in result.out and not result.on_devices("dgetri")


@pytest.mark.parametrize("after", [False, True])
def test_is_put_in_place_whenever_numpy_comes(program, after):
    first, second = "import numpy as np\n", "import tessera_blas; tessera_blas.install()\n"
    result = program((second + first if after else first + second) + """
a = np.random.default_rng(1).standard_normal((150, 150))
assert np.allclose(np.linalg.inv(a) @ a, np.eye(150))
assert "inv" in tessera_blas.info()["numpy"]["functions"], tessera_blas.info()
tessera_blas.uninstall()
from numpy.linalg import _umath_linalg
assert isinstance(_umath_linalg.inv, np.ufunc)
""", **ON_HOST_DEVICES)
    assert result.on_devices("dgetri")


def test_modules_for_old_names_are_not_asked(program):
    """They import what they are asked for, while another thread imports it and waits for us."""
    program("""
        import sys, types
        import numpy
        import tessera_blas

        class Old(types.ModuleType):
            def __getattr__(self, name):
                raise RuntimeError(name)

        sys.modules["numpy.linalg.linalg"] = Old("numpy.linalg.linalg")
        tessera_blas.install()
        tessera_blas.uninstall()
    """)


def test_general_eigenvectors_go_to_devices_from_a_size_on(program):
    result = program("""
import numpy as np, tessera_blas
tessera_blas.install()
a = np.random.default_rng(1).standard_normal((150, 150))
w, v = np.linalg.eig(a)
assert np.allclose(a @ v, v * w)
""", **ON_HOST_DEVICES)
    assert result.on_devices("dgeev")


def test_small_arrays_stay_with_numpy(program):
    result = program("""
import numpy as np, tessera_blas
tessera_blas.install()
a = np.eye(120)
np.linalg.inv(a), np.linalg.qr(a), np.linalg.eigh(a)
from tessera_blas import _numpy_linalg
import sys
assert "tessera_blas._numpy_functions" not in sys.modules
""")
    assert result.status == 0


STACKS = """
import numpy as np, tessera_blas
tessera_blas.install()
random = np.random.default_rng(1)
a = random.standard_normal((30, 20, 32, 32))[:, ::2] + 8 * np.eye(32)
b = random.standard_normal((32, 7))
x = np.linalg.solve(a, b)
assert x.shape == (30, 10, 32, 7) and x.flags.c_contiguous and np.allclose(a @ x, b)
assert np.allclose(np.linalg.inv(a) @ a, np.eye(32))
factor = np.linalg.cholesky(a @ a.swapaxes(-1, -2))
assert np.allclose(factor @ factor.swapaxes(-1, -2), a @ a.swapaxes(-1, -2)) and not np.triu(factor, 1).any()
sign, log = np.linalg.slogdet(a)
assert np.allclose(sign * np.exp(log), [[np.linalg.det(one) for one in row] for row in a])
a[3, 4] = 0
try:
    np.linalg.inv(a)
except np.linalg.LinAlgError as error:
    assert "ingular" in str(error)
else:
    raise AssertionError
"""


def test_stacks_of_small_matrices_are_one_batch(program):
    result = program(STACKS, **ON_HOST_DEVICES)
    for routine in ("dgesv_batch", "dgetri_batch", "dpotrf_batch", "dgetrf_batch"):
        assert result.on_devices(routine), routine


def test_stacks_of_small_matrices_are_shared_out_to_processors(program):
    result = program(STACKS, TESSERA_VERBOSE="1", TESSERA_DEVICES="none")
    for routine in ("dgesv_batch", "dgetri_batch", "dpotrf_batch", "dgetrf_batch"):
        assert result.told(routine) and not result.on_devices(routine), routine


def test_many_threads_at_once(program):
    result = program("""
import concurrent.futures, numpy as np, tessera_blas
tessera_blas.install()
def work(seed):
    a = np.random.default_rng(seed).standard_normal((90, 90))
    for _ in range(5):
        assert np.allclose(np.linalg.inv(a) @ a, np.eye(90), atol=1e-6)
        q, r = np.linalg.qr(a)
        assert np.allclose(q @ r, a)
    return seed
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert list(pool.map(work, range(24))) == list(range(24))
""", **ON_HOST_DEVICES)
    assert len(result.on_devices("dgetri")) == 120
