"""scipy.linalg with the face beside SciPy's own, case by case: values, types, layouts, errors and warnings.

Run as a script; prints how many cases there were, or fails with those that differ.
"""

import numpy as np
import scipy.linalg as sl

from case_comparison import adjoint, check, compare, compare_forms, laid, plain, run, without_numbers

rng = None
N = 67


def random(kind, *shape):
    return (rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind in "FD" else 0)).astype(kind)


OF_GENERAL = {
    "det": sl.det, "inv": sl.inv, "lu": sl.lu, "lu permuted": lambda x: sl.lu(x, permute_l=True),
    "lu indices": lambda x: sl.lu(x, p_indices=True), "lu_factor": sl.lu_factor, "pinv": sl.pinv, "svdvals": sl.svdvals,
    "svd values": lambda x: sl.svd(x, compute_uv=False), "orth": lambda x: sl.orth(x) @ adjoint(sl.orth(x)),
    "expm": lambda x: sl.expm(x / 4), "sqrtm": lambda x: sl.sqrtm(x @ adjoint(x)), "logm": lambda x: sl.logm(x @ adjoint(x)),
    "polar": sl.polar, "det, unchecked": lambda x: sl.det(x, check_finite=False),
    "inv, unchecked": lambda x: sl.inv(x, check_finite=False),
}
OF_ANY_SHAPE = {
    "qr": sl.qr, "qr r": lambda x: sl.qr(x, mode="r"), "qr economic": lambda x: sl.qr(x, mode="economic"),
    "qr raw": lambda x: sl.qr(x, mode="raw"), "qr pivoting": lambda x: sl.qr(x, pivoting=True), "lu": sl.lu,
    "lu permuted": lambda x: sl.lu(x, permute_l=True), "lu indices": lambda x: sl.lu(x, p_indices=True),
    "svdvals": sl.svdvals, "pinv": sl.pinv, "pinv's rank": lambda x: sl.pinv(x, return_rank=True), "lu_factor": sl.lu_factor,
    "qr, unchecked": lambda x: sl.qr(x, check_finite=False),
}
OF_DEFINITE = {
    "cholesky": sl.cholesky, "cholesky lower": lambda x: sl.cholesky(x, lower=True), "cho_factor": sl.cho_factor,
    "cho_factor lower": lambda x: sl.cho_factor(x, lower=True), "inv": sl.inv, "pinvh": sl.pinvh, "eigvalsh": sl.eigvalsh,
    "eigvalsh upper": lambda x: sl.eigvalsh(x, lower=False), "eigh values": lambda x: sl.eigh(x, eigvals_only=True),
    "eigh some": lambda x: sl.eigh(x, eigvals_only=True, subset_by_index=[2, 20]),
    "cholesky, unchecked": lambda x: sl.cholesky(x, check_finite=False),
}


def check_kind(kind, how):
    tolerance = 1e-8 if kind in "dD" else 3e-3
    case = f"{kind} {how} "
    general = random(kind, N, N) / 4 + 2 * np.eye(N, dtype=kind)
    a = laid(general, how)
    b = random(kind, N, 9)
    for name, function in OF_GENERAL.items():
        compare(case + name, function, a, tolerance=tolerance)
    for shape in ((N, 21), (21, N), (N, N)):
        x = laid(random(kind, *shape), how)
        for name, function in OF_ANY_SHAPE.items():
            compare(case + f"{shape} " + name, function, x, tolerance=tolerance)
        check_svd(case, x, tolerance)
        for right in (random(kind, shape[0]), random(kind, shape[0], 1), laid(random(kind, shape[0], 9), how)):
            compare(case + f"{shape} lstsq", sl.lstsq, x, right, tolerance=tolerance * 10)
            compare(case + f"{shape} lstsq, cond", lambda x, y: sl.lstsq(x, y, cond=0.3), x, right, tolerance=tolerance * 10)
            compare(case + f"{shape} lstsq, gelsy", lambda x, y: sl.lstsq(x, y, lapack_driver="gelsy"), x, right,
                    tolerance=tolerance * 10)
    for right in (b, laid(b, how), b[:, :1], b[:, 0], laid(b, "F"), np.broadcast_to(b[:, :1], b.shape)):
        check_solves(case, a, right, tolerance)
    check_hermitian(case, general, how, b, tolerance)
    check_triangular(case, general, how, b, tolerance)


