"""No call and no installation leaves memory, threads or open files behind."""

import json

import pytest

from conftest import ON_HOST_DEVICES

QUIET = {**ON_HOST_DEVICES, "TESSERA_VERBOSE": "0", "OPENBLAS_NUM_THREADS": "1"}

# A round of calls is done often, then memory is measured, and again after many more.
MEASURE = """
import gc, json, os, tracemalloc
import numpy as np
import tessera_blas
tessera_blas.install()

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def threads():
    # The devices', and all others.
    of_devices = 0
    all_threads = os.listdir("/proc/self/task")
    for thread in all_threads:
        with open(f"/proc/self/task/{thread}/comm") as file:
            of_devices += file.read().startswith("tsr")
    return of_devices, len(all_threads) - of_devices

def measured(work, rounds):
    for _ in range(max(rounds // 10, 10)):
        work()
    others, files, before = threads()[1], len(os.listdir("/proc/self/fd")), resident()
    gc.collect()
    # Of arrays, too, NumPy tells tracemalloc.
    tracemalloc.start()
    for _ in range(rounds):
        work()
    gc.collect()
    python = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(json.dumps({
        "device threads": threads()[0], "other threads": threads()[1] - others,
        "files": len(os.listdir("/proc/self/fd")) - files, "resident": resident() - before, "python": python}))
"""


def check(result, contexts):
    told = json.loads(result.out)
    assert told["other threads"] == 0 and told["files"] == 0, told
    # A device starts a thread when it first needs it, at most four that compute and three that copy.
    assert 0 < told["device threads"] <= contexts * 2 * 7, told
    assert told["python"] < 200 << 10, told
    assert told["resident"] < 16 << 20, told


def test_ten_thousand_calls(program):
    pytest.importorskip("scipy")
    result = program(MEASURE + """
import scipy.linalg as sl
a = np.random.default_rng(1).standard_normal((12, 12)) + 4 * np.eye(12)
s = a @ a.T
singular = np.zeros((12, 12))

def fail():
    try:
        np.linalg.inv(singular)
    except np.linalg.LinAlgError:
        return
    raise AssertionError

functions = [
    lambda: a @ s, lambda: np.linalg.inv(a), lambda: np.linalg.solve(a, s), lambda: np.linalg.det(a), lambda: np.linalg.qr(a),
    lambda: np.linalg.cholesky(s), lambda: np.linalg.eigh(s), lambda: np.linalg.eig(a), lambda: np.linalg.svd(a),
    lambda: np.linalg.lstsq(a, s, rcond=None), fail, lambda: sl.lu_factor(a), lambda: sl.cho_solve(sl.cho_factor(s), a),
    lambda: sl.solve(a, s), lambda: sl.inv(a), lambda: sl.qr(a), lambda: sl.eigh(s), lambda: sl.svd(a), lambda: sl.det(a),
    lambda: sl.cholesky(s)]

def work():
    for function in functions:
        function()

assert len(functions) * 500 == 10000
measured(work, 500)
""", **QUIET)
    check(result, contexts=1)


def test_installed_and_uninstalled_again_and_again(program):
    """With calls each time, so that the functions for large arrays are made anew, and with settings."""
    result = program(MEASURE + """
try:
    import scipy.linalg as sl
except ImportError:
    sl = np.linalg
a = np.random.default_rng(1).standard_normal((12, 12))

def work():
    tessera_blas.uninstall()
    tessera_blas.install()
    with tessera_blas.settings(offload="always"):
        sl.inv(a), np.linalg.inv(a)

measured(work, 200)
""", **QUIET)
    check(result, contexts=2)
