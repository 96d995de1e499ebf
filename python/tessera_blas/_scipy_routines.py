"""The routines of scipy.linalg's face (see _scipy_linalg.py), in the place of f2py's, and what all of the face share.

They stand for the LAPACK routines that SciPy's functions get from `get_lapack_funcs`, for arrays that are not small. They answer
in arrays that lie as those of f2py's do, or raise `Declined`. None writes to its arguments, so that the routine that was there
can always compute instead. Source: SciPy 1.13 to 1.18, LAPACK 3.12.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from tessera_blas import _progress
from tessera_blas._lapack import (
    ALL_VECTORS, COLUMNS, CONJ_TRANS, FULL, LOWER, NO_TRANS, NO_VECTORS, NON_UNIT, TRANS, UNIT, UPPER, VECTORS, Declined, Lapack,
    lie_of)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera_blas._lapack import Array
    from tessera_blas._libraries import Libraries

REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}
PREFIX = {"f": b"s", "d": b"d", "F": b"c", "D": b"z"}
_TRANSPOSITIONS = {0: NO_TRANS, 1: TRANS, 2: CONJ_TRANS}


class Problem:
    """What the functions need: Tessera's LAPACK and the type that SciPy computes in."""

    def __init__(self, lapack: Lapack, kind: str, integers: Any = np.int32) -> None:
        self.lapack, self.kind, self.integers = lapack, kind, np.dtype(integers)
        self.real = REAL[kind]
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
        if not self.lapack.runs_on_devices(PREFIX[self.kind] + name, m, n, k):
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

    def columns(self, matrix: Array, part: int = FULL) -> Array:
        """A copy in dense columns, which LAPACK takes from everyone and SciPy returns mostly."""
        copied = np.empty(matrix.shape, self.kind, order="F")
        self.lapack.copy(matrix, copied, part)
        return copied

    def rows(self, matrix: Array, part: int = FULL) -> Array:
        """A copy in dense rows."""
        copied = np.empty(matrix.shape, self.kind)
        self.lapack.copy(matrix, copied, part)
        return copied

    def rows_as_it_lies(self, matrix: Array) -> tuple[Array, bool]:
        """A copy in dense rows of a matrix or, if that is a straight copy, of its transpose; and whether it is."""
        lie = lie_of(matrix)
        is_transpose = lie is not None and lie[0] == COLUMNS
        return self.rows(matrix.T if is_transpose else matrix), is_transpose

    def right_sides(self, b: Array) -> tuple[Array, int]:
        """A copy in columns with the shape of `b`, which may be a vector, and the number of columns."""
        if b.ndim == 1:
            return b.copy(), 1
        return self.columns(b), b.shape[1]


def keep(array: Array, overwrite: Any) -> None:
    """Leave alone what SciPy computes in place, without a copy."""
    if overwrite and array.flags.f_contiguous:
        raise Declined


# The condition of matrices, of which SciPy warns.

PROBES = 16


def probes(n: int) -> Array:
    return np.random.default_rng(50).standard_normal((n, PROBES))


def inverse_bound(probed: Array) -> float:
    """An upper bound of the 2-norm of an inverse, from its products with `probes`.

    It fails with probability 1e-16. Source: Halko, Martinsson and Tropp, "Finding structure with randomness" (2011),
    lemma 4.1 with alpha = 10: the norm is at most 10 sqrt(2 / pi) times the largest product, times sqrt(2) if complex.
    """
    sizes: Array = np.abs(probed).astype(np.float64)
    largest = float(sizes.max())
    if not (0 < largest < math.inf):
        return math.inf
    return 12 * largest * float(np.sqrt(np.square(sizes / largest).sum(axis=0)).max())


def is_well_conditioned(p: Problem, norm: float, inverse_norm: float) -> bool:
    """Tell that SciPy's estimate, which is at least 1 / (norm * inverse_norm), is far from its limit for a warning."""
    return norm * inverse_norm < 1 / (4 * float(np.finfo(p.real).eps))


