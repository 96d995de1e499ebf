"""Tessera's own C API (tessera/lapack.h) on NumPy arrays, as far as the faces for NumPy and SciPy need it.

Arrays are two-dimensional and of float32, float64, complex64 or complex128. Each function works on rows or on columns,
as the array lies, and on the context that the BLAS symbols of the process share. All are thread-safe and release the
interpreter's lock. NumPy must be imported before this module.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

import numpy as np

from tessera_blas import _contexts, _progress
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from tessera_blas._libraries import Libraries

    # Of any dimensions and type.
    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ROWS, COLUMNS = 101, 102
NO_TRANS, TRANS, CONJ_TRANS = 111, 112, 113
UPPER, LOWER, FULL = 121, 122, 0
NON_UNIT, UNIT = 131, 132
LEFT, RIGHT = 141, 142
NO_VECTORS, VECTORS, ALL_VECTORS = 0, 1, 2

_DEVICE_LOST = 3  # of tessera_status

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}

# The parameters behind the context and the layout: e an enumeration, i a size, p an address, r a real number.
_PARAMETERS = {
    "getrf": "iipipp", "getrs": "eiipippip", "getri": "ipipp", "potrf": "eipip", "potrs": "eiipipip", "potri": "eipip",
    "geqrf": "iipipp", "gelqf": "iipipp", "orgqr": "iiipipp", "orglq": "iiipipp", "ormqr": "eeiiipippip",
    "syevd": "eeipipp", "sygvd": "eeeipipipp", "gesdd": "eiipippipip", "geev": "eipipppip", "gelsd": "iiipipiprpp",
    "gels": "eiiipipip", "trtrs": "eeeiipipip", "trtri": "eeipip", "sytrf": "eipipp", "sytrs": "eiipippip",
    "hetrf": "eipipp", "hetrs": "eiipippip",
}
_COMPLEX_NAMES = {"orgqr": "ungqr", "orglq": "unglq", "ormqr": "unmqr", "syevd": "heevd", "sygvd": "hegvd"}
_COMPLEX_PARAMETERS = {"geev": "eipippip"}
# The same behind the context of routines for batches of matrices that lie as far apart (tessera/lapack_batch.h).
_BATCH_PARAMETERS = {"getrf": "iipiipipi", "getri": "ipiipipi", "gesv": "iipiipipiipi", "potrf": "eipiipi"}
_TYPES: dict[str, type[ctypes.c_int | ctypes.c_int64 | ctypes.c_void_p]] = {
    "e": ctypes.c_int, "i": ctypes.c_int64, "p": ctypes.c_void_p}


class Declined(Exception):
    """Tessera leaves the problem to the program's own LAPACK. The matrices are as they were."""


