"""Calls of wheels reach Tessera: those of modules that are loaded, and of modules that come later; until uninstall."""

import pytest

from conftest import ON_HOST_DEVICES

RIGHT = """
import numpy as np
rng = np.random.default_rng(1)
a, b = rng.standard_normal((2, 120, 120))
def check(x, y):
    assert np.allclose(x, y), abs(x - y).max()
"""


def solves_on_devices(result):
    """NumPy's own solve calls gesv. The face of numpy.linalg, which may take its place, calls others."""
    return any(result.on_devices(routine) for routine in ("dgesv", "dgetrf", "dgetrs"))


def test_numpy_imported_before(program):
    result = program(RIGHT + """
expected = a @ b
import tessera_blas
tessera_blas.install()
check(a @ b, expected)
check(a @ np.linalg.solve(a, b), b)
""", **ON_HOST_DEVICES)
    assert result.on_devices("dgemm") and solves_on_devices(result)


def test_numpy_imported_after(program):
    result = program("import tessera_blas\ntessera_blas.install()\n" + RIGHT + """
check(a @ np.linalg.solve(a, b), b)
""", **ON_HOST_DEVICES)
    assert result.on_devices("dgemm") and solves_on_devices(result)


@pytest.mark.parametrize("after", [False, True])
def test_scipy_through_f2py(program, after):
    install = "import tessera_blas; tessera_blas.install()\n"
    imports = "import scipy.linalg, scipy.linalg.blas, scipy.linalg.lapack\n"
    result = program(RIGHT + (install + imports if after else imports + install) + """
check(scipy.linalg.blas.dtrmm(2.0, a, b), 2 * np.triu(a) @ b)
lu, piv, info = scipy.linalg.lapack.dgetrf(a)
check(scipy.linalg.lapack.dgetrs(lu, piv, b)[0], np.linalg.solve(a, b))
c = scipy.linalg.cholesky(a @ a.T)
check(c.T @ c, a @ a.T)
""", **ON_HOST_DEVICES)
    assert result.on_devices("dtrmm") and result.on_devices("dgetrf") and result.on_devices("dpotrf")


@pytest.mark.parametrize("after", [False, True])
def test_scipy_through_cython(program, after):
    """As modules do that have been compiled with `cimport scipy.linalg.cython_blas`: they take addresses once."""
    install = "import tessera_blas; tessera_blas.install()\n"
    take = """
import ctypes, scipy.linalg.cython_blas, scipy.linalg.cython_lapack
def function(module, name):
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    name = name_of(capsule)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * name.count(b"*"))(pointer_of(capsule, name))
dgemm = function(scipy.linalg.cython_blas, "dgemm")
dpotrf = function(scipy.linalg.cython_lapack, "dpotrf")
"""
    result = program(RIGHT + (install + take if after else take + install) + """
from ctypes import byref, c_char, c_double, c_int, c_void_p
n, one, zero, info = c_int(120), c_double(1), c_double(0), c_int(1)
x, y, c = np.asfortranarray(a), np.asfortranarray(b), np.empty((120, 120), order="F")
at = lambda array: c_void_p(array.ctypes.data)
N, L = c_char(b"N"), c_char(b"L")
dgemm(byref(N), byref(N), byref(n), byref(n), byref(n), byref(one), at(x), byref(n), at(y), byref(n), byref(zero),
      at(c), byref(n))
check(c, a @ b)
s = np.asfortranarray(a @ a.T)
dpotrf(byref(L), byref(n), at(s), byref(n), byref(info))
assert info.value == 0
check(np.tril(s) @ np.tril(s).T, a @ a.T)
""", **ON_HOST_DEVICES)
    assert result.on_devices("dgemm") and result.on_devices("dpotrf")


def test_a_user_of_cython_lapack(program):
    result = program(RIGHT + """
import tessera_blas
tessera_blas.install()
import scipy.linalg.interpolative as interpolative
low = a[:, :5] @ b[:5]
rank, columns, projection = interpolative.interp_decomp(low, 1e-10)
assert rank == 5
check(interpolative.reconstruct_matrix_from_id(low[:, columns[:rank]], columns, projection), low)
""", **ON_HOST_DEVICES)
    assert result.told("dgemm")


def test_uninstall_puts_back(program):
    result = program(RIGHT + """
import sys, tessera_blas
import scipy.linalg
from importlib.machinery import ExtensionFileLoader
methods = ExtensionFileLoader.create_module, ExtensionFileLoader.exec_module
tessera_blas.install()
tessera_blas.uninstall()
assert methods == (ExtensionFileLoader.create_module, ExtensionFileLoader.exec_module)
assert tessera_blas.info()["slots"]["redirected"] == []
import scipy.optimize
check(a @ np.linalg.solve(a, b), b)
scipy.linalg.lu_factor(a)
print("quiet", file=sys.stderr)
tessera_blas.install()
check(a @ b, np.dot(a, b))
""", **ON_HOST_DEVICES)
    before, after = result.err.split("quiet\n")
    assert "dgemm" not in before and "dgesv" not in before and "dgetrf" not in before
    assert "dgemm" in after


