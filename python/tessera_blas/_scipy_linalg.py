"""A face for scipy.linalg: large problems go to Tessera by parallel copies, without SciPy's copies on one processor.

Replaced is what SciPy's functions call in the globals of their modules, so that it does not matter who has imported them by
which name. Arguments, types, errors and warnings stay SciPy's. Whatever is small, odd, or of another type goes on to what was
there, and so does a problem that turns out singular, ill-conditioned, or without convergence.

- `get_lapack_funcs` of the modules that solve dense problems gives routines of Tessera for large arrays.
- The functions of `scipy.linalg._batched_linalg`, which SciPy has from 1.17 on.
- `numpy.asarray_chkfinite`, which looks at large arrays by all processors.
- `det`, `lu` and `qr` as a whole, in releases that have no such function below them. They are replaced in all modules of
  SciPy. A program that has imported them by name before keeps the plain ones.

A release whose functions look different keeps its own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tessera_blas import _faces, _imports
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera_blas._libraries import Libraries

_MODULES = ("_basic", "_decomp", "_decomp_cholesky", "_decomp_ldl", "_decomp_lu", "_decomp_svd")
# scipy.linalg imports this extension after all modules above.
_LAST = "scipy.linalg._decomp_update"
# Functions of _batched_linalg, and the modules that have them by another name.
_BATCHED = {"_cholesky": (), "_inv": (), "_lstsq": (), "_qr": (), "_solve": (), "_svd": (),
            "_det": (("_basic", "_linalg_det"),), "_lu": (("_decomp_lu", "_linalg_lu"),)}
_KNOWN_BATCHED = ("1.17.", "1.18.")
# Public functions, their modules and parameters, and the function of _batched_linalg that makes it needless to replace them.
_PUBLIC = {
    "det": ("_basic", "a overwrite_a check_finite", "_det"),
    "lu": ("_decomp_lu", "a permute_l overwrite_a check_finite p_indices", "_lu"),
    "qr": ("_decomp_qr", "a overwrite_a lwork mode pivoting check_finite", "_qr"),
}
# Solves by factors that exist. Of few right-hand sides, no device is worth their transfer.
_SOLVES = (("getrs",), ("potrs",), ("trtrs",))
# Smaller ones are checked by one processor within a millisecond.
_LEAST_CHECKED = 1 << 20

_libraries: Libraries  # set by install
_is_on = False
_least, _least_checked = 1, 1
_replaced = _faces.Replaced()


def install(libraries: Libraries) -> None:
    """Replace the functions now, or when SciPy will have imported them. To be called with the lock held."""
    global _libraries, _is_on, _least, _least_checked
    _libraries, _is_on = libraries, True
    _least, _least_checked = _faces.least_elements(), _LEAST_CHECKED if _faces.is_automatic() else 1
    _imports.executed.observe(_replace_when_imported)
    _replace_when_imported()


def uninstall() -> None:
    """Put SciPy's own functions back, where ours still are. To be called with the lock held."""
    global _is_on
    _is_on = False
    _imports.executed.forget(_replace_when_imported)
    # Modules imported meanwhile may have ours by name.
    public = {id(ours): own for _, name, own, ours in _replaced if name in _PUBLIC}
    _replaced.put_back()
    _exchange(public)


def info() -> dict[str, Any]:
    """To be called with the lock held."""
    return {"on": bool(_replaced), "functions": sorted({f"{module.__name__}.{name}" for module, name, _, _ in _replaced})}


