"""The functions of numpy.linalg's face (see _numpy_linalg.py), for arrays that are not small.

Each function of `_PROBLEMS` takes one problem: matrices, vectors and numbers, without the dimensions of a stack. It answers
in arrays that lie as those of NumPy's function do, or raises `Declined`. Source: the signatures of numpy.linalg's generalized
universal functions, and LAPACK 3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tessera_blas import _numpy_stacks, _progress
from tessera_blas._lapack import (
    ALL_VECTORS, COLUMNS, FULL, LOWER, NO_TRANS, NO_VECTORS, ROWS, TRANS, UPPER, VECTORS, Declined, Lapack,
    lie_of)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera_blas._lapack import Array
    from tessera_blas._libraries import Libraries

_REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}
_COMPLEX = {"f": "F", "d": "D", "F": "F", "D": "D"}
_PREFIX = {"f": b"s", "d": b"d", "F": b"c", "D": b"z"}


class _Problem:
    """What the functions need: Tessera's LAPACK and the type that NumPy computes in."""

    def __init__(self, lapack: Lapack, kind: str) -> None:
        self.lapack, self.kind = lapack, kind
        self.real, self.complex = _REAL[kind], _COMPLEX[kind]
        self.is_complex = kind in "FD"

    def call(self, name: str, layout: int, *arguments: Any) -> None:
        """Call a routine whose info must be 0."""
        if self.lapack.call(name, self.kind, layout, *arguments) != 0:
            raise Declined

    def copied(self, source: Array, part: int = FULL) -> Array:
        """A copy with dense rows, in this type."""
        target: Array = np.empty(source.shape, self.kind)
        if source.dtype.char == self.kind and source.ndim == 2:
            self.lapack.copy(source, target, part)
            return target
        target[...] = source
        if part != FULL:
            target = np.tril(target) if part == LOWER else np.triu(target)
        return target

    def copied_as_it_lies(self, source: Array) -> tuple[Array, int]:
        """A copy that is a matrix by rows, and the transposition that makes the source of it."""
        lie = lie_of(source)
        if lie is not None and lie[0] == COLUMNS:
            return self.copied(source.T), TRANS
        return self.copied(source), NO_TRANS


def _lu(p: _Problem, a: Array) -> tuple[Array, Array, int]:
    n = a.shape[0]
    factors, trans = p.copied_as_it_lies(a)
    pivots = np.empty(n, np.int64)
    p.call("getrf", ROWS, n, n, factors, n, pivots)
    return factors, pivots, trans


def _inv(p: _Problem, a: Array) -> Any:
    n = a.shape[0]
    inverse, pivots = p.copied(a), np.empty(n, np.int64)
    p.call("getrf", ROWS, n, n, inverse, n, pivots)
    p.call("getri", ROWS, n, inverse, n, pivots)
    return inverse


def _solve(p: _Problem, a: Array, b: Array) -> Any:
    n, count = a.shape[0], b.size // max(a.shape[0], 1)
    if b.shape[0] != n:
        raise Declined  # NumPy looks at it behind this function
    factors, pivots, trans = _lu(p, a)
    x = p.copied(b)
    if count == 1:
        # One right-hand side is a column as well, and the factors' rows are columns of the transpose.
        p.call("getrs", COLUMNS, TRANS if trans == NO_TRANS else NO_TRANS, n, 1, factors, n, pivots, x, n)
    else:
        p.call("getrs", ROWS, trans, n, count, factors, n, pivots, x, count)
    return x


def _sign_and_log(p: _Problem, a: Array) -> tuple[Any, Any]:
    factors, pivots, _ = _lu(p, a)
    return _numpy_stacks.sign_and_log_of(factors, pivots)


def _det(p: _Problem, a: Array) -> Any:
    return _numpy_stacks.det_of(*_sign_and_log(p, a))


def _cholesky(part: int) -> Callable[..., Any]:
    def cholesky(p: _Problem, a: Array) -> Any:
        n = a.shape[0]
        factor = p.copied(a, part)
        p.call("potrf", ROWS, part, n, factor, n)
        return factor

    return cholesky


