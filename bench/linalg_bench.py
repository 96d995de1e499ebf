#!/usr/bin/env python3
"""Times what NumPy users call: solve, cholesky, inv, det, qr, eigh, svd, lstsq, eig, eigvalsh, svdvals, and the same by CuPy with the copies to and from the
GPU, since the matrices of both lie in ordinary host memory before and after. Who answers NumPy's calls is up to the environment:

  bench/linalg_bench.py --sizes 4000,8000                                  NumPy and the OpenBLAS of its wheel
  tessera run bench/linalg_bench.py --sizes 4000,8000 --cupy               NumPy over Tessera, and CuPy, in one run
  bench/linalg_bench.py --sizes 4000,8000 --package                        NumPy with the package tessera_blas installed in it
  bench/linalg_bench.py --sizes 100,500 --repeats 200 --turns 5            small calls: medians of medians

One line of JSON for each routine and size: median and least seconds after one call that is not counted, and how far the result is from
right, in units of n * eps (for small sizes of a norm that fits the routine)."""
import argparse
import json
import statistics
import sys
import time

import numpy


def factors_error(A, product):
    return numpy.linalg.norm(A - product) / numpy.linalg.norm(A)


def orthogonality(Q):
    return numpy.linalg.norm(Q.conj().T @ Q - numpy.eye(Q.shape[1])) / Q.shape[1] ** 0.5


