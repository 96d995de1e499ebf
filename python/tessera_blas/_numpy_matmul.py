"""Stacks of matrices in `numpy.matmul` and `@`: one batch each, where NumPy multiplies one matrix after the other.

The operator calls the universal function itself, whatever stands in NumPy's modules. So the inner loops of that function are
replaced by those of numpy_matmul.cpp, in NumPy's own way. These leave to NumPy's loops what is no stack, or too small.

They are never taken back, since others may have been put in front of them. After `uninstall` they hand everything on.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tessera_blas import _faces, _imports
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from tessera_blas._libraries import Libraries

# The place of PyUFunc_ReplaceLoopBySignature in the table of that API, which no release may change.
_REPLACE_LOOP = 30
# NumPy's numbers of float32, float64, complex64 and complex128, in the order of our types.
_TYPE_NUMBERS = (11, 12, 14, 15)
_NONE, _LARGE, _ALL = 0, 1, 2

_library: ctypes.CDLL
_is_on = False
_is_replaced: bool | None = None  # None: not tried yet


def install(libraries: Libraries) -> None:
    """Replace the loops now, or when NumPy will have been imported. To be called with the lock held."""
    global _library, _is_on
    _library, _is_on = libraries.tessera, True
    _library.tessera_private_numpy_stacks(_LARGE if _faces.is_automatic() else _ALL)
    if _is_replaced is None:
        _imports.executed.observe(_replace_when_imported)
        _replace_when_imported()


def uninstall() -> None:
    """Leave all stacks to NumPy's own loops. To be called with the lock held."""
    global _is_on
    if _is_on:
        _library.tessera_private_numpy_stacks(_NONE)
    _is_on = False
    _imports.executed.forget(_replace_when_imported)


def info() -> dict[str, Any]:
    """To be called with the lock held."""
    return {"on": _is_on and bool(_is_replaced)}


def _replace_when_imported() -> None:
    global _is_replaced
    module = _imports.numpy_core("_UFUNC_API", "matmul")
    if module is None:
        return
    with lock:
        if _is_on and _is_replaced is None:
            _is_replaced = _replace(module)
            _imports.executed.forget(_replace_when_imported)


def _replace(module: ModuleType) -> bool:
    """Put all four loops in the place of NumPy's. Tell whether NumPy knew them."""
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = ctypes.cast(pointer_of(module._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    numbers, address = ctypes.c_int * 3, ctypes.c_void_p
    replace = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, address, numbers, address)(table[_REPLACE_LOOP])
    loop_for = _library.tessera_private_numpy_matmul
    loop_for.restype, loop_for.argtypes = address, [ctypes.c_int, ctypes.POINTER(address)]
    status = 0
    for ours, number in enumerate(_TYPE_NUMBERS):
        place_of_numpys = address()
        loop = loop_for(ours, ctypes.byref(place_of_numpys))
        status |= replace(module.matmul, loop, numbers(number, number, number), place_of_numpys)
    return status == 0
