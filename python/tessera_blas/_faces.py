"""What the faces for NumPy and SciPy share: which functions of their modules are replaced, and by what."""

from __future__ import annotations

import os
from types import FunctionType
from typing import TYPE_CHECKING

from tessera_blas import _imports, _progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

# Arrays with fewer elements are not even looked at: the offload decision would always be for the CPU.
_LEAST_ELEMENTS = 128 * 128


def is_automatic() -> bool:
    """Tell whether small problems are the CPU's. Rules may send problems of any size to devices."""
    rules = os.environ.get("TESSERA_OFFLOAD", "auto")
    return all(rule.rpartition("=")[2] in ("auto", "never") for rule in rules.split(","))


def least_elements() -> int:
    """The elements from which on arrays are looked at."""
    return _LEAST_ELEMENTS if is_automatic() else 1


class Replaced(list["tuple[Any, str, Any, Any]"]):
    """What has been replaced: the module, the name, its own function and ours. To be used with the lock held."""

    def put(self, module: Any, name: str, own: Any, ours: Any) -> None:
        setattr(module, name, ours)
        self.append((module, name, own, ours))

    def put_back(self) -> None:
        """Put the modules' own functions back, where ours still are."""
        for module, name, own, ours in self:
            if _imports.found_in(module, name) is ours:
                setattr(module, name, own)
        self.clear()


def like(own: Callable[..., Any], face: _Function) -> _Function:
    """Give a face the names and the text of the function that it stands in front of."""
    # functools.wraps takes the name of a function of C, too, but not all of them have every attribute. NumPy's make their text
    # when it is asked for, and import for that.
    texts = ("__doc__",) if isinstance(own, FunctionType) else ()
    for attribute in ("__module__", "__name__", "__qualname__", *texts):
        value = getattr(own, attribute, None)
        if value is not None:
            setattr(face, attribute, value)
    setattr(face, "__wrapped__", own)
    return face


def face_of(own: Callable[..., Any], least: int, make_large: Callable[[], Callable[..., Any]],
            is_on: Callable[[], bool] | None = None) -> Callable[..., Any]:
    """Make the function that stands in front of `own`.

    Parameters
    ----------
    make_large : callable
        Makes the function for arrays that are not small, when the first one comes. It may import NumPy, which is being
        imported when functions are replaced.
    is_on : callable, optional
        For functions that a program may keep after `uninstall`.
    """
    large: Callable[..., Any] | None = None

    def face(a: Any, *others: Any, **named: Any) -> Any:
        nonlocal large
        try:
            is_small = a.size < least
        except AttributeError:
            is_small = True
        if is_small or (is_on is not None and not is_on()):
            return own(a, *others, **named)
        if large is None:
            large = _progress.watched(getattr(own, "__name__", "?"), make_large())
        return large(a, *others, **named)

    return like(own, face)
