"""The notebook of the examples: it stores no results, and its cells do what the text beside them says."""

import json
import pathlib

import pytest

from conftest import ON_HOST_DEVICES

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "tessera_notebook.ipynb"
pytestmark = pytest.mark.skipif(not NOTEBOOK.exists(), reason="the examples are not here")

# Each has `run(cell)`, which returns the value that the cell shows, and raises what the cell raises.
IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
shell, shown = InteractiveShell.instance(), []
update = shell.displayhook.update_user_ns
def update_user_ns(value):
    shown.append(value)
    update(value)
shell.displayhook.update_user_ns = update_user_ns
def run(cell):
    shown.clear()
    shell.run_cell(cell).raise_error()
    return shown[-1] if shown else None
"""
STAND_IN = """
import ast, importlib, sys
class Shell:
    names = {"__name__": "__main__"}
    magics = {}
    def register_magic_function(self, function, kind):
        assert kind == "cell"
        self.magics[function.__name__] = function
    def run_cell(self, cell):
        first, _, rest = cell.partition("\\n")
        if first.startswith("%%"):
            return self.magics[first[2:]]("", rest)
        for magic in ("load_ext", "unload_ext"):
            if first.startswith(f"%{magic} "):
                name = {"load_ext": "load_ipython_extension", "unload_ext": "unload_ipython_extension"}[magic]
                getattr(importlib.import_module(first.split()[1]), name)(self)
                cell = rest
        body = ast.parse(cell).body
        last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "<ipython-input>", "exec"), self.names)
        return None if last is None else eval(compile(last, "<ipython-input>", "eval"), self.names)
run = Shell().run_cell
"""


def cells():
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_no_results_are_stored():
    for cell in cells():
        assert cell["outputs"] == [] and cell["execution_count"] is None


@pytest.mark.parametrize("shell", ["IPython", "stand-in"])
def test_all_cells(program, tmp_path, shell):
    if shell == "IPython":
        pytest.importorskip("IPython")
    sources = ["".join(cell["source"]) for cell in cells()]
    assert sum("n = 4000\n" in source for source in sources) == 1
    sources = [source.replace("n = 4000\n", "n = 120\n") for source in sources]
    result = program((IPYTHON if shell == "IPython" else STAND_IN) + f"""
import json
told = []
for source in {sources!r}:
    value = run(source)
    told.append(json.loads(value.to_json())["rows"] if hasattr(value, "to_json") else value)
print("told", json.dumps(told))
""", **{**ON_HOST_DEVICES, "TESSERA_VERBOSE": "0"}, IPYTHONDIR=str(tmp_path), MPLBACKEND="agg")
    told = json.loads(result.out[result.out.index("told") + 4:])
    assert len(told) == 10 and told[:3] == [None, None, True] and told[-3:] == [True, True, False]
    lines = {(row["line"], row["routine"]) for row in told[3] if row["on_devices"]}
    assert lines >= {(1, "dgetrf"), (1, "dgetri"), (2, "dgemm"), (3, "dgelqf"), (3, "dorglq")}, lines
    assert told[4] == 6
    assert {row["calls"] for row in told[5]} == {3} and all(row["line"] == 3 for row in told[5])
    # The settings of the cell before the last three.
    assert told[6] and not any(row["on_devices"] for row in told[6])
