"""The functions of scipy.linalg's face (see _scipy_linalg.py), for arrays that are not small.

There are three kinds. `_ROUTINES` stand for the LAPACK routines that SciPy's functions get from `get_lapack_funcs`. `_BATCHED`
stand for those of `scipy.linalg._batched_linalg`, which newer releases call below their checks. `_PUBLIC` stand for whole
functions of older releases. All answer in arrays that lie as those of SciPy's do, or raise `Declined`. None writes to its
arguments, so that the function that was there can always compute instead. Source: SciPy 1.13 to 1.18, LAPACK 3.12.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from tessera_blas._lapack import (
    ALL_VECTORS, COLUMNS, CONJ_TRANS, FULL, LOWER, NO_TRANS, NO_VECTORS, NON_UNIT, ROWS, TRANS, UNIT, UPPER, VECTORS, Declined,
    Lapack, lie_of)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera_blas._libraries import Libraries

_REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}
_PREFIX = {"f": b"s", "d": b"d", "F": b"c", "D": b"z"}
_TRANSPOSITIONS = {0: NO_TRANS, 1: TRANS, 2: CONJ_TRANS}
# SciPy's numbers of structures, as _batched_linalg takes them.
_UNKNOWN, _GENERAL, _POSITIVE, _SYMMETRIC, _HERMITIAN = -1, 0, 101, 201, 211
_SOLVERS = {_POSITIVE: b"posv", _SYMMETRIC: b"sysv", _HERMITIAN: b"sysv"}
# Modes of qr, likewise.
_FULL_Q, _ONLY_R, _RAW, _ECONOMIC = 1, 11, 21, 31


class _Problem:
    """What the functions need: Tessera's LAPACK and the type that SciPy computes in."""

    def __init__(self, lapack: Lapack, kind: str, integers: Any = np.int32) -> None:
        self.lapack, self.kind, self.integers = lapack, kind, np.dtype(integers)
        self.real = _REAL[kind]
        self.is_complex = kind in "FD"

    def require(self, array: Any, *dimensions: int) -> None:
        """Take plain arrays of this type only."""
        if (type(array) is not np.ndarray or array.dtype.char != self.kind or array.ndim not in dimensions
                or array.size == 0 or not array.dtype.isnative or not array.flags.aligned):
            raise Declined

    def sizes(self, name: bytes, matrix: Any, k: int = 0) -> tuple[int, int]:
        """The sizes of a matrix that a routine takes to devices. The decision comes first, because it is mostly no."""
        if type(matrix) is not np.ndarray or matrix.ndim != 2:
            raise Declined
        m, n = matrix.shape
        if not self.lapack.runs_on_devices(_PREFIX[self.kind] + name, m, n, k):
            raise Declined
        self.require(matrix, 2)
        return m, n

    def order(self, name: bytes, matrix: Any, k: int = 0) -> int:
        """The same of a square matrix."""
        m, n = self.sizes(name, matrix, k)
        if m != n:
            raise Declined
        return n

    def call(self, name: str, layout: int, *arguments: Any) -> None:
        """Call a routine whose info must be 0."""
        if self.lapack.call(name, self.kind, layout, *arguments) != 0:
            raise Declined

    def columns(self, matrix: np.ndarray, part: int = FULL) -> np.ndarray:
        """A copy in dense columns, which LAPACK takes from everyone and SciPy returns mostly."""
        copied = np.empty(matrix.shape, self.kind, order="F")
        self.lapack.copy(matrix, copied, part)
        return copied

    def rows(self, matrix: np.ndarray, part: int = FULL) -> np.ndarray:
        """A copy in dense rows."""
        copied = np.empty(matrix.shape, self.kind)
        self.lapack.copy(matrix, copied, part)
        return copied

    def rows_as_it_lies(self, matrix: np.ndarray) -> tuple[np.ndarray, bool]:
        """A copy in dense rows of a matrix or, if that is a straight copy, of its transpose; and whether it is."""
        lie = lie_of(matrix)
        is_transpose = lie is not None and lie[0] == COLUMNS
        return self.rows(matrix.T if is_transpose else matrix), is_transpose

    def right_sides(self, b: np.ndarray) -> tuple[np.ndarray, int]:
        """A copy in columns with the shape of `b`, which may be a vector, and the number of columns."""
        if b.ndim == 1:
            return b.copy(), 1
        return self.columns(b), b.shape[1]


def _keep(array: np.ndarray, overwrite: Any) -> None:
    """Leave alone what SciPy computes in place, without a copy."""
    if overwrite and array.flags.f_contiguous:
        raise Declined


# The condition of matrices, of which SciPy warns.

_PROBES = 16
_PIECE = 1 << 22


def _sum_of_squares(array: np.ndarray) -> float:
    """Of dense elements, with rounding errors, by all processors. Infinite or NaN if an element is, or by overflow.

    BLAS adds up in the type of the elements. Pieces keep the error small in single precision.
    """
    flat = array.reshape(-1, order="A")
    if flat.dtype.kind == "c":
        flat = flat.view(_REAL[flat.dtype.char])
    total = 0.0
    # NumPy's dot tells of overflow, which SciPy does not.
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _PIECE):
            piece = flat[start:start + _PIECE]
            total += float(np.dot(piece, piece))
    return total


