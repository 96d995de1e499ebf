"""The profile: lines of the program, routines, where they ran and why; of all threads; nothing afterwards."""

import json

from conftest import ON_HOST_DEVICES

QUIET = {**ON_HOST_DEVICES, "TESSERA_VERBOSE": "0"}


def test_lines_routines_and_functions(program):
    result = program("""
import numpy as np, tessera_blas
tessera_blas.install()
a = np.random.default_rng(1).standard_normal((150, 150))
def product():
    return a @ a                                  # line 6
with tessera_blas.profile() as calls:
    np.linalg.inv(a)                              # line 8
    for _ in range(3):
        product()
    with tessera_blas.settings(offload="never"):
        product()
a @ a
print(calls.to_json())
print(calls)
print(calls._repr_html_())
""", **QUIET)
    text, *others = result.out.splitlines()
    told = json.loads(text)
    rows = {(row["line"], row["routine"], row["on_devices"]): row for row in told["rows"]}
    assert rows[6, "dgemm", True]["calls"] == 3 and rows[6, "dgemm", True]["function"] == "product"
    assert rows[6, "dgemm", False]["calls"] == 1 and rows[6, "dgemm", False]["why"] == "TESSERA_OFFLOAD=never"
    assert rows[8, "dgetrf", True]["where"] and rows[8, "dgetri", True]["calls"] == 1
    inverse = rows[8, "numpy.linalg.inv", False]
    assert inverse["calls"] == 1
    assert inverse["seconds"] >= rows[8, "dgetrf", True]["seconds"] + rows[8, "dgetri", True]["seconds"]
    assert rows[6, "dgemm", True]["flops"] == 3 * 2 * 150 ** 3 and rows[6, "dgemm", True]["bytes"] > 0
    assert not any(row["line"] == 13 for row in told["rows"])
    assert all(row["file"].endswith("program.py") for row in told["rows"])
    assert any("program.py:6" in line and "dgemm" in line for line in others)
    assert any("<table>" in line and "dgetri" in line for line in others)


def test_threads_and_errors(program):
    result = program("""
import threading, numpy as np, tessera_blas
tessera_blas.install()
a = np.random.default_rng(1).standard_normal((150, 150))
try:
    with tessera_blas.profile() as calls:
        threads = [threading.Thread(target=lambda: np.linalg.inv(a)) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        np.linalg.inv(np.zeros((150, 150)))
except np.linalg.LinAlgError:
    pass
import sys
assert sys.getprofile() is None
print(calls.to_json())
""", **QUIET)
    rows = json.loads(result.out)["rows"]
    assert sum(row["calls"] for row in rows if row["routine"] == "dgetri") == 4
    assert sum(row["calls"] for row in rows if row["routine"] == "numpy.linalg.inv") == 5


def test_of_a_whole_program(python, tmp_path):
    (tmp_path / "job.py").write_text("import sys, numpy as np\na = np.ones((200, 200))\nb = a @ a\nprint(b[0, 0])\nsys.exit(3)\n")
    result = python("-m", "tessera_blas", "--profile", "job.py", cwd=tmp_path, status=3, **QUIET)
    assert result.out == "200.0\n"
    assert any("job.py:3" in line and "dgemm" in line for line in result.err.splitlines())
    python("-m", "tessera_blas", "--profile=told.json", "job.py", cwd=tmp_path, status=3, **QUIET)
    told = json.loads((tmp_path / "told.json").read_text())
    assert [row["line"] for row in told["rows"] if row["routine"] in ("dgemm", "dsyrk")] == [3]


def test_cell_magic(program):
    """IPython is played by an object with the two methods that are called."""
    result = program("""
import numpy as np, tessera_blas
class Shell:
    def register_magic_function(self, function, kind):
        self.magic = function
    def run_cell(self, cell):
        exec(compile(cell, "<ipython-input-7>", "exec"), {"np": np})
shell = Shell()
tessera_blas.load_ipython_extension(shell)
print(shell.magic("", "a = np.ones((150, 150))\\na @ a\\n").to_json())
tessera_blas.unload_ipython_extension(shell)
assert not tessera_blas.is_installed()
""", **QUIET)
    assert [(row["file"], row["line"]) for row in json.loads(result.out)["rows"]] == [("<ipython-input-7>", 2)]
