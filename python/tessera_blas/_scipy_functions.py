"""The whole functions of scipy.linalg's face (see _scipy_linalg.py), for arrays that are not small.

There are two kinds. `_BATCHED` stand for the functions of `scipy.linalg._batched_linalg`, which newer releases call below their
checks. `_PUBLIC` stand for whole functions of older releases. All answer in arrays that lie as those of SciPy's do, or raise
`Declined`. None writes to its arguments, so that the function that was there can always compute instead. Source: SciPy 1.13 to
1.18, LAPACK 3.12.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from tessera_blas._lapack import COLUMNS, FULL, LOWER, NO_TRANS, ROWS, TRANS, UPPER, Declined, Lapack
from tessera_blas._scipy_routines import (
    PREFIX, PROBES, REAL, Problem, count_of, gesdd, inverse_bound, is_well_conditioned, keep, probes, scipy_routines)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera_blas._lapack import Array
    from tessera_blas._libraries import Libraries

# SciPy's numbers of structures, as _batched_linalg takes them.
_UNKNOWN, _GENERAL, _POSITIVE, _SYMMETRIC, _HERMITIAN = -1, 0, 101, 201, 211
_SOLVERS = {_POSITIVE: b"posv", _SYMMETRIC: b"sysv", _HERMITIAN: b"sysv"}
# Modes of qr, likewise.
_FULL_Q, _ONLY_R, _RAW, _ECONOMIC = 1, 11, 21, 31

# The condition of matrices, of which SciPy warns.

_PIECE = 1 << 22


def _sum_of_squares(array: Array) -> float:
    """Of dense elements, with rounding errors, by all processors. Infinite or NaN if an element is, or by overflow.

    BLAS adds up in the type of the elements. Pieces keep the error small in single precision.
    """
    flat = array.reshape(-1, order="A")
    if flat.dtype.kind == "c":
        flat = flat.view(REAL[flat.dtype.char])
    total = 0.0
    # NumPy's dot tells of overflow, which SciPy does not.
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _PIECE):
            piece = flat[start:start + _PIECE]
            total += float(np.dot(piece, piece))
    return total


def is_finite(array: Array) -> bool:
    """Tell that all elements are finite. False also if that is not quickly known."""
    if (array.dtype.char not in "fdFD" or not array.dtype.isnative or not array.flags.aligned or not array.flags.forc):
        return False
    return math.isfinite(_sum_of_squares(array))


def _require_finite(check_finite: Any, copied: Array) -> None:
    """Leave to SciPy what it will not accept; of a copy, which is dense."""
    if check_finite and not is_finite(copied):
        raise Declined


def _frobenius_bound(p: Problem, dense: Array, is_triangle: bool = False) -> float:
    """An upper bound of the Frobenius norm; infinite if it is not quickly known."""
    squares = _sum_of_squares(dense)
    lost = dense.size * 2 * float(np.finfo(p.real).tiny)
    # Squares that underflow add up to less than `lost`.
    if not (lost < squares < math.inf):
        return math.inf
    return math.sqrt((4 if is_triangle else 2) * squares)


def _require_well_conditioned(p: Problem, n: int, frobenius: float, inverse: float, estimate: Callable[[], float]) -> None:
    """Leave matrices to SciPy of which it may warn.

    Parameters
    ----------
    frobenius, inverse : float
        Bounds of the matrix's Frobenius norm and of its inverse's 2-norm. Their 1-norms may be sqrt(n) times as large.
    estimate : callable
        Gives the reciprocal condition number that SciPy would find, if the bounds do not tell.
    """
    if not is_well_conditioned(p, frobenius, n * inverse) and not estimate() > 4 * float(np.finfo(p.real).eps):
        raise Declined


def _one_norm(matrix: Array) -> float:
    """Of a matrix whose rows or columns are dense, which are not copied."""
    lange, = scipy_routines(("lange",), matrix.dtype.char)
    return float(lange("1", matrix) if matrix.flags.f_contiguous else lange("I", matrix.T))


def _symmetric_one_norm(matrix: Array, part: int) -> float:
    sizes = np.abs(np.tril(matrix) if part == LOWER else np.triu(matrix))
    return float((sizes.sum(axis=0) + sizes.sum(axis=1) - sizes.diagonal()).max())


# The structure of matrices, which SciPy finds out by itself.

_BLOCK = 512


def _structure_of(a: Array) -> int:
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


def _is_symmetric(a: Array, conjugate: bool) -> bool:
    n = a.shape[0]
    for i in range(0, n, _BLOCK):
        for j in range(0, i + 1, _BLOCK):
            block, other = a[i:i + _BLOCK, j:j + _BLOCK], a[j:j + _BLOCK, i:i + _BLOCK].T
            if not np.array_equal(block, other.conj() if conjugate else other):
                return False
    return True


def _mirror(p: Problem, matrix: Array, part: int) -> None:
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


# The functions of _batched_linalg: one matrix each, results in rows.


def _require_copies(*overwrite: Any) -> None:
    """Leave to SciPy what it computes in place, with results where the arguments are."""
    if any(overwrite):
        raise Declined


def _solve(p: Problem, a: Any, b: Any, structure: Any, lower: Any, transposed: Any, overwrite_a: Any,
           overwrite_b: Any) -> Any:
    # Of a structure that SciPy is to find, Cholesky's decision is asked later.
    n = p.order(_SOLVERS.get(structure, b"gesv"), a, count_of(b))
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


def _solve_general(p: Problem, a: Array, b: Array, transposed: bool) -> Array:
    n = b.shape[0]
    factors, is_transpose = p.rows_as_it_lies(a)
    frobenius, pivots = _frobenius_bound(p, factors), np.empty(n, np.int64)
    if frobenius == math.inf:
        raise Declined  # Before the work: it may have a NaN.
    p.call("getrf", ROWS, n, n, factors, n, pivots)
    trans = TRANS if is_transpose != transposed else NO_TRANS

    def estimate() -> float:
        gecon, = scipy_routines(("gecon",), p.kind)
        # The rows are columns of the transpose, whose infinity norm is the matrix's 1-norm.
        return float(gecon(factors.T, _one_norm(a), norm="1" if is_transpose else "I")[0])

    x, inverse = _solved(p, b, lambda x: p.call("getrs", ROWS, trans, n, x.shape[1], factors, n, pivots, x, x.shape[1]))
    _require_well_conditioned(p, n, frobenius, inverse, estimate)
    return x


def _solve_positive(p: Problem, a: Array, b: Array, part: int) -> Array:
    n = b.shape[0]
    c = p.rows(a, part)
    frobenius = _frobenius_bound(p, c, is_triangle=True)
    p.call("potrf", ROWS, part, n, c, n)

    def estimate() -> float:
        pocon, = scipy_routines(("pocon",), p.kind)
        return float(pocon(c.T, _symmetric_one_norm(a, part), uplo="U" if part == LOWER else "L")[0])

    x, inverse = _solved(p, b, lambda x: p.call("potrs", ROWS, part, n, x.shape[1], c, n, x, x.shape[1]))
    _require_well_conditioned(p, n, frobenius, inverse, estimate)
    return x


def _solve_symmetric(p: Problem, a: Array, b: Array, part: int) -> Array:
    n = b.shape[0]
    ldu, pivots = p.rows(a, part), np.empty(n, np.int64)
    frobenius = _frobenius_bound(p, ldu, is_triangle=True)
    p.call("sytrf", ROWS, part, n, ldu, n, pivots)

    def estimate() -> float:
        sycon, = scipy_routines(("sycon",), p.kind)
        norm = _symmetric_one_norm(a, part)
        return float(sycon(ldu.T, pivots.astype(sycon.int_dtype), norm, lower=part == UPPER)[0])

    x, inverse = _solved(p, b, lambda x: p.call("sytrs", ROWS, part, n, x.shape[1], ldu, n, pivots, x, x.shape[1]))
    _require_well_conditioned(p, n, frobenius, inverse, estimate)
    return x


def _solved(p: Problem, b: Array, solve: Callable[[Array], None]) -> tuple[Array, float]:
    """The solution, and a bound of the inverse's 2-norm: `probes` are solved as further right-hand sides."""
    n, count = b.shape
    both = np.empty((n, count + PROBES), p.kind)
    p.lapack.copy(b, both[:, :count])
    both[:, count:] = probes(n)
    solve(both)
    return p.rows(both[:, :count]), inverse_bound(both[:, count:])


