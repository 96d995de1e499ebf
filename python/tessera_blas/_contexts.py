"""The context on which all calls of the process run: the environment's, or one with other settings for a while."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from tessera_blas._lock import lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessera_blas._libraries import Libraries

# The handle of the context that is in force. The faces read it at each call; it is replaced, never changed.
current: ctypes.c_void_p | None = None

# Set together with the first context.
_library: ctypes.CDLL
# Contexts that have been made, by their settings. They live as long as the process, as their devices do.
_made: dict[str, ctypes.c_void_p] = {}
# The settings of the `with` statements that are open, by name.
_in_force: dict[str, str] = {}


def open_shared(libraries: Libraries) -> None:
    """Ask for the environment's context, once. To be called with the lock held."""
    global _library, current
    if current is None:
        library = libraries.tessera
        library.tessera_last_error.restype = ctypes.c_char_p
        library.tessera_create_with.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        library.tessera_choose_context.argtypes = [ctypes.c_void_p]
        shared = ctypes.c_void_p()
        if library.tessera_shared_context(ctypes.byref(shared)) != 0:
            raise RuntimeError("Tessera has no context: " + library.tessera_last_error().decode(errors="replace"))
        _library, current = library, shared
        _made[""] = shared


@contextlib.contextmanager
def settings(libraries: Libraries, values: dict[str, object]) -> Iterator[None]:
    global _in_force
    with lock:
        open_shared(libraries)
        before = _in_force
        wanted = {**before, **{"TESSERA_" + name.upper(): _text_of(value) for name, value in values.items()}}
        _choose(wanted)
        _in_force = wanted
    try:
        yield
    finally:
        with lock:
            _choose(before)
            _in_force = before


def _text_of(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _choose(wanted: dict[str, str]) -> None:
    global current
    text = " ".join(f"{name}={_quoted(value)}" for name, value in sorted(wanted.items()))
    handle = _made.get(text)
    if handle is None:
        handle = ctypes.c_void_p()
        if _library.tessera_create_with(ctypes.byref(handle), text.encode()) != 0:
            raise ValueError(_library.tessera_last_error().decode(errors="replace"))
        _made[text] = handle
    _library.tessera_choose_context(handle if text else None)
    current = handle


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
