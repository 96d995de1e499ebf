"""The call slots of all loaded objects, pointed at Tessera's BLAS and LAPACK by libtessera_slots.so.

An object calls a function of another one through a slot, which the loader has filled. So a wheel's own OpenBLAS, whose
names no preloaded library can take before the program starts, is reached in a process that runs.
"""

from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING

from tessera_blas import _imports
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from typing import Any

    from tessera_blas._libraries import Libraries

# Set together, once.
_library: ctypes.CDLL
_slots: ctypes.c_void_p | None = None
_is_on = False


def install(libraries: Libraries) -> None:
    """Redirect what is loaded, and from now on what is imported. To be called with the lock held.

    Raises
    ------
    RuntimeError
        If Tessera's functions cannot be found.
    """
    global _is_on
    if _slots is None:
        _open(libraries)
    _is_on = True
    # The hook comes first: an import that ends between the two is then missed by neither.
    _imports.mapped.observe(_apply)
    _apply()


def uninstall() -> None:
    """Fill the slots with what they had. To be called with the lock held."""
    global _is_on
    _imports.mapped.forget(_apply)
    if _is_on:
        _is_on = False
        _library.tessera_slots_undo(_slots)


def info() -> dict[str, Any]:
    """The report of libtessera_slots.so. To be called with the lock held."""
    if _slots is None:
        return {"redirected": [], "defines": [], "lost": []}
    size = 1 << 16
    while True:
        text = ctypes.create_string_buffer(size)
        needed = _library.tessera_slots_report(_slots, text, size)
        if needed <= size:
            report: dict[str, Any] = json.loads(text.value)
            return report
        size = needed


def _open(libraries: Libraries) -> None:
    global _library, _slots
    library = libraries.slots
    library.tessera_slots_open.restype = ctypes.c_void_p
    library.tessera_slots_open.argtypes = [
        ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    library.tessera_slots_apply.argtypes = [ctypes.c_void_p]
    library.tessera_slots_undo.argtypes = [ctypes.c_void_p]
    library.tessera_slots_report.restype = ctypes.c_size_t
    library.tessera_slots_report.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    names = [library._name.encode() for library in (libraries.blas, libraries.lapack)]
    error = ctypes.create_string_buffer(512)
    opened = library.tessera_slots_open((ctypes.c_char_p * len(names))(*names), len(names), error, len(error))
    if opened is None:
        raise RuntimeError(f"Tessera cannot redirect calls: {error.value.decode(errors='replace')}")
    _library, _slots = library, ctypes.c_void_p(opened)


def _apply() -> None:
    with lock:
        # A load that was under way during an uninstall comes here, too.
        if _is_on:
            _library.tessera_slots_apply(_slots)
