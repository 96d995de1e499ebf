"""Large NumPy arrays in the pool. `ours` asks the library whether an address is in it."""

import pathlib

import pytest

BEGIN = """
import ctypes, os, sys, threading
import numpy as np
import tessera_blas
tessera_blas.install()
from tessera_blas import _libraries
is_ours = _libraries.load().tessera.tessera_is_ours
is_ours.argtypes = [ctypes.c_void_p]
def ours(array):
    return bool(is_ours(array.ctypes.data))
try:
    from numpy._core.multiarray import get_handler_name
except ImportError:
    from numpy.core.multiarray import get_handler_name
LARGE = 1 << 20   # of float64: 8 MiB
"""


@pytest.fixture
def memory(program):
    def run(text, **keywords):
        return program(BEGIN + text, **keywords)

    return run


def test_large_arrays_are_in_the_pool(memory):
    memory("""
assert get_handler_name() == "tessera"
for array in (np.empty(LARGE), np.zeros(LARGE), np.ones(LARGE) + 1, np.arange(LARGE), np.array([0.5] * LARGE),
              np.sort(np.ones(LARGE)), np.ones((1000, 1000)) @ np.ones((1000, 1000)), np.empty((3, LARGE), dtype=bool),
              np.empty(LARGE, dtype=object), np.empty(LARGE // 8, dtype="U16")):
    assert ours(array) == (array.nbytes >= 4 << 20), array.nbytes
    assert get_handler_name(array) == "tessera"
assert not ours(np.empty(1000))
assert ours(np.empty(1 << 22, dtype=np.uint8)) and not ours(np.empty((1 << 22) - 1, dtype=np.uint8))
""")


def test_another_thread_may_be_importing_numpy(memory):
    """Its table is there before the object that stands for its handler."""
    memory("""
from types import SimpleNamespace
from tessera_blas import _memory
version = ctypes.CFUNCTYPE(ctypes.c_uint)(lambda: 0x12)
handler = ctypes.c_void_p()
table = (ctypes.c_void_p * 307)()
table[211], table[306] = ctypes.cast(version, ctypes.c_void_p), ctypes.addressof(handler)
capsule_of = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
half_done = SimpleNamespace(_ARRAY_API=capsule_of(ctypes.addressof(table), None, None))
assert _memory._attach(half_done) is _memory._NOT_YET
""")


def test_arrays_of_before(program):
    program("""
        import numpy as np
        before = [np.arange(n) for n in (0, 1, 100, 1 << 20)]
        import tessera_blas
        tessera_blas.install()
        for array in before:
            n = len(array)
            array.resize(n + 1000, refcheck=False)
            assert (array[:n] == np.arange(n)).all() and not array[n:].any()
        del array, before
        after = [np.arange(n) for n in (0, 1, 100, 1 << 20)]
        tessera_blas.uninstall()
        for array in after:
            n = len(array)
            array.resize(n + 1000, refcheck=False)
            assert (array[:n] == np.arange(n)).all() and not array[n:].any()
    """)


def test_zeros_are_zero_after_reuse(memory):
    memory("""
addresses = set()
for _ in range(20):
    array = np.zeros(LARGE)
    addresses.add(array.ctypes.data)
    assert not array.any()
    array.fill(7)
    del array
assert len(addresses) < 20, "nothing has been reused"
""")


def test_resize(memory):
    memory("""
rng = np.random.default_rng(1)
for start in (0, 10, LARGE // 2 - 1, LARGE // 2, LARGE):
    array = np.arange(start)
    for size in (LARGE, 3 * LARGE, LARGE // 2, 100, 5 * LARGE, 0, LARGE):
        kept = min(len(array), size)
        array.resize(size, refcheck=False)
        assert (array[:kept] == np.arange(kept)).all() and not array[kept:].any()
        array[:] = np.arange(size)
assert (np.fromiter(range(LARGE), dtype=np.int64) == np.arange(LARGE)).all()
""")