def check_svd(case, x, tolerance):
    for full in (False, True):
        compare_forms(case + "svd", lambda x: sl.svd(x, full_matrices=full), x)
        u, s, vt = sl.svd(x, full_matrices=full)
        k = s.shape[0]
        check(case + "svd", np.allclose((u[:, :k] * s) @ vt[:k], x, atol=tolerance * 100))
        check(case + "svd's u", np.allclose(adjoint(u) @ u, np.eye(u.shape[1]), atol=tolerance * 10))
        check(case + "svd's vt", np.allclose(vt @ adjoint(vt), np.eye(vt.shape[0]), atol=tolerance * 10))


def check_solves(case, a, b, tolerance):
    ways = {"solve": {}, "solve gen": {"assume_a": "gen"}, "solve transposed": {"transposed": True},
            "solve gen transposed": {"assume_a": "gen", "transposed": True}, "solve, unchecked": {"check_finite": False}}
    for name, keywords in ways.items():
        compare(case + name, lambda x, y: sl.solve(x, y, **keywords), a, b, tolerance=tolerance)
    for trans in (0, 1, 2):
        compare(case + f"lu_solve {trans}", lambda x, y: sl.lu_solve(sl.lu_factor(x), y, trans=trans), a, b,
                tolerance=tolerance)
    # Factors are LAPACK's, so that each may solve with the other's, and in any layout.
    ours, own = sl.lu_factor(a), plain(lambda: sl.lu_factor(a))
    compare(case + "lu_solve, exchanged", lambda y: (sl.lu_solve(own, y), sl.lu_solve(ours, y)), b, tolerance=tolerance)
    in_rows = np.ascontiguousarray(own[0]), own[1]
    compare(case + "lu_solve, rows", lambda y: sl.lu_solve(in_rows, y), b, tolerance=tolerance)
    compare(case + "lu_solve, overwriting", lambda y: sl.lu_solve(own, y, overwrite_b=True), b.copy(), tolerance=tolerance)


def check_hermitian(case, general, how, b, tolerance):
    definite = laid(general @ adjoint(general) + np.eye(N, dtype=general.dtype), how)
    indefinite = laid(general + adjoint(general), how)
    symmetric = laid(general + general.T, how)
    # What is in the other triangle does not matter, and comes back from cho_factor.
    one_triangle = {True: laid(np.tril(definite) + np.triu(general, 1), how),
                    False: laid(np.triu(definite) + np.tril(general, -1), how)}
    for name, function in OF_DEFINITE.items():
        compare(case + name, function, definite, tolerance=tolerance * 10)
    for lower in (False, True):
        x = one_triangle[lower]
        for name, function in {"cholesky": sl.cholesky, "cho_factor": sl.cho_factor, "ldl": sl.ldl}.items():
            compare(case + f"{name} of one triangle", lambda x: function(x, lower=lower), x, tolerance=tolerance * 10)
        for right in (b, laid(b, how), b[:, 0], b[:, :1]):
            compare(case + "cho_solve", lambda x, y: sl.cho_solve(sl.cho_factor(x, lower=lower), y), x, right,
                    tolerance=tolerance)
            for assumed in ("pos", "sym", "her"):
                compare(case + f"solve {assumed} {lower}", lambda x, y: sl.solve(x, y, assume_a=assumed, lower=lower), definite,
                        right, tolerance=tolerance * 10)
            compare(case + "solve sym", lambda x, y: sl.solve(x, y, assume_a="sym", lower=lower), symmetric, right,
                    tolerance=tolerance * 10)
            compare(case + "solve her", lambda x, y: sl.solve(x, y, assume_a="her", lower=lower), indefinite, right,
                    tolerance=tolerance * 10)
    for name, x in {"definite": definite, "indefinite": indefinite, "symmetric": symmetric}.items():
        compare(case + f"solve {name}", sl.solve, x, b, tolerance=tolerance * 10)
        compare(case + f"inv {name}", sl.inv, x, tolerance=tolerance * 10)
        compare(case + f"ldl {name}", sl.ldl, x, tolerance=tolerance * 10)
        compare(case + f"ldl {name} not hermitian", lambda x: sl.ldl(x, hermitian=False), x, tolerance=tolerance * 10)
    check_eigh(case, np.asarray(indefinite), np.asarray(definite), tolerance)


