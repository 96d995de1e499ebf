"""Settings for a while: of calls through redirected slots, and through the faces."""

from conftest import ON_HOST_DEVICES


def test_settings_hold_inside_and_nest(program):
    result = program("""
import sys, numpy as np, tessera_blas
tessera_blas.install()
a = np.random.default_rng(1).standard_normal((150, 150))
def both(name):
    print(name, file=sys.stderr, flush=True)
    assert np.allclose(np.linalg.inv(a) @ a, np.eye(150))
both("first")
with tessera_blas.settings(offload="never", verbose=True):
    both("second")
    with tessera_blas.settings(offload="always"):
        both("third")
    both("fourth")
both("fifth")
""", **{**ON_HOST_DEVICES, "TESSERA_VERBOSE": "0"})
    parts = {}
    for line in result.err.splitlines():
        if line in ("first", "second", "third", "fourth", "fifth"):
            lines = parts.setdefault(line, [])
        elif line.startswith("tessera: "):
            lines.append(line)
    assert not parts["first"] and not parts["fifth"]
    for name in ("second", "fourth"):
        assert parts[name] and all("TESSERA_OFFLOAD=never" in line for line in parts[name])
    assert any("dgetri" in line and " on host:" in line for line in parts["third"])
    assert any("dgemm" in line and " on host:" in line for line in parts["third"])


def test_a_wrong_setting_changes_nothing(program):
    program("""
import numpy as np, pytest, tessera_blas
tessera_blas.install()
with pytest.raises(ValueError, match="TESSERA_OFFLOAD"):
    with tessera_blas.settings(offload="sometimes"):
        raise AssertionError("entered")
a = np.ones((200, 200))
assert ((a @ a) == 200).all()
""", **ON_HOST_DEVICES)


def test_an_error_inside_takes_them_back(program):
    result = program("""
import numpy as np, tessera_blas
tessera_blas.install()
try:
    with tessera_blas.settings(offload="never", verbose=True):
        raise KeyError
except KeyError:
    pass
np.linalg.inv(np.eye(150))
""", **{**ON_HOST_DEVICES, "TESSERA_VERBOSE": "0"})
    assert not result.told("dgetri")
