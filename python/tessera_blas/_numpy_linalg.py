"""A face for numpy.linalg: large problems go to Tessera as the arrays lie, without NumPy's copies into columns.

The functions of `numpy.linalg._umath_linalg` are replaced, which NumPy calls below its checks. Types, errors, broadcasting,
subclasses and `LinAlgError` so stay NumPy's. Whatever is small, odd, or of another type goes on to the function that
was there, and so does a problem that turns out singular, not definite, or without convergence: NumPy then computes it again
and says so in its own way.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

from tessera_blas import _imports
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
# Arrays with fewer elements are not even looked at: the offload decision would always be for the CPU.
_LEAST_ELEMENTS = 128 * 128

_libraries: Libraries | None = None
_is_on = False
_least = _LEAST_ELEMENTS
# What has been replaced: the module, the name, its own function and ours.
_replaced: list[tuple[Any, str, Any, Any]] = []


def install(libraries: Libraries) -> None:
    """Replace the functions now, or when NumPy will have been imported. To be called with the lock held."""
    global _libraries, _is_on, _least
    _libraries, _is_on = libraries, True
    # Rules may send problems of any size to devices.
    _least = _LEAST_ELEMENTS if os.environ.get("TESSERA_OFFLOAD", "auto") == "auto" else 1
    _imports.executed.observe(_replace_when_imported)
    _replace_when_imported()


def uninstall() -> None:
    """Put NumPy's own functions back, where ours still are. To be called with the lock held."""
    global _is_on
    _is_on = False
    _imports.executed.forget(_replace_when_imported)
    for module, name, own, ours in _replaced:
        if getattr(module, name, None) is ours:
            setattr(module, name, own)
    _replaced.clear()


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
            if module is None or id(module) in done or not hasattr(module, names[0]):
                continue
            for name in names:
                own = getattr(module, name, None)
                if own is not None:
                    ours = _face(name, own, _least)
                    setattr(module, name, ours)
                    _replaced.append((module, name, own, ours))


def _face(name: str, own: Callable[..., Any], least: int) -> Callable[..., Any]:
    large: Callable[..., Any] | None = None

    @functools.wraps(own)
    def face(a: Any, *others: Any, **named: Any) -> Any:
        nonlocal large
        try:
            is_small = a.size < least
        except AttributeError:
            is_small = True
        if is_small:
            return own(a, *others, **named)
        if large is None:
            # Not before: this imports NumPy, which is being imported when the functions are replaced.
            from tessera_blas import _numpy_functions

            large = _numpy_functions.function_for(name, own, _libraries)
        return large(a, *others, **named)

    return face
