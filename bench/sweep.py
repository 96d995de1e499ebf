#!/usr/bin/env python3
"""Measures Tessera beside cublasXt and the CPU BLAS as BLASX was (Wang et al. 2016, Figs. 7, 8, 10, Tables III and V): routines x sizes x
numbers of devices, and tile sizes, with `tessera bench`. Writes a page with pictures, tables and the machine's name.

usage: bench/sweep.py OUT [--build BUILD] [--time-budget SECONDS] [options] [-- options of tessera bench]
       bench/sweep.py OUT --draw FILE... [--machine TEXT]

OUT gets sweep.json (all points), README.md, fig7.svg and fig10.svg. Every point is in sweep.json as soon as it is measured, and what is there
is not measured again: the same command goes on where the last one was stopped. The order is such that a sweep that is cut off has a picture: few
sizes of all routines on all numbers of devices first, small ones before large ones, then tile sizes, then the sizes between. What README.md has
from the heading "Beside the sweep" on is written by hand, and stays.

--draw measures nothing: it draws from files of this script and of `tessera bench --json`; of two points of the same, the later one counts.

Status 0: all is measured; 3: some is left, because of the time budget or a signal; 1: something failed or was wrong.
"""
import argparse
import ctypes
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from typing import NamedTuple, Optional

import machines
import sweep_report
from report import split_at_dashes, write_whole
from svg_picture import CONTESTANTS, number
from sweep_report import Points, key_of, points_of_bench, size_of

ROUTINES = ["gemm", "symm", "syrk", "syr2k", "trmm", "trsm"]
SIZES = "1024,2048,4096,8192,12288,16384,24576,32768,39936"
TILES = "512,1024,2048,4096"
# Up to here a run costs little beside its start, so that small sizes go first; above, cublasXt gets one block size only.
LARGE = 16384
POLL_S = 0.2
PR_SET_PDEATHSIG = 1


def numbers(text):
    """Numbers separated by commas, and ranges as FIRST:LAST:STEP."""
    result = set()
    for part in text.split(","):
        if ":" in part:
            first, last, step = map(int, part.split(":"))
            result.update(range(first, last + 1, step))
        else:
            result.add(int(part))
    if not result or min(result) < 1:
        raise ValueError(text)
    return sorted(result)


def names(text):
    wrong = [name for name in text.split(",") if name not in ROUTINES + ["hemm", "herk", "her2k", "gemmt"]]
    if wrong:
        raise argparse.ArgumentTypeError(f"no such routine: {', '.join(wrong)}")
    return text.split(",")


class Run(NamedTuple):
    """One process of `tessera bench`: all routines at all sizes, in the order in which it measures them."""
    devices: int
    routines: tuple
    sizes: tuple
    tile: Optional[int]
    peers: tuple
    blocks: tuple
    cpu_worker: Optional[str] = None

    def text(self):
        return (f"{' '.join(self.routines)}, n = {','.join(map(str, self.sizes))}, on {self.devices} device" + ("s" if self.devices > 1 else "") +
                (f", tiles of {self.tile}" if self.tile else "") + (f", CPU worker {self.cpu_worker}" if self.cpu_worker else ""))

    def keys(self, scalar):
        return [(scalar + routine, self.devices, n, self.tile, self.cpu_worker) for n in self.sizes for routine in self.routines]


# --- what to measure, and in which order ---

def passes(sizes):
    """Sizes in the order of their worth: about one per power of two and the largest, then the rest; each small ones first."""
    coarse = []
    for n in sizes:
        if not coarse or n >= 2 * coarse[-1]:
            coarse.append(n)
    if sizes[-1] not in coarse:
        coarse.append(sizes[-1])
    fine = [n for n in sizes if n not in coarse]
    parts = [[n for n in part if n <= LARGE] for part in (coarse, fine)] + [[n for n in part if n > LARGE] for part in (coarse, fine)]
    return parts[0], parts[2], parts[1], parts[3]


