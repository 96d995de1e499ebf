"""Tessera for NumPy and SciPy: large linear algebra runs on the GPUs of the machine, in programs that stay unchanged.

``python -m tessera_blas script.py`` runs a script with it. In a running interpreter `install` does the same, and in a
notebook ``%load_ext tessera_blas``. The import of this package loads nothing and changes nothing.
"""

from __future__ import annotations

# The module that has this constant takes longer to import than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, TextIO

    from tessera_blas._profile import Profile

__version__ = "0.1.0"
__all__ = ["info", "install", "is_installed", "profile", "progress", "settings", "uninstall"]


def install(*, memory: bool = True) -> None:
    """Direct the large linear algebra of this process to Tessera.

    The BLAS and LAPACK calls of all extension modules are redirected: of those that are loaded, and of those that are
    imported later. Large NumPy arrays come from a pool of memory that is reused without page faults. NumPy itself is
    not imported. A second call changes nothing but `memory`.

    Parameters
    ----------
    memory : bool, optional
        Whether large NumPy arrays that are made from now on come from the pool. The environment variable
        ``TESSERA_PYTHON_MEMORY=0`` turns this off whatever the argument says. `info` tells whether it is in force.

    Raises
    ------
    RuntimeError
        If Tessera's libraries are not found, or do not load, or in another interpreter of the process than the main one.
        Nothing has changed then.

    Notes
    -----
    Thread-safe: other threads may compute meanwhile, and a call in flight ends where it has begun. Children by ``fork``
    inherit the installation. Workers of `multiprocessing` by ``spawn`` and ``forkserver`` that start from now on install
    it, too.

    Not redirected: a library that is loaded by `ctypes.CDLL` later, until the next import of an extension module;
    addresses of functions that a program has taken before; a BLAS that is linked statically.
    """
    from tessera_blas import _state

    _state.install(memory)


def uninstall() -> None:
    """Put back what `install` has changed; without it, do nothing.

    Calls in flight end where they have begun. Arrays in the pool stay valid for as long as they live. The libraries
    stay loaded.

    Notes
    -----
    Thread-safe.
    """
    from tessera_blas import _state

    _state.uninstall()


def is_installed() -> bool:
    """Tell whether `install` is in force.

    Notes
    -----
    Thread-safe.
    """
    from tessera_blas import _state

    return _state.is_installed()


def info() -> dict[str, Any]:
    """Describe what is in force in this process. Loads nothing.

    Returns
    -------
    dict
        Fit for JSON, with these keys:

        ``version``
            Of this package.
        ``installed``
            As `is_installed` tells.
        ``libraries``
            The files of Tessera that are loaded, by name; empty before the first `install`.
        ``slots``
            ``redirected``: objects of the process and the functions whose calls are redirected there. ``defines``:
            objects that define such functions themselves. ``lost``: objects whose calls cannot be reached.
        ``memory``
            ``on``: whether large NumPy arrays come from the pool. ``why_not``: the reason in words if not, else None.
            ``locked``: whether pages that devices have used are locked; not beside other libraries that use CUDA.
        ``numpy``
            ``on``: whether the face for `numpy.linalg` is in place. ``functions``: those that are replaced.
        ``matmul``
            ``on``: whether stacks of matrices in `numpy.matmul` and ``@`` go on as batches.
        ``scipy``
            As ``numpy``, of `scipy.linalg`.

    Notes
    -----
    Thread-safe.
    """
    from tessera_blas import _state

    return {"version": __version__, **_state.info()}


def settings(**values: Any) -> AbstractContextManager[None]:
    """Have all calls run with other settings inside a ``with`` statement.

    Parameters
    ----------
    **values
        Settings of Tessera in small letters, without ``TESSERA_``, over those of the environment and of statements around
        this one: ``offload="never"``, ``devices="cuda:0"``, ``verbose=True``. docs/configuration.md has all of them.

    Returns
    -------
    context manager
        For use once.

    Raises
    ------
    ValueError
        On entry, if a setting is not valid.
    RuntimeError
        On entry, if the libraries are not found.

    Notes
    -----
    The settings hold for all threads of the process. Statements must end in the opposite order of their begin. Devices
    are opened for each combination of settings that uses them, and stay open. Small arrays are not affected: the faces
    do not look at them unless ``TESSERA_OFFLOAD`` was set when the package was installed.

    Examples
    --------
    >>> with tessera_blas.settings(offload="never"):
    ...     x = numpy.linalg.solve(a, b)
    """
    from tessera_blas import _contexts, _libraries
    from tessera_blas._lock import lock

    with lock:
        libraries = _libraries.load()
    return _contexts.settings(libraries, values)


def profile() -> Profile:
    """Find out which lines of a program call for large linear algebra, where it runs, why, and how long it takes.

    Returns
    -------
    Profile
        A context manager. Its text (``print``), its table in a notebook, ``rows`` and ``to_json()`` tell of the calls that
        ended inside the ``with`` statement, in all threads. One profile at a time.

    Raises
    ------
    RuntimeError
        If the libraries are not found.

    Notes
    -----
    Routines have the time that they take in Tessera; functions of ``numpy.linalg`` and ``scipy.linalg`` have rows of their own, with
    their time from entry to return. The difference is NumPy's. Every call is told of, which slows small ones down.

    Examples
    --------
    >>> with tessera_blas.profile() as calls:
    ...     x = numpy.linalg.solve(a, b)
    >>> print(calls)
    """
    from tessera_blas import _libraries, _profile
    from tessera_blas._lock import lock

    with lock:
        libraries = _libraries.load()
    return _profile.Profile(libraries)


def progress(*, file: TextIO | None = None) -> AbstractContextManager[None]:
    """Tell on the terminal which call takes long, and how much of it is done, while it runs.

    Parameters
    ----------
    file : text file, optional
        Where to write; as a rule standard error, and nothing if that is no terminal. A file that is given is written to
        whatever it is: in a notebook, ``file=sys.stderr``.

    Returns
    -------
    context manager
        For use once. The package must be installed for it to have an effect. Of several that are open the last one holds.

    Raises
    ------
    RuntimeError
        If the libraries are not found.

    Notes
    -----
    The line is there while a call of more than two seconds runs: the function, the sizes, the program's line, the routine of
    Tessera that is at work with a bar of how much of that is done, the seconds since the call began, and how long the last such
    call took. Of a stack it tells how many matrices are done. Products have no function and no line. There is no bar where the
    CPU or one device solves a problem whole (eigenvalues, singular values): nobody knows then.

    Thread-safe. Of calls of several threads the line has the one that began first, and the number of the others.

    Examples
    --------
    >>> with tessera_blas.progress():
    ...     w, v = numpy.linalg.eigh(a)
    """
    from tessera_blas import _libraries, _progress
    from tessera_blas._lock import lock

    with lock:
        libraries = _libraries.load()
    return _progress.progress(libraries, file)


def load_ipython_extension(ipython: Any) -> None:
    """Run `install` for ``%load_ext tessera_blas``, and add the cell magic ``%%tessera_profile``."""

    def tessera_profile(line: str, cell: str) -> Profile:
        """Run the cell, and show which of its lines called for what, where it ran, and why."""
        with profile() as told:
            ipython.run_cell(cell)
        return told

    install()
    ipython.register_magic_function(tessera_profile, "cell")


def unload_ipython_extension(ipython: Any) -> None:
    """Run `uninstall` for ``%unload_ext tessera_blas``."""
    uninstall()
