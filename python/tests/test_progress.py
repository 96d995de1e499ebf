"""The line that tells of calls that take long: what it says, when it is there, and where it is not."""

import os
import pty
import subprocess
import sys

from conftest import ON_HOST_DEVICES, environment_with

QUIET = {**ON_HOST_DEVICES, "TESSERA_VERBOSE": "0"}
# An inverse of order 250 takes three seconds, and so do eigenvectors of order 190.
SLOW = {**QUIET, "TESSERA_DEVICES": "host:1", "TESSERA_HOST_DEVICE": "speed=10MFLOP/s"}

PROGRAM = """
import re, sys, threading, time
import numpy as np, tessera_blas
from tessera_blas import _progress
tessera_blas.install()
class Stream:
    texts = []
    def write(self, text):
        self.texts.append(text)
    def flush(self):
        pass
stream = Stream()
def next_line():
    return f"(program.py:{sys._getframe(1).f_lineno + 1})"
def is_blank(text):
    return text.startswith("\\r") and text.endswith("\\r") and not text.strip()
"""


def test_slow_calls(program):
    """The first of them tells its time, and a later one tells also how long that took."""
    program(PROGRAM + """
import scipy.linalg as sl
a = np.random.default_rng(1).standard_normal((250, 250))
with tessera_blas.progress(file=stream):
    for function, n, name, routine in ((np.linalg.inv, 250, "numpy.linalg.inv", "dget"),
                                       (sl.eigh, 190, "scipy.linalg.eigh", "dsyev")):
        stream.texts.clear()
        while not any("the last time" in text for text in stream.texts):
            place = next_line()
            function(a[:n, :n])
            assert not stream.texts or is_blank(stream.texts[-1])
        shown = [text for text in stream.texts if not is_blank(text)]
        for text in shown:
            assert text.startswith(f"\\rtessera: {name} of {n} x {n} {place}: "), text
            assert int(re.search(r" (\\d+) s\\b", text)[1]) >= 2, text
        assert any(f": {routine}" in text for text in shown), shown
""", **SLOW)


def test_how_much_is_done(program):
    """Of a factorization and of a product, which has no face: until it was seen half way."""
    program(PROGRAM + """
a = np.random.default_rng(1).standard_normal((300, 300))
for run, begin in ((lambda: np.linalg.qr(a), "numpy.linalg.qr of 300 x 300"), (lambda: a @ a, "dgemm NN m=300 n=300 k=300: ")):
    with tessera_blas.progress(file=stream):
        stream.texts.clear()
        while not any(re.search(r"\\[#+\\.+\\] \\d+ %, ", text) for text in stream.texts):
            run()
    shown = [text for text in stream.texts if not is_blank(text)]
    assert all(text.startswith(f"\\rtessera: {begin}") for text in shown), shown
    done = [int(found[1]) for text in shown if (found := re.search(r" (\\d+) %, ", text))]
    assert all(0 <= part <= 100 for part in done) and any(0 < part < 100 for part in done), shown
""", **{**SLOW, "TESSERA_TILE": "64"})


def test_matrices_of_a_stack(program):
    program(PROGRAM + """
from tessera_blas import _lapack
a = np.random.default_rng(1).standard_normal((2, 3, 40, 40))
own = _lapack.Lapack.call
def call(*arguments):
    info = own(*arguments)
    # As if the call had begun long ago.
    _progress._watch.draw(time.monotonic() + 100)
    return info
_lapack.Lapack.call = call
for function in (np.linalg.eigvalsh, np.linalg.qr):
    with tessera_blas.progress(file=stream):
        place = next_line()
        function(a)
    for done in range(6):
        told = f" of 2 x 3 x 40 x 40 {place}: {done} of 6 matrices done, 100 s"
        assert any(told in text for text in stream.texts), (told, stream.texts)
    stream.texts.clear()
""", **QUIET)


def test_calls_of_two_threads(program):
    program(PROGRAM + """
begins, ends = threading.Barrier(3), threading.Event()
def wait(a, b):
    begins.wait()
    ends.wait()
watched = _progress.watched("wait", wait)
place = next_line()
def work(n): watched(np.zeros((n, 5)), np.zeros(n))
with tessera_blas.progress(file=stream):
    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 4)]
    for thread in threads: thread.start()
    begins.wait()
    _progress._watch.draw(time.monotonic() + 100)
    ends.set()
    for thread in threads: thread.join()
    _progress._watch.draw(time.monotonic() + 100)
told = [f"tessera: wait of {n} x 5 and {n} {place}: 100 s; 1 more" for n in (3, 4)]
assert any(text.strip() in told for text in stream.texts), stream.texts
assert is_blank(stream.texts[-1]), stream.texts
""")


def test_errors_and_what_remains(program):
    program(PROGRAM + """
class Broken(Stream):
    def write(self, text):
        raise OSError
def fail(a):
    _progress._watch.draw(time.monotonic() + 100)
    raise KeyError
watched = _progress.watched("fail", fail)
for file in (stream, Broken()):
    with tessera_blas.progress(file=file):
        outer = _progress._watch
        with tessera_blas.progress(file=file):
            assert _progress._watch is not outer
            try:
                watched(np.zeros(3))
            except KeyError:
                assert not _progress._watch._calls
        assert _progress._watch is outer
assert _progress._watch is None
assert "fail of 3" in stream.texts[0] and is_blank(stream.texts[1]) and len(stream.texts) == 2, stream.texts
assert not [thread for thread in threading.enumerate() if "tessera" in thread.name]
""")


def test_a_child_by_fork_tells_nothing(program):
    program(PROGRAM + """
import os
def draw(a):
    _progress._watch.draw(time.monotonic() + 100)
with tessera_blas.progress(file=stream):
    child = os.fork()
    if child == 0:
        _progress.watched("draw", draw)(np.zeros(3))
if child == 0:
    os._exit(1 if stream.texts else 0)
assert os.waitpid(child, 0)[1] == 0
""")


FOREVER = """
import os, sys
import numpy as np
a = np.random.default_rng(1).standard_normal((250, 250))
for _ in range(int(sys.argv[2])):
    if not os.path.exists(sys.argv[1]):
        np.linalg.inv(a)
"""


def test_on_a_terminal(tmp_path):
    (tmp_path / "program.py").write_text(FOREVER)
    master, slave = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "tessera_blas", "--progress", "program.py", "seen", "100"], cwd=tmp_path,
                               env=environment_with(SLOW), stderr=slave)
    os.close(slave)
    text = b""
    try:
        while b"numpy.linalg.inv of 250 x 250 (program.py:7): " not in text:
            text += os.read(master, 1000)
        (tmp_path / "seen").write_text("")
        assert process.wait(60) == 0
        assert os.read(master, 10000).endswith(b" \r")
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_nothing_where_there_is_no_terminal(python, tmp_path):
    (tmp_path / "program.py").write_text(FOREVER)
    result = python("-m", "tessera_blas", "--progress", "program.py", "seen", 1, cwd=tmp_path, **SLOW)
    assert result.err == "" and result.out == ""


def test_a_narrow_terminal(program):
    program(PROGRAM + """
import io, os, pty
class Terminal(Stream):
    def fileno(self):
        return slave
master, slave = pty.openpty()
import fcntl, struct, termios
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 21, 0, 0))
def draw(a):
    _progress._watch.draw(time.monotonic() + 100)
with tessera_blas.progress(file=Terminal()):
    _progress.watched("a_long_name_of_a_function", draw)(np.zeros(3))
assert Stream.texts == ["\\rtessera: a_long_name", "\\r" + 20 * " " + "\\r"], Stream.texts
""")