def test_a_hook_of_others_stays(program):
    program("""
        import tessera_blas
        from importlib.machinery import ExtensionFileLoader
        tessera_blas.install()
        ours = ExtensionFileLoader.create_module
        seen = []
        def theirs(self, spec):
            seen.append(spec.name)
            return ours(self, spec)
        ExtensionFileLoader.create_module = theirs
        tessera_blas.uninstall()
        assert ExtensionFileLoader.create_module is theirs
        import numpy.linalg
        assert tessera_blas.info()["slots"]["redirected"] == [] and seen
        tessera_blas.install()
        assert ExtensionFileLoader.create_module is theirs
        import scipy.linalg.cython_lapack
        objects = [entry["object"] for entry in tessera_blas.info()["slots"]["redirected"]]
        assert any("cython_lapack" in name for name in objects), objects
    """)


def test_an_import_that_fails_stays_the_same(program, tmp_path):
    (tmp_path / "broken.cpython-0.so").write_text("no library")
    program(f"""
        import importlib.util, traceback
        from importlib.machinery import ExtensionFileLoader, ModuleSpec
        import tessera_blas
        path = {str(tmp_path / "broken.cpython-0.so")!r}
        def text():
            try:
                importlib.util.module_from_spec(ModuleSpec("broken", ExtensionFileLoader("broken", path), origin=path))
            except ImportError as error:
                return repr(error), error.path
            raise AssertionError
        expected = text()
        tessera_blas.install()
        assert text() == expected
    """)


def test_threads_compute_while_it_comes_and_goes(program):
    program(RIGHT + """
import sys, threading, tessera_blas
sys.setswitchinterval(1e-5)
expected, ends, errors = a @ b, threading.Event(), []
def work():
    try:
        while not ends.is_set():
            check(a @ b, expected)
            check(a @ np.linalg.solve(a, b), b)
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(30):
    tessera_blas.install()
    tessera_blas.uninstall()
tessera_blas.install()
import scipy.linalg, scipy.optimize, scipy.stats
ends.set()
for thread in threads: thread.join()
assert not errors, errors
""", TESSERA_DEVICES="host:2", TESSERA_OFFLOAD="always", TESSERA_CALIBRATION="off")


def test_fork_before_and_after_calls(program):
    program(RIGHT + """
import os, tessera_blas
tessera_blas.install()
def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(error, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
def work():
    check(a @ np.linalg.solve(a, b), b)
    import scipy.linalg
    check(scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b), np.linalg.solve(a, b))
    tessera_blas.uninstall()
    tessera_blas.install()
in_child(work)
work()
in_child(work)
""", **ON_HOST_DEVICES)


def test_fork_while_another_thread_installs(program):
    program("""
        import os, threading, tessera_blas
        import numpy
        # A child that is forked in the middle of another thread's import cannot import the same: Python's own rule.
        tessera_blas.install()
        ends = threading.Event()
        def work():
            # A lock is not fair: without a rest the other thread might never get it.
            while not ends.wait(1e-4):
                tessera_blas.install()
                tessera_blas.uninstall()
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                tessera_blas.install()
                tessera_blas.uninstall()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        ends.set()
        thread.join()
    """, timeout=120)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools(program, method):
    result = program(f"""
import multiprocessing
import numpy as np
import tessera_blas
tessera_blas.install()

def work(n):
    a = np.random.default_rng(n).standard_normal((n, n))
    return tessera_blas.is_installed() and bool(np.allclose(a @ np.linalg.inv(a), np.eye(n)))

if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(pool.map(work, range(100, 108)))
""", **ON_HOST_DEVICES)
    assert result.out == f"{[True] * 8}\n"
    assert result.on_devices("dgemm")


def test_an_exception_in_a_worker(program):
    result = program("""
import concurrent.futures
import numpy as np
import tessera_blas
tessera_blas.install()

def work(n):
    return np.linalg.inv(np.zeros((n, n)))

if __name__ == "__main__":
    for kind in (concurrent.futures.ProcessPoolExecutor, concurrent.futures.ThreadPoolExecutor):
        with kind(2) as pool:
            try:
                pool.submit(work, 100).result()
            except np.linalg.LinAlgError as error:
                print(error)
""", **ON_HOST_DEVICES)
    assert result.out == "Singular matrix\n" * 2
