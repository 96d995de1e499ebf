"""``python -m tessera_blas demo``: an unchanged NumPy script, without the package and with it, side by side.

The script runs in two processes of its own, so that neither affects the other. With the package it tells on standard
error what each call does, and Tessera adds where each has run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

# Each call is made twice, and the second one counts: the first may wait for devices and threads to start.
_SCRIPT = '''\
import json, sys, time
import numpy as np

n, results = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(1)
a = rng.standard_normal((n, n))
a[np.diag_indices(n)] += 3 * np.sqrt(n)  # far from singular
b = rng.standard_normal((n, n))
s = a[:n // 2, :n // 2] + a[:n // 2, :n // 2].T
v = rng.standard_normal(n)

calls = {
    "np.linalg.inv(a)": lambda: np.linalg.inv(a),
    "np.linalg.solve(a, b)": lambda: np.linalg.solve(a, b),
    "np.linalg.qr(a)": lambda: np.linalg.qr(a),
    "np.linalg.eigh(s)": lambda: np.linalg.eigh(s),
    "a @ b": lambda: a @ b,
}
seconds, found = {}, {}
for name, call in calls.items():
    for _ in range(2):
        print("demo: " + name, file=sys.stderr, flush=True)
        start = time.perf_counter()
        found[name] = call()
        seconds[name] = time.perf_counter() - start
print("demo: end", file=sys.stderr, flush=True)

# Eigenvectors may have either sign, and so may the columns of Q. Their products with a vector are always the same.
(q, r), (w, u) = found["np.linalg.qr(a)"], found["np.linalg.eigh(s)"]
found["np.linalg.qr(a)"] = np.concatenate([q @ (r @ v), abs(np.diag(r))])
found["np.linalg.eigh(s)"] = np.concatenate([u @ (w * (u.T @ v[:n // 2])), w])
np.savez(results, *[x if x.ndim == 1 else x @ v for x in found.values()])
print(json.dumps(seconds))
'''

_SIZES = {"np.linalg.eigh(s)": 0.5}  # the order of its matrix, in that of the others
_LEAST_ORDER, _LARGEST_ORDER = 1000, 8000
_PRODUCTS = 30  # the script takes about as long as so many products of its matrices, on CPUs of several kinds
_SECONDS = 18  # that the script should take without the package
_TOLERANCE = 1e-9  # relative; the matrices are well conditioned

_LINE = re.compile(r"tessera: .* on (?P<where>[^(]*) \((?P<why>.*)\): [0-9.e+-]+ s")


class _Run(NamedTuple):
    """What a run of the script has told."""

    seconds: dict[str, float]
    results: list[Any]
    told: dict[str, list[re.Match[str]]]  # lines of Tessera about each call


def main(arguments: list[str]) -> None:
    """Run the demonstration. The process ends with status 0 if the results of both runs agree."""
    parser = argparse.ArgumentParser(
        prog="python -m tessera_blas demo",
        description="Runs a NumPy script without Tessera and with it, and compares times and results.")
    parser.add_argument("--order", type=int, metavar="N",
                        help="order of the matrices; by default one that takes less than a minute here")
    order = parser.parse_args(arguments).order
    if order is not None and order < 2:
        parser.error("the order must be at least 2")
    try:
        import numpy as np
    except ImportError:
        raise SystemExit("tessera_blas: the demonstration needs NumPy: python -m pip install numpy") from None

    if order is None:
        order = _suitable_order(np)
    print(f"A NumPy script with matrices of order {order} in double precision, NumPy {np.__version__}.")
    gpus = _gpus()
    print("GPUs: " + ("; ".join(gpus) or "none"))
    if os.environ.get("TESSERA_DEVICES"):
        print("TESSERA_DEVICES=" + os.environ["TESSERA_DEVICES"])
    with tempfile.TemporaryDirectory() as folder:
        # First with the package: if it is not complete, this shows soon.
        print("Running it with Tessera ...", flush=True)
        ours = _run(np, folder, "with", order)
        print("Running it without ...", flush=True)
        plain = _run(np, folder, "without", order)
    print()
    _print_table(plain, ours, order)
    print()
    print(_summary(ours, gpus))
    worst = max(_difference(np, x, y) for x, y in zip(plain.results, ours.results))
    agree = bool(worst <= _TOLERANCE)
    print(f"The results {'agree' if agree else 'DIFFER'}: largest relative difference {worst:.1e}.")
    raise SystemExit(0 if agree else 1)


def _suitable_order(np: Any) -> int:
    """An order by the speed of NumPy's products here."""
    n = 1000
    a = np.ones((n, n))
    shortest = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        a @ a
        shortest = min(shortest, time.perf_counter() - start)
    by_speed = n * (_SECONDS / (_PRODUCTS * shortest)) ** (1 / 3)
    # At most a tenth of the memory for each of a few matrices.
    by_memory = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 10 / 8) ** 0.5
    order = max(_LEAST_ORDER, min(by_speed, by_memory, _LARGEST_ORDER))
    return int(order // 100 * 100)


def _gpus() -> list[str]:
    """Names of the GPUs by the driver's own tool, so that this process uses none of them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        listing = subprocess.run([tool, "-L"], check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.partition(" (UUID")[0] for line in listing.stdout.splitlines() if line.startswith("GPU ")]


def _run(np: Any, folder: str, name: str, order: int) -> _Run:
    script, results = os.path.join(folder, "script.py"), os.path.join(folder, name + ".npz")
    with open(script, "w", encoding="utf-8") as file:
        file.write(_SCRIPT)
    environment = dict(os.environ)
    package = []
    if name == "with":
        package = ["-m", "tessera_blas"]
        environment["TESSERA_VERBOSE"] = "1"
        environment.setdefault("TESSERA_WARM_UP", "1")
    elif "libtessera" in environment.get("LD_PRELOAD", ""):
        del environment["LD_PRELOAD"]
    completed = subprocess.run([sys.executable, *package, script, str(order), results], check=False,
                               env=environment, capture_output=True, text=True, errors="replace")
    if completed.returncode != 0:
        print(completed.stderr, end="", file=sys.stderr)
        raise SystemExit(f"tessera_blas: the script {name} Tessera ended with status {completed.returncode}")
    with np.load(results) as arrays:
        found = [arrays[key] for key in arrays.files]
    return _Run(json.loads(completed.stdout.splitlines()[-1]), found, _told(completed.stderr))


def _told(text: str) -> dict[str, list[re.Match[str]]]:
    """The lines about each call, those of its second time."""
    told: dict[str, list[re.Match[str]]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("demo: "):
            name = line[len("demo: "):]
            told[name] = []
        elif (match := _LINE.match(line)) is not None and name in told:
            told[name].append(match)
    told.pop("end", None)
    return told


def _is_on_cpu(match: re.Match[str]) -> bool:
    return match["where"].startswith("the CPU")


def _where(lines: list[re.Match[str]]) -> str:
    places = sorted({"CPU" if _is_on_cpu(line) else line["where"] for line in lines})
    if not places:
        return "CPU"
    if places == ["CPU"]:
        return f"CPU ({lines[0]['why']})"
    return ", ".join(places)


def _print_table(plain: _Run, ours: _Run, order: int) -> None:
    print(f"{'call':<22} {'order':>6} {'without':>10} {'with':>10} {'factor':>7}   ran on")
    for name, before in plain.seconds.items():
        now = ours.seconds[name]
        size = int(order * _SIZES.get(name, 1))
        print(f"{name:<22} {size:>6} {before:>8.3f} s {now:>8.3f} s {before / now:>7.1f}   {_where(ours.told[name])}")


def _summary(ours: _Run, gpus: list[str]) -> str:
    on_devices = any(not _is_on_cpu(line) for lines in ours.told.values() for line in lines)
    if on_devices:
        return "A factor is the time without divided by the time with Tessera. NumPy's results are in host memory in both."
    if not gpus:
        return "There is no GPU here, so all calls stayed on the CPU. Factors near 1 are expected."
    return "All calls stayed on the CPU, for the reasons above, although there are GPUs."


def _difference(np: Any, x: Any, y: Any) -> float:
    if x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return float("inf")
    return float(np.linalg.norm(x - y) / np.linalg.norm(x))
