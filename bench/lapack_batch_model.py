#!/usr/bin/env python3
"""What batches of small factorizations can reach, by the model of the paper on very small matrices (Haidar, Abdelfattah, Zounon,
Tomov, Dongarra, section 4), beside what `lapack_batch_bench --json` measured.

usage: bench/lapack_batch_model.py FILE [--routines ...] [--types ...] [--column-cycles N] ...
       bench/lapack_batch_model.py --bandwidth 4.2e12 --multiprocessors 132 ...          without a file: the model alone

Two bounds for each routine, type and n:

* the roof: compulsory bytes over the rate of a copy, or operations over the rate of a large gemm, whichever takes longer.
* the design's: of three ways to hold a problem (DESIGNS), the best one. A multiprocessor holds as many problems at a time as its
  registers, shared memory, threads and blocks allow; a problem stays for two latencies of memory and that of a column step for
  each step; problems come in waves. What a design moves besides what is compulsory, it moves at the rate of a copy.

The second is a bound of what these designs can do, not of all that can be thought of. Standard library only.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import sys

ELEMENT_BYTES = {"s": 4, "d": 8, "c": 8, "z": 16}
CHOLESKY = ("potrf", "potrs", "posv", "potri")
ROUTINES = ("getrf", "potrf", "getrf_nopiv", "getrs", "potrs", "gesv", "posv", "potri", "getri")
DESIGNS = ("registers", "shared", "panels")
WARP = 32
MOST_REGISTERS = 255  # of a thread
PANEL_COLUMNS = (4, 8, 16, 32, 64)


@dataclasses.dataclass(frozen=True)
class Machine:
    """Defaults: one H200, but for the latencies, which are to be measured. Rates of large gemms are per type."""
    multiprocessors: int = 132
    clock_hz: float = 1.98e9
    bandwidth: float = 4.2e12           # of a copy, bytes read and written
    registers: int = 65536              # of 32 bits, per multiprocessor
    shared_bytes: int = 233472          # per multiprocessor
    shared_bytes_per_block: int = 232448
    reserved_shared_bytes: int = 1024   # per block
    threads: int = 2048                 # per multiprocessor
    blocks: int = 32                    # per multiprocessor
    peak_flops: tuple = ()              # (type, rate) pairs
    column_cycles: float = 100          # of a column step of one warp: a pivot's way to all lanes, a division, an update
    pivot_cycles: float = 100           # more, with a search for the pivot and an interchange
    barrier_cycles: float = 40          # more, where a problem has several warps
    memory_cycles: float = 800          # from a request to its answer
    launch_s: float = 2e-6              # of a kernel that has nothing to do
    spare_registers: int = 32           # of a thread, for all but matrix elements

    def peak(self, kind):
        return dict(self.peak_flops).get(kind, math.inf)


# Name in the JSON, member, factor
ATTRIBUTES = [("multiprocessors", "multiprocessors", 1), ("clock_khz", "clock_hz", 1000), ("registers_per_multiprocessor", "registers", 1),
              ("shared_bytes_per_multiprocessor", "shared_bytes", 1), ("shared_bytes_per_block", "shared_bytes_per_block", 1),
              ("reserved_shared_bytes_per_block", "reserved_shared_bytes", 1), ("threads_per_multiprocessor", "threads", 1),
              ("blocks_per_multiprocessor", "blocks", 1)]


def machine_of(report, **others):
    """The machine that a report is of. @param others  members that are given otherwise"""
    device = report.get("device", {})
    members = {member: device[name] * factor for name, member, factor in ATTRIBUTES if name in device}
    if "copy_bytes_per_s" in report:
        members["bandwidth"] = report["copy_bytes_per_s"]
    members["peak_flops"] = tuple(sorted(report.get("peak_flops", {}).items()))
    return Machine(**{**members, **others})


# -- the algorithms --

def flops(routine, kind, n, nrhs=1):
    """Of one problem; leading terms, as in LAPACK Working Note 41. As in lapack_batch_cases.hpp."""
    cholesky = routine in CHOLESKY
    count = 0
    if routine in ("getrf", "getrf_nopiv", "gesv", "potrf", "posv"):
        count += n**3 / 3 if cholesky else 2 * n**3 / 3
    if routine in ("getri", "potri"):
        count += 2 * n**3 / 3 if cholesky else 4 * n**3 / 3
    if routine in ("getrs", "potrs", "gesv", "posv"):
        count += 2 * n**2 * nrhs
    return count * (4 if kind in "cz" else 1)


def compulsory_bytes(routine, kind, n, nrhs=1):
    """Of one problem, read and written. As in lapack_batch_cases.hpp."""
    elements = n * (n + 1) / 2 if routine in CHOLESKY else n * n
    if routine not in ("getrs", "potrs"):
        elements *= 2
    if routine in ("getrs", "potrs", "gesv", "posv"):
        elements += 2 * n * nrhs
    return ELEMENT_BYTES[kind] * elements + (4 * n if has_pivots(routine) else 0)


def has_pivots(routine):
    return routine in ("getrf", "getrs", "gesv", "getri")


def column_steps(routine, n):
    """How many steps of a problem have to wait for the one before."""
    return {"getrf": 1, "potrf": 1, "getrf_nopiv": 1, "gesv": 2, "posv": 2}.get(routine, 2) * n


def panel_elements(routine, n, columns):
    """Elements that the left-looking algorithm by panels moves: each panel once there and back, and before that all to its left.

    Exact sums; for Cholesky the leading term is n^3 / (6 columns), equation (4) of the paper, which has the same for the panels
    themselves; for LU, where what is left is n rows high for the upper part as well, n^3 / (3 columns)."""
    total = 0
    for begin in range(0, n, columns):
        width = min(columns, n - begin)
        if routine in CHOLESKY:
            total += 2 * ((n - begin) * width - width * (width - 1) // 2) + (n - begin) * begin
        else:
            total += 2 * n * width + n * begin - begin * (begin - 1) // 2
    return total


# -- occupancy --

@dataclasses.dataclass(frozen=True)
class Footprint:
    """What one problem takes of a multiprocessor."""
    threads: int
    registers_per_thread: int
    shared_bytes: int
    bytes_moved: float       # more than is compulsory where the problem is not held as a whole
    columns: int = 0         # of a panel


def rounded_up(value, multiple):
    return -(-value // multiple) * multiple


def power_of_two(n):
    return 1 << max(n - 1, 0).bit_length()


def threads_of(n):
    """A row each: a part of a warp, or whole warps."""
    return power_of_two(n) if n <= WARP else rounded_up(n, WARP)


def footprints(design, routine, kind, n, machine, nrhs=1):
    """The ways to hold a problem in a design; none if it does not fit."""
    size, threads = ELEMENT_BYTES[kind], threads_of(n)
    compulsory = compulsory_bytes(routine, kind, n, nrhs)
    found = []
    if design == "registers":  # a thread has a row
        registers = rounded_up(n * size // 4 + machine.spare_registers, 8)
        if registers <= MOST_REGISTERS and threads <= 1024:
            found.append(Footprint(threads, registers, 0, compulsory))
    elif design == "shared":
        if threads <= 1024:
            found.append(Footprint(threads, machine.spare_registers, n * n * size, compulsory))
    elif routine in ("getrs", "potrs"):  # the factors pass by
        found.append(Footprint(min(threads, 1024), machine.spare_registers, n * size, compulsory))
    elif routine not in ("getri", "potri"):
        for columns in PANEL_COLUMNS:
            if columns < n:
                more = (panel_elements(routine, n, columns) - panel_elements(routine, n, n)) * size
                shared = (n * columns + columns * columns) * size
                found.append(Footprint(min(threads, 1024), 2 * machine.spare_registers, shared, compulsory + more, columns))
    return [one for one in found if resident(one, machine) > 0]


def resident(footprint, machine, most_per_block=WARP):
    """Problems that a multiprocessor holds at a time, with as many in a block, up to that number, as is best. The paper's first
    designs have one, and are held back by the number of blocks where n is small."""
    best = 0
    for in_block in range(1, most_per_block + 1):
        threads = rounded_up(footprint.threads * in_block, WARP)
        shared = footprint.shared_bytes * in_block
        if threads > 1024 or shared > machine.shared_bytes_per_block:
            break
        blocks = min(machine.blocks, machine.threads // threads, machine.registers // (footprint.registers_per_thread * threads),
                     machine.shared_bytes // (shared + machine.reserved_shared_bytes))
        best = max(best, blocks * in_block)
    return best


# -- bounds --

@dataclasses.dataclass(frozen=True)
class Bound:
    seconds: float
    design: str
    resident: int      # problems of a multiprocessor at a time
    limit: str         # "bytes", "latency" or "operations"
    columns: int = 0


def roof_seconds(routine, kind, n, batch, machine, nrhs=1):
    return batch * max(compulsory_bytes(routine, kind, n, nrhs) / machine.bandwidth, flops(routine, kind, n, nrhs) / machine.peak(kind))


def problem_seconds(footprint, routine, n, machine):
    """How long a problem stays on its multiprocessor, if nothing is in its way."""
    cycles = machine.column_cycles
    if has_pivots(routine) and routine in ("getrf", "gesv"):
        cycles += machine.pivot_cycles
    if footprint.threads > WARP:
        cycles += machine.barrier_cycles
    panels = 1 if footprint.columns == 0 else -(-n // footprint.columns)
    return (column_steps(routine, n) * cycles + 2 * panels * machine.memory_cycles) / machine.clock_hz


def design_bound(design, routine, kind, n, batch, machine, nrhs=1):
    """The best that a design can do, over all its footprints. None: it holds no such problem"""
    best = None
    for footprint in footprints(design, routine, kind, n, machine, nrhs):
        held = resident(footprint, machine)
        waves = -(-batch // (held * machine.multiprocessors))
        times = {"bytes": batch * footprint.bytes_moved / machine.bandwidth,
                 "latency": waves * problem_seconds(footprint, routine, n, machine),
                 "operations": batch * flops(routine, kind, n, nrhs) / machine.peak(kind)}
        limit = max(times, key=times.get)
        bound = Bound(times[limit] + machine.launch_s, design, held, limit, footprint.columns)
        if best is None or bound.seconds < best.seconds:
            best = bound
    return best


def best_bound(routine, kind, n, batch, machine, nrhs=1):
    bounds = [design_bound(design, routine, kind, n, batch, machine, nrhs) for design in DESIGNS]
    return min((bound for bound in bounds if bound is not None), key=lambda bound: bound.seconds, default=None)


# -- output --

def bounds_of(result, machine):
    """Seconds of the roof, and the best design's bound or None, of a result in the JSON."""
    case = result["routine"][1:], result["routine"][0], result["n"], result["batch"], machine, max(result.get("nrhs", 1), 1)
    return roof_seconds(*case), best_bound(*case)