def _qr_raw(p: _Problem, a: Array) -> Any:
    """R and the reflectors take the place of `a`."""
    m, n = a.shape
    lie = lie_of(a)
    if lie is None or a.dtype.char != p.kind or not a.flags.writeable:
        raise Declined
    tau = np.empty(min(m, n), p.kind)
    p.call("geqrf", lie[0], m, n, a, lie[1], tau)
    return tau


def _qr_raw_of_stack(p: _Problem, a: Array) -> Any:
    """All of a stack, or nothing: what is declined is NumPy's from the beginning."""
    if a.ndim == 2:
        return _qr_raw(p, a)
    made = a.copy()
    tau = np.empty(a.shape[:-2] + (min(a.shape[-2:]),), p.kind)
    for place in _progress.counted(np.ndindex(*a.shape[:-2]), a.shape[:-2]):
        tau[place] = _qr_raw(p, made[place])
    a[...] = made
    return tau


def _qr_q(complete: bool) -> Callable[..., Any]:
    def q(p: _Problem, a: Array, tau: Array) -> Any:
        m, k = a.shape[0], tau.shape[0]
        columns = m if complete else k
        if k != min(a.shape):
            raise Declined
        made = np.empty((m, columns), p.kind)
        p.lapack.copy(a[:, :k], made[:, :k])
        p.call("orgqr", ROWS, m, columns, k, made, columns, np.ascontiguousarray(tau))
        return made

    return q


def _eigh(part: int, vectors: bool) -> Callable[..., Any]:
    def eigh(p: _Problem, a: Array) -> Any:
        n = a.shape[0]
        v, w = p.copied(a), np.empty(n, p.real)
        p.call("syevd", ROWS, VECTORS if vectors else NO_VECTORS, part, n, v, n, w)
        return (w, v) if vectors else w

    return eigh


def _svd(vectors: int) -> Callable[..., Any]:
    def svd(p: _Problem, a: Array) -> Any:
        m, n = a.shape
        least = min(m, n)
        destroyed, s = p.copied(a), np.empty(least, p.real)
        if vectors == NO_VECTORS:
            p.call("gesdd", ROWS, vectors, m, n, destroyed, n, s, None, max(m, 1), None, max(n, 1))
            return s
        u = np.empty((m, m if vectors == ALL_VECTORS else least), p.kind)
        vt = np.empty((n if vectors == ALL_VECTORS else least, n), p.kind)
        p.call("gesdd", ROWS, vectors, m, n, destroyed, n, s, u, u.shape[1], vt, n)
        return u, s, vt

    return svd


def _eig(vectors: bool) -> Callable[..., Any]:
    def eig(p: _Problem, a: Array) -> Any:
        n = a.shape[0]
        destroyed, w = p.copied(a), np.empty(n, p.complex)
        v = np.empty((n, n), p.kind) if vectors else None
        job = VECTORS if vectors else NO_VECTORS
        if p.is_complex:
            p.call("geev", ROWS, job, n, destroyed, n, w, v, n)
            return (w, v) if vectors else w
        real, imaginary = np.empty(n, p.real), np.empty(n, p.real)
        p.call("geev", ROWS, job, n, destroyed, n, real, imaginary, v, n)
        w.real, w.imag = real, imaginary
        return w if v is None else (w, _unpacked(p, v, imaginary))

    return eig


def _unpacked(p: _Problem, packed: Array, imaginary: Array) -> Array:
    """Complex eigenvectors: of a pair, LAPACK stores the real part in one column and the imaginary part in the next."""
    vectors = packed.astype(p.complex)
    first = np.flatnonzero(imaginary > 0)
    vectors.imag[:, first] = packed[:, first + 1]
    vectors.real[:, first + 1] = packed[:, first]
    vectors.imag[:, first + 1] = -packed[:, first + 1]
    return vectors


