"""Large NumPy arrays in Tessera's pool, by NumPy's memory handlers (NEP 49).

NumPy has a handler for each context (`contextvars`), and one object that stands for its own handler wherever none is
set. A handler that is set is lost in new threads, and in the next cell of a notebook. So none is set: the object that
stands for NumPy's own handler is pointed at ours, which has NumPy's own behind it (numpy_memory.cpp). This holds in all
threads. Ours frees what either has allocated, so arrays that exist are right too. A handler that the program has set
for itself stays.

Pages of arrays that devices have used are locked in the background. Other libraries that copy by CUDA themselves (PyTorch,
CuPy, JAX, ...) count on NumPy's memory not being locked: a copy that is to run in the background would read it later. So
nothing is locked once such a library has been imported.

It is never taken back, since arrays in the pool must find it. After `uninstall` it hands everything on to NumPy's own.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING

from tessera_blas import _imports
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from tessera_blas._libraries import Libraries

# Places in the table of NumPy's C API, which no release may change.
_FEATURE_VERSION, _DEFAULT_HANDLER = 211, 306
_FIRST_VERSION_WITH_HANDLERS = 0x0F  # NumPy 1.22
_NOT_YET = "NumPy has not been imported yet"

# Those that copy NumPy's memory by CUDA.
_OTHER_USERS_OF_CUDA = ("torch", "cupy", "jaxlib", "tensorflow", "numba.cuda", "pycuda", "cuda", "paddle", "onnxruntime")

_library: ctypes.CDLL
_locks = True
_is_open = False
_is_on = False
_problem: str | None = _NOT_YET  # None: NumPy has our handler


def install(libraries: Libraries) -> None:
    """Let large arrays come from the pool: at once, or when NumPy will have been imported.

    To be called with the lock held.
    """
    global _library, _is_open, _is_on
    if not _is_open:
        library = libraries.tessera
        library.tessera_private_numpy_handler.restype = ctypes.c_void_p
        library.tessera_private_numpy_handler.argtypes = [ctypes.c_void_p]
        library.tessera_private_numpy_pool.restype = None
        library.tessera_private_numpy_pool.argtypes = [ctypes.c_int]
        library.tessera_private_numpy_locks.restype = None
        library.tessera_private_numpy_locks.argtypes = [ctypes.c_int]
        _library, _is_open = library, True
    _is_on = True
    _library.tessera_private_numpy_pool(1)
    _imports.mapped.observe(_unlock_beside_others)
    _let_lock(not _is_beside_others())
    if _problem is not None:
        _imports.executed.observe(_attach_when_imported)
        _attach_when_imported()


def uninstall() -> None:
    """Let new arrays come from NumPy's own handler. To be called with the lock held."""
    global _is_on
    _is_on = False
    _imports.executed.forget(_attach_when_imported)
    _imports.mapped.forget(_unlock_beside_others)
    if _is_open:
        _let_lock(False)  # of arrays that live on, nobody would unlock the pages any more
        _library.tessera_private_numpy_pool(0)


def info() -> dict[str, Any]:
    """To be called with the lock held."""
    why_not = _problem if _is_on else "not asked for"
    return {"on": why_not is None, "why_not": why_not, "locked": why_not is None and _locks}


def _is_beside_others() -> bool:
    return any(name in sys.modules for name in _OTHER_USERS_OF_CUDA)


def _unlock_beside_others() -> None:
    if _locks and _is_beside_others():
        with lock:
            _let_lock(False)


def _let_lock(wanted: bool) -> None:
    global _locks
    if wanted != _locks:
        _locks = wanted
        _library.tessera_private_numpy_locks(int(wanted))


def _attach_when_imported() -> None:
    global _problem
    module = _imports.numpy_core("_ARRAY_API")
    if module is None:
        return
    with lock:
        if _is_on and _problem is not None:
            _problem = _attach(module)
            if _problem is not _NOT_YET:
                _imports.executed.forget(_attach_when_imported)


def _attach(module: ModuleType) -> str | None:
    """Point the object of NumPy's own handler at ours. Return the reason in words why that cannot be, or None."""
    if sys.implementation.name != "cpython":
        return "only CPython lets NumPy's memory handler be exchanged"
    api = ctypes.pythonapi
    # Prototypes of our own: those of ctypes.pythonapi's attributes are shared with the program.
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    point_to = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_SetPointer", api))

    table = ctypes.cast(pointer_of(module._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    if ctypes.CFUNCTYPE(ctypes.c_uint)(table[_FEATURE_VERSION])() < _FIRST_VERSION_WITH_HANDLERS:
        return "NumPy has memory handlers from version 1.22 on"
    # Another thread may run the module's code, which makes the object after the table.
    if ctypes.cast(table[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.c_void_p))[0] is None:
        return _NOT_YET
    default = ctypes.cast(table[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))[0]
    if not is_valid(default, b"mem_handler"):
        return "this NumPy's memory handler is of an unknown kind"
    ours = _library.tessera_private_numpy_handler(pointer_of(default, b"mem_handler"))
    if ours is None:
        return "this NumPy's memory handler is of an unknown version"
    point_to(default, ours)
    return None