def test_sizes_that_no_memory_has(memory):
    memory("""
for make in (np.empty, np.zeros):
    for size in (1 << 47, 1 << 59):
        try:
            make(size)
        except (MemoryError, ValueError):
            continue
        raise AssertionError(size)
assert ours(np.empty(LARGE))
""")


def test_overflow_of_calloc(memory):
    memory("""
from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_size_t, c_uint8, c_void_p, cast
class Handler(Structure):
    _fields_ = [("name", c_char * 127), ("version", c_uint8), ("context", c_void_p), ("malloc", c_void_p),
                ("calloc", CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_size_t)), ("realloc", c_void_p),
                ("free", c_void_p)]
library = _libraries.load().tessera
pointer_of = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
umath = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
table = cast(pointer_of(umath._ARRAY_API, None), POINTER(c_void_p))
capsule = cast(table[306], POINTER(ctypes.py_object))[0]
handler = cast(pointer_of(capsule, b"mem_handler"), POINTER(Handler))[0]
assert handler.name == b"tessera" and handler.version == 1
assert not handler.calloc(None, 1 << 33, 1 << 33)
assert not handler.calloc(None, (1 << 61) + 1, 8)
""")


def test_files_pickles_and_maps(memory, tmp_path):
    memory("""
import pickle, tempfile
array = np.arange(LARGE)
with tempfile.TemporaryDirectory() as folder:
    path = folder + "/a.npy"
    np.save(path, array)
    loaded = np.load(path)
    assert ours(loaded) and (loaded == array).all()
    mapped = np.load(path, mmap_mode="r+")
    assert isinstance(mapped, np.memmap) and not ours(mapped) and get_handler_name(mapped) is None
    assert (mapped == array).all()
    raw = np.memmap(folder + "/raw", dtype=float, mode="w+", shape=LARGE)
    raw[:] = 1
    assert not ours(raw)
    np.savez(folder + "/a.npz", array=array)
    with np.load(folder + "/a.npz") as archive:
        assert (archive["array"] == array).all()
    array.tofile(folder + "/b")
    assert (np.fromfile(folder + "/b", dtype=array.dtype) == array).all()
for protocol in (2, 4, 5):
    assert (pickle.loads(pickle.dumps(array, protocol)) == array).all()
buffers = []
text = pickle.dumps(array, 5, buffer_callback=buffers.append)
same = pickle.loads(text, buffers=buffers)
assert same.ctypes.data == array.ctypes.data
del array
assert (same == np.arange(LARGE)).all()
view = memoryview(np.full(LARGE, 3.0))
assert view[5] == 3.0
foreign = np.frombuffer(bytearray(8 * LARGE))
assert not ours(foreign)
""")


def test_arrays_outlive_uninstall(memory):
    memory("""
array = np.arange(LARGE)
view = array[::2]
tessera_blas.uninstall()
assert tessera_blas.info()["memory"]["on"] is False
assert ours(array) and (array == np.arange(LARGE)).all()
assert not ours(np.empty(LARGE))
del array
assert ours(view) and (view == np.arange(LARGE)[::2]).all()
copy = view.copy()
assert not ours(copy)
del view
tessera_blas.install()
assert ours(np.empty(LARGE))
array = np.empty(LARGE)
tessera_blas.uninstall()
array.resize(2 * LARGE, refcheck=False)
array[:] = 1
assert array.sum() == 2 * LARGE
keep = array   # until the end of the process
""")


def test_threads_contexts_and_coroutines(memory):
    memory("""
import asyncio, concurrent.futures, contextvars, _thread
found = []
def work(*ignored):
    found.append(ours(np.ones(LARGE)))
thread = threading.Thread(target=work); thread.start(); thread.join()
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    list(pool.map(work, range(4)))
done = _thread.allocate_lock(); done.acquire()
_thread.start_new_thread(lambda: (work(), done.release()), ()); done.acquire()
contextvars.Context().run(work)
contextvars.copy_context().run(work)
async def wait():
    work()
asyncio.run(wait())
assert found == [True] * 9, found
""")