def _lstsq(p: _Problem, a: Array, b: Array, rcond: Any) -> Any:
    (m, n), count = a.shape, b.shape[1]
    destroyed, s = p.copied(a), np.empty(min(m, n), p.real)
    x = np.zeros((max(m, n), count), p.kind)
    x[:m] = b
    rank = np.zeros(1, np.int64)
    p.call("gelsd", ROWS, m, n, count, destroyed, n, x, count, s, float(rcond), rank)
    if rank[0] == n and m >= n:
        residuals = (np.abs(x[n:]) ** 2).sum(axis=0).astype(p.real, copy=False)
    else:
        residuals = np.full(count, np.nan, p.real)
    return x[:n], residuals, np.intc(rank[0]), s


_PROBLEMS: dict[str, Callable[..., Any]] = {
    "inv": _inv, "solve": _solve, "solve1": _solve, "slogdet": _sign_and_log, "det": _det,
    "cholesky_lo": _cholesky(LOWER), "cholesky_up": _cholesky(UPPER),
    "qr_r_raw": _qr_raw_of_stack, "qr_reduced": _qr_q(False), "qr_complete": _qr_q(True),
    "eigh_lo": _eigh(LOWER, True), "eigh_up": _eigh(UPPER, True),
    "eigvalsh_lo": _eigh(LOWER, False), "eigvalsh_up": _eigh(UPPER, False),
    "svd": _svd(NO_VECTORS), "svd_s": _svd(VECTORS), "svd_f": _svd(ALL_VECTORS),
    "eig": _eig(True), "eigvals": _eig(False), "lstsq": _lstsq,
}
# Before NumPy 2.1 some had two names, for tall and wide matrices.
_OLD_NAMES = {
    "lstsq_m": "lstsq", "lstsq_n": "lstsq", "qr_r_raw_m": "qr_r_raw", "qr_r_raw_n": "qr_r_raw", "svd_m": "svd",
    "svd_n": "svd", "svd_m_s": "svd_s", "svd_n_s": "svd_s", "svd_m_f": "svd_f", "svd_n_f": "svd_f"}
# Dimensions of each argument in one problem.
_CORE = {"solve": (2, 2), "solve1": (2, 1), "qr_reduced": (2, 1), "qr_complete": (2, 1), "lstsq": (2, 2, 0)}

# The routine whose offload decision is asked for each function, by its name in real types and in complex ones.
_ROUTINES = {
    "inv": "getrf", "solve": "gesv", "solve1": "gesv", "slogdet": "getrf", "det": "getrf", "cholesky_lo": "potrf",
    "cholesky_up": "potrf", "qr_r_raw": "geqrf", "qr_reduced": "orgqr ungqr", "qr_complete": "orgqr ungqr",
    "eigh_lo": "syevd heevd", "eigh_up": "syevd heevd", "eigvalsh_lo": "syevd heevd", "eigvalsh_up": "syevd heevd",
    "svd": "gesdd", "svd_s": "gesdd", "svd_f": "gesdd", "eig": "geev", "eigvals": "geev", "lstsq": "gelsd"}

_lapack: Lapack | None = None


def _lapack_of(libraries: Libraries) -> Lapack:
    global _lapack
    if _lapack is None:
        _lapack = Lapack(libraries)
    return _lapack


def function_for(name: str, own: Callable[..., Any], libraries: Libraries) -> Callable[..., Any]:
    """Make the function for arrays that are not small.

    Parameters
    ----------
    name : str
        Of a function that NumPy has.
    own : callable
        That function, which computes what Tessera declines.
    """
    lapack = _lapack_of(libraries)
    if name == "triu":
        return _triu_for(own, lapack)
    name = _OLD_NAMES.get(name, name)
    compute, core = _PROBLEMS[name], _CORE.get(name, (2,))
    real, spelt_complex = (2 * _ROUTINES[name].split(" "))[:2]
    routines = {kind: prefix + (spelt_complex if kind in "FD" else real).encode() for kind, prefix in _PREFIX.items()}

    has_batch = name in _numpy_stacks.FUNCTIONS

    # Calls that the CPU is to compute come here, too, so that little may stand before the decision.
    def large(*arguments: Any, **named: Any) -> Any:
        kind = _kind_of(arguments, core, named)
        if kind is None:
            return own(*arguments, **named)
        try:
            if has_batch and _numpy_stacks.is_worth_it(arguments[0]):
                stacks = _of_one_stack(core, arguments)
                # Of matrices that have several right-hand sides each there would be as many copies.
                if stacks[0].size == arguments[0].size:
                    return _numpy_stacks.compute(name, lapack, kind, stacks)
            if lapack.runs_on_devices(routines[kind], *_sizes_of(name, arguments)):
                return _over_stack(compute, _Problem(lapack, kind), core, arguments)
        except (Declined, MemoryError):  # NumPy takes less memory
            pass
        return own(*arguments, **named)

    return large


