"""Tessera's libraries: where they are searched, and what is said when they are missing."""

import os
import shutil


def test_missing_folder(program, tmp_path):
    program("""
        import sys, tessera_blas
        from importlib.machinery import ExtensionFileLoader
        hooked = ExtensionFileLoader.create_module
        try:
            tessera_blas.install()
        except RuntimeError as error:
            for text in ("/no/such/folder", "libtessera.so.0", "libtessera_slots.so.0", "TESSERA_LIBRARIES"):
                assert text in str(error), error
        else:
            raise AssertionError
        assert not tessera_blas.is_installed()
        assert ExtensionFileLoader.create_module is hooked
        assert tessera_blas.info()["libraries"] == {}
    """, TESSERA_LIBRARIES="/no/such/folder")
    result = program("print('not reached')", TESSERA_LIBRARIES="/no/such/folder")
    assert result.out == "not reached\n"


def test_command_line_names_the_folder(python, tmp_path):
    (tmp_path / "program.py").write_text("print('not reached')")
    result = python("-m", "tessera_blas", "program.py", cwd=tmp_path, status=1, TESSERA_LIBRARIES="/no/such/folder")
    assert result.out == "" and "/no/such/folder" in result.err and "Traceback" not in result.err


def test_file_that_is_no_library(program, tmp_path):
    for name in ("libtessera.so.0", "libtessera_blas.so.0", "libtessera_lapack.so.0", "libtessera_slots.so.0"):
        (tmp_path / name).write_text("no library")
    program("""
        import tessera_blas
        try:
            tessera_blas.install()
        except RuntimeError as error:
            assert "libtessera.so.0 does not load" in str(error), error
        else:
            raise AssertionError
    """, TESSERA_LIBRARIES=str(tmp_path))


def test_relative_folder(program, tmp_path):
    libraries = os.environ.get("TESSERA_LIBRARIES")
    if libraries is None:
        return
    os.symlink(os.path.abspath(libraries), tmp_path / "lib")
    program("""
        import tessera_blas
        tessera_blas.install()
        assert all(file.startswith("/") for file in tessera_blas.info()["libraries"].values())
    """, cwd=tmp_path, TESSERA_LIBRARIES="lib")


def test_a_preloaded_library_is_taken(program):
    libraries = os.environ.get("TESSERA_LIBRARIES")
    if libraries is None:
        return
    program("""
        import tessera_blas
        tessera_blas.install()
        assert tessera_blas.info()["libraries"]["libtessera.so.0"] == "loaded before"
        maps = {line.split()[-1] for line in open("/proc/self/maps") if "libtessera.so" in line}
        assert len(maps) == 1, maps
    """, LD_PRELOAD=os.path.join(os.path.abspath(libraries), "libtessera_blas.so.0"))


def test_folder_beside_the_package(python, tmp_path):
    """As the wheel has it."""
    libraries = os.environ.get("TESSERA_LIBRARIES")
    if libraries is None:
        return
    package = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tessera_blas")
    shutil.copytree(package, tmp_path / "tessera_blas", ignore=shutil.ignore_patterns("__pycache__", "lib"))
    os.symlink(os.path.abspath(libraries), tmp_path / "tessera_blas" / "lib")
    python("-c", f"""if True:
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import tessera_blas
        tessera_blas.install()
        files = tessera_blas.info()["libraries"].values()
        assert all(file.startswith({str(tmp_path)!r}) for file in files), files
    """, TESSERA_LIBRARIES="")


def test_nvidias_wheels_are_named_wherever_they_are(program, tmp_path):
    for place in ("one/nvidia/cu13/lib", "two/nvidia/cublas/lib", "two/nvidia/cusolver/lib"):
        (tmp_path / place).mkdir(parents=True)
    program(f"""
        import os, sys
        sys.path += [{str(tmp_path / "one")!r}, {str(tmp_path / "two")!r}]
        import tessera_blas
        tessera_blas.install()
        named = os.environ["TESSERA_CUDA_LIBRARIES"].split(":")
        assert [os.path.relpath(folder, {str(tmp_path)!r}) for folder in named[-3:]] == [
            "one/nvidia/cu13/lib", "two/nvidia/cublas/lib", "two/nvidia/cusolver/lib"], named
    """)
    program("""
        import os, tessera_blas
        tessera_blas.install()
        assert os.environ["TESSERA_CUDA_LIBRARIES"] == "/opt/mine"
    """, TESSERA_CUDA_LIBRARIES="/opt/mine")
