"""The ways in: `install` in a process, the command line, IPython. A program sees what Python itself would show it."""

import json
import os
import py_compile
import signal
import subprocess
import sys
import zipfile

import pytest

from conftest import ON_HOST_DEVICES, environment_with

SHOW = """\
import json, sys
main = sys.modules["__main__"]
print(json.dumps({"argv": sys.argv, "path": sys.path[0], "name": __name__, "file": globals().get("__file__"),
                  "package": __package__, "spec": __spec__ and __spec__.name, "doc": __doc__,
                  "is_main": main.__dict__ is globals(), "names": sorted(globals())}))
"""


def test_import_loads_nothing(python):
    before = set(json.loads(python("-c", "import sys, json; print(json.dumps(list(sys.modules)))").out))
    after = python("-c", "import sys, tessera_blas; import json; print(json.dumps(list(sys.modules)))").out
    new = {name for name in set(json.loads(after)) - before if not name.startswith("json")}
    assert new <= {"tessera_blas", "__future__"}


def test_names_of_the_package(python):
    python("-c", """if True:
        import tessera_blas
        assert tessera_blas.__version__
        assert not tessera_blas.is_installed()
        for name in tessera_blas.__all__:
            assert getattr(tessera_blas, name).__doc__
    """)


def test_install_is_idempotent(program):
    result = program("""
        import tessera_blas
        tessera_blas.install()
        tessera_blas.install()
        assert tessera_blas.is_installed()
        tessera_blas.uninstall()
        assert not tessera_blas.is_installed()
        tessera_blas.uninstall()
        tessera_blas.install()
        assert tessera_blas.is_installed()
        print("done")
    """)
    assert result.out == "done\n" and result.err == ""


def test_install_imports_no_numpy_and_loads_no_cuda(program):
    program("""
        import sys, tessera_blas
        tessera_blas.install()
        assert "numpy" not in sys.modules
        import numpy
        numpy.ones((4, 4)) @ numpy.ones((4, 4))
        maps = open("/proc/self/maps").read()
        assert "libtessera_blas" in maps
        for name in ("libcuda.so", "libcudart", "libcublas", "libcusolver", "libtessera_cuda"):
            assert name not in maps, name
    """)


def test_info_is_json(program):
    result = program("""
        import json, tessera_blas
        before = tessera_blas.info()
        assert before["installed"] is False and before["libraries"] == {} and before["slots"]["redirected"] == []
        import numpy
        tessera_blas.install()
        print(json.dumps(tessera_blas.info()))
    """)
    info = json.loads(result.out)
    assert info["installed"] is True
    assert info["memory"] == {"on": True, "why_not": None, "locked": True}
    assert "libtessera.so.0" in info["libraries"]
    redirected = {os.path.basename(entry["object"]).split(".")[0]: entry["symbols"]
                  for entry in info["slots"]["redirected"]}
    assert any("gemm" in symbol for symbol in redirected["_multiarray_umath"])
    assert any("gesv" in symbol for symbol in redirected["_umath_linalg"])


def test_many_threads_install_at_once(program):
    program("""
        import sys, threading
        import tessera_blas
        sys.setswitchinterval(1e-5)
        barrier = threading.Barrier(8)
        errors = []
        def work(number):
            barrier.wait()
            try:
                for _ in range(20):
                    tessera_blas.install()
                    if number == 0:
                        import numpy.linalg
                    tessera_blas.info()
                    if number % 2:
                        tessera_blas.uninstall()
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not errors, errors
        tessera_blas.install()
        assert tessera_blas.info()["memory"]["on"]
    """)


def test_nothing_is_imported_with_the_lock_held(program):
    """An import would wait for another thread's import, whose hook waits for the lock."""
    program("""
        import builtins, importlib
        import tessera_blas
        from tessera_blas._lock import lock

        def import_without_the_lock(name, *others, own=builtins.__import__, **named):
            if lock._is_owned():
                under_the_lock.append(name)
            return own(name, *others, **named)

        under_the_lock = []
        builtins.__import__ = import_without_the_lock
        for module in ("numpy.linalg", "scipy.linalg", "multiprocessing.spawn"):
            for _ in range(2):
                tessera_blas.install()
                try:
                    importlib.import_module(module)
                except ModuleNotFoundError:
                    pass  # SciPy need not be there
                tessera_blas.info()
                tessera_blas.uninstall()
        assert not under_the_lock, under_the_lock
    """)


def test_ipython_extension(program):
    program("""
        import tessera_blas
        import types
        tessera_blas.load_ipython_extension(types.SimpleNamespace(register_magic_function=lambda function, kind: None))
        assert tessera_blas.is_installed()
        tessera_blas.unload_ipython_extension(None)
        assert not tessera_blas.is_installed()
    """)


# --- the command line ---

def same_as_python(python, arguments, cwd, **keywords):
    # -P leaves the path alone.
    for flags in ([], ["-P"]) if sys.version_info >= (3, 11) else ([],):
        # A module in the current folder is found only by the path that -P leaves out.
        status = None if flags and arguments[0] == "-m" else 0
        plain = python(*flags, *arguments, cwd=cwd, status=status, **keywords)
        ours = python(*flags, "-m", "tessera_blas", *arguments, cwd=cwd, status=plain.status, **keywords)
        assert (ours.out and json.loads(ours.out)) == (plain.out and json.loads(plain.out))


