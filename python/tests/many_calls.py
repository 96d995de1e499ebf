"""Ten thousand calls from one process: right ones and refused ones, from threads that end too, leave nothing behind.

Run as a script, with the number of rounds; prints what the calls have left, or fails. Memory is compared between two
halves, since pools and libraries take theirs at the beginning.
"""

import ctypes
import gc
import os
import sys
import threading
import time

import numpy as np
import scipy.linalg as sl

import tessera_blas

N = 48


def resident_bytes():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def open_files():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def threads_in_the_end(most):
    """threads(), once they are at most `most`: a thread that came too late for its work ends after the call."""
    deadline = time.monotonic() + 60
    while threads() > most and time.monotonic() < deadline:
        time.sleep(0.01)
    return threads()


def calls(random):
    """Some calls of each kind, with the worst of their residuals."""
    a = random.standard_normal((N, N)) + N * np.eye(N)
    b = random.standard_normal((N, 3))
    definite = a @ a.T
    stack = np.stack([a, a.T, definite, 2 * a])
    q, r = np.linalg.qr(a)
    u, s, vh = np.linalg.svd(a)
    values, vectors = np.linalg.eigh(definite)
    factors = sl.lu_factor(a)
    factor = np.linalg.cholesky(definite)
    residuals = [a @ np.linalg.solve(a, b) - b, np.linalg.inv(a) @ a - np.eye(N), q @ r - a, (u * s) @ vh - a,
                 (vectors * values) @ vectors.T - definite, a @ sl.lu_solve(factors, b) - b, factor @ factor.T - definite,
                 stack @ np.linalg.inv(stack) - np.eye(N)]
    for function, argument in ((np.linalg.inv, np.zeros((N, N))), (np.linalg.cholesky, -definite), (sl.inv, np.full((N, N), np.nan))):
        try:
            function(argument)
        except (np.linalg.LinAlgError, ValueError):
            continue
        raise AssertionError(f"{function} has not refused its argument")
    return 21, max(float(np.abs(residual).max()) for residual in residuals)


def half(rounds, random):
    count, worst = 0, 0.0
    for turn in range(rounds):
        if turn % 50 == 0:  # from a thread that ends
            done = []
            thread = threading.Thread(target=lambda: done.append(calls(random)))
            thread.start()
            thread.join()
            more, residual = done[0]
        else:
            more, residual = calls(random)
        count, worst = count + more, max(worst, residual)
    return count, worst, resident_bytes(), open_files()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 240
    tessera_blas.install()
    random = np.random.default_rng(1)
    half(20, random)
    first, before = half(rounds, random), threads()
    second = half(rounds, random)
    for _ in range(2):  # memory that is lost grows in every half, that of an allocator's new arena once
        if second[2] - first[2] < second[0] * 256:
            break
        first, second = second, half(rounds, random)
    grown = second[2] - first[2]
    after = threads_in_the_end(before)
    print(f"{first[0] + second[0]} calls, residual {max(first[1], second[1]):.1e}, {grown / 1024:.0f} KiB more in the second half, "
          f"open files {first[3]} {second[3]}, threads {before} {after}")
    assert max(first[1], second[1]) < 1e-9
    assert grown < second[0] * 256, "memory is lost"  # bytes of each call; a lost matrix has 18 KiB
    assert second[3] <= first[3] and after <= before


if __name__ == "__main__":
    main()
