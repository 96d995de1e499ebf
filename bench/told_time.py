#!/usr/bin/env python3
"""Whether Tessera tells of calls what their callers see. Runs concurrent_calls, whose first calls are those of the process, with TESSERA_VERBOSE under LD_PRELOAD, and
compares the longest call told with the longest one seen. Prints a line of JSON per process; status 1 if the two differ by more than --within, or a result is wrong.
Settings are those of the environment: TESSERA_DEVICES=cuda:0, TESSERA_OFFLOAD=always, ..."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

TOLD = re.compile(r"(?m)^tessera: dgemm .*\): (\d+\.\d+) s(?:, (\d+\.\d+) s of it waiting for devices to start)?, [\d.]+ TFLOP/s$")


def measure(build, n, threads, seconds):
    environment = {**os.environ, "LD_PRELOAD": str(build / "lib" / "libtessera_blas.so"), "TESSERA_VERBOSE": "1"}
    result = subprocess.run([build / "bin" / "concurrent_calls", str(n), str(threads), str(seconds), "0"], env=environment, capture_output=True, text=True, check=False)
    calls = [(float(told), float(start or 0)) for told, start in TOLD.findall(result.stderr)]
    if result.returncode != 0 or not calls:
        sys.exit(f"concurrent_calls {n} {threads}: status {result.returncode}, {len(calls)} calls told\n{result.stderr[-2000:]}")
    told_s, start_s = (max(times) for times in zip(*calls))
    return {"n": n, "threads": threads, "calls": len(calls), "seen_s": json.loads(result.stdout)["longest_s"], "told_s": told_s, "start_s": start_s}


def main():
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__.split(". ")[0] + ".")
    parser.add_argument("build", type=pathlib.Path, help="build folder")
    parser.add_argument("--sizes", type=numbers, default=[512, 2048])
    parser.add_argument("--threads", type=numbers, default=[1, 8])
    parser.add_argument("--seconds", type=float, default=1, help="of each process")
    parser.add_argument("--within", type=float, default=0.05, help="part of the longest call seen")
    options = parser.parse_args()
    differ = False
    for n in options.sizes:
        for threads in options.threads:
            one = measure(options.build, n, threads, options.seconds)
            one["agrees"] = abs(one["told_s"] - one["seen_s"]) <= options.within * one["seen_s"]
            differ = differ or not one["agrees"]
            print(json.dumps(one), flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
