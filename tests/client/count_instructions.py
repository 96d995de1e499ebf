"""The cost that the drop-in library adds to a small call of the CPU BLAS, in instructions by callgrind (they do not
depend on the machine's load). usage: count_instructions.py VALGRIND LIBRARY PROGRAM LIMIT

Runs PROGRAM with some and with more calls, plain and with LIBRARY preloaded. The difference per call is the added cost.
At 3 GHz and one instruction a cycle, one microsecond is some 3000 instructions; such code runs much faster.
"""
import os
import re
import subprocess
import sys
import tempfile


def instructions(valgrind, library, program, calls):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    if library:
        environment["LD_PRELOAD"] = library
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([valgrind, "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, str(calls)],
                                env=environment, capture_output=True, text=True, timeout=300)
    if result.returncode != 0 or f"calls {calls}" not in result.stdout:
        sys.exit(f"exit {result.returncode}\n{result.stdout}\n{result.stderr}")
    return int(re.search(r"Collected : (\d+)", result.stderr)[1])


def per_call(valgrind, library, program):
    few, many = 100, 1100
    return (instructions(valgrind, library, program, many) - instructions(valgrind, library, program, few)) / (many - few)


def main():
    valgrind, library, program, limit = sys.argv[1:]
    plain = per_call(valgrind, None, program)
    ours = per_call(valgrind, library, program)
    print(f"instructions per 16 x 16 dgemm: {plain:.0f} by the CPU BLAS, {ours:.0f} through us, {ours - plain:+.0f}")
    if plain < 1000:
        sys.exit("too few to be a product")
    if ours - plain > int(limit):
        sys.exit(f"more than {limit} are added")


if __name__ == "__main__":
    main()
