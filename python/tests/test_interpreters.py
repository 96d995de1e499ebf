"""Several interpreters: in one process only the main one can install; in two processes each works on its own."""

import json
import subprocess
import sys

import pytest

from conftest import ON_HOST_DEVICES, environment_with

SECOND = """
import sys
import tessera_blas
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def create(isolated):
    if hasattr(interpreters, "exec"):
        return interpreters.create("isolated" if isolated else "legacy")
    return interpreters.create(isolated=isolated)

def run(interpreter, text):
    # Of an exception the older ones raise an error, and newer ones return a description.
    told = getattr(interpreters, "exec", interpreters.run_string)(interpreter, text)
    assert told is None, told

def check(n=90):
    import numpy as np
    a = np.random.default_rng(1).standard_normal((n, n))
    assert np.allclose(a @ np.linalg.inv(a), np.eye(n))
"""
# Isolated interpreters have no ctypes in Python 3.12.
REFUSED = '''
import tessera_blas
for use in (tessera_blas.install, tessera_blas.profile, lambda: tessera_blas.settings(offload="never")):
    try:
        use()
    except RuntimeError as error:
        assert "main interpreter" in str(error), error
    except ImportError as error:
        assert "_ctypes" in str(error), error
    else:
        raise AssertionError(use)
'''
LEFT_ALONE = '''
try:
    tessera_blas.uninstall()
    assert tessera_blas.is_installed() is False
    assert tessera_blas.info()["libraries"] == {}
except ImportError as error:
    assert "_ctypes" in str(error), error
'''


def has_interpreters():
    try:
        import _interpreters  # noqa: F401
    except ImportError:
        try:
            import _xxsubinterpreters  # noqa: F401
        except ImportError:
            return False
    return True


@pytest.mark.skipif(not has_interpreters(), reason="this Python has no module for it")
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("is_installed", [False, True])
def test_a_second_interpreter_cannot_install(program, isolated, is_installed):
    result = program(SECOND + f"""
if {is_installed}:
    tessera_blas.install()
    check()
before = tessera_blas.info()
second = create({isolated})
run(second, {REFUSED!r})
run(second, {LEFT_ALONE!r})
assert tessera_blas.info() == before
if {is_installed}:
    check()
interpreters.destroy(second)
if not {is_installed}:
    tessera_blas.install()
print("alone", file=sys.stderr, flush=True)
check()
with tessera_blas.profile() as calls:
    check(91)
assert "dgetri" in [row.routine for row in calls.rows if row.on_devices]
assert tessera_blas.info()["memory"]["on"]
import scipy.linalg
assert tessera_blas.info()["scipy"]["on"]
""", **ON_HOST_DEVICES)
    result.err = result.err.split("alone\n")[1]
    assert result.on_devices("dgemm") and result.on_devices("dgetri")


@pytest.mark.skipif(not has_interpreters(), reason="this Python has no module for it")
def test_the_second_interpreter_has_numpy(program):
    """NumPy loads in the first interpreter that imports it. Its results are right there, with the package in the main one."""
    program(SECOND + """
tessera_blas.install()
second = create(False)
run(second, '''
import numpy as np
a = np.random.default_rng(1).standard_normal((300, 300))
assert np.allclose(a @ np.linalg.inv(a), np.eye(300))
''')
tessera_blas.uninstall()
tessera_blas.install()
run(second, '''
assert np.allclose(a @ np.linalg.inv(a), np.eye(300))
''')
interpreters.destroy(second)
""", **ON_HOST_DEVICES)


PROGRAM = """
import sys
import numpy as np, tessera_blas
tessera_blas.install()
print("ready", flush=True)
sys.stdin.readline()
rng = np.random.default_rng(int(sys.argv[1]))
for n in range(100, 130):
    a, b = rng.standard_normal((2, n, n))
    assert np.allclose(a @ np.linalg.solve(a, b), b)
    w, v = np.linalg.eigh(a + a.T)
    assert np.allclose((a + a.T) @ v, v * w)
print("done")
"""


def test_two_processes_at_once(tmp_path):
    """They share what belongs to the user: the file of speeds, and here the file of statistics."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = environment_with({
        **ON_HOST_DEVICES, "TESSERA_VERBOSE": "0", "TESSERA_CALIBRATION": str(tmp_path / "speeds"),
        "TESSERA_STATS": str(tmp_path / "stats.json"), "OPENBLAS_NUM_THREADS": "1"})
    processes = [subprocess.Popen([sys.executable, "program.py", str(seed)], cwd=tmp_path, env=environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for seed in (1, 2)]
    # Neither computes before both are there.
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (0, "done\n", "")
    jobs = [json.loads(line) for line in (tmp_path / "stats.json").read_text().splitlines()]
    assert len([job for job in jobs if "eevd" in job["routine"] or "yevd" in job["routine"]]) == 2 * 30
