"""What the Python programs of this folder have in common: options, clock, check, and the line that they print.

Options: --scale S multiplies the sizes, --repeats N computes so often in one process.
The program prints one line of JSON:
  seconds      of each repeat, without set-up and check
  whole_s      time of the script with both, from its first line on
  untimed_s    what set-up and checks took
  residual     the largest relative error of any repeat, for random vectors
  checksum     a number of the last result; over another BLAS it is the same but for a relative `bound`
Status 1: the residual is not below its `bound`.

A program is a class. Its constructor makes the problem, run() computes, check() and checksum() look at the result."""
import time

BEGIN = time.perf_counter()
import argparse
import json

import numpy as np


def error(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def worst(*errors):
    """NaN if one of them is, unlike Python's max."""
    return float(np.max(errors))


def finite(number):
    """JSON has no infinity."""
    return number if np.isfinite(number) else None


def main(document, programs, language="numpy"):
    """Runs one program by the command line. @param programs by name; where there is only one, no name is given @return the status"""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    if len(programs) > 1:
        parser.add_argument("program", choices=programs)
    else:
        parser.set_defaults(program=next(iter(programs)))
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if options.scale <= 0 or options.repeats < 1:
        parser.error("--scale and --repeats are positive")

    begin = time.perf_counter()
    program = programs[options.program](lambda n: max(16, round(n * options.scale)), np.random.default_rng(1))
    untimed = time.perf_counter() - begin
    seconds, errors, checksum = [], [], 0.0
    for _ in range(options.repeats):
        begin = time.perf_counter()
        result = program.run()
        end = time.perf_counter()
        seconds.append(round(end - begin, 6))
        errors.append(program.check(result))
        checksum = float(program.checksum(result))
        del result
        untimed += time.perf_counter() - end
    correct = all(e < program.BOUND for e in errors)
    print(json.dumps({"program": options.program, "language": language, "sizes": program.sizes, "seconds": seconds,
                      "whole_s": round(time.perf_counter() - BEGIN, 6), "untimed_s": round(untimed, 6),
                      "residual": finite(worst(*errors)), "checksum": finite(checksum), "bound": program.BOUND, "correct": correct}))
    return 0 if correct else 1