def is_finite(array: np.ndarray) -> bool:
    """Tell that all elements are finite. False also if that is not quickly known."""
    if (array.dtype.char not in "fdFD" or not array.dtype.isnative or not array.flags.aligned or not array.flags.forc):
        return False
    return math.isfinite(_sum_of_squares(array))


def _require_finite(check_finite: Any, copied: np.ndarray) -> None:
    """Leave to SciPy what it will not accept; of a copy, which is dense."""
    if check_finite and not is_finite(copied):
        raise Declined


def _frobenius_bound(p: _Problem, dense: np.ndarray, is_triangle: bool = False) -> float:
    """An upper bound of the Frobenius norm; infinite if it is not quickly known."""
    squares = _sum_of_squares(dense)
    lost = dense.size * 2 * float(np.finfo(p.real).tiny)
    # Squares that underflow add up to less than `lost`.
    if not (lost < squares < math.inf):
        return math.inf
    return math.sqrt((4 if is_triangle else 2) * squares)


def _probes(n: int) -> np.ndarray:
    return np.random.default_rng(50).standard_normal((n, _PROBES))


def _inverse_bound(probed: np.ndarray) -> float:
    """An upper bound of the 2-norm of an inverse, from its products with `_probes`.

    It fails with probability 1e-16. Source: Halko, Martinsson and Tropp, "Finding structure with randomness" (2011),
    lemma 4.1 with alpha = 10: the norm is at most 10 sqrt(2 / pi) times the largest product, times sqrt(2) if complex.
    """
    sizes = np.abs(probed).astype(np.float64)
    largest = float(sizes.max())
    if not (0 < largest < math.inf):
        return math.inf
    return 12 * largest * float(np.sqrt(np.square(sizes / largest).sum(axis=0)).max())


def _is_well_conditioned(p: _Problem, norm: float, inverse_norm: float) -> bool:
    """Tell that SciPy's estimate, which is at least 1 / (norm * inverse_norm), is far from its limit for a warning."""
    return norm * inverse_norm < 1 / (4 * float(np.finfo(p.real).eps))


def _require_well_conditioned(p: _Problem, n: int, frobenius: float, inverse: float, estimate: Callable[[], float]) -> None:
    """Leave matrices to SciPy of which it may warn.

    Parameters
    ----------
    frobenius, inverse : float
        Bounds of the matrix's Frobenius norm and of its inverse's 2-norm. Their 1-norms may be sqrt(n) times as large.
    estimate : callable
        Gives the reciprocal condition number that SciPy would find, if the bounds do not tell.
    """
    if not _is_well_conditioned(p, frobenius, n * inverse) and not estimate() > 4 * float(np.finfo(p.real).eps):
        raise Declined


def _scipy_routines(names: tuple[str, ...], kind: str) -> Any:
    return sys.modules["scipy.linalg.lapack"].get_lapack_funcs(names, dtype=np.dtype(kind))


def _one_norm(matrix: np.ndarray) -> float:
    """Of a matrix whose rows or columns are dense, which are not copied."""
    lange, = _scipy_routines(("lange",), matrix.dtype.char)
    return float(lange("1", matrix) if matrix.flags.f_contiguous else lange("I", matrix.T))


def _symmetric_one_norm(matrix: np.ndarray, part: int) -> float:
    sizes = np.abs(np.tril(matrix) if part == LOWER else np.triu(matrix))
    return float((sizes.sum(axis=0) + sizes.sum(axis=1) - sizes.diagonal()).max())


# The structure of matrices, which SciPy finds out by itself.

_BLOCK = 512


