#!/usr/bin/env python3
"""What programs gain where their matrices stay on the devices between calls, and what those lose that write all of them.

  TESSERA_RESIDENT=auto bench/residence.py                  one line of JSON for each case
  TESSERA_RESIDENT=off bench/residence.py --scale 0.5       the same sizes' halves, without

Cases: `solve`, solves of one right-hand side by factors of 30000; `subspace`, products of a matrix of 16384 with 64 columns; `chain`,
products of 8192 whose result is the next operand; `written`, products of 8192 whose operands the program writes in between. Seconds of
calls alone, medians without the first three; some elements of each result are compared with NumPy's. Needs the package:
PYTHONPATH=python TESSERA_LIBRARIES=build/release/lib. TESSERA_OFFLOAD=always sends what the policy would leave to the CPU."""
import argparse
import json
import os
import statistics
import time

import numpy as np
import scipy.linalg
import tessera_blas


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def agree(result, expected):
    return bool(np.allclose(result, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()))


def solve(n, repeats, random):
    A = np.asfortranarray(random.standard_normal((n, n)))
    rows = A[:3].copy()
    factors = scipy.linalg.lu_factor(A, overwrite_a=True, check_finite=False)
    b = random.standard_normal(n)
    seconds, right = [], True
    for _ in range(repeats):
        x = np.empty(n)
        seconds.append(timed(lambda: x.__setitem__(slice(None), scipy.linalg.lu_solve(factors, b, check_finite=False))))
        right = right and bool(np.allclose(rows @ x, b[:3], rtol=1e-5, atol=1e-5 * np.abs(rows).max() * np.abs(x).max()))
    return seconds, right


def subspace(n, repeats, random):
    A, Q, Y = random.standard_normal((n, n)), random.standard_normal((n, 64)), np.empty((n, 64))
    seconds, right = [], True
    for _ in range(repeats):
        seconds.append(timed(lambda: np.matmul(A, Q, out=Y)))
        right = right and agree(Y[:2], (A[:2, :, None] * Q[None]).sum(axis=1))
        Q[:] = Y / np.linalg.norm(Y, axis=0)
    return seconds, right


def chain(n, repeats, random):
    A, X, Y = random.standard_normal((n, n)) / n**0.5, random.standard_normal((n, n)), np.empty((n, n))
    seconds, right = [], True
    for _ in range(repeats):
        seconds.append(timed(lambda: np.matmul(A, X, out=Y)))
        right = right and agree(Y[5, :3], (A[5, :, None] * X[:, :3]).sum(axis=0))
        X, Y = Y, X
    return seconds, right


def written(n, repeats, random):
    A, B, C = random.standard_normal((n, n)), random.standard_normal((n, n)), np.empty((n, n))
    seconds, right = [], True
    for _ in range(repeats):
        def step():
            np.multiply(A, 1.0001, out=A)
            np.multiply(B, 0.9999, out=B)
            np.matmul(A, B, out=C)
            np.multiply(C, 0.5, out=C)
        seconds.append(timed(step))
        right = right and agree(2 * C[5, :3], (A[5, :, None] * B[:, :3]).sum(axis=0))
    return seconds, right


CASES = {"solve": (solve, 30000), "subspace": (subspace, 16384), "chain": (chain, 8192), "written": (written, 8192)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--scale", type=float, default=1, help="factor of all orders")
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args()
    tessera_blas.install()
    wrong = False
    for name in options.cases.split(","):
        case, n = CASES[name]
        n = int(n * options.scale)
        seconds, right = case(n, options.repeats, np.random.default_rng(1))
        wrong = wrong or not right
        print(json.dumps({"case": name, "n": n, "resident": os.environ.get("TESSERA_RESIDENT", "off"), "median_s": round(statistics.median(seconds[3:]), 6),
                          "seconds": [round(each, 5) for each in seconds], "right": right}), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
