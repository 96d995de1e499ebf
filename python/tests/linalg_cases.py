"""numpy.linalg with the face beside NumPy's own, case by case: values, types, layouts, errors and warnings.

Run as a script; prints how many cases there were, or fails with those that differ. Vectors of eigenproblems and of singular
values are not unique: of these the equations are checked.
"""

import itertools

import numpy as np

from case_comparison import adjoint, check, compare, laid, parts, run

rng = None  # made anew by each pass through the cases


UNIQUE = {
    "inv": np.linalg.inv, "det": np.linalg.det, "slogdet": np.linalg.slogdet, "pinv": np.linalg.pinv, "cond": np.linalg.cond,
    "matrix_rank": np.linalg.matrix_rank, "matrix_power": lambda x: np.linalg.matrix_power(x, -2),
    "svd values": lambda x: np.linalg.svd(x, compute_uv=False), "eigvals": lambda x: np.sort_complex(np.linalg.eigvals(x)),
    "qr": np.linalg.qr, "qr r": lambda x: np.linalg.qr(x, mode="r"), "qr raw": lambda x: np.linalg.qr(x, mode="raw"),
    "qr complete": lambda x: np.linalg.qr(x[..., :21], mode="complete"), "qr tall": lambda x: np.linalg.qr(x[..., :21]),
    "qr wide": lambda x: np.linalg.qr(x[..., :21, :]), "norm": lambda x: np.linalg.norm(x, 2, axis=(-2, -1)),
}


def check_regular(kind, how, shape):
    tolerance = 1e-8 if kind in "dD" else 2e-3
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind in "FD" else 0)
    a = (a / 4 + 2 * np.eye(shape[-1])).astype(kind)
    b = rng.standard_normal(shape[:-1] + (9,)).astype(kind)
    definite = laid(a @ adjoint(a) + np.eye(shape[-1], dtype=kind), how)
    symmetric = laid(a + adjoint(a), how)
    a = laid(a, how)
    case = f"{kind} {how} {shape} "
    for name, function in UNIQUE.items():
        compare(case + name, function, a, tolerance=tolerance)
    for right in (b, laid(b, how), b[..., :1], np.broadcast_to(b[..., :1], b.shape)):
        compare(case + "solve", np.linalg.solve, a, right, tolerance=tolerance)
    compare(case + "solve one", np.linalg.solve, a, b.reshape(-1)[: shape[-1]], tolerance=tolerance)
    compare(case + "cholesky", np.linalg.cholesky, definite, tolerance=tolerance)
    for part in "LU":
        compare(case + "eigvalsh", lambda x: np.linalg.eigvalsh(x, UPLO=part), symmetric, tolerance=tolerance)
        w, v = np.linalg.eigh(symmetric, UPLO=part)
        check(case + "eigh", np.allclose(symmetric @ v, v * w[..., None, :], atol=tolerance * 100) and v.flags.c_contiguous)
        check(case + "eigh's v", np.allclose(adjoint(v) @ v, np.eye(shape[-1]), atol=tolerance * 10))
    w, v = np.linalg.eig(a)
    check(case + "eig", np.allclose(a @ v, v * w[..., None, :], atol=tolerance * 100))
    for full, x in itertools.product((False, True), (a, a[..., :21], a[..., :21, :])):
        u, s, vt = np.linalg.svd(x, full_matrices=full)
        k = s.shape[-1]
        check(case + "svd", np.allclose((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], x, atol=tolerance * 100))
        check(case + "svd's u", np.allclose(adjoint(u) @ u, np.eye(u.shape[-1]), atol=tolerance * 10))
        check(case + "svd's layout", u.flags.c_contiguous and vt.flags.c_contiguous)
    if len(shape) == 2:
        for left, right in ((a, b), (a[:, :21], b), (a[:21], b[:21]), (a, b[:, 0]), (a[:, :21], b[:, :0])):
            compare(case + f"lstsq {left.shape}", lambda x, y: np.linalg.lstsq(x, y, rcond=None), left, right, tolerance=tolerance * 10)