def _inv(p: Problem, a: Any, structure: Any, overwrite_a: Any, lower: Any) -> Any:
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


def _cholesky(p: Problem, a: Any, lower: Any, overwrite_a: Any, clean: Any) -> Any:
    """SciPy's own has zeros in the other triangle whatever `clean` is, unless it overwrites."""
    n, part = p.order(b"potrf", a), LOWER if lower else UPPER
    _require_copies(overwrite_a)
    c = p.rows(a, part)
    p.call("potrf", ROWS, part, n, c, n)
    return c, []


def _svd(p: Problem, a: Any, driver: Any, compute_uv: Any, full_matrices: Any, overwrite_a: Any) -> Any:
    """In columns, as SciPy does: the signs of the vectors are those of LAPACK for this matrix, not for its transpose."""
    if overwrite_a or driver != "gesdd":
        raise Declined
    u, s, vt, _ = gesdd(p, a, compute_uv=compute_uv, full_matrices=full_matrices)
    return (p.rows(u), s, p.rows(vt), []) if compute_uv else (s, [])


def _lstsq(p: Problem, a: Any, b: Any, cond: Any, driver: Any, overwrite_a: Any, overwrite_b: Any) -> Any:
    m, n = p.sizes(b"gelsd", a, count_of(b))
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


def _qr(p: Problem, a: Any, overwrite_a: Any, mode: Any, pivoting: Any) -> Any:
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


def _det(p: Problem, a: Any, overwrite_a: Any) -> Any:
    return np.array(_determinant(p, a, False), p.kind)


def _determinant(p: Problem, a: Array, check_finite: Any) -> Any:
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


def _lu(p: Problem, a: Any, permute_l: Any, overwrite_a: Any) -> Any:
    keep(a, overwrite_a)
    if getattr(sys.modules["scipy.linalg.lapack"], "HAS_ILP64", False):
        raise Declined  # Its permutations have wider numbers.
    return _lower_and_upper(p, a, permute_l, False)


def _lower_and_upper(p: Problem, a: Array, permute_l: Any,
                     check_finite: Any) -> tuple[Array, Array, Array]:
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


def _public_det(p: Problem, a: Any, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    value = _determinant(p, a, check_finite)
    return np.complex128(value) if p.is_complex else np.float64(value)


def _public_lu(p: Problem, a: Any, permute_l: Any = False, overwrite_a: Any = False, check_finite: Any = True,
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


def _public_qr(p: Problem, a: Any, overwrite_a: Any = False, lwork: Any = None, mode: Any = "full", pivoting: Any = False,
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
    problems = {kind: Problem(lapack, kind) for kind in PREFIX}
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