class Lapack:
    """The functions of one process, bound at their first use."""

    def __init__(self, libraries: Libraries) -> None:
        self._library = libraries.tessera
        self._functions: dict[tuple[str, str], tuple[Any, str]] = {}
        with lock:
            _contexts.open_shared(libraries)
        self._ask = self._library.tessera_would_offload
        self._ask.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        self._copy = self._library.tessera_copy_matrix
        enumeration, size, address = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
        self._copy.argtypes = [
            enumeration, enumeration, size, size, ctypes.c_size_t, address, size, size, address, size, size]
        self._copy_batch = self._library.tessera_copy_matrix_batch_strided
        self._copy_batch.argtypes = [
            enumeration, enumeration, size, size, ctypes.c_size_t, address, size, size, size, address, size, size, size, size]

    def last_error(self) -> str:
        text: bytes = self._library.tessera_last_error()
        return text.decode(errors="replace")

    def runs_on_devices(self, name: bytes, m: int, n: int, k: int = 0) -> bool:
        """Ask the offload decision about a routine by its full name, as b"dgetrf"."""
        answer = ctypes.c_int(0)
        return self._ask(_contexts.current, name, m, n, k, ctypes.byref(answer)) == 0 and answer.value != 0

    def call(self, name: str, kind: str, layout: int, *arguments: Any) -> int:
        """Call a routine by its name in real types.

        Parameters
        ----------
        kind : str
            The type of the elements, as NumPy's character: f, d, F or D.
        arguments
            As in tessera/lapack.h behind the layout, without info. Arrays stand for their addresses.

        Returns
        -------
        int
            LAPACK's info.

        Raises
        ------
        Declined
            If the call failed, by what devices or the CPU's LAPACK lack. Nothing has been written.
        RuntimeError
            If a device was lost while it wrote results. What the call writes is lost.
        """
        info = ctypes.c_int64(0)
        self._carry_out(*self._bound(name, kind), (layout, *arguments, ctypes.byref(info)))
        return info.value

    def call_batch(self, name: str, kind: str, *arguments: Any) -> None:
        """Call a routine's _batch_strided in tessera/lapack_batch.h with all that stands behind the context.

        Raises
        ------
        Declined, RuntimeError
            As `call` does.
        """
        self._carry_out(*self._bound_batch(name, kind), arguments)

    def _carry_out(self, function: Any, parameters: str, arguments: tuple[Any, ...]) -> None:
        values = [value.ctypes.data if parameter == "p" and isinstance(value, np.ndarray) else value
                  for parameter, value in zip(parameters, arguments)]
        _progress.note_routine(function.__name__[len("tessera_"):])
        status = function(_contexts.current, *values)
        _progress.note_routine("")
        if status == _DEVICE_LOST:
            raise RuntimeError(self.last_error())
        if status != 0:
            raise Declined(self.last_error())

    def copy(self, source: Array, target: Array, part: int = FULL, conjugate: bool = False) -> None:
        """Copy a matrix by all processors; of a triangle, the rest of the target becomes zero."""
        rows, columns = target.shape
        status = self._copy(part, conjugate, rows, columns, target.itemsize, source.ctypes.data, *source.strides,
                            target.ctypes.data, *target.strides)
        if status != 0:
            raise Declined(self.last_error())

    def copy_stack(self, source: Array, target: Array, part: int = FULL) -> None:
        """Copy a stack of matrices, by all processors if the types are the same."""
        of_source, of_target = _stack_of(source), _stack_of(target)
        if source.dtype != target.dtype or of_source is None or of_target is None:
            target[...] = source if part == FULL else np.tril(source) if part == LOWER else np.triu(source)
            return
        rows, columns = target.shape[-2:]
        status = self._copy_batch(
            part, False, rows, columns, target.itemsize, source.ctypes.data, *source.strides[-2:], of_source[1],
            target.ctypes.data, *target.strides[-2:], of_target[1], of_target[0])
        if status != 0:
            raise Declined(self.last_error())

    def _bound(self, name: str, kind: str) -> tuple[Any, str]:
        bound = self._functions.get((name, kind))
        if bound is None:
            parameters, spelt = _PARAMETERS[name], name
            if kind in "FD":
                parameters = _COMPLEX_PARAMETERS.get(name, parameters)
                spelt = _COMPLEX_NAMES.get(name, name)
            bound = self._functions[name, kind] = self._bind(spelt, kind, "e" + parameters)
        return bound

    def _bound_batch(self, name: str, kind: str) -> tuple[Any, str]:
        spelt = name + "_batch_strided"
        bound = self._functions.get((spelt, kind))
        if bound is None:
            bound = self._functions[spelt, kind] = self._bind(spelt, kind, _BATCH_PARAMETERS[name])
        return bound

    def _bind(self, spelt: str, kind: str, parameters: str) -> tuple[Any, str]:
        """A function and its parameters behind the context."""
        function = getattr(self._library, f"tessera_{_LETTERS[kind]}{spelt}")
        real = ctypes.c_float if kind in "fF" else ctypes.c_double
        function.argtypes = [ctypes.c_void_p] + [real if parameter == "r" else _TYPES[parameter] for parameter in parameters]
        return function, parameters


def _stack_of(matrices: Array) -> tuple[int, int] | None:
    """How many matrices a stack has, and the bytes between them; None if they do not lie as far apart from each other."""
    shape, strides = matrices.shape, matrices.strides
    dimensions = [d for d in range(matrices.ndim - 2) if shape[d] != 1]
    if any(strides[d] != strides[inner] * shape[inner] for d, inner in zip(dimensions, dimensions[1:])):
        return None
    return math.prod(shape[:-2]), strides[dimensions[-1]] if dimensions else 0


def lie_of(matrix: Array) -> tuple[int, int] | None:
    """Tell how a matrix lies in memory.

    Returns
    -------
    (layout, leading dimension) or None
        None if neither its rows nor its columns are dense, or if elements overlap.
    """
    (rows, columns), (down, right), item = matrix.shape, matrix.strides, matrix.itemsize
    if (right == item or columns == 1) and down % item == 0 and (down >= columns * item or rows == 1):
        return ROWS, max(down // item, columns, 1)
    if (down == item or rows == 1) and right % item == 0 and (right >= rows * item or columns == 1):
        return COLUMNS, max(right // item, rows, 1)
    return None
