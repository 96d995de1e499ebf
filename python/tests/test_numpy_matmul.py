"""Stacks of matrices in numpy.matmul and `@`, beside NumPy's own loops."""

from conftest import ON_HOST_DEVICES

CASES = """
import itertools
import numpy as np, tessera_blas

random = np.random.default_rng(3)

def values(shape, kind):
    made = random.standard_normal(shape) + (1j * random.standard_normal(shape) if kind in "FD" else 0)
    return made.astype(kind)

def laid(a, how):
    if how == "transposed":
        return np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if how == "part":
        room = np.zeros(a.shape[:-2] + (a.shape[-2] + 2, a.shape[-1] + 3), a.dtype)
        room[..., 1:-1, 2:-1] = a
        return room[..., 1:-1, 2:-1]
    if how == "strided":
        return np.repeat(a, 2, axis=-1)[..., ::2]
    if how == "reversed":
        return a[::-1].copy()[::-1]
    if how == "interleaved":
        return np.moveaxis(np.moveaxis(a, 0, -2).copy(), -2, 0)
    if how == "read-only":
        a.flags.writeable = False
    return a

HOWS = ("rows", "transposed", "part", "strided", "reversed", "interleaved", "read-only")
PAIRS = [((6, 5, 4), (6, 4, 3)), ((6, 5, 4), (4, 3)), ((5, 4), (6, 4, 3)), ((2, 3, 5, 4), (3, 4, 2)), ((6, 1, 4), (6, 4, 1)),
         ((6, 5, 4), (4,)), ((6, 5, 1), (6, 1, 3)), ((1, 5, 4), (1, 4, 3)), ((3, 9, 9), (3, 9, 9)), ((0, 5, 4), (4, 3)),
         ((6, 5, 0), (6, 0, 3)), ((6, 0, 4), (4, 3)), ((40, 30, 30), (40, 30, 30)), ((2, 70, 70), (2, 70, 70))]

def cases():
    layouts = {(how, other) for how in HOWS for other in ("rows", how)} | {("rows", how) for how in HOWS}
    for kind, (left, right), (how, other) in itertools.product("fdFD", PAIRS, sorted(layouts)):
        if (how != "rows" and len(left) < 3) or (other != "rows" and len(right) < 3):
            continue
        yield kind, laid(values(left, kind), how), laid(values(right, kind), other)

def products(a, b):
    made = [a @ b, np.matmul(a, b)]
    out = np.empty(made[0].shape[::-1], made[0].dtype).T
    made.append(np.matmul(a, b, out=out))
    assert made[-1] is out
    return made

all_cases = list(cases())
tessera_blas.install()
ours = [products(a, b) for _, a, b in all_cases]
with_nan = np.ones((8, 20, 20)); with_nan[3, 2, 1] = np.nan
nan_rows = np.isnan(with_nan @ with_nan)
integers = np.arange(800).reshape(8, 10, 10) @ np.arange(800).reshape(8, 10, 10)
self_product = with_nan.copy(); np.matmul(self_product, np.ones((20, 20)), out=self_product)
tessera_blas.uninstall()
assert not tessera_blas.info()["matmul"]["on"]
for (kind, a, b), made in zip(all_cases, ours):
    for one, expected in zip(made, products(a, b)):
        assert one.dtype == expected.dtype and one.shape == expected.shape and one.strides == expected.strides
        assert np.allclose(one, expected, rtol=1e-4 if kind in "fF" else 1e-12, atol=1e-4 if kind in "fF" else 1e-12), (kind, a.shape, b.shape)
assert (nan_rows == np.isnan(with_nan @ with_nan)).all() and nan_rows[3, 2].all() and not nan_rows[2].any()
assert (integers == np.arange(800).reshape(8, 10, 10) @ np.arange(800).reshape(8, 10, 10)).all()
expected = with_nan.copy(); np.matmul(expected, np.ones((20, 20)), out=expected)
assert np.array_equal(self_product, expected, equal_nan=True)
print(len(all_cases), "cases")
"""


def test_all_stacks_on_devices(program):
    result = program(CASES, **ON_HOST_DEVICES)
    for routine in ("dgemm_batch", "zgemm_batch", "sgemm_batch", "cgemm_batch"):
        assert result.on_devices(routine), routine
    # Matrices one below the other, times the same matrix, are one product: six of 5 x 4 times 4 x 3, in columns.
    assert any(" m=3 n=30 k=4 " in line for line in result.on_devices("dgemm")), result.err[-2000:]


def test_all_stacks_where_the_cpu_is_preferred(program):
    assert "cases" in program(CASES).out


def test_large_stacks_become_batches_and_small_ones_stay(program):
    result = program("""
import numpy as np, tessera_blas
tessera_blas.install()
assert tessera_blas.info()["matmul"]["on"]
a = np.random.default_rng(1).standard_normal((400, 32, 32))
b = a @ a
assert np.allclose(b[7], a[7].dot(a[7]))
small = a[:3] @ a[:3]
assert np.allclose(small, b[:3])
""", TESSERA_VERBOSE="1", TESSERA_DEVICES="none")
    assert len(result.told("dgemm_batch")) == 1


def test_numpy_may_come_later_and_threads_share_the_loops(program):
    result = program("""
import tessera_blas
tessera_blas.install()
assert not tessera_blas.info()["matmul"]["on"]
import numpy as np
assert tessera_blas.info()["matmul"]["on"]
import concurrent.futures
def work(seed):
    a = np.random.default_rng(seed).standard_normal((50, 25, 25))
    for _ in range(20):
        assert np.allclose((a @ a)[9], a[9].dot(a[9]))
    return seed
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert list(pool.map(work, range(16))) == list(range(16))
""", **ON_HOST_DEVICES)
    assert result.on_devices("dgemm_batch")
