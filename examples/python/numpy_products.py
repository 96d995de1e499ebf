"""Matrix products, solvers and factorisations of NumPy in its four precisions and in every memory layout that its
products distinguish: every line of the output is the same on any BLAS, except for rounding.
  tessera run --verbose -- python3 examples/python/numpy_products.py
"""

import numpy as np
from results import check, numbers, product, report, residual


def products(letter, dtype):
    m, n, k = 90, 70, 110
    a, b = numbers(m, k, 1, dtype), numbers(k, n, 2, dtype)
    square = numbers(m, m, 3, dtype)
    wide, tall = numbers(2 * m, k + 9, 4, dtype), numbers(k + 5, 3 * n, 5, dtype)
    pairs = {
        "c_by_c": (a, b),
        "fortran_by_c": (np.asfortranarray(a), b),
        "c_by_fortran": (a, np.asfortranarray(b)),
        "fortran_by_fortran": (np.asfortranarray(a), np.asfortranarray(b)),
        "transposed": (b.T, a.T),
        "conjugated": (b.conj().T, a.conj().T),
        "own_transpose": (a, a.T),
        "transpose_own": (a.T, a),
        "own_adjoint": (a, a.conj().T),
        "rows_skipped": (wide[::2, :k], tall[:k, :n]),
        "columns_skipped": (wide[:m, :k], tall[:k, ::3]),
        "both_skipped": (wide[::2, :k], tall[:k, ::3]),
        "backwards": (a[::-1], b[:, ::-1]),
        "part_of_larger": (wide[7 : 7 + m, 5 : 5 + k], tall[2 : 2 + k, 11 : 11 + n]),
        "part_of_fortran": (np.asfortranarray(wide)[3 : 3 + m, 1 : 1 + k], np.asfortranarray(tall)[4 : 4 + k, 9 : 9 + n]),
        "broadcast_row": (np.broadcast_to(a[0], (m, k)), b),
        "square": (square, square),
        "matrix_vector": (a, b[:, :1]),
        "one_column": (a[:, :1], b[:1, :]),
        "stack": (np.stack([square, square.T, square + 1]), square),
        "stack_transposed": (np.stack([a, a + 1]).transpose(0, 2, 1), np.stack([a, a - 1])),
    }
    for name, (x, y) in pairs.items():
        expected = product(x, y)
        check(f"{letter}.{name}", x @ y, expected, x.shape[-1])
        if x.ndim == 2:
            out = np.full((x.shape[0], y.shape[1]), np.nan, dtype=dtype)
            np.dot(x, y, out=out)
            check(f"{letter}.{name}.dot", out, expected, x.shape[-1])

    larger = np.full((2 * m, 2 * n), 7, dtype=dtype)
    np.matmul(a, b, out=larger[::2, n:])
    check(f"{letter}.out_strided", larger[::2, n:], product(a, b), k)
    untouched = np.concatenate([larger[1::2].ravel(), larger[:, :n].ravel()])
    print(f"{letter}.out_strided.rest_touched", np.count_nonzero(untouched != 7))
    check(f"{letter}.inner", np.inner(a, tall[:n, :k]), product(a, tall[:n, :k].T), k)
    check(f"{letter}.tensordot", np.tensordot(a.reshape(9, 10, k), b, axes=1).reshape(m, n), product(a, b), k)
    check(f"{letter}.einsum", np.einsum("ij,jk->ik", a, b, optimize=True), product(a, b), k)
    check(f"{letter}.multi_dot", np.linalg.multi_dot([a, b, b.T]), product(product(a, b), b.T), k)


def solvers(letter, dtype):
    n = 140
    a = numbers(n, n, 6, dtype) + (20 * np.eye(n)).astype(dtype)
    h = a.conj().T @ a
    b = numbers(n, 90, 7, dtype)

    x = np.linalg.solve(a, b)
    report(f"{letter}.solve", x)
    residual(f"{letter}.solve", product(a, x) - b, a, n, dtype)
    x = np.linalg.inv(a)
    report(f"{letter}.inv", x)
    residual(f"{letter}.inv", product(a, x) - np.eye(n), a, n, dtype)
    x = np.linalg.cholesky(h)
    report(f"{letter}.cholesky", x)
    residual(f"{letter}.cholesky", product(x, x.conj().T) - h, h, n, dtype)
    q, r = np.linalg.qr(a)
    report(f"{letter}.qr", np.abs(r))
    residual(f"{letter}.qr", product(q, r) - a, a, n, dtype)
    u, s, v = np.linalg.svd(a)
    report(f"{letter}.svd", s)
    residual(f"{letter}.svd", product(u * s, v) - a, s, n, dtype)
    report(f"{letter}.eigvalsh", np.linalg.eigvalsh(h))
    report(f"{letter}.slogdet", np.linalg.slogdet(a)[1])
    report(f"{letter}.lstsq", np.linalg.lstsq(a[:, :60], b, rcond=None)[0])
    report(f"{letter}.matrix_power", np.linalg.matrix_power(a / 20, 3))


for letter, dtype in (("s", np.float32), ("d", np.float64), ("c", np.complex64), ("z", np.complex128)):
    products(letter, dtype)
    solvers(letter, dtype)

# Products that NumPy computes without a BLAS.
report("d.int64", numbers(40, 40, 8).round().astype(np.int64) @ numbers(40, 40, 9).round().astype(np.int64))
report("d.longdouble", numbers(40, 40, 8, np.longdouble) @ numbers(40, 40, 9, np.longdouble))
report("d.empty", np.zeros((3, 0)) @ np.zeros((0, 4)))
