"""numpy.linalg's functions on stacks of small matrices, each as one batch (tessera/lapack_batch.h).

NumPy takes the matrices of a stack one after the other, on one processor. A batch is shared out to all devices, or to all
processors; the offload decision is about the whole of it. Each function takes the arguments of NumPy's, with stacks of
one shape, and answers in arrays whose rows are dense, or raises `Declined`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tessera_blas import _faces
from tessera_blas._lapack import COLUMNS, FULL, LOWER, ROWS, UPPER, Declined, Lapack

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera_blas._lapack import Array

# Larger matrices go one by one: each of them has work for a whole device.
_MOST_ROWS = 1024
# Smaller stacks take less time in NumPy's loop, on any machine. The work is the multiply-adds of one product of each matrix by
# itself.
_LEAST_ROWS, _LEAST_COUNT, _LEAST_WORK = 32, 4, 1 << 23


def _least() -> tuple[int, int, int]:
    return (_LEAST_ROWS, _LEAST_COUNT, _LEAST_WORK) if _faces.is_automatic() else (2, 2, 1)


def is_worth_it(a: Array) -> bool:
    """Tell whether a stack is one of many small matrices. The offload decision may still leave it to the CPU."""
    if a.ndim == 2:
        return False
    n = a.shape[-1]
    rows, count, work = _least()
    return bool(a.shape[-2] == n and rows <= n <= _MOST_ROWS and a.size >= count * n * n and a.size * n >= work)


class _Batch:
    """Tessera's LAPACK, the type that NumPy computes in, and the matrices of a stack."""

    def __init__(self, lapack: Lapack, kind: str, a: Array) -> None:
        self.lapack, self.kind = lapack, kind
        self.stack, self.n = a.shape[:-2], a.shape[-1]
        self.count = a.size // (self.n * self.n)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a routine whose info must be 0 everywhere."""
        info = np.empty(self.count, np.intc)
        self.lapack.call_batch(name, self.kind, *arguments, info, self.count)
        if info.any():
            raise Declined

    def copied(self, source: Array, layout: int, part: int = FULL) -> Array:
        """A dense copy in this type, whose matrices are stored by rows or by columns; its shape is that of the source."""
        m, n = source.shape[-2:]
        target = np.empty(self.stack + ((n, m) if layout == COLUMNS else (m, n)), self.kind)
        if layout == COLUMNS:
            target = target.swapaxes(-1, -2)
        self.lapack.copy_stack(source, target, part)
        return target

    def pivots(self) -> Array:
        return np.empty((self.count, self.n), np.intc)


def _lu(p: _Batch, a: Array) -> tuple[Array, Array]:
    """The factors of the transposes, which columns of the routine make of rows."""
    n = p.n
    factors, pivots = p.copied(a, ROWS), p.pivots()
    p.call("getrf", n, n, factors, n, n * n, pivots, n)
    return factors, pivots


def _inv(p: _Batch, a: Array) -> Any:
    n = p.n
    factors, pivots = _lu(p, a)
    p.call("getri", n, factors, n, n * n, pivots, n)
    return factors


def _solve(p: _Batch, a: Array, b: Array) -> Any:
    n, count = p.n, b.shape[-1]
    if b.shape[-2] != n or count == 0:
        raise Declined  # NumPy looks at it behind this function
    destroyed, x = p.copied(a, COLUMNS), p.copied(b, COLUMNS)
    p.call("gesv", n, count, destroyed, n, n * n, p.pivots(), n, x, n, n * count)
    return x if x.flags.c_contiguous else p.copied(x, ROWS)


def _solve_one(p: _Batch, a: Array, b: Array) -> Any:
    return _solve(p, a, b[..., np.newaxis])[..., 0]


def sign_and_log_of(factors: Array, pivots: Array) -> tuple[Any, Any]:
    """Sign and logarithm of the determinants of matrices, or of one, by their factors."""
    diagonal = factors.diagonal(axis1=-2, axis2=-1)
    sizes = np.abs(diagonal)
    if not np.isfinite(sizes).all():
        raise Declined
    swaps = np.count_nonzero(pivots != np.arange(1, factors.shape[-1] + 1), axis=-1)
    sign = np.prod(diagonal / sizes, axis=-1) * (1 - 2 * (swaps % 2))
    return sign.astype(factors.dtype), np.sum(np.log(sizes), axis=-1)


def det_of(sign: Any, log: Any) -> Any:
    with np.errstate(over="ignore"):
        det = sign * np.exp(log)
    if not np.isfinite(det).all():
        raise Declined  # NumPy tells of it in its own words
    return det


def _sign_and_log(p: _Batch, a: Array) -> tuple[Any, Any]:
    factors, pivots = _lu(p, a)
    return sign_and_log_of(factors, pivots.reshape(p.stack + (p.n,)))


def _det(p: _Batch, a: Array) -> Any:
    return det_of(*_sign_and_log(p, a))


def _cholesky(part: int, stored: int) -> Callable[..., Any]:
    def cholesky(p: _Batch, a: Array) -> Any:
        factor = p.copied(a, ROWS, part)
        p.call("potrf", stored, p.n, factor, p.n, p.n * p.n)
        return factor

    return cholesky


# By NumPy's name. A triangle of rows is the other one of columns, and its elements the conjugates.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "inv": _inv, "solve": _solve, "solve1": _solve_one, "slogdet": _sign_and_log, "det": _det,
    "cholesky_lo": _cholesky(LOWER, UPPER), "cholesky_up": _cholesky(UPPER, LOWER)}


def compute(name: str, lapack: Lapack, kind: str, arguments: tuple[Any, ...]) -> Any:
    """Compute a function of `FUNCTIONS` for stacks of one shape."""
    return FUNCTIONS[name](_Batch(lapack, kind, arguments[0]), *arguments)