def test_arrays_that_other_threads_free(memory):
    memory("""
import queue
sys.setswitchinterval(1e-5)
ways = queue.Queue(8)
errors = []
def give(seed):
    for i in range(100):
        ways.put((seed + i, np.full((1 << 19) + 1000 * i, float(seed + i))))
    ways.put(None)
def take():
    while (item := ways.get()) is not None:
        value, array = item
        if not (array == value).all():
            errors.append(value)
threads = [threading.Thread(target=give, args=(1000 * k,)) for k in range(3)]
threads += [threading.Thread(target=take) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not errors
""")


def test_installed_before_numpy_in_another_thread(program):
    program("""
        import threading
        import tessera_blas
        tessera_blas.install()
        assert tessera_blas.info()["memory"] == {"on": False, "why_not": "NumPy has not been imported yet", "locked": False}
        def work():
            import numpy
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert tessera_blas.info()["memory"]["on"]
    """)


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_turned_off(program, how):
    program(f"""
        import tessera_blas
        tessera_blas.install(memory={how != "argument"})
        import numpy as np
        assert tessera_blas.info()["memory"] == {{"on": False, "why_not": "not asked for", "locked": False}}
        from tessera_blas import _libraries
        import ctypes
        is_ours = _libraries.load().tessera.tessera_is_ours
        is_ours.argtypes = [ctypes.c_void_p]
        assert not is_ours(np.empty(1 << 20).ctypes.data)
    """, **({"TESSERA_PYTHON_MEMORY": "0"} if how == "environment" else {}))


def test_turned_off_and_on_again(memory):
    memory("""
tessera_blas.install(memory=False)
assert tessera_blas.is_installed() and not ours(np.empty(LARGE))
tessera_blas.install()
assert ours(np.empty(LARGE))
""")


def test_fork(memory):
    memory("""
array = np.arange(LARGE)
dead = np.ones(LARGE); del dead
child = os.fork()
if child == 0:
    right = (array == np.arange(LARGE)).all()
    array[:] = 5
    new = np.zeros(LARGE)
    right = right and not new.any() and ours(new)
    del array, new
    os._exit(0 if right else 1)
assert os.waitpid(child, 0)[1] == 0
assert (array == np.arange(LARGE)).all()
""")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_arrays_through_a_pool_of_processes(program, method):
    result = program(f"""
import multiprocessing
import numpy as np
import tessera_blas
tessera_blas.install()

def work(array):
    return 2 * array

if __name__ == "__main__":
    arrays = [np.arange(1 << 20) + i for i in range(4)]
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(all((x == 2 * y).all() for x, y in zip(pool.map(work, arrays), arrays)))
""")
    assert result.out == "True\n"


def test_many_calls_do_not_leak(memory):
    memory("""
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
def work():
    array = np.ones(LARGE)
    return array + array
for _ in range(50): work()
before = resident()
for _ in range(1000): work()
assert resident() < before + 8 * 8 * LARGE
""")


def test_many_calls_of_functions_leave_nothing(python):
    result = python(pathlib.Path(__file__).with_name("many_calls.py"), 40, TESSERA_DEVICES="host:2", TESSERA_OFFLOAD="always")
    assert result.out.startswith("1680 calls")


def test_tracemalloc_sees_arrays(memory):
    memory("""
import tracemalloc
tracemalloc.start()
array = np.ones(LARGE)
assert tracemalloc.get_traced_memory()[0] >= array.nbytes
del array
assert tracemalloc.get_traced_memory()[0] < 8 * LARGE
""")


def test_nothing_is_locked_beside_other_users_of_cuda(program, tmp_path):
    """PyTorch's copies in the background would read such memory after they have returned."""
    (tmp_path / "torch.py").write_text("import _ctypes_test\n")  # some extension module
    program("""
import numpy as np, tessera_blas
tessera_blas.install()
assert tessera_blas.info()["memory"]["locked"]
a = np.ones((1200, 1200)) @ np.ones((1200, 1200))
import torch
assert not tessera_blas.info()["memory"]["locked"]
assert (a == 1200).all() and ((a @ a) == 1200 ** 3).all()
""")
    program("""
import torch, numpy, tessera_blas
tessera_blas.install()
assert not tessera_blas.info()["memory"]["locked"]
""")
