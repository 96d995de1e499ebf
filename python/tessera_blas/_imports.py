"""The import hooks: observers are called after each step of the import of an extension module, also after an error.

`mapped` calls them when the module's library has been mapped, with those that it needs. `executed` calls them when the
module's code has run. All of Python's ways to import such a module pass through
`importlib.machinery.ExtensionFileLoader`. Libraries that `ctypes` opens do not.
"""

from __future__ import annotations

import functools
import sys
from importlib.machinery import ExtensionFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


# The module that has NumPy's C APIs: its name since NumPy 2, and before.
_NUMPY_CORE = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")


def found_in(module: object, name: str) -> Any:
    """Find an attribute of a module, which may be None, without the module's own ``__getattr__``; or None.

    That one may import, and so wait for a thread that waits for this package's lock. NumPy has such modules for old names.
    """
    return None if module is None else vars(module).get(name)


def numpy_core(*needed: str) -> ModuleType | None:
    """Find the module that has NumPy's C APIs. It is there before its code has run, and without these attributes then."""
    for spelt in _NUMPY_CORE:
        module = sys.modules.get(spelt)
        if all(found_in(module, name) is not None for name in needed):
            return module
    return None


class ImportHook:
    """A method of `ExtensionFileLoader` that calls observers after its work, as long as there are any.

    Its functions are to be called with the lock held.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        # A tuple that is replaced, never changed: imports of other threads walk it meanwhile.
        self._observers: tuple[Callable[[], None], ...] = ()
        self._ours: Callable[..., Any] | None = None
        self._plain: Callable[..., Any] | None = None

    def observe(self, observer: Callable[[], None]) -> None:
        """Call `observer` from now on. It must neither raise nor import."""
        if observer not in self._observers:
            self._observers += (observer,)
        # Where another hook stands in front of ours, ours is still in force.
        if self._ours is None:
            self._put()

    def forget(self, observer: Callable[[], None]) -> None:
        """Undo `observe`. An import under way may still call the observer."""
        self._observers = tuple(other for other in self._observers if other != observer)
        # Another hook that stands in front of ours would be lost with it. Without observers ours does nothing.
        if not self._observers and getattr(ExtensionFileLoader, self._method) is self._ours:
            setattr(ExtensionFileLoader, self._method, self._plain)
            self._ours = self._plain = None

    def _put(self) -> None:
        plain = getattr(ExtensionFileLoader, self._method)

        @functools.wraps(plain)
        def method(*arguments: Any, **named: Any) -> Any:
            try:
                return plain(*arguments, **named)
            finally:
                for observer in self._observers:
                    observer()

        self._ours, self._plain = method, plain
        setattr(ExtensionFileLoader, self._method, method)


mapped = ImportHook("create_module")
executed = ImportHook("exec_module")