def _replace_when_imported() -> None:
    with lock:
        if not _is_on or _replaced or _LAST not in sys.modules:
            return
        modules = {name: module for name in (*_MODULES, "_batched_linalg", "_decomp_qr")
                   if (module := sys.modules.get(f"scipy.linalg.{name}")) is not None}
        for name in _MODULES:
            if name in modules:
                _replace_names(modules[name])
        _replace(sys.modules["numpy"], "asarray_chkfinite", _face_of_check)
        batched = modules.get("_batched_linalg")
        if batched is not None and str(getattr(sys.modules["scipy"], "__version__", "")).startswith(_KNOWN_BATCHED):
            for name, aliases in _BATCHED.items():
                own = _imports.found_in(batched, name)
                if own is not None:
                    ours = _face(name, own, is_public=False)
                    _replaced.put(batched, name, own, ours)
                    for place, alias in aliases:
                        if _imports.found_in(modules.get(place), alias) is own:
                            _replaced.put(modules[place], alias, own, ours)
        _replace_public({name: place for name, (place, parameters, below) in _PUBLIC.items()
                         if _imports.found_in(batched, below) is None
                         and _parameters_of(_imports.found_in(modules.get(place), name)) == parameters.split()}, modules)


def _replace_names(module: Any) -> None:
    getter = _imports.found_in(module, "get_lapack_funcs")
    if _parameters_of(getter)[:3] == ["names", "arrays", "dtype"]:
        _replace(module, "get_lapack_funcs", _face_of_getter)
    if _imports.found_in(module, "asarray_chkfinite") is sys.modules["numpy"].asarray_chkfinite:
        _replace(module, "asarray_chkfinite", _face_of_check)


def _replace_public(places: dict[str, str], modules: dict[str, Any]) -> None:
    changes = {}
    for name, place in places.items():
        own = getattr(modules[place], name)
        ours = changes[id(own)] = _face(name, own, is_public=True)
        _replaced.append((modules[place], name, own, ours))
    _exchange(changes)


def _exchange(changes: dict[int, Any]) -> None:
    """Put other objects in the place of those with these identities, in all modules of SciPy."""
    if not changes:
        return
    for spelt, module in list(sys.modules.items()):
        if spelt.startswith("scipy.") and module is not None:
            for name, value in list(vars(module).items()):
                if id(value) in changes:
                    setattr(module, name, changes[id(value)])


def _replace(module: Any, name: str, face_of: Callable[[Any], Any]) -> None:
    own = getattr(module, name)
    _replaced.put(module, name, own, face_of(own))


def _parameters_of(function: Any) -> list[str]:
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return [] if code is None else list(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])


# Faces: what is small goes on at once. The rest is not imported before it is needed, because it imports NumPy.


def _face(name: str, own: Callable[..., Any], is_public: bool) -> Callable[..., Any]:
    def make_large() -> Callable[..., Any]:
        from tessera_blas import _scipy_functions

        return _scipy_functions.function_for(name, own, _libraries)

    # Programs may keep a public function after `uninstall`.
    return _faces.face_of(own, _least, make_large, (lambda: _is_on) if is_public else None)


def _face_of_getter(own: Callable[..., Any]) -> Callable[..., Any]:
    least = _least
    ours: Callable[[Any], Any] | None = None

    def get_lapack_funcs(names: Any, arrays: Any = (), *others: Any, **named: Any) -> Any:
        nonlocal ours
        functions = own(names, arrays, *others, **named)
        for array in arrays[-1:] if names in _SOLVES else arrays:
            if getattr(array, "size", 0) >= least:
                break
        else:
            return functions
        if ours is None:
            from tessera_blas import _scipy_routines

            ours = _scipy_routines.routines_for(_libraries)
        return ours(functions)

    return _faces.like(own, get_lapack_funcs)


def _face_of_check(own: Callable[..., Any]) -> Callable[..., Any]:
    least = _least_checked
    array_type = sys.modules["numpy"].ndarray
    is_finite: Callable[[Any], bool] | None = None

    def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
        nonlocal is_finite
        if type(a) is not array_type or a.size < least or dtype is not None or order is not None:
            return own(a, dtype, order)
        if is_finite is None:
            from tessera_blas import _scipy_functions

            is_finite = _scipy_functions.is_finite
        return a if is_finite(a) else own(a)

    return _faces.like(own, asarray_chkfinite)
