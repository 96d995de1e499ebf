"""Shared by the scripts beside this file: reproducible numbers, and lines that can be compared between two runs."""

import numpy as np


def numbers(m, n, seed, dtype=np.float64):
    """m x n numbers between 0 and 1 that look random; complex ones have imaginary parts between -0.5 and 0.5."""
    i, j = np.ogrid[1 : m + 1, 1 : n + 1]
    values = np.mod(np.sin(i * 12.9898 + j * 78.233 + seed) * 43758.5453, 1)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * (np.mod(np.cos(i * 39.3461 + j * 11.135 + seed) * 24634.6345, 1) - 0.5)
    return values.astype(dtype)


def product(a, b):
    """a @ b without a BLAS and in higher precision, in loops of NumPy's own."""
    wide = np.clongdouble if np.iscomplexobj(a) or np.iscomplexobj(b) else np.longdouble
    return np.einsum("...ij,...jk->...ik", a.astype(wide), b.astype(wide), optimize=False)


def report(name, x):
    """The Frobenius norm and the inner product with fixed weights. A wrong, missing or misplaced tile changes both."""
    x = np.asarray(x)
    flat = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64).ravel()
    weights = 1 + np.mod(7 * np.arange(flat.size), 11)
    weights = weights / np.sqrt(np.sum(weights**2.0))
    values = [np.sqrt(np.sum(np.abs(flat) ** 2)), np.sum(weights * flat.real)]
    if np.iscomplexobj(x):
        values.append(np.sum(weights * flat.imag))
    print(name, *(f"{value:.17g}" for value in values))


def residual(name, error, like, n, dtype):
    """The error of a result, in units of the rounding of n additions of numbers as large as those of `like`."""
    unit = np.finfo(dtype).eps * n * float(np.max(np.abs(like)))
    print(f"{name}.residual {float(np.max(np.abs(error))) / unit:.3g}")


def check(name, c, expected, n):
    report(name, c)
    residual(name, c - expected, expected, n, c.dtype)
