"""A profile of the large linear algebra of a program, by the lines of its code.

Tessera tells of each of its calls when it ends (tessera_observe_calls), in the thread that has made it, so that the stack
shows the line. Functions of numpy.linalg and scipy.linalg take longer than the calls that they make: their time is taken by
Python's own profile hook, from entry to return.
"""

from __future__ import annotations

import contextlib
import ctypes
import html
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from tessera_blas import _stack

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from tessera_blas._libraries import Libraries
    from tessera_blas._stack import Place


class _Call(ctypes.Structure):
    """The structure tessera_call of tessera/tessera.h."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("what", ctypes.c_char_p), ("where", ctypes.c_char_p), ("why", ctypes.c_char_p),
        ("seconds", ctypes.c_double), ("start_s", ctypes.c_double), ("flops", ctypes.c_double),
        ("bytes_up", ctypes.c_int64), ("bytes_down", ctypes.c_int64), ("on_devices", ctypes.c_int), ("is_part", ctypes.c_int)]


_OBSERVER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Call), ctypes.c_void_p)
# Observers that have been handed out: a call in flight may still use one that has been taken away.
_kept: list[Any] = []


class Row:
    """The calls of one line to one routine, at one place, for one reason.

    Attributes
    ----------
    file, line, function
        Of the program.
    routine : str
        As "dgetrf", or of a function of NumPy or SciPy, as "numpy.linalg.inv".
    where, why : str
        The devices, or what the CPU computed it with; the offload decision in words.
    calls : int
    seconds : float
        Of a routine, in Tessera. Of a function, from entry to return.
    flops, bytes : float
        Floating-point operations; bytes to and from the devices.
    on_devices : bool
    """

    def __init__(self, place: Place, routine: str, where: str, why: str, on_devices: bool) -> None:
        self.file, self.line, self.function = place
        self.routine, self.where, self.why, self.on_devices = routine, where, why, on_devices
        self.calls, self.seconds, self.flops, self.bytes = 0, 0.0, 0.0, 0.0


class Profile:
    """What a program's large linear algebra took, where it ran, and why. Made by `tessera_blas.profile`."""

    def __init__(self, libraries: Libraries) -> None:
        self._library = libraries.tessera
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._lock = threading.Lock()
        self._entered = threading.local()
        self._observer = _OBSERVER(self._note)
        self._before: Any = None
        self._is_on = False
        self._begin_s = 0.0
        self.seconds = 0.0

    def __enter__(self) -> Profile:
        self._is_on, self._begin_s = True, time.perf_counter()
        self._before = sys.getprofile()
        _kept.append(self._observer)
        self._library.tessera_observe_calls(self._observer, None)
        threading.setprofile(self._follow)
        sys.setprofile(self._follow)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_on:
            return
        self._is_on = False
        sys.setprofile(self._before)
        threading.setprofile(None)
        self._library.tessera_observe_calls(_OBSERVER(), None)
        self.seconds += time.perf_counter() - self._begin_s

    @property
    def rows(self) -> list[Row]:
        """The rows, the longest first."""
        with self._lock:
            return sorted(self._rows.values(), key=lambda row: -row.seconds)

    def to_json(self) -> str:
        """A list of objects with the attributes of `Row`, and the seconds of the whole."""
        return json.dumps({"seconds": self.seconds, "rows": [vars(row) for row in self.rows]})

    def __str__(self) -> str:
        lines = [f"{self.seconds:.3f} s in all"]
        table = [("seconds", "calls", "Gflop/s", "line", "routine", "where and why")]
        for row in self.rows:
            table.append((f"{row.seconds:.4f}", str(row.calls), _rate(row), f"{os.path.basename(row.file)}:{row.line}", row.routine,
                          f"{row.where} ({row.why})" if row.where else ""))
        widths = [max(len(line[column]) for line in table) for column in range(5)]
        for line in table:
            cells = [cell.rjust(width) if column < 3 else cell.ljust(width)
                     for column, (cell, width) in enumerate(zip(line, widths))]
            lines.append("  ".join([*cells, line[5]]).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("seconds", "calls", "Gflop/s", "line", "routine", "where", "why"))
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in (
                f"{row.seconds:.4f}", str(row.calls), _rate(row), f"{os.path.basename(row.file)}:{row.line}", row.routine, row.where,
                row.why)) + "</tr>" for row in self.rows)
        return f"<p>{self.seconds:.3f} s in all</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _note(self, told: Any, _: Any) -> None:
        """One call of Tessera. Errors must not leave: there is no caller that could take them."""
        with contextlib.suppress(Exception):
            call = told.contents
            if call.is_part:
                return
            routine = call.what.decode().split(" ")[0]
            # Estimates differ from call to call, and what is in front of them does not.
            why = call.why.decode().split(":")[0]
            self._add(_stack.line_of(sys._getframe(1)), routine, call.where.decode(), why, bool(call.on_devices), call.seconds,
                      call.flops, float(call.bytes_up + call.bytes_down))

    def _follow(self, frame: FrameType, event: str, argument: Any) -> None:
        """Python's profile hook: the time of functions of numpy.linalg and scipy.linalg, the outermost one's."""
        if event == "call":
            if getattr(self._entered, "frame", None) is None and frame.f_back is not None and _stack.linalg_name(frame):
                self._entered.frame, self._entered.begin_s = frame, time.perf_counter()
        elif event == "return" and getattr(self._entered, "frame", None) is frame:
            seconds = time.perf_counter() - self._entered.begin_s
            self._entered.frame = None
            self._add(_stack.line_of(frame.f_back), _stack.linalg_name(frame), "", "", False, seconds, 0.0, 0.0)

    def _add(self, place: Place, routine: str, where: str, why: str, on_devices: bool, seconds: float, flops: float,
             moved: float) -> None:
        key = (*place, routine, where, why)
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = Row(place, routine, where, why, on_devices)
            row.calls += 1
            row.seconds += seconds
            row.flops += flops
            row.bytes += moved


def _rate(row: Row) -> str:
    return f"{row.flops / row.seconds * 1e-9:.0f}" if row.flops > 0 and row.seconds > 0 else ""
