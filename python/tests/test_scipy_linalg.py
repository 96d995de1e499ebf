"""The face for scipy.linalg: every function, type and layout as SciPy's own, and large problems on devices."""

import pathlib

import pytest

from conftest import ON_HOST_DEVICES

pytest.importorskip("scipy")
CASES = pathlib.Path(__file__).with_name("scipy_cases.py")


def test_all_cases_on_devices(python):
    result = python(CASES, **ON_HOST_DEVICES)
    assert "0 differ" in result.out
    for routine in ("dgetrf", "zgetrf", "dpotrf", "dgeqrf", "dgesdd", "dsyevd", "zheevd"):
        assert result.on_devices(routine), routine


@pytest.mark.parametrize("after", [False, True])
def test_is_put_in_place_whenever_scipy_comes(program, after):
    first, second = "import numpy as np, scipy.linalg\n", "import tessera_blas; tessera_blas.install()\n"
    program((second + first if after else first + second) + """
a = np.random.default_rng(1).standard_normal((150, 150))
assert np.allclose(scipy.linalg.inv(a) @ a, np.eye(150))
assert tessera_blas.info()["scipy"]["on"], tessera_blas.info()
tessera_blas.uninstall()
assert not tessera_blas.info()["scipy"]["on"]
assert np.allclose(scipy.linalg.inv(a) @ a, np.eye(150))
""", **ON_HOST_DEVICES)