def _structure_of(a: np.ndarray) -> int:
    """Tell a general matrix, and one of which SciPy tries whether it is positive definite. All others are SciPy's."""
    n = a.shape[0]
    if n < 8 or not a[-1, :n // 2].any() or not a[0, n // 2:].any():
        raise Declined  # It may be triangular or have few diagonals.
    row, column = a[0], a[:, 0]
    may_be_symmetric = bool((row == column).all())
    may_be_hermitian = bool((row == column.conj()).all())
    if a.dtype.kind == "c" and may_be_symmetric and may_be_hermitian:
        raise Declined
    if not (may_be_symmetric or may_be_hermitian) or not _is_symmetric(a, may_be_hermitian):
        return _GENERAL
    if not may_be_hermitian or not (a.diagonal().real > 0).all():
        raise Declined
    return _POSITIVE


def _is_symmetric(a: np.ndarray, conjugate: bool) -> bool:
    n = a.shape[0]
    for i in range(0, n, _BLOCK):
        for j in range(0, i + 1, _BLOCK):
            block, other = a[i:i + _BLOCK, j:j + _BLOCK], a[j:j + _BLOCK, i:i + _BLOCK].T
            if not np.array_equal(block, other.conj() if conjugate else other):
                return False
    return True


def _mirror(p: _Problem, matrix: np.ndarray, part: int) -> None:
    """Make a Hermitian matrix of one of its triangles."""
    if part == LOWER:
        matrix = matrix.T
    n = matrix.shape[0]
    for i in range(0, n, _BLOCK):
        end = min(i + _BLOCK, n)
        diagonal = matrix[i:end, i:end]
        diagonal[...] = np.triu(diagonal) + np.triu(diagonal, 1).conj().T
        if end < n:
            p.lapack.copy(matrix[i:end, end:].T, matrix[end:, i:end], FULL, p.is_complex)


# LAPACK's routines, as SciPy has them from f2py: matrices in columns, pivots from 0.


def _getrf(p: _Problem, a: Any, *, overwrite_a: Any = 0) -> Any:
    m, n = p.sizes(b"getrf", a)
    _keep(a, overwrite_a)
    lu, pivots = p.columns(a), np.empty(min(m, n), np.int64)
    info = p.lapack.call("getrf", p.kind, COLUMNS, m, n, lu, m, pivots)
    return lu, (pivots - 1).astype(p.integers), info


def _factors(p: _Problem, matrix: np.ndarray) -> np.ndarray:
    """Factors in dense columns, as they are or copied."""
    return matrix if matrix.flags.f_contiguous else p.columns(matrix)


def _count(b: Any) -> int:
    """Of right-hand sides."""
    if type(b) is not np.ndarray or b.ndim not in (1, 2):
        raise Declined
    return 1 if b.ndim == 1 else b.shape[1]


def _require_right_sides(p: _Problem, n: int, b: Any, overwrite_b: Any) -> None:
    p.require(b, 1, 2)
    _keep(b, overwrite_b)
    if b.shape[0] != n:
        raise Declined


def _getrs(p: _Problem, lu: Any, piv: Any, b: Any, *, trans: Any = 0, overwrite_b: Any = 0) -> Any:
    n = p.order(b"getrs", lu, _count(b))
    _require_right_sides(p, n, b, overwrite_b)
    if (type(piv) is not np.ndarray or piv.shape != (n,) or piv.dtype.kind != "i" or trans not in _TRANSPOSITIONS
            or piv.min() < 0 or piv.max() >= n):
        raise Declined
    x, count = p.right_sides(b)
    p.call("getrs", COLUMNS, _TRANSPOSITIONS[trans], n, count, _factors(p, lu), n, piv.astype(np.int64) + 1, x, n)
    return x, 0


def _part_of(lower: Any) -> int:
    if isinstance(lower, np.ndarray) and lower.size != 1:
        raise Declined
    return LOWER if lower else UPPER


def _potrf(p: _Problem, a: Any, *, lower: Any = 0, clean: Any = 1, overwrite_a: Any = 0) -> Any:
    n, part = p.order(b"potrf", a), _part_of(lower)
    _keep(a, overwrite_a)
    c = p.columns(a, part if clean else FULL)
    return c, p.lapack.call("potrf", p.kind, COLUMNS, part, n, c, n)


def _potrs(p: _Problem, c: Any, b: Any, *, lower: Any = 0, overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"potrs", c, _count(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    x, count = p.right_sides(b)
    p.call("potrs", COLUMNS, part, n, count, _factors(p, c), n, x, n)
    return x, 0


def _posv(p: _Problem, a: Any, b: Any, *, lower: Any = 0, overwrite_a: Any = 0, overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"posv", a, _count(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    _keep(a, overwrite_a)
    c, (x, count) = p.columns(a), p.right_sides(b)
    info = p.lapack.call("potrf", p.kind, COLUMNS, part, n, c, n)
    if info == 0:
        p.call("potrs", COLUMNS, part, n, count, c, n, x, n)
    return c, x, info


def _sysv(p: _Problem, a: Any, b: Any, *, lwork: Any = None, lower: Any = 0, overwrite_a: Any = 0,
          overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"sysv", a, _count(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    _keep(a, overwrite_a)
    ldu, (x, count), pivots = p.columns(a), p.right_sides(b), np.empty(n, np.int64)
    p.call("sytrf", COLUMNS, part, n, ldu, n, pivots)
    p.call("sytrs", COLUMNS, part, n, count, ldu, n, pivots, x, n)
    return ldu, pivots.astype(p.integers), x, 0


def _sytrf(p: _Problem, a: Any, *, lower: Any = 0, lwork: Any = None, overwrite_a: Any = 0) -> Any:
    n, part = p.order(b"sytrf", a), _part_of(lower)
    _keep(a, overwrite_a)
    ldu, pivots = p.columns(a), np.empty(n, np.int64)
    p.call("sytrf", COLUMNS, part, n, ldu, n, pivots)
    return ldu, pivots.astype(p.integers), 0


def _trtrs(p: _Problem, a: Any, b: Any, *, lower: Any = 0, trans: Any = 0, unitdiag: Any = 0, lda: Any = None,
           overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"trtrs", a, _count(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    if trans not in _TRANSPOSITIONS or lda is not None:
        raise Declined
    x, count = p.right_sides(b)
    p.call("trtrs", COLUMNS, part, _TRANSPOSITIONS[trans], UNIT if unitdiag else NON_UNIT, n, count, _factors(p, a), n, x, n)
    return x, 0


def _syevd(p: _Problem, a: Any, *, compute_v: Any = 1, lower: Any = 0, lwork: Any = None, liwork: Any = None,
           lrwork: Any = None, overwrite_a: Any = 0) -> Any:
    n, part = p.order(b"heevd" if p.is_complex else b"syevd", a), _part_of(lower)
    _keep(a, overwrite_a)
    v, w = p.columns(a), np.empty(n, p.real)
    p.call("syevd", COLUMNS, VECTORS if compute_v else NO_VECTORS, part, n, v, n, w)
    return w, v, 0


def _syevr(p: _Problem, a: Any, *, compute_v: Any = 1, lower: Any = 0, lwork: Any = None, lrwork: Any = None,
           liwork: Any = None, overwrite_a: Any = 0) -> Any:
    """The same as `_syevd` in another form. It is for all eigenvalues: some of them are faster by SciPy's own."""
    w, v, _ = _syevd(p, a, compute_v=compute_v, lower=lower, overwrite_a=overwrite_a)
    n = w.shape[0]
    if not compute_v:
        return w, np.empty((0, 0), p.kind, order="F"), n, np.empty(0, p.integers), 0
    # The rows in which each vector is not 0: all.
    support = np.ones(2 * n, p.integers)
    support[1::2] = n
    return w, v, n, support, 0


def _sygvd(p: _Problem, a: Any, b: Any, *, itype: Any = 1, jobz: Any = "V", uplo: Any = "L", lwork: Any = None,
           liwork: Any = None, lrwork: Any = None, overwrite_a: Any = 0, overwrite_b: Any = 0) -> Any:
    n = p.order(b"hegvd" if p.is_complex else b"sygvd", a)
    p.require(b, 2)
    if b.shape != a.shape or itype not in (1, 2, 3) or jobz not in ("N", "V") or uplo not in ("L", "U"):
        raise Declined
    _keep(a, overwrite_a)
    _keep(b, overwrite_b)
    v, destroyed, w = p.columns(a), p.columns(b), np.empty(n, p.real)
    p.call("sygvd", COLUMNS, int(itype), VECTORS if jobz == "V" else NO_VECTORS, LOWER if uplo == "L" else UPPER, n, v, n,
           destroyed, n, w)
    return w, v, 0


def _gesdd(p: _Problem, a: Any, *, compute_uv: Any = 1, full_matrices: Any = 1, lwork: Any = None,
           overwrite_a: Any = 0) -> Any:
    m, n = p.sizes(b"gesdd", a)
    least = min(m, n)
    destroyed, s = p.columns(a), np.empty(least, p.real)
    if not compute_uv:
        nothing = np.zeros((1, 1), p.kind)
        p.call("gesdd", COLUMNS, NO_VECTORS, m, n, destroyed, m, s, None, m, None, n)
        return nothing, s, nothing.copy(), 0
    u = np.empty((m, m if full_matrices else least), p.kind, order="F")
    vt = np.empty((n if full_matrices else least, n), p.kind, order="F")
    p.call("gesdd", COLUMNS, ALL_VECTORS if full_matrices else VECTORS, m, n, destroyed, m, s, u, m, vt, vt.shape[0])
    return u, s, vt, 0


def _gelsd(p: _Problem, a: Any, b: Any, *others: Any) -> Any:
    """The sizes of workspaces stand between `b` and `cond`; complex types have one more. SciPy gives all by position."""
    if len(others) != (6 if p.is_complex else 5):
        raise Declined
    cond, _, overwrite_b = others[-3:]
    m, n = p.sizes(b"gelsd", a, _count(b))
    _require_right_sides(p, max(m, n), b, overwrite_b)
    x, count = p.right_sides(b)
    destroyed, s, rank = p.columns(a), np.empty(min(m, n), p.real), np.zeros(1, np.int64)
    p.call("gelsd", COLUMNS, m, n, count, destroyed, m, x, max(m, n), s, float(cond), rank)
    return x, s, int(rank[0]), 0


def _lange(p: _Problem, norm: Any, a: Any) -> Any:
    """The norm of the transpose, which SciPy need not copy."""
    if norm not in ("1", "I"):
        raise Declined
    p.require(a, 2)
    if a.flags.f_contiguous or not a.flags.c_contiguous:
        raise Declined
    lange, = _scipy_routines(("lange",), p.kind)
    return lange("I" if norm == "1" else "1", a.T)


def _gecon(p: _Problem, a: Any, anorm: Any, *, norm: Any = "1") -> Any:
    """A lower bound of the condition, where it is far from the limit for a warning. SciPy shows no other.

    LAPACK's estimate takes several solves of one right-hand side each, which no device and few processors make faster.
    Interchanges change neither norm, so that no pivots are needed.
    """
    n = p.order(b"getrf", a)
    if not a.flags.f_contiguous or norm not in ("1", "I"):
        raise Declined
    x = np.asarray(_probes(n), p.kind, order="F")
    p.call("getrs", COLUMNS, NO_TRANS, n, _PROBES, a, n, np.arange(1, n + 1), x, n)
    return _bound_of_condition(p, n, anorm, x)


def _pocon(p: _Problem, a: Any, anorm: Any, *, uplo: Any = "U") -> Any:
    n = p.order(b"potrf", a)
    if not a.flags.f_contiguous or uplo not in ("U", "L"):
        raise Declined
    x = np.asarray(_probes(n), p.kind, order="F")
    p.call("potrs", COLUMNS, UPPER if uplo == "U" else LOWER, n, _PROBES, a, n, x, n)
    return _bound_of_condition(p, n, anorm, x)


def _bound_of_condition(p: _Problem, n: int, anorm: Any, probed: np.ndarray) -> tuple[float, int]:
    norm, inverse = float(anorm), math.sqrt(n) * _inverse_bound(probed)
    if not (norm > 0 and _is_well_conditioned(p, norm, inverse)):
        raise Declined
    return 1 / (norm * inverse), 0


# Each with what f2py's description says behind the results: releases that differ have another, and keep their own.
_ROUTINES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "lu,piv,info = getrf": (_getrf, ("a,[overwrite_a]",)),
    "x,info = getrs": (_getrs, ("lu,piv,b,[trans,overwrite_b]",)),
    "c,info = potrf": (_potrf, ("a,[lower,clean,overwrite_a]",)),
    "x,info = potrs": (_potrs, ("c,b,[lower,overwrite_b]",)),
    "c,x,info = posv": (_posv, ("a,b,[lower,overwrite_a,overwrite_b]",)),
    "udut,ipiv,x,info = sysv": (_sysv, ("a,b,[lwork,lower,overwrite_a,overwrite_b]",)),
    "ldu,ipiv,info = sytrf": (_sytrf, ("a,[lower,lwork,overwrite_a]",)),
    "x,info = trtrs": (_trtrs, ("a,b,[lower,trans,unitdiag,lda,overwrite_b]",)),
    "w,v,info = syev": (_syevd, ("a,[compute_v,lower,lwork,overwrite_a]",)),
    "w,v,info = syevd": (_syevd, ("a,[compute_v,lower,lwork,liwork,overwrite_a]",
                                  "a,[compute_v,lower,lwork,liwork,lrwork,overwrite_a]")),
    "w,z,m,isuppz,info = syevr": (_syevr, (
        "a,[compute_v,range,lower,vl,vu,il,iu,abstol,lwork,liwork,overwrite_a]",
        "a,[compute_v,range,lower,vl,vu,il,iu,abstol,lwork,lrwork,liwork,overwrite_a]")),
    "w,v,info = sygvd": (_sygvd, ("a,b,[itype,jobz,uplo,lwork,liwork,overwrite_a,overwrite_b]",
                                  "a,b,[itype,jobz,uplo,lwork,lrwork,liwork,overwrite_a,overwrite_b]")),
    "u,s,vt,info = gesdd": (_gesdd, ("a,[compute_uv,full_matrices,lwork,overwrite_a]",)),
    "x,s,rank,info = gelsd": (_gelsd, ("a,b,lwork,size_iwork,[cond,overwrite_a,overwrite_b]",
                                       "a,b,lwork,size_rwork,size_iwork,[cond,overwrite_a,overwrite_b]")),
    "n2 = lange": (_lange, ("norm,a",)),
    "rcond,info = gecon": (_gecon, ("a,anorm,[norm]",)),
    "rcond,info = pocon": (_pocon, ("a,anorm,[uplo]",)),
}
_REAL_NAMES = {"heev": "syev", "heevd": "syevd", "heevr": "syevr", "hegvd": "sygvd"}


def routines_for(libraries: Libraries) -> Callable[[Any], Any]:
    """Make the function that puts ours in the place of what `get_lapack_funcs` returns: a list or one routine."""
    lapack = Lapack(libraries)
    known: dict[Any, Any] = {}

    def ours(own: Any) -> Any:
        routine = known.get(own)
        if routine is None:
            routine = known[own] = _routine_for(own, lapack)
        return routine

    return lambda functions: [ours(own) for own in functions] if isinstance(functions, (list, tuple)) else ours(functions)


def _routine_for(own: Any, lapack: Lapack) -> Any:
    try:
        results, rest = own.__doc__.splitlines()[0].split(" = ")
        name, parameters = rest.rstrip(")").split("(")
        kind, integers = own.dtype.char, own.int_dtype
    except (AttributeError, IndexError, ValueError):
        return own
    known = _ROUTINES.get(f"{results} = {_REAL_NAMES.get(name[1:], name[1:])}")
    if known is None or parameters not in known[1] or kind not in "fdFD" or name[:1].encode() != _PREFIX[kind]:
        return own
    compute, p = known[0], _Problem(lapack, kind, integers)
    code = compute.__code__
    accepted = set(code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount])
    most = math.inf if compute is _gelsd else code.co_argcount - 1

    def routine(*arguments: Any, **named: Any) -> Any:
        if len(arguments) <= most and named.keys() <= accepted:
            try:
                return compute(p, *arguments, **named)
            except Declined:
                pass
        return own(*arguments, **named)

    routine.__name__, routine.__doc__ = name, own.__doc__
    for attribute in ("module_name", "typecode", "dtype", "int_dtype", "prefix"):
        if hasattr(own, attribute):
            setattr(routine, attribute, getattr(own, attribute))
    return routine


# The functions of _batched_linalg: one matrix each, results in rows.


def _require_copies(*overwrite: Any) -> None:
    """Leave to SciPy what it computes in place, with results where the arguments are."""
    if any(overwrite):
        raise Declined


def _solve(p: _Problem, a: Any, b: Any, structure: Any, lower: Any, transposed: Any, overwrite_a: Any,
           overwrite_b: Any) -> Any:
    # Of a structure that SciPy is to find, Cholesky's decision is asked later.
    n = p.order(_SOLVERS.get(structure, b"gesv"), a, _count(b))
    _require_copies(overwrite_a, overwrite_b)
    p.require(b, 2)
    if b.shape[0] != n or (transposed and p.is_complex):
        raise Declined
    if structure == _UNKNOWN:
        structure = _structure_of(a)
        if structure == _POSITIVE:
            p.order(b"posv", a, b.shape[1])
    if structure == _HERMITIAN and not p.is_complex:
        structure = _SYMMETRIC
    part = LOWER if lower else UPPER
    if structure == _GENERAL:
        return _solve_general(p, a, b, bool(transposed)), []
    if structure == _POSITIVE:
        return _solve_positive(p, a, b, part), []
    if structure == _SYMMETRIC:
        return _solve_symmetric(p, a, b, part), []
    raise Declined


def _solve_general(p: _Problem, a: np.ndarray, b: np.ndarray, transposed: bool) -> np.ndarray:
    n = b.shape[0]
    factors, is_transpose = p.rows_as_it_lies(a)
    frobenius, pivots = _frobenius_bound(p, factors), np.empty(n, np.int64)
    if frobenius == math.inf:
        raise Declined  # Before the work: it may have a NaN.
    p.call("getrf", ROWS, n, n, factors, n, pivots)
    trans = TRANS if is_transpose != transposed else NO_TRANS

    def estimate() -> float:
        gecon, = _scipy_routines(("gecon",), p.kind)
        # The rows are columns of the transpose, whose infinity norm is the matrix's 1-norm.
        return float(gecon(factors.T, _one_norm(a), norm="1" if is_transpose else "I")[0])

    x, inverse = _solved(p, b, lambda x: p.call("getrs", ROWS, trans, n, x.shape[1], factors, n, pivots, x, x.shape[1]))
    _require_well_conditioned(p, n, frobenius, inverse, estimate)
    return x


def _solve_positive(p: _Problem, a: np.ndarray, b: np.ndarray, part: int) -> np.ndarray:
    n = b.shape[0]
    c = p.rows(a, part)
    frobenius = _frobenius_bound(p, c, is_triangle=True)
    p.call("potrf", ROWS, part, n, c, n)

    def estimate() -> float:
        pocon, = _scipy_routines(("pocon",), p.kind)
        return float(pocon(c.T, _symmetric_one_norm(a, part), uplo="U" if part == LOWER else "L")[0])

    x, inverse = _solved(p, b, lambda x: p.call("potrs", ROWS, part, n, x.shape[1], c, n, x, x.shape[1]))
    _require_well_conditioned(p, n, frobenius, inverse, estimate)
    return x


def _solve_symmetric(p: _Problem, a: np.ndarray, b: np.ndarray, part: int) -> np.ndarray:
    n = b.shape[0]
    ldu, pivots = p.rows(a, part), np.empty(n, np.int64)
    frobenius = _frobenius_bound(p, ldu, is_triangle=True)
    p.call("sytrf", ROWS, part, n, ldu, n, pivots)

    def estimate() -> float:
        sycon, = _scipy_routines(("sycon",), p.kind)
        norm = _symmetric_one_norm(a, part)
        return float(sycon(ldu.T, pivots.astype(sycon.int_dtype), norm, lower=part == UPPER)[0])

    x, inverse = _solved(p, b, lambda x: p.call("sytrs", ROWS, part, n, x.shape[1], ldu, n, pivots, x, x.shape[1]))
    _require_well_conditioned(p, n, frobenius, inverse, estimate)
    return x


def _solved(p: _Problem, b: np.ndarray, solve: Callable[[np.ndarray], None]) -> tuple[np.ndarray, float]:
    """The solution, and a bound of the inverse's 2-norm: `_probes` are solved as further right-hand sides."""
    n, count = b.shape
    both = np.empty((n, count + _PROBES), p.kind)
    p.lapack.copy(b, both[:, :count])
    both[:, count:] = _probes(n)
    solve(both)
    return p.rows(both[:, :count]), _inverse_bound(both[:, count:])


def _inv(p: _Problem, a: Any, structure: Any, overwrite_a: Any, lower: Any) -> Any:
    n = p.order(b"potrf" if structure == _POSITIVE else b"getrf", a)
    _require_copies(overwrite_a)
    if structure == _UNKNOWN:
        structure = _structure_of(a)
        if structure == _POSITIVE:
            p.order(b"potrf", a)
    part = LOWER if lower else UPPER
    if structure == _GENERAL:
        inverse, pivots = p.rows(a), np.empty(n, np.int64)
        frobenius = _frobenius_bound(p, inverse)
        if frobenius == math.inf:
            raise Declined  # Before the work: it may have a NaN.
        p.call("getrf", ROWS, n, n, inverse, n, pivots)
        p.call("getri", ROWS, n, inverse, n, pivots)
    elif structure == _POSITIVE:
        inverse = p.rows(a, part)
        frobenius = _frobenius_bound(p, inverse, is_triangle=True)
        p.call("potrf", ROWS, part, n, inverse, n)
        p.call("potri", ROWS, part, n, inverse, n)
        _mirror(p, inverse, part)
    else:
        raise Declined

    def estimate() -> float:
        norm = _one_norm(a) if structure == _GENERAL else _symmetric_one_norm(a, part)
        return 1 / (norm * _one_norm(inverse))

    _require_well_conditioned(p, n, frobenius, _frobenius_bound(p, inverse), estimate)
    return inverse, []


def _cholesky(p: _Problem, a: Any, lower: Any, overwrite_a: Any, clean: Any) -> Any:
    """SciPy's own has zeros in the other triangle whatever `clean` is, unless it overwrites."""
    n, part = p.order(b"potrf", a), LOWER if lower else UPPER
    _require_copies(overwrite_a)
    c = p.rows(a, part)
    p.call("potrf", ROWS, part, n, c, n)
    return c, []


def _svd(p: _Problem, a: Any, driver: Any, compute_uv: Any, full_matrices: Any, overwrite_a: Any) -> Any:
    """In columns, as SciPy does: the signs of the vectors are those of LAPACK for this matrix, not for its transpose."""
    if overwrite_a or driver != "gesdd":
        raise Declined
    u, s, vt, _ = _gesdd(p, a, compute_uv=compute_uv, full_matrices=full_matrices)
    return (p.rows(u), s, p.rows(vt), []) if compute_uv else (s, [])


def _lstsq(p: _Problem, a: Any, b: Any, cond: Any, driver: Any, overwrite_a: Any, overwrite_b: Any) -> Any:
    m, n = p.sizes(b"gelsd", a, _count(b))
    _require_copies(overwrite_a, overwrite_b)
    p.require(b, 2)
    if driver != "gelsd" or b.shape[0] != m:
        raise Declined
    count = b.shape[1]
    destroyed, s, rank = p.rows(a), np.empty(min(m, n), p.real), np.zeros(1, np.int64)
    x = np.zeros((max(m, n), count), p.kind)
    p.lapack.copy(b, x[:m])
    p.call("gelsd", ROWS, m, n, count, destroyed, n, x, count, s, float(cond), rank)
    return x, rank[0], s, []


def _qr(p: _Problem, a: Any, overwrite_a: Any, mode: Any, pivoting: Any) -> Any:
    m, n = p.sizes(b"geqrf", a)
    _require_copies(overwrite_a, pivoting)
    if mode not in (_FULL_Q, _ONLY_R, _RAW, _ECONOMIC):
        raise Declined
    least = min(m, n)
    tau = np.empty(least, p.kind)
    if mode == _RAW:
        factors = p.columns(a)
        p.call("geqrf", COLUMNS, m, n, factors, m, tau)
        return factors, p.rows(factors[:least], UPPER), tau, None, []
    factors = p.rows(a)
    p.call("geqrf", ROWS, m, n, factors, n, tau)
    r = p.rows(factors[:least] if mode == _ECONOMIC else factors, UPPER)
    if mode == _ONLY_R:
        return None, r, None, None, []
    q = np.empty((m, least if mode == _ECONOMIC else m), p.kind)
    p.lapack.copy(factors[:, :least], q[:, :least])
    p.call("orgqr", ROWS, m, q.shape[1], least, q, q.shape[1], tau)
    return q, r, None, None, []


def _det(p: _Problem, a: Any, overwrite_a: Any) -> Any:
    return np.array(_determinant(p, a, False), p.kind)


def _determinant(p: _Problem, a: np.ndarray, check_finite: Any) -> Any:
    """In double precision."""
    n = p.order(b"getrf", a)
    factors, _ = p.rows_as_it_lies(a)
    _require_finite(check_finite, factors)
    pivots = np.empty(n, np.int64)
    p.call("getrf", ROWS, n, n, factors, n, pivots)
    value: Any = 1.0
    # One after the other, as SciPy does: overflow and underflow depend on the order.
    for pivot in factors.diagonal().tolist():
        value *= pivot
    if np.count_nonzero(pivots != np.arange(1, n + 1)) % 2:
        value = -value
    if not math.isfinite(abs(value)) or (p.real == "f" and abs(value) > float(np.finfo("f").max)):
        raise Declined
    return value


def _lu(p: _Problem, a: Any, permute_l: Any, overwrite_a: Any) -> Any:
    _keep(a, overwrite_a)
    if getattr(sys.modules["scipy.linalg.lapack"], "HAS_ILP64", False):
        raise Declined  # Its permutations have wider numbers.
    return _lower_and_upper(p, a, permute_l, False)


def _lower_and_upper(p: _Problem, a: np.ndarray, permute_l: Any,
                     check_finite: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The permutation (none if L is permuted), L and U."""
    m, n = p.sizes(b"getrf", a)
    least = min(m, n)
    factors, pivots = p.columns(a), np.empty(least, np.int64)
    _require_finite(check_finite, factors)
    if p.lapack.call("getrf", p.kind, COLUMNS, m, n, factors, m, pivots) < 0:
        raise Declined
    lower, upper = p.rows(factors[:, :least], LOWER), p.rows(factors[:least], UPPER)
    np.fill_diagonal(lower, 1)
    permutation = list(range(m))
    for i in range(least - 1, -1, -1):
        other = int(pivots[i]) - 1
        permutation[i], permutation[other] = permutation[other], permutation[i]
    if permute_l:
        return np.empty(0, np.int32), lower[permutation], upper
    return np.array(permutation, np.int32), lower, upper


_BATCHED: dict[str, Callable[..., Any]] = {
    "_solve": _solve, "_inv": _inv, "_cholesky": _cholesky, "_svd": _svd, "_lstsq": _lstsq, "_qr": _qr, "_det": _det,
    "_lu": _lu}


# Whole functions, of releases that have nothing to replace below them.


def _public_det(p: _Problem, a: Any, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    value = _determinant(p, a, check_finite)
    return np.complex128(value) if p.is_complex else np.float64(value)


def _public_lu(p: _Problem, a: Any, permute_l: Any = False, overwrite_a: Any = False, check_finite: Any = True,
               p_indices: Any = False) -> Any:
    permutation, lower, upper = _lower_and_upper(p, a, permute_l, check_finite)
    if permute_l:
        return lower, upper
    if p_indices:
        return permutation, lower, upper
    m = a.shape[0]
    matrix = np.zeros((m, m), p.real)
    matrix[np.arange(m), permutation] = 1
    return matrix, lower, upper


def _public_qr(p: _Problem, a: Any, overwrite_a: Any = False, lwork: Any = None, mode: Any = "full", pivoting: Any = False,
               check_finite: Any = True) -> Any:
    m, n = p.sizes(b"geqrf", a)
    if lwork is not None or pivoting or mode not in ("full", "qr", "r", "economic", "raw"):
        raise Declined
    least = min(m, n)
    factors, tau = p.columns(a), np.empty(least, p.kind)
    _require_finite(check_finite, factors)
    p.call("geqrf", COLUMNS, m, n, factors, m, tau)
    r = p.rows(factors[:least] if mode in ("economic", "raw") else factors, UPPER)
    if mode == "r":
        return (r,)
    if mode == "raw":
        return (factors, tau), r
    if mode == "economic" or m <= n:
        q = factors[:, :least]
    else:
        q = np.empty((m, m), p.kind, order="F")
        p.lapack.copy(factors, q[:, :n])
    p.call("orgqr", COLUMNS, m, q.shape[1], least, q, m, tau)
    return q, r


_PUBLIC: dict[str, Callable[..., Any]] = {"det": _public_det, "lu": _public_lu, "qr": _public_qr}


def function_for(name: str, own: Callable[..., Any], libraries: Libraries) -> Callable[..., Any]:
    """Make the function for arrays that are not small.

    Parameters
    ----------
    name : str
        Of a function of _batched_linalg, or of a public one.
    own : callable
        That function, which computes what Tessera declines.
    """
    lapack = Lapack(libraries)
    problems = {kind: _Problem(lapack, kind) for kind in _PREFIX}
    compute = _BATCHED.get(name) or _PUBLIC[name]
    names = compute.__code__.co_varnames[1:compute.__code__.co_argcount]
    least, most = len(names) - len(compute.__defaults__ or ()), len(names)

    def large(a: Any, *others: Any, **named: Any) -> Any:
        # Of one element SciPy makes other types than of many.
        if (type(a) is np.ndarray and a.ndim == 2 and a.size > 1 and least <= len(others) + 1 <= most
                and (not named or named.keys() <= set(names[len(others) + 1:]))):
            p = problems.get(a.dtype.char)
            if p is not None:
                try:
                    return compute(p, a, *others, **named)
                except Declined:
                    pass
        return own(a, *others, **named)

    return large
