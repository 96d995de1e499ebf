"""A face for numpy.linalg: large problems go to Tessera as the arrays lie, without NumPy's copies into columns.

The functions of `numpy.linalg._umath_linalg` are replaced, which NumPy calls below its checks. Types, errors, broadcasting,
subclasses and `LinAlgError` so stay NumPy's. Whatever is small, odd, or of another type goes on to the function that
was there, and so does a problem that turns out singular, not definite, or without convergence: NumPy then computes it again
and says so in its own way.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from tessera_blas import _faces, _imports
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera_blas._libraries import Libraries

# Modules whose functions are replaced, by all names that releases of NumPy have given them.
_FUNCTIONS = {
    "numpy.linalg._umath_linalg": (
        "cholesky_lo", "cholesky_up", "det", "eig", "eigh_lo", "eigh_up", "eigvals", "eigvalsh_lo", "eigvalsh_up", "inv",
        "lstsq", "lstsq_m", "lstsq_n", "qr_complete", "qr_r_raw", "qr_r_raw_m", "qr_r_raw_n", "qr_reduced", "slogdet",
        "solve", "solve1", "svd", "svd_f", "svd_s", "svd_m", "svd_n", "svd_m_f", "svd_n_f", "svd_m_s", "svd_n_s"),
    "numpy.linalg._linalg": ("triu",),
    "numpy.linalg.linalg": ("triu",),
}
_libraries: Libraries  # set by install
_is_on = False
_replaced = _faces.Replaced()


def install(libraries: Libraries) -> None:
    """Replace the functions now, or when NumPy will have been imported. To be called with the lock held."""
    global _libraries, _is_on
    _libraries, _is_on = libraries, True
    _imports.executed.observe(_replace_when_imported)
    _replace_when_imported()


def uninstall() -> None:
    """Put NumPy's own functions back, where ours still are. To be called with the lock held."""
    global _is_on
    _is_on = False
    _imports.executed.forget(_replace_when_imported)
    _replaced.put_back()


def info() -> dict[str, Any]:
    """To be called with the lock held."""
    return {"on": bool(_replaced), "functions": sorted(name for _, name, _, _ in _replaced)}


def _replace_when_imported() -> None:
    with lock:
        if not _is_on:
            return
        done = {id(module) for module, _, _, _ in _replaced}
        for spelt, names in _FUNCTIONS.items():
            module = sys.modules.get(spelt)
            # A module that is being imported may not have its functions yet.
            if id(module) in done or _imports.found_in(module, names[0]) is None:
                continue
            for name in names:
                own = _imports.found_in(module, name)
                if own is not None:
                    large = functools.partial(_large, name, own)
                    _replaced.put(module, name, own, _faces.face_of(own, _faces.least_elements(), large))


def _large(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    from tessera_blas import _numpy_functions

    return _numpy_functions.function_for(name, own, _libraries)
