#!/usr/bin/env python3
"""Times stacks of small matrices in NumPy, alone and with the package tessera_blas, in turns in one process.

  bench/stacks.py                          a table: milliseconds alone, with the package, and their ratio
  bench/stacks.py --data 256 --repeats 9   MiB of each stack; the best of so many counts

Needs the package: PYTHONPATH=python TESSERA_LIBRARIES=build/release/lib."""
import argparse
import time

import numpy as np
import tessera_blas

SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)


def operations(n, count, random):
    a = random.standard_normal((count, n, n)) + 4 * n * np.eye(n)
    definite = a @ a.swapaxes(-1, -2)
    right, rights, other = (random.standard_normal((count, n, columns)) for columns in (1, 8, n))
    return {
        "solve": lambda: np.linalg.solve(a, right), "solve of 8": lambda: np.linalg.solve(a, rights), "inv": lambda: np.linalg.inv(a),
        "cholesky": lambda: np.linalg.cholesky(definite), "slogdet": lambda: np.linalg.slogdet(a), "a @ b": lambda: a @ other,
        "a @ b[0]": lambda: a @ other[0], "a @ b.T": lambda: a @ other.swapaxes(-1, -2), "a @ x": lambda: a @ right}


def best_of(function, repeats):
    function()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=float, default=64, help="MiB of each stack")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    print(f"{'n':>4} {'count':>7}  {'':12} {'alone ms':>10} {'package ms':>10} {'times':>6}")
    for n in SIZES:
        count = max(int(options.data * 2**20 / (8 * n * n)), 4)
        for name, operation in operations(n, count, random).items():
            tessera_blas.uninstall()
            alone = best_of(operation, options.repeats)
            tessera_blas.install()
            package = best_of(operation, options.repeats)
            print(f"{n:4} {count:7}  {name:12} {alone * 1e3:10.3f} {package * 1e3:10.3f} {alone / package:6.2f}", flush=True)


if __name__ == "__main__":
    main()
