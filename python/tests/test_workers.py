"""Workers that start as new processes have the package installed, if their parent has."""

import pytest

from conftest import ON_HOST_DEVICES, ROOT

# Reports the state of each worker that runs a task, and whether the task went to devices.
TASK = """
import multiprocessing
import numpy as np

def work(n):
    import tessera_blas
    a = np.random.default_rng(n).standard_normal((n, n))
    right = np.allclose(a @ np.linalg.inv(a), np.eye(n))
    info = tessera_blas.info()
    return bool(right), info["installed"], info["memory"]["on"]
"""
POOL = TASK + """
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(set(pool.map(work, [100, 110, 120, 130])))
"""
EXECUTOR = TASK + """
if __name__ == "__main__":
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context({method!r})) as pool:
        print(set(pool.map(work, [100, 110, 120, 130])))
"""
METHODS = pytest.mark.parametrize("method", ["spawn", "forkserver"])


@METHODS
@pytest.mark.parametrize("text", [POOL, EXECUTOR], ids=["pool", "executor"])
def test_command_line(python, tmp_path, method, text):
    (tmp_path / "program.py").write_text(text.format(method=method))
    for options, memory in (((), True), (("--no-memory",), False)):
        result = python("-m", "tessera_blas", *options, "program.py", cwd=tmp_path, **ON_HOST_DEVICES)
        assert result.out == f"{{(True, True, {memory})}}\n"
        assert result.on_devices("dgemm")


@METHODS
def test_a_module_on_the_command_line(python, tmp_path, method):
    (tmp_path / "program.py").write_text(POOL.format(method=method))
    result = python("-m", "tessera_blas", "-m", "program", cwd=tmp_path, **ON_HOST_DEVICES)
    assert result.out == "{(True, True, True)}\n"


INSTALLS = """
if __name__ == "__main__":
    import tessera_blas
    tessera_blas.install(memory={memory})
"""


@METHODS
@pytest.mark.parametrize("memory", [True, False])
def test_a_program_that_installs(program, method, memory):
    result = program(TASK + INSTALLS.format(memory=memory) + POOL.format(method=method)[len(TASK):], **ON_HOST_DEVICES)
    assert result.out == f"{{(True, True, {memory})}}\n"
    assert result.on_devices("dgemm")


@METHODS
@pytest.mark.parametrize("is_imported", [False, True])
def test_uninstall(program, method, is_imported):
    change = "import multiprocessing.spawn\n" if is_imported else ""
    result = program(change + TASK + INSTALLS.format(memory=True) + "    tessera_blas.uninstall()\n" +
                     POOL.format(method=method)[len(TASK):], **ON_HOST_DEVICES)
    assert result.out == "{(True, False, False)}\n"
    assert not result.told("dgemm")


def test_workers_of_workers(program):
    result = program(TASK + INSTALLS.format(memory=False) + """
def start(n):
    # Workers of a pool may have no children.
    parent, child = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=send, args=(child, n))
    worker.start()
    parent.poll(60) and print(parent.recv(), flush=True)
    worker.join()

def send(connection, n):
    connection.send(work(n))

if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=start, args=(100,))
    worker.start()
    worker.join()
""", **ON_HOST_DEVICES)
    assert result.out == "(True, True, False)\n"


def test_nothing_is_imported_and_everything_is_put_back(program):
    program("""
        import sys
        before = list(sys.meta_path)
        import tessera_blas
        tessera_blas.install()
        assert not [name for name in sys.modules if name.startswith("multiprocessing")]
        tessera_blas.install()
        assert sys.meta_path[1:] == before
        tessera_blas.uninstall()
        assert sys.meta_path[0].find_spec("multiprocessing.spawn") is None

        tessera_blas.install()
        import multiprocessing.spawn as spawn
        from importlib.machinery import SourceFileLoader
        assert type(spawn.__loader__) is type(spawn.__spec__.loader) is SourceFileLoader
        assert set(spawn.get_preparation_data("x")) >= {"name", "tessera_blas"}
        assert spawn.get_preparation_data.__name__ == "get_preparation_data"
        tessera_blas.uninstall()
        assert "tessera_blas" not in spawn.get_preparation_data("x")
        assert not hasattr(spawn.get_preparation_data, "__wrapped__")
        assert tessera_blas.info()["workers"] == {"on": False}

        tessera_blas.install()
        ours = spawn.get_preparation_data
        assert ours.__wrapped__
        spawn.get_preparation_data = theirs = lambda name: ours(name)
        tessera_blas.uninstall()
        assert spawn.get_preparation_data is theirs
        assert "tessera_blas" not in theirs("x")
        tessera_blas.install()
        assert spawn.get_preparation_data is theirs
        assert "tessera_blas" in theirs("x")
        assert tessera_blas.info()["workers"] == {"on": True}
    """)


def test_an_import_meets_all_finders_while_another_thread_uninstalls(program):
    program("""
        import sys, tessera_blas
        before = list(sys.meta_path)
        tessera_blas.install()
        finders_of_an_import = iter(sys.meta_path)
        next(finders_of_an_import)
        tessera_blas.uninstall()
        assert list(finders_of_an_import) == before
        tessera_blas.install()
        assert sys.meta_path[1:] == before
    """)


def test_an_import_that_fails_stays_the_same(program):
    program("""
        import sys, tessera_blas
        tessera_blas.install()
        sys.meta_path[1:] = []
        try:
            import multiprocessing.spawn
        except ModuleNotFoundError as error:
            assert error.name == "multiprocessing"
        else:
            raise AssertionError
    """)


@METHODS
@pytest.mark.skipif(not (ROOT / "tessera_blas").is_dir(), reason="an installed package is always found")
def test_a_package_that_the_worker_does_not_find(python, tmp_path, method):
    """The program has found it by a path of its own, which the worker gets only with the program."""
    (tmp_path / "program.py").write_text(f"import sys\nsys.path.append({str(ROOT)!r})\n" + TASK +
                                         INSTALLS.format(memory=True) + POOL.format(method=method)[len(TASK):])
    # -E leaves PYTHONPATH aside, here and in the workers.
    assert python("-E", "-c", "import tessera_blas", status=None, cwd=tmp_path).status == 1
    assert python("-E", "program.py", cwd=tmp_path, **ON_HOST_DEVICES).out == "{(True, True, True)}\n"


def test_libraries_that_the_worker_does_not_find(program):
    result = program(TASK + INSTALLS.format(memory=True) + """
    import os
    os.environ["TESSERA_LIBRARIES"] = "/no/such/folder"
""" + POOL.format(method="spawn")[len(TASK):])
    assert result.out == "{(True, False, False)}\n"
    assert "a worker runs without" in result.err and "/no/such/folder" in result.err


@pytest.mark.parametrize("is_before", [False, True])
def test_joblib(program, is_before):
    pytest.importorskip("joblib")
    install, imports = "    import tessera_blas\n    tessera_blas.install()\n", "    import joblib\n"
    result = program(TASK + 'if __name__ == "__main__":\n' + (imports + install if is_before else install + imports) + """
    print(set(joblib.Parallel(2)(joblib.delayed(work)(n) for n in (100, 110))))
""", **ON_HOST_DEVICES)
    assert result.out == "{(True, True, True)}\n"
