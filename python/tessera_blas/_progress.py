"""Calls that take long, told of on a terminal while they run.

The faces note each call that they see: where it comes from, which routine of Tessera is at work, and how many matrices of a
stack are done. Tessera tells how much of a running call is done, and of calls that reach it without a face, as products do. A
thread looks at both.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from tessera_blas import _stack
from tessera_blas._lock import lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType
    from typing import Any, TextIO, TypeVar

    from tessera_blas._libraries import Libraries

    _Place = TypeVar("_Place")

# Shorter calls are not told of.
_LEAST_S = 2.0
_INTERVAL_S = 0.25
_CELLS = 20


class _Call:
    """What is known of a call in flight. Its own thread writes it, and the one that shows it reads it."""

    def __init__(self, name: str, frame: FrameType, arguments: Iterable[Any], begin_s: float) -> None:
        self._name, self._frame, self.begin_s = name, frame, begin_s
        self.thread = threading.get_native_id()
        shapes = [shape for argument in arguments if (shape := getattr(argument, "shape", ()))]
        self._sizes = " and ".join(" x ".join(map(str, shape)) for shape in shapes)
        self.routine = ""
        self.done, self.count = 0, 1  # matrices

    def title(self) -> str:
        """The function that the program has called, and the sizes of its arguments."""
        name, place = self._name, _stack.line_of(self._frame)
        frame: FrameType | None = self._frame
        while frame is not None and frame.f_code.co_filename != place.file:
            name = _stack.linalg_name(frame) or name
            frame = frame.f_back
        return f"{name} of {self._sizes}" if self._sizes else name

    def text(self, now_s: float, running: list[dict[str, Any]]) -> str:
        place = _stack.line_of(self._frame)
        words = [f"tessera: {self.title()}"]
        if place.line > 0:
            words.append(f" ({os.path.basename(place.file)}:{place.line})")
        words.append(":")
        if self.count > 1:
            words.append(f" {self.done} of {self.count} matrices done,")
        if self.routine:
            words.append(f" {self.routine},")
            # The last one to begin comes first: a part of the others.
            words += [_bar(each["done"]) for each in running if each["thread"] == self.thread][:1]
        words.append(f" {now_s - self.begin_s:.0f} s")
        return "".join(words)


def _bar(done: float | None) -> str:
    if done is None:
        return ""
    return f" [{'#' * int(done * _CELLS):.<{_CELLS}}] {int(done * 100)} %,"


class _Watch:
    """Shows calls in flight on one line of a file: the one that has run longest, and how many others have run long."""

    def __init__(self, libraries: Libraries, file: TextIO) -> None:
        self._tell = libraries.tessera.tessera_running_calls
        self._tell.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
        self._file = file
        self._process = os.getpid()
        self._calls: dict[int, _Call] = {}
        # Seconds of calls that were long, by their titles.
        self._took: dict[str, float] = {}
        self._lock = threading.Lock()
        self._shown = ""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._show, name="tessera_blas.progress", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        # A child by fork has no such thread, and its line is the parent's.
        if self._process == os.getpid():
            self._ends.set()
            self._thread.join()
            with self._lock:
                self._write("")

    def run(self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function, and note it. Of calls inside a call nothing is noted."""
        thread = threading.get_ident()
        if thread in self._calls or self._process != os.getpid():
            return function(*arguments, **named)
        arrays = (*arguments, *named.values())
        call = self._calls[thread] = _Call(name, sys._getframe(1), arrays, time.monotonic())
        try:
            return function(*arguments, **named)
        finally:
            del self._calls[thread]
            now_s = time.monotonic()
            if now_s - call.begin_s >= _LEAST_S:
                self._took[call.title()] = now_s - call.begin_s
                # At once, and not by the thread: the program may write next.
                self.draw(now_s)

    def of_this_thread(self) -> _Call | None:
        return self._calls.get(threading.get_ident())

    def running(self) -> list[dict[str, Any]]:
        """What Tessera tells of calls under way."""
        needed = ctypes.c_size_t(4096)
        while True:
            size = needed.value
            text = ctypes.create_string_buffer(size)
            if self._tell(text, size, ctypes.byref(needed)) != 0:
                return []
            if needed.value <= size:
                calls: list[dict[str, Any]] = json.loads(text.value)
                return calls

    def draw(self, now_s: float) -> None:
        with self._lock:
            running = self.running()
            faces = list(self._calls.values())
            # A call of a face is one of Tessera's, too.
            long = [call for call in faces if now_s - call.begin_s >= _LEAST_S]
            others = [each for each in running if each["seconds"] >= _LEAST_S and not each["is_part"]]
            of_faces = {call.thread for call in faces}
            others = [each for each in others if each["thread"] not in of_faces]
            if not long and not others:
                self._write("")
                return
            if long:
                call = min(long, key=lambda call: call.begin_s)
                text = call.text(now_s, running)
                took_s = self._took.get(call.title())
                if took_s is not None:
                    text += f", {took_s:.0f} s the last time"
            else:
                other = max(others, key=lambda each: float(each["seconds"]))
                text = f"tessera: {other['what']}:{_bar(other['done'])} {other['seconds']:.0f} s"
            more = len(long) + len(others) - 1
            if more > 0:
                text += f"; {more} more"
            self._write(text)

    def _show(self) -> None:
        while not self._ends.wait(_INTERVAL_S):
            self.draw(time.monotonic())

    def _write(self, text: str) -> None:
        """Put a text in the place of the one before. Blanks cover a longer one: notebooks know no other way."""
        text = text[:self._columns()]
        if text == self._shown:
            return
        blanks = " " * (len(self._shown) - len(text))
        self._shown = text
        with contextlib.suppress(OSError, ValueError):
            self._file.write(f"\r{text}{blanks}" if text else f"\r{blanks}\r")
            self._file.flush()

    def _columns(self) -> int | None:
        """A longer text would begin a second line; None: it is not known."""
        try:
            columns = os.get_terminal_size(self._file.fileno()).columns
        except (AttributeError, OSError, ValueError):
            return None
        return columns - 1 if columns > 1 else None


# The faces read it at each call that they see; it is replaced, never changed. The last one that was opened holds.
_watch: _Watch | None = None
_open: tuple[_Watch, ...] = ()


def _put_in_force(watches: tuple[_Watch, ...]) -> None:
    global _watch, _open
    _open = watches
    _watch = watches[-1] if watches else None


@contextlib.contextmanager
def progress(libraries: Libraries, file: TextIO | None) -> Iterator[None]:
    if file is None:
        file = sys.stderr
        if file is None or not file.isatty():
            yield
            return
    watch = _Watch(libraries, file)
    watch.begin()
    with lock:
        _put_in_force((*_open, watch))
    try:
        yield
    finally:
        with lock:
            _put_in_force(tuple(other for other in _open if other is not watch))
        watch.end()


def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Have a function's calls noted while there is a `progress`. Else it costs one call more."""

    def call(*arguments: Any, **named: Any) -> Any:
        watch = _watch
        return function(*arguments, **named) if watch is None else watch.run(name, function, arguments, named)

    return call


def note_routine(name: str) -> None:
    """Note which routine of Tessera begins in this thread; "": it has ended."""
    call = None if _watch is None else _watch.of_this_thread()
    if call is not None:
        call.routine = name


def counted(places: Iterable[_Place], stack: tuple[int, ...]) -> Iterator[_Place]:
    """The places of a stack's matrices, with a note of how many are done."""
    call = None if _watch is None else _watch.of_this_thread()
    if call is not None:
        call.count = math.prod(stack)
    for done, place in enumerate(places):
        if call is not None:
            call.done = done
        yield place
