"""The command line: runs a script or a module as Python itself would, with Tessera installed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING, NoReturn

import tessera_blas

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from tessera_blas._profile import Profile

_USAGE = """\
usage: python -m tessera_blas [options] script.py [arguments...]
       python -m tessera_blas [options] -m module [arguments...]
       python -m tessera_blas demo [--order N]

Runs a Python program whose large linear algebra goes to the GPUs of the machine.
demo runs a NumPy script without Tessera and with it, and compares times and results.

options:
  --profile         print which lines called for what, where it ran and why, on standard error at the end
  --profile=FILE    write that as JSON
  --progress        tell on the terminal which call takes long, while it runs
  --no-memory       large NumPy arrays do not come from Tessera's pool
  --version         print the version and end
  --help, -h        print this and end

Where calls run is set by the environment, for example TESSERA_DEVICES and TESSERA_VERBOSE=1.
"""


def _demo(arguments: list[str]) -> None:
    from tessera_blas import _demo

    _demo.main(arguments)


# Words that stand in the place of a script, and what they do with the arguments behind them.
_COMMANDS: dict[str, Callable[[list[str]], None]] = {"demo": _demo}


class _Options:
    memory = True
    progress = False
    profile: str | None = None  # the file; "" for standard error


def main() -> None:
    """Run what `sys.argv` says. Returns when the program has ended without an exception."""
    options, rest = _parse(sys.argv[1:])
    if rest[0] in _COMMANDS:
        _COMMANDS[rest[0]](rest[1:])
        return
    try:
        tessera_blas.install(memory=options.memory)
    except RuntimeError as error:
        _fail(str(error), 1)
    with contextlib.ExitStack() as stack:
        if options.progress:
            stack.enter_context(tessera_blas.progress())
        if options.profile is not None:
            stack.callback(_tell, stack.enter_context(tessera_blas.profile()), options.profile)
        if rest[0] == "-m":
            _run_module(rest[1], rest[2:])
        else:
            _run_script(rest[0], rest[1:])


def _tell(profile: Profile, file: str) -> None:
    profile.__exit__(None, None, None)
    if file:
        with open(file, "w", encoding="utf-8") as output:
            output.write(profile.to_json())
    else:
        print(profile, file=sys.stderr)


def _parse(arguments: list[str]) -> tuple[_Options, list[str]]:
    """The options, and the program with its arguments: a script first, or "-m" and a module."""
    options = _Options()
    for at, argument in enumerate(arguments):
        if argument == "--no-memory":
            options.memory = False
        elif argument == "--progress":
            options.progress = True
        elif argument == "--profile" or argument.startswith("--profile="):
            options.profile = argument.partition("=")[2]
        elif argument == "--version":
            print(f"tessera_blas {tessera_blas.__version__}")
            raise SystemExit
        elif argument in ("--help", "-h"):
            print(_USAGE, end="")
            raise SystemExit
        elif argument == "-m" and at + 1 == len(arguments):
            _fail("-m needs the name of a module", 2)
        elif argument.startswith("-") and argument not in ("-m", "-"):
            _fail(f"unknown option {argument}; --help tells those that there are", 2)
        else:
            return options, arguments[at:]
    print(_USAGE, end="", file=sys.stderr)
    raise SystemExit(2)


def _fail(text: str, status: int) -> NoReturn:
    print(f"tessera_blas: {text}", file=sys.stderr)
    raise SystemExit(status)


def _run_module(name: str, arguments: list[str]) -> None:
    import runpy

    sys.argv = ["-m", *arguments]
    _empty_main()
    # The public run_module() exchanges __main__ until the program's last line. Threads, pickles and workers would find
    # the wrong one after it. Python's own -m calls this function.
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run_script(path: str, arguments: list[str]) -> None:
    import pkgutil

    sys.argv = [path, *arguments]
    if path == "-":
        _set_first_path("")
        code = compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
        _execute(code, __file__="<stdin>", __cached__=None)
    elif pkgutil.get_importer(path) is not None:
        _run_folder(os.path.abspath(path))
    else:
        _run_file(os.path.abspath(path))


def _run_folder(path: str) -> None:
    """A folder or an archive: the __main__.py inside."""
    import runpy

    if not _set_first_path(path):
        sys.path.insert(0, path)
    _empty_main()
    runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]


def _run_file(path: str) -> None:
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader

    _set_first_path(os.path.dirname(os.path.realpath(path)))
    loader: SourceFileLoader | SourcelessFileLoader
    try:
        if path.endswith(".pyc"):
            loader = SourcelessFileLoader("__main__", path)
            code = loader.get_code("__main__")
        else:
            loader = SourceFileLoader("__main__", path)
            with io.open_code(path) as file:
                code = compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        _fail(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2)
    assert code is not None
    _execute(code, __file__=path, __cached__=None, __loader__=loader)


def _execute(code: CodeType, **names: object) -> None:
    namespace = _empty_main()
    namespace.update(names)
    exec(code, namespace)


def _set_first_path(path: str) -> bool:
    """Exchange the current folder, which -m has put first, for that of the program. Python's -P and -I put none."""
    if getattr(sys.flags, "safe_path", False):
        return False
    sys.path[0] = path
    return True


def _empty_main() -> dict[str, object]:
    """The namespace of __main__ as Python begins with it. The module stays the same, because others may have it."""
    namespace = sys.modules["__main__"].__dict__
    for name in set(namespace) - {"__name__", "__builtins__", "__annotations__"}:
        del namespace[name]
    namespace.update(__doc__=None, __package__=None, __loader__=None, __spec__=None)
    return namespace