def scipy_routines(names: tuple[str, ...], kind: str) -> Any:
    return sys.modules["scipy.linalg.lapack"].get_lapack_funcs(names, dtype=np.dtype(kind))


# LAPACK's routines, as SciPy has them from f2py: matrices in columns, pivots from 0.


def _getrf(p: Problem, a: Any, *, overwrite_a: Any = 0) -> Any:
    m, n = p.sizes(b"getrf", a)
    keep(a, overwrite_a)
    lu, pivots = p.columns(a), np.empty(min(m, n), np.int64)
    info = p.lapack.call("getrf", p.kind, COLUMNS, m, n, lu, m, pivots)
    return lu, (pivots - 1).astype(p.integers), info


def _factors(p: Problem, matrix: Array) -> Array:
    """Factors in dense columns, as they are or copied."""
    return matrix if matrix.flags.f_contiguous else p.columns(matrix)


def count_of(b: Any) -> int:
    """Of right-hand sides."""
    if type(b) is not np.ndarray or b.ndim not in (1, 2):
        raise Declined
    return 1 if b.ndim == 1 else b.shape[1]


def _require_right_sides(p: Problem, n: int, b: Any, overwrite_b: Any) -> None:
    p.require(b, 1, 2)
    keep(b, overwrite_b)
    if b.shape[0] != n:
        raise Declined


def _getrs(p: Problem, lu: Any, piv: Any, b: Any, *, trans: Any = 0, overwrite_b: Any = 0) -> Any:
    n = p.order(b"getrs", lu, count_of(b))
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


def _potrf(p: Problem, a: Any, *, lower: Any = 0, clean: Any = 1, overwrite_a: Any = 0) -> Any:
    n, part = p.order(b"potrf", a), _part_of(lower)
    keep(a, overwrite_a)
    c = p.columns(a, part if clean else FULL)
    return c, p.lapack.call("potrf", p.kind, COLUMNS, part, n, c, n)


