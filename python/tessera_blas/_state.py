"""What is installed in this process: the parts of the package, put in force and taken back together.

A part is a module with ``install(libraries)``, ``uninstall()`` and ``info()``. Each may be called more than once.
`_workers` also gets whether arrays come from the pool, since it hands that on.

They are called with the lock held, and import nothing then. Otherwise two threads could wait for each other: one has
the lock of a module that it imports, and waits in the import hook for the lock that the other one has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tessera_blas import _libraries, _memory, _numpy_linalg, _numpy_matmul, _scipy_linalg, _slots, _workers
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from typing import Any

_is_installed = False


def install(memory: bool) -> None:
    global _is_installed
    wants_memory = memory and os.environ.get("TESSERA_PYTHON_MEMORY", "1") != "0"
    with lock:
        libraries = _libraries.load()
        try:
            _slots.install(libraries)
            _numpy_linalg.install(libraries)
            _numpy_matmul.install(libraries)
            _scipy_linalg.install(libraries)
            if wants_memory:
                _memory.install(libraries)
            else:
                _memory.uninstall()
            _workers.install(libraries, memory=wants_memory)
        except BaseException:
            if not _is_installed:
                _take_back()
            raise
        _is_installed = True


def uninstall() -> None:
    global _is_installed
    with lock:
        _take_back()
        _is_installed = False


def is_installed() -> bool:
    return _is_installed


def info() -> dict[str, Any]:
    with lock:
        return {
            "installed": _is_installed,
            "libraries": _libraries.info(),
            "slots": _slots.info(),
            "numpy": _numpy_linalg.info(),
            "matmul": _numpy_matmul.info(),
            "scipy": _scipy_linalg.info(),
            "memory": _memory.info(),
            "workers": _workers.info(),
        }


def _take_back() -> None:
    _workers.uninstall()
    _memory.uninstall()
    _scipy_linalg.uninstall()
    _numpy_matmul.uninstall()
    _numpy_linalg.uninstall()
    _slots.uninstall()