def rows(results, machine):
    lines = []
    for result in results:
        roof, best = bounds_of(result, machine)
        work = result["batch"] * flops(result["routine"][1:], result["routine"][0], result["n"], max(result.get("nrhs", 1), 1)) * 1e-9
        measured = result.get("seconds", {}).get("tessera")
        name = f"{result['routine']} {result.get('uplo', '')}".strip()
        line = f"{name:<18} {result['n']:5} {result['batch']:7} {work / roof:10.1f} "
        if best is None:
            line += f"{'-':>10} {'':<16} {'':8} {'':<10}"
        else:
            design = best.design + (f" of {best.columns}" if best.columns else "")
            line += f"{work / best.seconds:10.1f} {design:<16} {best.resident:8} {best.limit:<10}"
        if measured:
            line += f" {work / measured:10.1f} {roof / measured:7.0%} " + ("" if best is None else f"{best.seconds / measured:8.0%}")
        lines.append(line.rstrip())
    return lines


HEAD = (f"{'':<18} {'n':>5} {'batch':>7} {'roof':>10} {'model':>10} {'design':<16} {'resident':>8} {'limit':<10} {'measured':>10} "
        f"{'of roof':>7} {'of model':>7}   rates in GFLOP/s")


def add_machine_options(parser):
    for field in dataclasses.fields(Machine):
        if field.name != "peak_flops":
            parser.add_argument("--" + field.name.replace("_", "-"), type=field.type, help=f"without it that of the file, or {field.default:g}")


def given(options):
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(Machine) if getattr(options, field.name, None) is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", metavar="FILE", help="JSON of lapack_batch_bench")
    parser.add_argument("--routines", default=",".join(ROUTINES))
    parser.add_argument("--types", default="sdcz")
    parser.add_argument("--sizes", default="4,8,12,16,20,24,28,32,48,64,96,128,192,256,384,512", help="without a file")
    parser.add_argument("--batch", type=int, default=10000, help="without a file")
    add_machine_options(parser)
    options = parser.parse_args()
    routines = options.routines.split(",")
    try:
        report = json.loads(pathlib.Path(options.file).read_text(encoding="utf-8")) if options.file else {}
        machine = machine_of(report, **given(options))
        if options.file:
            results = [one for one in report["results"]
                       if "batch" in one and one["routine"][0] in options.types and one["routine"][1:] in routines]
        else:
            results = [{"routine": kind + routine, "n": int(n), "batch": options.batch}
                       for kind in options.types for routine in routines for n in options.sizes.split(",")]
        print(HEAD)
        print("\n".join(rows(results, machine)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"lapack_batch_model.py: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