def _potrs(p: Problem, c: Any, b: Any, *, lower: Any = 0, overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"potrs", c, count_of(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    x, count = p.right_sides(b)
    p.call("potrs", COLUMNS, part, n, count, _factors(p, c), n, x, n)
    return x, 0


def _posv(p: Problem, a: Any, b: Any, *, lower: Any = 0, overwrite_a: Any = 0, overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"posv", a, count_of(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    keep(a, overwrite_a)
    c, (x, count) = p.columns(a), p.right_sides(b)
    info = p.lapack.call("potrf", p.kind, COLUMNS, part, n, c, n)
    if info == 0:
        p.call("potrs", COLUMNS, part, n, count, c, n, x, n)
    return c, x, info


def _sysv(p: Problem, a: Any, b: Any, *, lwork: Any = None, lower: Any = 0, overwrite_a: Any = 0,
          overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"sysv", a, count_of(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    keep(a, overwrite_a)
    ldu, (x, count), pivots = p.columns(a), p.right_sides(b), np.empty(n, np.int64)
    p.call("sytrf", COLUMNS, part, n, ldu, n, pivots)
    p.call("sytrs", COLUMNS, part, n, count, ldu, n, pivots, x, n)
    return ldu, pivots.astype(p.integers), x, 0


def _sytrf(p: Problem, a: Any, *, lower: Any = 0, lwork: Any = None, overwrite_a: Any = 0) -> Any:
    n, part = p.order(b"sytrf", a), _part_of(lower)
    keep(a, overwrite_a)
    ldu, pivots = p.columns(a), np.empty(n, np.int64)
    p.call("sytrf", COLUMNS, part, n, ldu, n, pivots)
    return ldu, pivots.astype(p.integers), 0


def _trtrs(p: Problem, a: Any, b: Any, *, lower: Any = 0, trans: Any = 0, unitdiag: Any = 0, lda: Any = None,
           overwrite_b: Any = 0) -> Any:
    n, part = p.order(b"trtrs", a, count_of(b)), _part_of(lower)
    _require_right_sides(p, n, b, overwrite_b)
    if trans not in _TRANSPOSITIONS or lda is not None:
        raise Declined
    x, count = p.right_sides(b)
    p.call("trtrs", COLUMNS, part, _TRANSPOSITIONS[trans], UNIT if unitdiag else NON_UNIT, n, count, _factors(p, a), n, x, n)
    return x, 0


def _syevd(p: Problem, a: Any, *, compute_v: Any = 1, lower: Any = 0, lwork: Any = None, liwork: Any = None,
           lrwork: Any = None, overwrite_a: Any = 0) -> Any:
    n, part = p.order(b"heevd" if p.is_complex else b"syevd", a), _part_of(lower)
    keep(a, overwrite_a)
    v, w = p.columns(a), np.empty(n, p.real)
    p.call("syevd", COLUMNS, VECTORS if compute_v else NO_VECTORS, part, n, v, n, w)
    return w, v, 0


def _syev(p: Problem, a: Any, *, compute_v: Any = 1, lower: Any = 0, lwork: Any = None, overwrite_a: Any = 0) -> Any:
    """The same as `_syevd`, whose divide and conquer hands NaN on, where an iteration tells of it."""
    w, v, info = _syevd(p, a, compute_v=compute_v, lower=lower, overwrite_a=overwrite_a)
    if np.isnan(w[:1]).any():
        raise Declined
    return w, v, info


def _syevr(p: Problem, a: Any, *, compute_v: Any = 1, lower: Any = 0, lwork: Any = None, lrwork: Any = None,
           liwork: Any = None, overwrite_a: Any = 0) -> Any:
    """The same as `_syevd` in another form. It is for all eigenvalues: some of them are faster by SciPy's own."""
    w, v, _ = _syev(p, a, compute_v=compute_v, lower=lower, overwrite_a=overwrite_a)
    n = w.shape[0]
    if not compute_v:
        return w, np.empty((0, 0), p.kind, order="F"), n, np.empty(0, p.integers), 0
    # The rows in which each vector is not 0: all.
    support = np.ones(2 * n, p.integers)
    support[1::2] = n
    return w, v, n, support, 0


def _sygvd(p: Problem, a: Any, b: Any, *, itype: Any = 1, jobz: Any = "V", uplo: Any = "L", lwork: Any = None,
           liwork: Any = None, lrwork: Any = None, overwrite_a: Any = 0, overwrite_b: Any = 0) -> Any:
    n = p.order(b"hegvd" if p.is_complex else b"sygvd", a)
    p.require(b, 2)
    if b.shape != a.shape or itype not in (1, 2, 3) or jobz not in ("N", "V") or uplo not in ("L", "U"):
        raise Declined
    keep(a, overwrite_a)
    keep(b, overwrite_b)
    v, destroyed, w = p.columns(a), p.columns(b), np.empty(n, p.real)
    p.call("sygvd", COLUMNS, int(itype), VECTORS if jobz == "V" else NO_VECTORS, LOWER if uplo == "L" else UPPER, n, v, n,
           destroyed, n, w)
    return w, v, 0


def gesdd(p: Problem, a: Any, *, compute_uv: Any = 1, full_matrices: Any = 1, lwork: Any = None,
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


def _gelsd(p: Problem, a: Any, b: Any, *others: Any) -> Any:
    """The sizes of workspaces stand between `b` and `cond`; complex types have one more. SciPy gives all by position."""
    if len(others) != (6 if p.is_complex else 5):
        raise Declined
    cond, _, overwrite_b = others[-3:]
    m, n = p.sizes(b"gelsd", a, count_of(b))
    _require_right_sides(p, max(m, n), b, overwrite_b)
    x, count = p.right_sides(b)
    destroyed, s, rank = p.columns(a), np.empty(min(m, n), p.real), np.zeros(1, np.int64)
    p.call("gelsd", COLUMNS, m, n, count, destroyed, m, x, max(m, n), s, float(cond), rank)
    return x, s, int(rank[0]), 0


def _lange(p: Problem, norm: Any, a: Any) -> Any:
    """The norm of the transpose, which SciPy need not copy."""
    if norm not in ("1", "I"):
        raise Declined
    p.require(a, 2)
    if a.flags.f_contiguous or not a.flags.c_contiguous:
        raise Declined
    lange, = scipy_routines(("lange",), p.kind)
    return lange("I" if norm == "1" else "1", a.T)


def _gecon(p: Problem, a: Any, anorm: Any, *, norm: Any = "1") -> Any:
    """A lower bound of the condition, where it is far from the limit for a warning. SciPy shows no other.

    LAPACK's estimate takes several solves of one right-hand side each, which no device and few processors make faster.
    Interchanges change neither norm, so that no pivots are needed.
    """
    n = p.order(b"getrf", a)
    if not a.flags.f_contiguous or norm not in ("1", "I"):
        raise Declined
    x = np.asarray(probes(n), p.kind, order="F")
    p.call("getrs", COLUMNS, NO_TRANS, n, PROBES, a, n, np.arange(1, n + 1), x, n)
    return _bound_of_condition(p, n, anorm, x)


def _pocon(p: Problem, a: Any, anorm: Any, *, uplo: Any = "U") -> Any:
    n = p.order(b"potrf", a)
    if not a.flags.f_contiguous or uplo not in ("U", "L"):
        raise Declined
    x = np.asarray(probes(n), p.kind, order="F")
    p.call("potrs", COLUMNS, UPPER if uplo == "U" else LOWER, n, PROBES, a, n, x, n)
    return _bound_of_condition(p, n, anorm, x)


def _bound_of_condition(p: Problem, n: int, anorm: Any, probed: Array) -> tuple[float, int]:
    norm, inverse = float(anorm), math.sqrt(n) * inverse_bound(probed)
    if not (norm > 0 and is_well_conditioned(p, norm, inverse)):
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
    "w,v,info = syev": (_syev, ("a,[compute_v,lower,lwork,overwrite_a]",)),
    "w,v,info = syevd": (_syevd, ("a,[compute_v,lower,lwork,liwork,overwrite_a]",
                                  "a,[compute_v,lower,lwork,liwork,lrwork,overwrite_a]")),
    "w,z,m,isuppz,info = syevr": (_syevr, (
        "a,[compute_v,range,lower,vl,vu,il,iu,abstol,lwork,liwork,overwrite_a]",
        "a,[compute_v,range,lower,vl,vu,il,iu,abstol,lwork,lrwork,liwork,overwrite_a]")),
    "w,v,info = sygvd": (_sygvd, ("a,b,[itype,jobz,uplo,lwork,liwork,overwrite_a,overwrite_b]",
                                  "a,b,[itype,jobz,uplo,lwork,lrwork,liwork,overwrite_a,overwrite_b]")),
    "u,s,vt,info = gesdd": (gesdd, ("a,[compute_uv,full_matrices,lwork,overwrite_a]",)),
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
    if known is None or parameters not in known[1] or kind not in "fdFD" or name[:1].encode() != PREFIX[kind]:
        return own
    compute, p = known[0], Problem(lapack, kind, integers)
    code = compute.__code__
    accepted = set(code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount])
    most = math.inf if compute is _gelsd else code.co_argcount - 1

    def run(*arguments: Any, **named: Any) -> Any:
        if len(arguments) <= most and named.keys() <= accepted:
            try:
                return compute(p, *arguments, **named)
            except Declined:
                pass
        return own(*arguments, **named)

    routine = _progress.watched(name, run)
    routine.__name__, routine.__doc__ = name, own.__doc__
    for attribute in ("module_name", "typecode", "dtype", "int_dtype", "prefix"):
        if hasattr(own, attribute):
            setattr(routine, attribute, getattr(own, attribute))
    return routine