class Problem:
    """Operands of one size: a general matrix, a Hermitian one and a definite one."""

    def __init__(self, n, dtype, order="C", seed=1):
        random = numpy.random.default_rng(seed)

        def draw(*shape):
            real = random.standard_normal(shape)
            drawn = real + 1j * random.standard_normal(shape) if numpy.dtype(dtype).kind == "c" else real
            return numpy.array(drawn, dtype, order=order)

        self.n = n
        self.general = draw(n, n)
        self.hermitian = numpy.array((self.general + self.general.conj().T) / 2, dtype, order=order)
        # Dominant diagonals are definite, and cheap to make.
        self.definite = numpy.array(self.hermitian / n + numpy.eye(n) * 2, dtype, order=order)
        self.tall = numpy.array(self.general[:, :max(n // 2, 1)], order=order)
        self.right = draw(n)
        self.rights = draw(n, 500)


def checks_of(p):
    """By routine: the call, given a linear algebra module and a function that brings operands to it; and what is wrong with its result."""
    A, H, S = p.general, p.hermitian, p.definite
    norm = numpy.linalg.norm

    def solved(x, b):
        return norm(A @ x - b) / (norm(A) * norm(x))

    return {
        "solve": (lambda la, to: la.solve(to(A), to(p.right)), lambda x: solved(x, p.right)),
        "solve100": (lambda la, to: la.solve(to(A), to(p.rights[:, :100])), lambda x: solved(x, p.rights[:, :100])),
        "solve500": (lambda la, to: la.solve(to(A), to(p.rights)), lambda x: solved(x, p.rights)),
        # The residual is orthogonal to the columns.
        "lstsq": (lambda la, to: la.lstsq(to(p.tall), to(p.right), rcond=None)[0],
                  lambda x: norm(p.tall.conj().T @ (p.tall @ x - p.right)) / (norm(p.tall) * norm(p.right))),
        "cholesky": (lambda la, to: la.cholesky(to(S)), lambda L: factors_error(S, L @ L.conj().T)),
        "inv": (lambda la, to: la.inv(to(A)), lambda X: norm(A @ X - numpy.eye(p.n)) / (norm(A) * norm(X))),
        "det": (lambda la, to: la.slogdet(to(A)), lambda result: 0.0 if abs(abs(result[0]) - 1) < 1e-4 else float("nan")),
        "qr": (lambda la, to: la.qr(to(A)), lambda f: max(factors_error(A, f[0] @ f[1]), orthogonality(f[0]))),
        "eigh": (lambda la, to: la.eigh(to(H)), lambda f: max(factors_error(H @ f[1], f[1] * f[0]), orthogonality(f[1]))),
        "eigvalsh": (lambda la, to: la.eigvalsh(to(H)), lambda w: abs(norm(w) - norm(H)) / norm(H)),
        "svd": (lambda la, to: la.svd(to(A)), lambda f: max(factors_error(A, (f[0] * f[1]) @ f[2]), orthogonality(f[0]), orthogonality(f[2].T))),
        "svdvals": (lambda la, to: la.svd(to(A), compute_uv=False), lambda s: abs(norm(s) - norm(A)) / norm(A)),
        "eig": (lambda la, to: la.eig(to(A)), lambda f: factors_error(A @ f[1], f[1] * f[0])),
    }


def measure(call, repeats, longest_s):
    """@return seconds of each call but the first, and the last result"""
    begin = time.perf_counter()
    result = call()
    first = time.perf_counter() - begin
    seconds = []
    while len(seconds) < repeats and (not seconds or first + sum(seconds) < longest_s):
        begin = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begin)
    return seconds, result, first


def numpy_call(compute):
    return lambda: compute(numpy.linalg, lambda matrix: matrix)


def cupy_call(compute):
    import cupy

    def home(result):
        if isinstance(result, tuple):
            return tuple(cupy.asnumpy(part) for part in result)
        return cupy.asnumpy(result)

    def call():
        result = home(compute(cupy.linalg, cupy.asarray))
        cupy.get_default_memory_pool()  # kept: CuPy's users have it, too
        return result

    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,4000")
    parser.add_argument("--routines", default="solve,cholesky,inv,qr,eigh,svd")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--order", default="C", choices=("C", "F"), help="of the matrices in memory")
    parser.add_argument("--package", action="store_true", help="install the package tessera_blas first")
    parser.add_argument("--turns", type=int, default=1, help="each a round of --repeats; their medians' median is told")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--longest", type=float, default=20, help="seconds for the calls of one line, about")
    parser.add_argument("--cupy", action="store_true", help="CuPy beside NumPy")
    parser.add_argument("--no-numpy", action="store_true", help="CuPy alone")
    parser.add_argument("--no-check", action="store_true", help="results are not looked at")
    parser.add_argument("--settle", type=float, default=0, help="seconds after a first call, for devices that are opened in the background")
    parser.add_argument("--label", default="numpy", help="who answers NumPy's calls, for the JSON")
    options = parser.parse_args()

    if options.package:
        import tessera_blas

        tessera_blas.install()
    eps = numpy.finfo(options.dtype).eps
    wrong = False
    if options.settle > 0:
        numpy.linalg.solve(numpy.eye(1200) * 2, numpy.ones(1200))
        time.sleep(options.settle)
    for n in map(int, options.sizes.split(",")):
        checks = checks_of(Problem(n, options.dtype, options.order))
        for routine in options.routines.split(","):
            compute, error_of = checks[routine]
            contestants = [] if options.no_numpy else [(options.label, numpy_call(compute))]
            if options.cupy:
                contestants.append(("cupy", cupy_call(compute)))
            for name, call in contestants:
                try:
                    rounds = [measure(call, options.repeats, options.longest) for _ in range(options.turns)]
                    seconds, result, first = [s for r in rounds for s in r[0]], rounds[-1][1], rounds[0][2]
                except AttributeError as error:  # what CuPy lacks
                    print(f"{name} {routine}: {error}", file=sys.stderr)
                    continue
                error = None if options.no_check else float(error_of(result)) / (n * eps)
                bad = error is not None and not error < 30
                wrong = wrong or bad
                print(json.dumps({"routine": routine, "n": n, "type": options.dtype, "who": name, "order": options.order,
                                  "median_s": statistics.median(statistics.median(r[0]) for r in rounds),
                                  "least_s": min(seconds), "first_s": first, "calls": len(seconds), "error": error, "right": not bad}),
                      flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