def test_script(python, tmp_path):
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "show.py").write_text('"""About it."""\n' + SHOW)
    (tmp_path / "link.py").symlink_to(folder / "show.py")
    same_as_python(python, ["scripts/show.py", "-m", "--help", "x y"], tmp_path)
    same_as_python(python, [folder / "show.py"], tmp_path)
    same_as_python(python, ["link.py", "1"], tmp_path)


def test_module(python, tmp_path):
    (tmp_path / "show.py").write_text(SHOW)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SHOW)
    for name in ("show", "package"):
        same_as_python(python, ["-m", name, "--version", "b"], tmp_path)


def test_folder_archive_and_compiled_file(python, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text(SHOW)
    same_as_python(python, ["folder", "1"], tmp_path)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    same_as_python(python, ["archive.zip", "1"], tmp_path)
    py_compile.compile(str(folder / "__main__.py"), cfile=str(tmp_path / "show.pyc"))
    same_as_python(python, ["show.pyc", "1"], tmp_path)


def test_standard_input(python, tmp_path):
    same_as_python(python, ["-", "1"], tmp_path, stdin=SHOW)


def test_encoding_of_the_source(python, tmp_path):
    (tmp_path / "latin.py").write_bytes("# coding: latin-1\nprint(ascii('\u00e4'))\n".encode("latin-1"))
    assert python("-m", "tessera_blas", "latin.py", cwd=tmp_path).out == "'\\xe4'\n"


@pytest.mark.parametrize(("text", "status"), [
    ("import sys; sys.exit(3)", 3),
    ("raise SystemExit", 0),
    ("raise SystemExit('text')", 1),
    ("1 / 0", 1),
    ("import os; os._exit(7)", 7),
    ("import sys, atexit; atexit.register(print, 'end')", 0),
    ("syntax error", 1),
])
def test_status_and_output(python, tmp_path, text, status):
    (tmp_path / "program.py").write_text(text)
    plain = python("program.py", cwd=tmp_path, status=status)
    ours = python("-m", "tessera_blas", "program.py", cwd=tmp_path, status=status)
    assert ours.out == plain.out
    assert ours.err.splitlines()[-1:] == plain.err.splitlines()[-1:]


def test_missing_program(python, tmp_path):
    for arguments in (["none.py"], ["-m", "no_such_module"]):
        plain = python(*arguments, cwd=tmp_path, status=None)
        ours = python("-m", "tessera_blas", *arguments, cwd=tmp_path, status=plain.status)
        assert plain.status != 0
        assert ours.err.split(": ", 1)[1] == plain.err.split(": ", 1)[1]


def test_interrupt(tmp_path):
    (tmp_path / "program.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    process = subprocess.Popen([sys.executable, "-m", "tessera_blas", "program.py"], cwd=tmp_path,
                               env=environment_with({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.splitlines()[-1] == "KeyboardInterrupt"


def test_options(python):
    assert "usage: python -m tessera_blas" in python("-m", "tessera_blas", "--help").out
    assert python("-m", "tessera_blas", "--version").out.startswith("tessera_blas ")
    assert "usage:" in python("-m", "tessera_blas", status=2).err
    assert "--unknown" in python("-m", "tessera_blas", "--unknown", "x.py", status=2).err
    assert "module" in python("-m", "tessera_blas", "-m", status=2).err


def test_memory_option(python, tmp_path):
    (tmp_path / "show.py").write_text("import tessera_blas, numpy; print(tessera_blas.info()['memory']['on'])")
    assert python("-m", "tessera_blas", "show.py", cwd=tmp_path).out == "True\n"
    assert python("-m", "tessera_blas", "--no-memory", "show.py", cwd=tmp_path).out == "False\n"
    assert python("-m", "tessera_blas", "show.py", cwd=tmp_path, TESSERA_PYTHON_MEMORY="0").out == "False\n"


def test_the_program_is_main_until_the_end(python, tmp_path):
    (tmp_path / "program.py").write_text("""
import atexit, pickle, sys, threading

class Kind:
    pass

def at_end():
    assert type(pickle.loads(pickle.dumps(Kind()))) is Kind
    assert sys.modules["__main__"].Kind is Kind
    print("end", flush=True)

atexit.register(at_end)
go = threading.Event()
threading.Thread(target=lambda: (go.wait(), print(Kind.__module__))).start()
go.set()
""")
    assert sorted(python("-m", "tessera_blas", "program.py", cwd=tmp_path).out.split()) == ["__main__", "end"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_script(python, tmp_path, method):
    (tmp_path / "program.py").write_text(f"""
import multiprocessing
import numpy as np

def work(n):
    a = np.arange(n * n, dtype=float).reshape(n, n)
    return (a @ a).sum()

if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(pool.map(work, [3, 200, 300]) == [work(3), work(200), work(300)])
""")
    assert python("-m", "tessera_blas", "program.py", cwd=tmp_path, **ON_HOST_DEVICES).out == "True\n"
