"""Python's stack behind a call: the line of the program that it comes from, and the function of NumPy or SciPy."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

# Frames of these packages are on the way from a line of the program to a call.
_PACKAGES = ("numpy", "scipy", "tessera_blas", "ctypes")


class Place(NamedTuple):
    """A line of the program."""

    file: str
    line: int
    function: str


def linalg_name(frame: FrameType) -> str:
    """The full name of a public function of numpy.linalg or scipy.linalg, as "numpy.linalg.inv"; of others nothing."""
    code = frame.f_code
    package = "" if code.co_name.startswith("_") else _package_of(code.co_filename)
    return f"{package}.{code.co_name}" if package.endswith(".linalg") else ""


def line_of(frame: FrameType | None) -> Place:
    """The innermost line that is the program's own."""
    while frame is not None:
        name = frame.f_code.co_filename
        # Decorators of NumPy have a file of no name; cells of a notebook have one in such brackets, too.
        if not _package_of(name) and (not name.startswith("<") or name.startswith("<ipython")):
            return Place(name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return Place("?", 0, "?")


def _package_of(file: str) -> str:
    """The package that a file belongs to, if it is one of `_PACKAGES` or the `linalg` in one; else nothing."""
    for name in _PACKAGES:
        module = sys.modules.get(name)
        folder = os.path.dirname(getattr(module, "__file__", None) or "") + os.sep
        if module is not None and file.startswith(folder):
            return name + ".linalg" if file.startswith(folder + "linalg" + os.sep) else name
    return ""
