"""The nine Level-3 routines through scipy.linalg.blas, every variant in four precisions, and SciPy functions that call
them: every line of the output is the same on any BLAS, except for rounding.
  tessera run --verbose -- python3 examples/python/scipy_level3.py
"""

from itertools import product as every

import numpy as np
import scipy.linalg
from results import check, numbers, product, report, residual
from scipy.linalg import blas


def triangle(c, lower):
    return np.tril(c) if lower else np.triu(c)


def op(a, trans):
    return (a, a.T, a.conj().T)[trans]


def routines(letter, dtype):
    m, n, k = 70, 90, 110
    alpha, beta = (0.75 - 0.5j, 0.5 + 0.25j) if letter in "cz" else (0.75, -0.5)
    c = numbers(m, n, 1, dtype)

    def call(name, *arguments, **options):
        return getattr(blas, letter + name)(*arguments, **options)

    for trans_a, trans_b in every(range(3), repeat=2):
        a = numbers(*((m, k) if trans_a == 0 else (k, m)), 2, dtype)
        b = numbers(*((k, n) if trans_b == 0 else (n, k)), 3, dtype)
        x = call("gemm", alpha, a, b, beta=beta, c=c, trans_a=trans_a, trans_b=trans_b)
        check(f"{letter}.gemm.{trans_a}{trans_b}", x, alpha * product(op(a, trans_a), op(b, trans_b)) + beta * c, k)
    out = np.asfortranarray(c)
    a, b = np.asfortranarray(numbers(m, k, 2, dtype)), np.asfortranarray(numbers(k, n, 3, dtype))
    x = call("gemm", alpha, a, b, beta=beta, c=out, overwrite_c=1)
    print(f"{letter}.gemm.in_place", int(np.shares_memory(x, out)))
    check(f"{letter}.gemm.overwrite", out, alpha * product(a, b) + beta * c, k)

    for routine in ("symm", "hemm") if letter in "cz" else ("symm",):
        for side, lower in every((0, 1), repeat=2):
            size = n if side else m
            a = numbers(size, size, 4, dtype)
            part = np.tril(a, -1) if lower else np.triu(a, 1)
            diagonal = np.diag(np.diag(a).real if routine == "hemm" else np.diag(a))
            full = part + (part.conj().T if routine == "hemm" else part.T) + diagonal
            b = numbers(m, n, 5, dtype)
            x = call(routine, alpha, a, b, beta=beta, c=c, side=side, lower=lower)
            check(f"{letter}.{routine}.{side}{lower}", x, alpha * (product(b, full) if side else product(full, b)) + beta * c, size)

    for routine, two in every(("syr", "her") if letter in "cz" else ("syr",), (False, True)):
        adjoint = 2 if routine == "her" else 1
        for trans, lower in every((0, 1), repeat=2):
            trans = adjoint if trans else 0
            shape = (n, k) if trans == 0 else (k, n)
            a, b = numbers(*shape, 6, dtype), numbers(*shape, 7, dtype)
            left, right = (op(y, 0 if trans == 0 else trans) for y in (a, b))
            square = numbers(n, n, 8, dtype)
            square = square + op(square, adjoint)
            if two:
                scale = np.conj(alpha) if routine == "her" else alpha
                real_beta = beta.real if routine == "her" else beta
                x = call(f"{routine}2k", alpha, a, b, beta=real_beta, c=square, trans=trans, lower=lower)
                expected = alpha * product(left, op(right, adjoint)) + scale * product(right, op(left, adjoint)) + real_beta * square
            else:
                real_alpha, real_beta = (alpha.real, beta.real) if routine == "her" else (alpha, beta)
                x = call(f"{routine}k", real_alpha, a, beta=real_beta, c=square, trans=trans, lower=lower)
                expected = real_alpha * product(left, op(left, adjoint)) + real_beta * square
            check(f"{letter}.{routine}{'2k' if two else 'k'}.{trans}{lower}", triangle(x, lower), triangle(expected, lower), k)
            # The triangle that is not selected keeps its values.
            print(f"{letter}.{routine}.rest_touched", np.count_nonzero(triangle(x, not lower) - triangle(square, not lower) -
                                                                  np.diag(np.diag(x) - np.diag(square))))

    for side, lower, trans, unit in every((0, 1), (0, 1), range(3), (0, 1)):
        size = n if side else m
        a = numbers(size, size, 9, dtype) + (20 * np.eye(size)).astype(dtype)
        shape = np.array(triangle(a, lower))
        if unit:
            # With a unit diagonal, small off-diagonal elements keep the inverse from growing.
            a = (a / size).astype(dtype)
            shape = np.array(triangle(a, lower))
            np.fill_diagonal(shape, 1)
        b = numbers(m, n, 10, dtype)
        options = {"side": side, "lower": lower, "trans_a": trans, "diag": unit}
        x = call("trmm", alpha, a, b, **options)
        name = f"{side}{lower}{trans}{unit}"
        expected = alpha * (product(b, op(shape, trans)) if side else product(op(shape, trans), b))
        check(f"{letter}.trmm.{name}", x, expected, size)
        x = call("trsm", alpha, a, b, **options)
        report(f"{letter}.trsm.{name}", x)
        back = product(x, op(shape, trans)) if side else product(op(shape, trans), x)
        residual(f"{letter}.trsm.{name}", back - alpha * b, np.max(np.abs(shape)) * np.max(np.abs(x)), size, dtype)


def solvers(letter, dtype):
    n = 140
    a = numbers(n, n, 11, dtype) + (20 * np.eye(n)).astype(dtype)
    h = a.conj().T @ a
    b = numbers(n, 90, 12, dtype)

    for name, x in (("solve", scipy.linalg.solve(a, b)), ("lu_solve", scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b))):
        report(f"{letter}.{name}", x)
        residual(f"{letter}.{name}", product(a, x) - b, a, n, dtype)
    x = scipy.linalg.cho_solve(scipy.linalg.cho_factor(h), b)
    report(f"{letter}.cho_solve", x)
    residual(f"{letter}.cho_solve", product(h, x) - b, h, n, dtype)
    x = scipy.linalg.solve_triangular(a, b, lower=True)
    report(f"{letter}.solve_triangular", x)
    residual(f"{letter}.solve_triangular", product(np.tril(a), x) - b, a, n, dtype)
    p, l, u = scipy.linalg.lu(a)
    report(f"{letter}.lu", u)
    residual(f"{letter}.lu", product(p @ l, u) - a, a, n, dtype)
    q, r = scipy.linalg.qr(a)
    report(f"{letter}.qr", np.abs(r))
    residual(f"{letter}.qr", product(q, r) - a, a, n, dtype)
    report(f"{letter}.svdvals", scipy.linalg.svdvals(a))
    report(f"{letter}.eigvalsh", scipy.linalg.eigvalsh(h))
    report(f"{letter}.expm", scipy.linalg.expm(a / 40))


for letter, dtype in (("s", np.float32), ("d", np.float64), ("c", np.complex64), ("z", np.complex128)):
    routines(letter, dtype)
    solvers(letter, dtype)