def wanted_runs(options):
    """All runs of a sweep from nothing."""
    most = max(options.counts)

    def blocks_at(n, peers=options.peers):
        return tuple(options.blocks if n <= LARGE else options.large_blocks) if "cublasxt" in peers else ()

    first_small, first_large, small, large = passes(options.sizes)

    def sized(sizes):
        runs = []
        for count in sorted(options.counts, reverse=True):  # the most devices take the least time
            for n in sizes:
                # The CPU BLAS does not depend on the devices: it is measured beside the most of them, where Tessera takes the least time.
                peers = options.peers + (("cpu",) if count == most and n <= options.cpu_up_to else ())
                runs.append(Run(count, tuple(options.routines), (n,), None, peers, blocks_at(n, peers)))
        return runs

    tiles = []
    for n in options.tile_sizes if options.tiles else []:
        if n not in options.sizes or "gemm" not in options.routines:
            tiles.append(Run(most, ("gemm",), (n,), None, options.peers, blocks_at(n)))
    for tile in options.tiles:
        sizes = [n for n in options.tile_sizes if n >= tile]
        tiles += [Run(most, ("gemm",), (n,), tile, options.peers, (tile,) if "cublasxt" in options.peers else ()) for n in sizes]
    cpu_worker = [Run(1, ("gemm",), tuple(options.cpu_worker_sizes), None, (), (), use) for use in sweep_report.CPU_WORKER_USES
                  if options.cpu_worker_sizes]
    return [*sized(first_small), *sized(first_large), *tiles, *cpu_worker, *sized(small), *sized(large)]


def join(runs):
    """Neighbours that differ in their sizes alone become one process: it opens the devices and page-locks its memory once. Small and large sizes
    stay apart, because a process has matrices for its largest size from its start."""
    joined = []
    for run in runs:
        last = joined[-1] if joined else None
        if last and last._replace(sizes=()) == run._replace(sizes=()) and (last.sizes[0] > LARGE) == (run.sizes[0] > LARGE):
            joined[-1] = last._replace(sizes=last.sizes + run.sizes)
        else:
            joined.append(run)
    return joined


def is_there(points, key, run):
    """Whether a point is measured, with all the peers that the run has."""
    point = points.by_key.get(key)
    return point is not None and all(peer in point["result"] for peer in run.peers)


def runs_left(options, points, given_up):
    """Of the wanted runs what is not there yet."""
    left = []
    for run in wanted_runs(options):  # of one size each
        routines = tuple(routine for routine, key in zip(run.routines, run.keys(options.type))
                         if key not in given_up and not is_there(points, key, run))
        if routines:
            left.append(run._replace(routines=routines))
    return join(left)


# --- measuring ---