def check_odd():
    n = 40
    a = rng.standard_normal((n, n)) + 9 * np.eye(n)
    low_rank = np.outer(a[0], a[1])
    with_nan, zero_row = a.copy(), a.copy()
    with_nan[3, 4] = np.nan
    zero_row[7] = 0
    functions = {**UNIQUE, "cholesky": np.linalg.cholesky, "eigvalsh": np.linalg.eigvalsh}
    del functions["eigvals"]
    for name, function in functions.items():
        for what, x in {"zero row": zero_row, "not definite": -a - a.T, "integers": (10 * a).astype(int), "list": a.tolist(),
                        "objects": a.astype(object), "half": a.astype(np.float16), "long": a.astype(np.longdouble),
                        "empty": a[:0, :0], "empty stack": np.zeros((0, n, n)), "vector": a[0], "not square": a[:5],
                        "zero strides": np.broadcast_to(a[:, :1], (n, n))}.items():
            if what == "zero strides" and name in ("qr raw", "pinv", "cond", "qr", "qr complete", "qr tall", "qr wide", "qr r"):
                continue  # of a matrix of rank 1 only rounding tells the second column
            if what in ("zero row", "zero strides") and name in ("cond", "matrix_power"):
                continue
            compare(f"{what} {name}", function, x, tolerance=1e-6)
    for name in ("inv", "det", "solve", "qr", "cholesky"):
        function = {"solve": lambda x: np.linalg.solve(x, a)}.get(name) or getattr(np.linalg, name)
        if name != "cholesky":  # which tells of no error there, or does: releases differ
            compare("not a number " + name, lambda x: np.isnan(parts(function(x))[0]).any(), with_nan)
    for order in (2, 3, 25, 26, n):  # LAPACK tells of no error in the first, and in those of which it divides
        symmetric = a[:order, :order] + a[:order, :order].T
        symmetric[0, 1] = symmetric[1, 0] = np.nan
        for name in ("eigh", "eigvalsh"):
            compare(f"not a number {name} {order}", lambda x: np.isnan(parts(getattr(np.linalg, name)(x))[0]).any(), symmetric)
    compare("rank 1 solve", lambda x: np.linalg.lstsq(x, a, rcond=None)[2], low_rank)
    compare("matrix", np.linalg.inv, np.matrix(a))
    compare("matrix qr", np.linalg.qr, np.matrix(a))
    compare("stack times stack", np.linalg.solve, a.reshape(1, 1, n, n) + np.zeros((3, 1, n, n)), rng.standard_normal((2, n, 5)))
    compare("raise", lambda x: raising(np.linalg.inv, x), a)
    for right in (np.ones((5, 3)), np.ones(5), np.ones((n + 1, 3)), np.ones((2, 5, 3)), np.ones((2, n + 1, 1)), np.ones((0, 3))):
        compare(f"solve of {right.shape}", np.linalg.solve, a, right)
        compare(f"stack, solve of {right.shape}", np.linalg.solve, np.stack([a, a, a]), right)
        compare(f"lstsq of {right.shape}", lambda x, y: np.linalg.lstsq(x, y, rcond=None), a, right)
    # Stacks that do not lie as one, through dimensions of one and through broadcasting.
    stack = np.stack([a + i * np.eye(n) for i in range(10)])
    parts_of_stack = stack.reshape(2, 1, 5, n, n)[:, :, :3]
    for shape in ((2, 1, 4), (5, 1, 4), (1, 4), (4, 1, 1)):
        right = rng.standard_normal(shape + (n, 3))
        compare(f"solve with a stack {shape}", np.linalg.solve, stack[:4], right)
        compare(f"solve a stack {shape}", np.linalg.solve, np.broadcast_to(stack[:4].reshape(4, 1, 1, n, n), (4,) + shape[-2:] + (n, n)), right[0])
    for name in ("inv", "slogdet", "det"):
        function = getattr(np.linalg, name)
        compare("a part of a stack " + name, function, parts_of_stack, tolerance=1e-6)
        compare("a broadcast stack " + name, function, np.broadcast_to(stack[:4][None, None], (5, 1, 4, n, n)), tolerance=1e-6)
        compare("a stack from behind " + name, function, stack[::-2], tolerance=1e-6)
    compare("overflow of det", lambda x: np.isinf(np.linalg.det(x)), np.eye(n)[None] * np.full((8, 1, 1), 1e10))
    one_singular = np.stack([a, zero_row, a])
    for name in ("inv", "slogdet", "det"):
        compare("one of a stack " + name, getattr(np.linalg, name), one_singular)
    for mode in ("economic", "full", "nonsense"):
        compare("qr " + mode, lambda x: np.linalg.qr(x, mode=mode), a)


def raising(function, x):
    with np.errstate(all="raise"):
        return function(x)


def cases():
    global rng
    rng = np.random.default_rng(7)
    for kind in "fdFD":
        for how in ("C", "F", "strided", "reversed", "part", "read-only", "swapped bytes"):
            for shape in ((67, 67), (2, 24, 24), (2, 3, 23, 23)):
                check_regular(kind, how, shape)
    check_odd()


run(cases)