def check_eigh(case, a, b, tolerance):
    for lower in (False, True):
        for driver in (None, "ev", "evd", "evr", "evx"):
            compare_forms(case + f"eigh {driver}", lambda x: sl.eigh(x, lower=lower, driver=driver), a)
            w, v = sl.eigh(a, lower=lower, driver=driver)
            check(case + f"eigh {driver}", np.allclose(a @ v, v * w, atol=tolerance * 100))
            check(case + f"eigh {driver}'s v", np.allclose(adjoint(v) @ v, np.eye(N), atol=tolerance * 10))
        for which in (1, 2, 3):
            compare(case + f"eigvalsh {which}", lambda x, y: sl.eigvalsh(x, y, type=which, lower=lower), a, b,
                    tolerance=tolerance * 10)
            compare_forms(case + f"eigh {which}", lambda x, y: sl.eigh(x, y, type=which, lower=lower), a, b)
            w, v = sl.eigh(a, b, type=which, lower=lower)
            left, right = {1: (a @ v, b @ v * w), 2: (a @ (b @ v), v * w), 3: (b @ (a @ v), v * w)}[which]
            check(case + f"eigh {which}", np.allclose(left, right, atol=tolerance * 100 * max(1, np.abs(w).max())))


def check_triangular(case, general, how, b, tolerance):
    for lower in (False, True):
        for unit in (False, True):
            a = laid((general / 20 if unit else general) + np.eye(N, dtype=general.dtype) * 3, how)
            for trans in (0, 1, 2, "N", "T", "C") if how == "C" else (0, 1, 2):
                for right in (laid(b, how), b[:, 0]):
                    compare(case + f"solve_triangular {lower} {unit} {trans}", lambda x, y: sl.solve_triangular(
                        x, y, trans=trans, lower=lower, unit_diagonal=unit), a, right, tolerance=tolerance)
    for part in (np.tril(general), np.triu(general), np.diag(general.diagonal()), np.triu(np.tril(general, 1), -1)):
        compare(case + "structure", sl.solve, laid(part + 3 * np.eye(N, dtype=general.dtype), how), b, tolerance=tolerance)
        compare(case + "structure inv", sl.inv, laid(part + 3 * np.eye(N, dtype=general.dtype), how), tolerance=tolerance)


def overwriting(function, *names):
    return lambda *arguments: function(*arguments, **dict.fromkeys(names, True))


