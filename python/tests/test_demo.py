"""The demonstration: `python -m tessera_blas demo`."""

import re

import pytest

CALLS = ["np.linalg.inv(a)", "np.linalg.solve(a, b)", "np.linalg.qr(a)", "np.linalg.eigh(s)", "a @ b"]
# Small problems go to devices, too.
ON_HOST_DEVICES = {"TESSERA_DEVICES": "host:2", "TESSERA_OFFLOAD": "always", "TESSERA_CALIBRATION": "off"}


def rows(text):
    """The rows of the table by call: the order, the seconds without and with, the factor, and where it ran."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(.+?) +(\d+) +([\d.]+) s +([\d.]+) s +([\d.]+)   (.+)", line)
        if match:
            found[match[1]] = match.groups()[1:]
    return found


def test_on_devices(python):
    result = python("-m", "tessera_blas", "demo", "--order", 200, **ON_HOST_DEVICES)
    table = rows(result.out)
    assert list(table) == CALLS
    assert {row[-1] for row in table.values()} == {"host:0,host:1"}
    assert [row[0] for row in table.values()] == ["200", "200", "200", "100", "200"]
    assert "TESSERA_DEVICES=host:2" in result.out
    assert "The results agree" in result.out
    assert result.err == ""


def test_without_gpus(python):
    result = python("-m", "tessera_blas", "demo", "--order", 200, TESSERA_DEVICES="none", PATH="/nowhere")
    table = rows(result.out)
    assert list(table) == CALLS
    assert all(row[-1].startswith("CPU") for row in table.values())
    assert "GPUs: none\n" in result.out and "There is no GPU here, so all calls stayed on the CPU" in result.out


def test_gpus_are_named(python, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA Example (UUID: GPU-1)'\necho 'GPU 1: NVIDIA Example (UUID: GPU-2)'\n")
    tool.chmod(0o755)
    result = python("-m", "tessera_blas", "demo", "--order", 100, TESSERA_DEVICES="none", PATH=f"{tmp_path}:/bin")
    assert "GPUs: GPU 0: NVIDIA Example; GPU 1: NVIDIA Example\n" in result.out
    assert "although there are GPUs" in result.out


def test_results_that_differ(python):
    result = python("-c", """if True:
        from tessera_blas import _demo
        _demo._TOLERANCE = -1
        _demo.main(["--order", "50"])
    """, status=1, TESSERA_DEVICES="none")
    assert "The results DIFFER" in result.out


@pytest.mark.parametrize("text", ["[1, float('nan')]", "[1, 2, 3]", "[1, 2.1]"])
def test_differences_are_seen(python, text):
    python("-c", f"""if True:
        import numpy as np
        from tessera_blas import _demo
        x = np.array([1.0, 2.0])
        assert _demo._difference(np, x, x) == 0
        assert _demo._difference(np, x, np.array({text})) > 1e-2
    """)


def test_a_suitable_order(python):
    python("-c", """if True:
        import numpy
        from tessera_blas import _demo
        order = _demo._suitable_order(numpy)
        assert 1000 <= order <= 8000 and order % 100 == 0, order
    """)


def test_numpy_is_missing(python, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('no NumPy')")
    result = python("-m", "tessera_blas", "demo", status=1, cwd=tmp_path)
    assert result.out == "" and result.err == "tessera_blas: the demonstration needs NumPy: " \
                                              "python -m pip install numpy\n"


def test_libraries_are_missing(python):
    result = python("-m", "tessera_blas", "demo", "--order", "50", status=1, TESSERA_LIBRARIES="/no/such/folder")
    assert "/no/such/folder" in result.err and "Traceback" not in result.err


def test_options(python):
    assert "--order" in python("-m", "tessera_blas", "demo", "--help").out
    assert "demo" in python("-m", "tessera_blas", "--help").out
    assert "--order" in python("-m", "tessera_blas", "demo", "--order", "x", status=2).err
    assert "at least 2" in python("-m", "tessera_blas", "demo", "--order", "1", status=2).err


def test_a_script_of_this_name(python, tmp_path):
    (tmp_path / "demo").write_text("print('a script')")
    assert python("-m", "tessera_blas", "./demo", cwd=tmp_path).out == "a script\n"
