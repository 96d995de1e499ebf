"""Runs bench/programs.sh in small sizes on a host device, in one language. usage:
  run_bench.py LANGUAGE BUILD_FOLDER SOURCE_FOLDER [PYTHON]
All results must be right in all kinds of runs, and the products must have run on the device.
Exit status 77: the language is not installed."""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

NOT_AVAILABLE = 77
PROGRAMS = ["polar", "gauss", "field", "network", "inverse"]
SETTINGS = {"SCALE": "0.02", "REPEATS": "2", "DEVICES": "host:1", "TIMEOUT": "50", "TESSERA_OFFLOAD": "always",
            "TESSERA_TILE": "64", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
CLOCK_S = 0.01  # R's clock counts milliseconds
# R has no single precision.
ROUTINES = {"numpy": {"dgemm", "dsyrk", "sgemm"}, "octave": {"dgemm", "dsyrk", "sgemm"}, "r": {"dgemm", "dsyrk"}}


def check(language, build, source, out, environment):
    stats = out / "stats.jsonl"
    result = subprocess.run([source / "bench" / "programs.sh", build, out], capture_output=True, text=True,
                            env={**environment, "TESSERA_STATS": str(stats)})
    if "none of the languages is installed" in result.stderr:
        print(f"skipped: {language} is not installed")
        return NOT_AVAILABLE
    print(result.stdout + result.stderr)
    if result.returncode != 0:
        return 1
    runs = [json.loads(line) for line in (out / "programs.jsonl").read_text().splitlines()]
    kinds = ["own", "tessera"] + (["pool"] if any(run["run"] == "pool" for run in runs) else [])
    if [(run["program"], run["run"]) for run in runs] != list(itertools.product(PROGRAMS, kinds)):
        print("FAILED: other runs than these were expected")
        return 1
    for run in runs:
        right = run["correct"] and run["language"] == language and len(run["seconds"]) == 2
        if not right or sum(run["seconds"]) > run["whole_s"] + CLOCK_S:
            print(f"FAILED: {run}")
            return 1
    ran = {json.loads(line)["routine"] for line in stats.read_text().splitlines()}
    if missing := ROUTINES[language] - ran:
        print(f"FAILED: no call on the device of {missing}, but of {ran}")
        return 1
    return 0


def main():
    language, build, source, *python = sys.argv[1:]
    unwanted = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PROGRAMS", "RUNS", "PROCESSES")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_") and k not in unwanted}
    environment = {**clean, **SETTINGS, "LANGUAGES": language, "PYTHON": python[0] if python else "python3"}
    with tempfile.TemporaryDirectory() as folder:
        return check(language, build, pathlib.Path(source), pathlib.Path(folder), environment)


if __name__ == "__main__":
    sys.exit(main())