def check_overwriting():
    definite = random("d", N, N)
    definite = definite @ definite.T + np.eye(N)
    for order in "CF":
        a, b, c = (np.array(x, order=order) for x in (random("d", N, N) + 9 * np.eye(N), random("d", N, 5), definite))
        for name, function, arguments in (
                ("inv", overwriting(sl.inv, "overwrite_a"), (a,)), ("det", overwriting(sl.det, "overwrite_a"), (a,)),
                ("lu", overwriting(sl.lu, "overwrite_a"), (a,)), ("qr", overwriting(sl.qr, "overwrite_a"), (a,)),
                ("lu_factor", overwriting(sl.lu_factor, "overwrite_a"), (a,)),
                ("solve", overwriting(sl.solve, "overwrite_a", "overwrite_b"), (a, b)),
                ("solve b", overwriting(sl.solve, "overwrite_b"), (a, b)),
                ("lstsq", overwriting(sl.lstsq, "overwrite_a", "overwrite_b"), (a, b)),
                ("svdvals", overwriting(sl.svdvals, "overwrite_a"), (a,)),
                ("cholesky", overwriting(sl.cholesky, "overwrite_a"), (c,)),
                ("cho_factor", overwriting(sl.cho_factor, "overwrite_a"), (c,)),
                ("eigvalsh", overwriting(sl.eigvalsh, "overwrite_a"), (c,)),
                ("solve pos", lambda x, y: sl.solve(x, y, assume_a="pos", overwrite_a=True, overwrite_b=True), (c, b)),
                ("qr raw", lambda x: sl.qr(x, mode="raw", overwrite_a=True), (a,)),
                ("qr economic", lambda x: sl.qr(x, mode="economic", overwrite_a=True), (a,)),
                ("solve_triangular", overwriting(sl.solve_triangular, "overwrite_b"), (a, b))):
            compare(f"overwriting {order} {name}", function, *arguments)
    a, b = random("d", N, N) + 9 * np.eye(N), random("d", N, 5)
    for name, function in {"inv": sl.inv, "det": sl.det, "lu": sl.lu, "qr": sl.qr, "lu_factor": sl.lu_factor, "svd": sl.svd,
                           "eigh": sl.eigh, "solve": lambda x: sl.solve(x, b), "lstsq": lambda x: sl.lstsq(x, b)}.items():
        for order in "CF":
            x, before = np.array(a, order=order), b.copy()
            function(x)
            check(f"{name} of {order} keeps its arguments", np.array_equal(x, a) and np.array_equal(b, before))


ONE_MATRIX = {**OF_GENERAL, **OF_ANY_SHAPE, **OF_DEFINITE, "solve": lambda x: sl.solve(x, np.ones(N)),
              "solve gen": lambda x: sl.solve(x, np.ones((N, 2)), assume_a="gen"),
              "solve pos": lambda x: sl.solve(x, np.ones((N, 2)), assume_a="pos"),
              "solve sym": lambda x: sl.solve(x, np.ones((N, 2)), assume_a="sym"),
              "lstsq": lambda x: sl.lstsq(x, np.ones(N)), "ldl": sl.ldl, "eigh": lambda x: sl.eigh(x, x)[0],
              "solve_triangular": lambda x: sl.solve_triangular(x, np.ones(N)),
              "lu_solve": lambda x: sl.lu_solve(sl.lu_factor(x), np.ones(N)),
              "cho_solve": lambda x: sl.cho_solve(sl.cho_factor(x), np.ones(N))}
for with_roots in ("expm", "sqrtm", "logm", "orth", "polar", "pinvh"):
    del ONE_MATRIX[with_roots]


def check_odd():
    a = random("d", N, N) + 9 * np.eye(N)
    definite = a @ a.T + np.eye(N)
    zero_row, zero_column, low_rank = a.copy(), a.copy(), np.outer(a[0], a[1])
    zero_row[7] = 0
    zero_column[:, 7] = 0
    odd = {"zero row": zero_row, "zero column": zero_column, "not definite": -definite, "integers": (10 * definite).astype(int),
           "list": definite.tolist(), "objects": definite.astype(object), "half": definite.astype(np.float16),
           "long": definite.astype(np.longdouble), "empty": a[:0, :0], "vector": a[0], "not square": a[:5],
           "matrix": np.matrix(definite), "masked": np.ma.array(definite), "stack": np.stack([definite, definite + np.eye(N)]),
           "one": np.array([[4.0]]), "one complex": np.array([[4 + 0j]], "F"), "two": definite[:2, :2],
           "text": "text"}
    for name in ("lu_factor", "eigvalsh", "cho_solve"):  # of the others SciPy 1.18 takes the bytes as they are
        compare("swapped bytes " + name, ONE_MATRIX[name], laid(definite, "swapped bytes"))
    for name, function in ONE_MATRIX.items():
        for what, x in odd.items():
            if what.startswith("zero") and name.startswith(("qr", "lu", "pinv", "solve_triangular", "lstsq")):
                continue  # of what only rounding tells
            compare(f"{what} {name}", function, x, tolerance=1e-4 if what == "half" else 1e-6)
    for low in (low_rank, low_rank.astype("f")):
        compare("rank 1 lstsq", lambda x: sl.lstsq(x, np.ones((N, 2)))[2], low)
        compare("rank 1 pinv", lambda x: sl.pinv(x, return_rank=True)[1], low)
    for name, function in ONE_MATRIX.items():
        for value in (np.nan, np.inf):
            x = definite.copy()
            x[3, 4] = x[4, 3] = value
            if "unchecked" not in name:
                compare(f"{value} {name}", function, x)
    unchecked = {"solve": lambda x: sl.solve(x, np.ones(N), check_finite=False), "inv": lambda x: sl.inv(x, check_finite=False),
                 "det": lambda x: sl.det(x, check_finite=False), "svdvals": lambda x: sl.svdvals(x, check_finite=False),
                 "lu": lambda x: sl.lu(x, check_finite=False)[1:], "qr": lambda x: sl.qr(x, check_finite=False),
                 "eigh ev": lambda x: sl.eigh(x, driver="ev", check_finite=False), "eigh evd": lambda x: sl.eigh(x, driver="evd", check_finite=False)}
    for name, function in unchecked.items():
        for y in (definite, a):
            x = y.copy()
            x[3, 4] = x[4, 3] = np.nan
            compare(f"unchecked NaN {name}", lambda x: [bool(np.isnan(part).any()) for part in np.atleast_1d(function(x))]
                    if name in ("svdvals", "det") else bool(np.isnan(np.asarray(function(x)[0])).any()), x)


