"""Workers of `multiprocessing` that start as new processes (spawn, forkserver): they install the package as well.

A parent describes itself to such a worker by a dictionary, which the worker unpickles before it imports the program. An
object travels along in it that installs the package when it is unpickled. Children by fork need nothing.

`multiprocessing` itself is not imported: a finder of modules waits until the program does that.
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
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from tessera_blas._libraries import Libraries

# The modules that have the function below. joblib's workers are started by a copy of Python's code.
_MODULES = ("multiprocessing.spawn", "joblib.externals.loky.backend.spawn", "loky.backend.spawn")
_FUNCTION = "get_preparation_data"
_KEY = "tessera_blas"

# The worker has its own search path, which comes first. The program may have found the package by a path that it has set.
_IN_THE_WORKER = """\
import sys
sys.path.append({folder!r})
try:
    from tessera_blas import _workers
finally:
    sys.path.remove({folder!r})
_workers.install_here({memory!r})
"""

_is_on = False
_wants_memory = True
# What has been wrapped: the module, its own function and ours.
_wrapped: list[tuple[ModuleType, Callable[..., Any], Callable[..., Any]]] = []


class _Installation:
    """Becomes an installation where it is unpickled, and None there."""

    def __init__(self, memory: bool) -> None:
        self._memory = memory

    def __reduce__(self) -> tuple[Any, ...]:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return exec, (_IN_THE_WORKER.format(folder=folder, memory=self._memory), {})


class _Finder:
    """Finds the modules as the other finders do, and has their function wrapped when their code has run.

    It stays among the finders for ever: an import of another thread walks that list, and would pass over a finder when one
    before it is removed.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _MODULES or not _is_on:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Stands in the place of a loader until the module's code is to run."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        with lock:
            if _is_on:
                _wrap(module)


_finder = _Finder()


def install(libraries: Libraries, memory: bool) -> None:
    """Have new workers install the package. To be called with the lock held.

    Parameters
    ----------
    memory : bool
        Whether large NumPy arrays of the workers come from the pool.
    """
    global _is_on, _wants_memory
    _is_on, _wants_memory = True, memory
    # First the finder: a module whose import ends between the two steps is then missed by neither.
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for name in _MODULES:
        module = sys.modules.get(name)
        if module is not None:
            _wrap(module)


def uninstall() -> None:
    """Leave new workers alone. Those that run keep what they have. To be called with the lock held."""
    global _is_on
    _is_on = False
    for entry in list(_wrapped):
        module, own, ours = entry
        # A wrapper of others around ours would be lost with it. Ours adds nothing from now on.
        if _imports.found_in(module, _FUNCTION) is ours:
            setattr(module, _FUNCTION, own)
            _wrapped.remove(entry)


def info() -> dict[str, Any]:
    """To be called with the lock held."""
    return {"on": _is_on}


def install_here(memory: bool) -> None:
    """Install the package in this worker. It goes on without if that fails, since its program never asked for this."""
    import tessera_blas

    try:
        tessera_blas.install(memory=memory)
    except RuntimeError as error:
        print(f"tessera_blas: a worker runs without: {error}", file=sys.stderr)


def _wrap(module: ModuleType) -> None:
    own: Callable[..., Any] | None = _imports.found_in(module, _FUNCTION)
    # A module whose code is running has no function yet. Our loader comes here once more when it has run.
    if own is None or any(module is known for known, _, _ in _wrapped):
        return

    @functools.wraps(own)
    def get_preparation_data(*arguments: Any, **named: Any) -> Any:
        data = own(*arguments, **named)
        if _is_on and isinstance(data, dict):
            data[_KEY] = _Installation(_wants_memory)
        return data

    setattr(module, _FUNCTION, get_preparation_data)
    _wrapped.append((module, own, get_preparation_data))
