"""Where Tessera's libraries are, and their loading.

They are searched in the folder that the environment variable ``TESSERA_LIBRARIES`` names, else in ``lib`` beside this
file, where the wheel has them. A library that the process has loaded already, by ``tessera run``, is taken instead: a
second runtime would divide the devices with the first. Nothing is ever unloaded.

They serve the main interpreter of the process. What the package changes belongs to the process: a second interpreter would
take back what the first one has installed, and its callbacks would outlive it. (NumPy loads in one interpreter only.)
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import NamedTuple

_FILES = {
    "tessera": "libtessera.so.0",
    "blas": "libtessera_blas.so.0",
    "lapack": "libtessera_lapack.so.0",
    "slots": "libtessera_slots.so.0",
}


class Libraries(NamedTuple):
    """The libraries, loaded, and their files."""

    tessera: ctypes.CDLL
    blas: ctypes.CDLL
    lapack: ctypes.CDLL
    slots: ctypes.CDLL
    files: dict[str, str]


_loaded: Libraries | None = None


def load() -> Libraries:
    """Load the libraries, once for the process. To be called with the lock held.

    Raises
    ------
    RuntimeError
        If files are missing or do not load. The message names the folder and the files. In another interpreter than the
        main one.
    """
    global _loaded
    if _loaded is None:
        if not _is_main_interpreter():
            raise RuntimeError("tessera_blas works in the main interpreter of a process only, since it changes the whole process.")
        _loaded = _load_from(_folder())
        _name_cuda_libraries()
    return _loaded


def info() -> dict[str, str]:
    return {} if _loaded is None else dict(_loaded.files)


def _is_main_interpreter() -> bool:
    if sys.implementation.name != "cpython":
        return True
    # Prototypes of our own: those of ctypes.pythonapi's attributes are shared with the program.
    state = ctypes.PYFUNCTYPE(ctypes.c_void_p)
    here, main = (state((name, ctypes.pythonapi))() for name in ("PyInterpreterState_Get", "PyInterpreterState_Main"))
    return bool(here == main)


def _folder() -> str:
    named = os.environ.get("TESSERA_LIBRARIES")
    # The loader searches for a name without a slash elsewhere, so the folder must be absolute.
    return os.path.abspath(named) if named else os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


def _name_cuda_libraries() -> None:
    """Tell the CUDA plugin, which looks at its first large call, where NVIDIA's wheels are: Python may have several folders."""
    if "TESSERA_CUDA_LIBRARIES" in os.environ:
        return
    # CUDA 13's wheels share a folder, before each has one of its own.
    places = [os.path.abspath(os.path.join(path, "nvidia", *place)) for path in sys.path if isinstance(path, str) and path
              for place in (("cu13", "lib"), ("cublas", "lib"), ("cusolver", "lib"))]
    folders = [place for place in places if os.path.isdir(place) and ":" not in place]
    if folders:
        os.environ["TESSERA_CUDA_LIBRARIES"] = ":".join(folders)


def _load_from(folder: str) -> Libraries:
    present = {key: library for key, name in _FILES.items() if (library := _present(name)) is not None}
    wanted = {key: os.path.join(folder, name) for key, name in _FILES.items() if key not in present}
    missing = [os.path.basename(file) for file in wanted.values() if not os.path.exists(file)]
    if missing:
        raise RuntimeError(
            f"Tessera's libraries are not in {folder}: {', '.join(missing)} missing. "
            "TESSERA_LIBRARIES names the folder that has them."
        )
    libraries = dict(present)
    # In the order of _FILES: the others need libtessera.so.0, and get the one that is loaded.
    for key, file in wanted.items():
        try:
            libraries[key] = ctypes.CDLL(file, mode=os.RTLD_LOCAL)
        except OSError as error:
            raise RuntimeError(f"Tessera's library {file} does not load: {error}") from error
    files = {name: wanted.get(key, "loaded before") for key, name in _FILES.items()}
    return Libraries(**libraries, files=files)


def _present(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name, mode=os.RTLD_LOCAL | os.RTLD_NOLOAD)
    except OSError:
        return None