def check_condition():
    """Matrices near and beyond the limit of SciPy's warning."""
    for kind in "fdFD":
        q, _ = np.linalg.qr(random(kind, N, N))
        r, _ = np.linalg.qr(random(kind, N, N))
        for exponent in (2, 4, 5, 9, 12, 13, 18, 20):
            s = np.logspace(0, -exponent, N).astype(kind)
            general, definite = (q * s) @ r, (q * s) @ adjoint(q)
            definite = (definite + adjoint(definite)) / 2
            beyond = exponent > (9 if kind in "fF" else 17)
            well = exponent < (5 if kind in "fF" else 13)
            for order in "CF":
                x, y = np.array(general, order=order), np.array(definite, order=order)
                for name, function in {"solve": lambda x: sl.solve(x, np.ones((N, 2), kind)),
                                       "solve gen": lambda x: sl.solve(x, np.ones((N, 2), kind), assume_a="gen"),
                                       "inv": sl.inv}.items():
                    if beyond or well:
                        compare(f"{kind} {order} condition 1e{exponent} {name}", lambda x: function(x) is None, x)
                for name, function in {"solve": lambda x: sl.solve(x, np.ones((N, 2), kind)), "inv": sl.inv,
                                       "solve pos": lambda x: sl.solve(x, np.ones((N, 2), kind), assume_a="pos"),
                                       "solve her": lambda x: sl.solve(x, np.ones((N, 2), kind), assume_a="her")}.items():
                    if well:
                        compare(f"{kind} {order} definite, condition 1e{exponent} {name}", lambda x: function(x) is None, y)
    # Squares that overflow or vanish tell nothing of the norm.
    for kind, powers in {"f": (-30, -18, 18, 30), "d": (-250, -160, 160, 250)}.items():
        for power in powers:
            for x in (random(kind, N, N), np.ones((N, N), kind) + np.eye(N, dtype=kind)):
                x = x * np.array(10.0 ** power, kind)
                compare(f"{kind} scaled by 1e{power} solve", lambda x: sl.solve(x, np.ones(N, kind)), x, tolerance=1e-2)
                compare(f"{kind} scaled by 1e{power} inv", sl.inv, x, tolerance=1e-2)


def cases():
    global rng
    rng = np.random.default_rng(11)
    for kind, ways in {"d": ("C", "F", "strided", "reversed", "part", "read-only"), "F": ("C", "F", "part"), "f": ("C", "F"),
                       "D": ("C", "F", "reversed")}.items():
        for how in ways:
            check_kind(kind, how)
    check_overwriting()
    check_odd()
    check_condition()


run(cases, text_of=without_numbers)
