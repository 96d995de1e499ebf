"""What the tests of the package share. Each test runs Python anew, because `install` changes the whole process.

Tessera's libraries are found by TESSERA_LIBRARIES, or in the installed wheel.
"""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# All calls that can run on devices do, on any machine, and each says so on standard error.
ON_HOST_DEVICES = {"TESSERA_DEVICES": "host:2", "TESSERA_OFFLOAD": "always", "TESSERA_VERBOSE": "1",
                   "TESSERA_CALIBRATION": "off"}


class Result:
    """What a program has written, and how it has ended."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    def on_devices(self, routine):
        """The lines that tell of a call that ran on devices."""
        return [line for line in self.err.splitlines() if f"tessera: {routine} " in line and " on host:" in line]

    def told(self, routine):
        """The lines that tell of a call, wherever it ran."""
        return [line for line in self.err.splitlines() if f"tessera: {routine} " in line]


def environment_with(changes):
    """The environment of a program that can import the package."""
    environment = {**os.environ, **changes}
    # An installed package comes without the source tree's folder.
    if (ROOT / "tessera_blas").is_dir():
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return environment


@pytest.fixture
def python():
    """Runs Python with arguments, and tells how that ended. A number is expected as its status unless it is None."""

    def run(*arguments, status=0, cwd=None, stdin="", timeout=300, **environment):
        command = [sys.executable, *map(str, arguments)]
        environment = environment_with({"PYTHONFAULTHANDLER": "1", **environment})
        # A session of its own ends with all of its workers, which hold the pipes, too.
        process = subprocess.Popen(command, env=environment, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)  # each writes where its threads are
            out, err = process.communicate(timeout=60)
            pytest.fail(f"more than {timeout} s\n{out}\n{err}")
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        result = Result(process.returncode, out, err)
        assert status is None or result.status == status, f"status {result.status}\n{result.out}\n{result.err}"
        return result

    return run


@pytest.fixture
def program(python, tmp_path):
    """Runs a text as a script. It is a file, so that workers can import it."""

    def run(text, *arguments, **keywords):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(text))
        return python(script, *arguments, **keywords)

    return run