def _sizes_of(name: str, arguments: tuple[Any, ...]) -> tuple[int, int, int]:
    """m, n and k of one problem, as the routine has them."""
    m, n = arguments[0].shape[-2:]
    if name in ("solve", "lstsq"):
        return m, n, arguments[1].shape[-1]
    if name in ("qr_reduced", "qr_complete"):
        k = arguments[1].shape[-1]
        return m, m if name == "qr_complete" else k, k
    return m, n, 1


def _kind_of(arguments: tuple[Any, ...], core: tuple[int, ...], named: dict[str, Any]) -> str | None:
    """The type in which NumPy would compute, if the arguments are such as Tessera takes."""
    signature = named.get("signature")
    # Before NumPy 1.25 `extobj` told how errors are reported, of which there are none here.
    if not isinstance(signature, str) or not named.keys() <= {"signature", "extobj"} or len(arguments) != len(core):
        return None
    kind = signature[0]
    if kind not in "fdFD":
        return None
    for argument, dimensions in zip(arguments, core):
        if dimensions == 0:
            continue
        if type(argument) is not np.ndarray or argument.ndim < dimensions or argument.size == 0:
            return None
        dtype = argument.dtype
        if not dtype.isnative or not argument.flags.aligned:
            return None
        if dtype.char != kind and (dtype.char not in "fdFD" or not np.can_cast(dtype, kind)):
            return None
    return kind


def _of_one_stack(core: tuple[int, ...], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as stacks of one shape."""
    stacks = [np.shape(argument)[:np.ndim(argument) - dimensions] for argument, dimensions in zip(arguments, core)]
    if stacks.count(stacks[0]) == len(stacks):
        return arguments
    try:
        stack = np.broadcast_shapes(*stacks)
    except ValueError:
        raise Declined from None
    return tuple(np.broadcast_to(argument, stack + np.shape(argument)[np.ndim(argument) - dimensions:], subok=False)
                 for argument, dimensions in zip(arguments, core))


def _over_stack(compute: Callable[..., Any], p: _Problem, core: tuple[int, ...], arguments: tuple[Any, ...]) -> Any:
    if compute is _qr_raw_of_stack:
        return compute(p, *arguments)
    broadcast = _of_one_stack(core, arguments)
    stack = np.shape(broadcast[0])[:np.ndim(broadcast[0]) - core[0]]
    if stack == ():
        return compute(p, *arguments)
    results: list[Array] | None = None
    is_tuple = False
    for place in _progress.counted(np.ndindex(*stack), stack):
        answers = compute(p, *(argument[place] for argument in broadcast))
        is_tuple = isinstance(answers, tuple)
        if not is_tuple:
            answers = (answers,)
        if results is None:
            results = [np.empty(stack + np.shape(answer), np.result_type(answer)) for answer in answers]
        for result, answer in zip(results, answers):
            result[place] = answer
    if results is None:
        raise Declined
    return tuple(results) if is_tuple else results[0]


def _triu_for(own: Callable[..., Any], lapack: Lapack) -> Callable[..., Any]:
    def triu(m: Any, *others: Any, **named: Any) -> Any:
        if type(m) is not np.ndarray or m.ndim != 2 or others or named or m.dtype.char not in "fdFD" or not m.dtype.isnative:
            return own(m, *others, **named)
        triangle = np.empty(m.shape, m.dtype)
        try:
            lapack.copy(m, triangle, UPPER)
        except Declined:
            return own(m)
        return triangle

    return triu