class Sweep:
    """What is measured, on disk after every point."""

    def __init__(self, options, out):
        self.options, self.out = options, out
        self.file, self.measuring = out / "sweep.json", out / "measuring.json"
        self.sessions, self.points, self.machine = [], Points([]), None
        if self.file.exists():
            document = json.loads(self.file.read_text(encoding="utf-8"))
            self.sessions, self.points, self.machine = document["sessions"], Points(document["points"]), document["machine"]
            if document["bench_options"] != options.bench_options:
                others = shlex.join(document["bench_options"])
                raise ValueError(f"{out} has figures with other options of tessera bench ({others}): name another folder")
            self.absorb()  # what a sweep that was killed had not taken over

    def save(self):
        # One point per line, so that what is added later shows as lines.
        points = ",\n".join(json.dumps(point) for point in self.points.all)
        head = {"machine": self.machine, "bench_options": self.options.bench_options, "sessions": self.sessions}
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items())
        write_whole(self.file, f'{{{lines},\n"points": [\n{points}\n]}}\n')

    def absorb(self):
        """Takes over what the process that measures has written so far. @return the points that are new"""
        try:
            document = json.loads(self.measuring.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        found = points_of_bench(document, len(self.sessions) - 1)
        new = [point for point in found if self.points.by_key.get(key_of(point), {}).get("result") != point["result"]]
        if new:
            self.points = Points(self.points.all + new)
            self.save()
        return new


def end_with_parent():
    """In the child: a sweep that is killed must leave no process on the devices."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def bench_command(options, run, json_file):
    devices = f"host:{run.devices}" if options.backend == "host" else "cuda:" + ",".join(map(str, range(run.devices)))
    command = [options.tessera, "bench", "all", "--type", options.type, "--routines", ",".join(run.routines), "--n", ",".join(map(str, run.sizes)),
               "--devices", devices, "--repeats", str(options.repeats), "--check", "--json", str(json_file)]
    if run.tile:
        command += ["--tile", str(run.tile)]
    if run.cpu_worker:
        command += ["--cpu-worker", run.cpu_worker]
        if run.cpu_worker == "auto":  # weighs by the CPU's rate, which is learnt where calls are weighed
            command += ["--offload", "auto"]
    if run.peers:
        command += ["--peer", ",".join(run.peers)]
    if run.blocks:
        command += ["--cublasxt-blocks", ",".join(map(str, run.blocks))]
    return command + options.bench_options


def point_text(point):
    routine, devices, n, tile, cpu_worker = key_of(point)
    unit, factor = sweep_report.unit_of(sweep_report.tflops_of(point, "tessera"))
    rates = [f"{words} {number(rate * factor)}" for who, words, _ in [*CONTESTANTS, ("bound", "bound", "")]
             for rate in [sweep_report.tflops_of(point, who)] if rate is not None]
    return (f"  {routine} n={n} on {devices}" + (f", tiles of {tile}" if tile else "") +
            (f", CPU worker {cpu_worker}" if cpu_worker else "") + f": {', '.join(rates)} {unit}" +
            ("  WRONG" if sweep_report.is_wrong(point) else ""))


class Stopped(Exception):
    pass


class Limit:
    """Until when to measure: the end of the time budget, or a signal. Signals are only noted, so that none comes between a point and its file."""

    def __init__(self, deadline):
        self.deadline, self.signal = deadline, ""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, self.note)

    def note(self, number_of_signal, _):
        self.signal = signal.Signals(number_of_signal).name

    def check(self):
        """@raise Stopped if it is reached"""
        if self.signal:
            raise Stopped(self.signal)
        if time.monotonic() > self.deadline:
            raise Stopped("the time budget is used up")


def measure(sweep, run, limit):
    """One process, watched: its points are taken over as it writes them. @return "" or why it failed @raise Stopped at the limit"""
    limit.check()
    sweep.measuring.unlink(missing_ok=True)
    log = sweep.out / "measuring.log"
    with open(log, "w", encoding="utf-8") as errors:
        # In a session of its own: a signal to this script's group must not look like a failure of the bench.
        process = subprocess.Popen(bench_command(sweep.options, run, sweep.measuring), stdout=subprocess.DEVNULL, stderr=errors,
                                   start_new_session=True, preexec_fn=end_with_parent)
    try:
        while True:
            ended = process.poll() is not None  # asked before the file is read, which then is the last one
            for point in sweep.absorb():
                print(point_text(point), flush=True)
            if ended:
                break
            limit.check()
            time.sleep(POLL_S)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for point in sweep.absorb():
            print(point_text(point), flush=True)
        sweep.measuring.unlink(missing_ok=True)
    message = log.read_text(encoding="utf-8").strip()
    log.unlink()
    if all(is_there(sweep.points, key, run) for key in run.keys(sweep.options.type)):
        return ""  # a wrong result has a status of its own, and is in its point
    return message.rsplit("\n", 1)[-1] or f"ended with status {process.returncode}"


def measure_all(sweep, limit, notes):
    """@param notes what else is missing, for the page @return (what is left to measure, failures as lines)"""
    options, given_up, failures = sweep.options, set(), []
    while runs := runs_left(options, sweep.points, given_up):
        run = runs[0]
        print(run.text(), flush=True)
        try:
            why = measure(sweep, run, limit)
        except Stopped as stop:
            print(f"stopped: {stop}", flush=True)
            return runs_left(options, sweep.points, given_up), failures
        if why:
            # A process that measured something failed at the point after; one that measured nothing would fail again.
            missing = [key for key in run.keys(options.type) if not is_there(sweep.points, key, run)]
            failed = missing[:1] if len(missing) < len(run.keys(options.type)) else missing
            given_up.update(failed)
            names = tuple(dict.fromkeys(routine[1:] for routine, *_ in failed))
            part = run._replace(routines=names, sizes=tuple(dict.fromkeys(n for _, _, n, *_ in failed)))
            failures.append(f"{part.text()}: {why}")
            print(f"  failed: {why}", flush=True)
        write_page(sweep, notes + failures, runs_left(options, sweep.points, given_up))
    return [], failures


# --- the page ---

def draw_pictures(points, out, name):
    pictures = {"fig7": "", "fig10": ""}
    if any(map(sweep_report.is_of_own_choice, points.all)):
        pictures["fig7"] = "fig7.svg"
        write_whole(out / "fig7.svg", sweep_report.draw_rates(points, f"Level 3 on {name}"))
    if sweep_report.tile_groups(points):
        pictures["fig10"] = "fig10.svg"
        write_whole(out / "fig10.svg", sweep_report.draw_tiles(points, f"Tile sizes on {name}"))
    return pictures


def missing_lines(notes, left):
    return notes + [f"{run.text()}: not reached yet" for run in left]


def write_readme(out, points, head, pictures):
    """Writes the page. What the one that is there has from the heading BESIDE on stays."""
    file = out / "README.md"
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    _, heading, by_hand = old.partition(f"\n{sweep_report.BESIDE}\n")
    head["beside"] = bool(heading)
    write_whole(file, sweep_report.page(points, head, pictures) + heading + by_hand)


def write_page(sweep, notes, left):
    if not sweep.points.all:
        return
    head = {"machines": [sweep.machine], "sources": sweep_report.source_lines(sweep.sessions, sweep.points.all),
            "missing": missing_lines(notes, left), "volume_n": sweep.options.volume_n}
    pictures = draw_pictures(sweep.points, sweep.out, machines.name_of(sweep.machine))
    write_readme(sweep.out, sweep.points, head, pictures)


def draw_files(options, out):
    points, known, sources = [], [], []
    for file in options.draw:
        more, machine, lines = sweep_report.read_file(file)
        points += more
        sources += lines
        if machine is not None and machine not in known:
            known.append(machine)
    if options.machine or not known:
        known.insert(0, {"text": options.machine or "a machine that the files do not name"})
    points = Points(points)
    out.mkdir(parents=True, exist_ok=True)
    pictures = draw_pictures(points, out, machines.name_of(known[0]))
    head = {"machines": known, "sources": sources, "missing": [], "volume_n": options.volume_n}
    write_readme(out, points, head, pictures)


# --- the command ---

def parse(arguments):
    own, bench_options = split_at_dashes(arguments)
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0],
                                     epilog="After --: options of `tessera bench`, such as --host pageable.")
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("out", metavar="OUT", type=pathlib.Path, help="folder of the page, and of what is measured already")
    parser.add_argument("--build", type=pathlib.Path, default=root / "build" / "release", help="build folder")
    parser.add_argument("--time-budget", type=float, default=float("inf"), metavar="SECONDS", help="stop then, at the latest; go on another time")
    parser.add_argument("--backend", choices=["auto", "cuda", "host"], default="auto", help="auto: GPUs if there are any")
    parser.add_argument("--counts", type=numbers, metavar="G,...", help="numbers of devices; without it 1, 2, 4, ... GPUs, or 1 and 2 host devices")
    parser.add_argument("--routines", type=names, default=ROUTINES, metavar="NAME,...")
    parser.add_argument("--type", choices=list("sdcz"), default="d")
    parser.add_argument("--n", dest="sizes", type=numbers, default=numbers(SIZES), metavar="N,...",
                        help=f"sizes, also as FIRST:LAST:STEP; BLASX: 1024:39936:1024; without it {SIZES}")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer", dest="peers", choices=["auto", "cublasxt", "none"], default="auto", help="auto: cublasxt with GPUs")
    parser.add_argument("--cublasxt-blocks", dest="blocks", type=numbers, default=[2048, 4096], metavar="B,...")
    parser.add_argument("--large-blocks", type=numbers, default=[4096], metavar="B,...",
                        help=f"cublasXt's block sizes above n = {LARGE}, where small blocks take minutes")
    parser.add_argument("--cpu-up-to", type=int, default=0, metavar="N", help="measure the CPU BLAS up to this size")
    parser.add_argument("--tiles", type=lambda text: [] if text == "none" else numbers(text), default=numbers(TILES), metavar="T,...|none",
                        help=f"tile sizes of dgemm on the most devices; without it {TILES}")
    parser.add_argument("--tile-n", dest="tile_sizes", type=numbers, default=[8192, 16384], metavar="N,...", help="and the sizes there")
    parser.add_argument("--cpu-worker-n", dest="cpu_worker_sizes", type=lambda text: [] if text == "none" else numbers(text), default=None,
                        metavar="N,...|none", help="sizes of dgemm on one device with the CPU beside it and without; without it 8192 and 16384 if --n has them")
    parser.add_argument("--volume-n", type=int, default=16384, metavar="N", help="size whose communication volume is shown")
    parser.add_argument("--machine", default="", metavar="TEXT", help="what else is to be said of the machine")
    parser.add_argument("--draw", nargs="+", metavar="FILE", help="measure nothing, draw these")
    options = parser.parse_args(own)
    if options.type in "sd" and set(options.routines) - set(ROUTINES):
        parser.error("hemm, herk and her2k exist for the types c and z only")
    if options.cpu_worker_sizes is None:
        options.cpu_worker_sizes = [n for n in (8192, 16384) if n in options.sizes]
    options.bench_options = bench_options
    options.tessera = str(options.build / "bin" / "tessera")
    options.command = shlex.join(["bench/sweep.py", *arguments])
    return options


def fit_memory(options):
    """Leaves out sizes whose three matrices the machine does not hold: the process would end, and with it the sizes that fit."""
    free = 1024 * int(machines.first_match(r"^MemAvailable:\s*(\d+)", "/proc/meminfo") or 0) or float("inf")
    element = {"s": 4, "d": 8, "c": 8, "z": 16}[options.type]
    too_large = [n for n in options.sizes if 3 * n * n * element > 0.8 * free]
    options.sizes = [n for n in options.sizes if n not in too_large]
    return [f"n = {', '.join(map(str, too_large))}: three matrices do not fit into this machine's memory"] if too_large else []


def start(options, out):
    """Asks Tessera what there is, and settles what was left to it. @return the sweep"""
    info = json.loads(subprocess.run([options.tessera, "info", "--json"], capture_output=True, text=True, check=True).stdout)
    gpus = len(info["cuda"]["devices"])
    if options.backend == "auto":
        options.backend = "cuda" if gpus else "host"
    if options.counts is None:
        options.counts = [1 << bit for bit in range(gpus.bit_length())] if options.backend == "cuda" else [1, 2]
    if options.backend == "cuda" and max(options.counts) > gpus:
        raise ValueError(f"{max(options.counts)} GPUs wanted, {gpus} there")
    with_cublasxt = options.peers == "cublasxt" or options.peers == "auto" and options.backend == "cuda"
    options.peers = ("cublasxt",) if with_cublasxt else ()
    machine = machines.describe(info, options)
    out.mkdir(parents=True, exist_ok=True)
    sweep = Sweep(options, out)
    if sweep.machine is not None and not machines.is_same(sweep.machine, machine):
        raise ValueError(f"{out} has figures of another machine ({machines.name_of(sweep.machine)}): name another folder")
    sweep.machine = machine
    settings = " ".join(f"{name}={value}" for name, value in info["settings"].items())
    sweep.sessions.append({"date": time.strftime("%Y-%m-%d", time.gmtime()), "version": info["version"], "command": options.command,
                           "settings": settings})
    sweep.save()
    return sweep


def main():
    options = parse(sys.argv[1:])
    try:
        if options.draw:
            draw_files(options, options.out)
            return
        limit = Limit(time.monotonic() + options.time_budget)
        sweep = start(options, options.out)
        notes = fit_memory(options)
        left, failures = measure_all(sweep, limit, notes)
        notes += failures
        write_page(sweep, notes, left)
    except subprocess.CalledProcessError as error:
        sys.exit(f"sweep.py: {shlex.join(error.cmd)}: {error.stderr.strip()}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"sweep.py: {type(error).__name__}: {error}")
    wrong = [point for point in sweep.points.all if sweep_report.is_wrong(point)]
    for line in missing_lines(notes, left):
        print(f"missing: {line}")
    print(f"{len(sweep.points.all)} points in {sweep.file}, page in {options.out / 'README.md'}" + (f", {len(wrong)} WRONG" if wrong else ""))
    sys.exit(1 if failures or wrong else 3 if left else 0)


if __name__ == "__main__":
    main()
