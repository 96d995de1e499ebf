"""Runs an unmodified BLAS program with a drop-in library, and checks its behaviour. usage:
  run_client.py LIBRARY CHECK PROGRAM [ARGUMENT...]
LIBRARY is preloaded; if it is a folder, the program finds its libraries there first; "linked": the program has it
already.
CHECK:
  plain        not preloaded: the program agrees with its own BLAS
  preload      exit 0 and silence with the settings in the environment
  devices      forced onto three host devices: exit 0, and by TESSERA_STATS each call ran there
  automatic    auto without a plugin: exit 0, silence; with TESSERA_VERBOSE, small calls do not look for the plugin
  no_plugin    every call requests a device, the plugin is unreadable: exit 0, silence; with TESSERA_VERBOSE, one
               line gives the reason
  no_memory    the devices cannot hold one step: exit 0, silence; with TESSERA_VERBOSE, one line gives the reason
  addresses    as devices, with address space for none, one and two of them: exit 0, and each unused device is
               reported once
  stats_refused as devices, but TESSERA_STATS cannot be written: one line reports this
  fork         as devices, but the CPU BLAS computes the child's calls
  same_results forced onto three host devices, and not preloaded (the latter with ARGUMENT if it is given): standard
               output has the same names and, except for rounding, the same numbers; by TESSERA_STATS each call ran on
               the devices
  levels       as libblas.so.3 over the CPU BLAS that is the first ARGUMENT: the program's calls run on devices, and
               forwarded calls reach that BLAS
  loader       the program itself loads the library that is the first ARGUMENT; it gets a list of required symbols
  same_output  not preloaded and preloaded: the same standard output
  switches     TESSERA_OFFLOAD with rules for single routines, on a product of size 50: only routines with a rule ran
               on the devices
  summary      TESSERA_SUMMARY, on standard error and in a file: every call is counted where it ran; without it silence
  told_time    forced onto devices that take some time to start: every report of the first call's seconds includes
               this time
  fork_summary the program and its child report their own calls, each under its own process number
  fork_beside  the first ARGUMENT is the number of the CPU BLAS's threads: exit 0, on the CPU
  lazy_devices forced onto three host devices: exit 0, and the library's threads were the first to touch memory
  lazy_cpu     exit 0 on the CPU
  crowd        forced onto three host devices: exit 0; silence, except for children without a CPU BLAS; by TESSERA_STATS
               each call of this process, and none of its children's, ran there
  crowd_cpu    as preload, with a CPU BLAS of two threads
  first_calls  as crowd_cpu, many times, on devices too
  leave        the process ends in every way, on the CPU and on devices, at several moments: the expected status, and silence
  other_build  the library with the mark of another build is refused by the loader, which names it
  small_stack  as devices, and every stack of the process has 64 KiB by default
  reopen       not preloaded, the library is the program's argument: forced onto devices, and without settings
  faults       devices that fail at operation 0, 1, 2, ...: the result is right, or the process aborts and says why
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

CPU_THREADS = {"OPENBLAS_NUM_THREADS": "2"}
HOST = {"TESSERA_DEVICES": "host:3", "TESSERA_OFFLOAD": "always", "TESSERA_TILE": "16"}


def fail(text, result=None):
    print(text)
    if result is not None:
        print(f"exit {result.returncode}\nstdout: {result.stdout}\nstderr: {result.stderr}")
    sys.exit(1)


def run(library, program, **settings):
    # The program starts without settings of the environment, so that a test means the same everywhere.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    environment.update(settings)
    if library and os.path.isdir(library):
        environment["LD_LIBRARY_PATH"] = library
    elif library and library != "linked":
        environment["LD_PRELOAD"] = library
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=600)


def expect_good(result, silent=True):
    if result.returncode != 0:
        fail("the program failed", result)
    if silent and result.stderr:
        fail("standard error is not empty", result)


def expect_good_family(result):
    """Children may lack the CPU BLAS, if a call took long while they were made. All other processes are silent."""
    expect_good(result, silent=False)
    told = {line for line in result.stderr.splitlines() if "while this process was being forked" not in line}
    if told:
        fail("standard error is not empty", result)


def reported_calls(result):
    return int(next(line for line in result.stdout.splitlines() if line.startswith("calls")).split()[1])


def check_devices(library, program):
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        result = run(library, program, TESSERA_STATS=stats, **HOST)
        expect_good(result)
        with open(stats, encoding="utf-8") as file:
            jobs = [json.loads(line) for line in file]
    calls = reported_calls(result)
    if len(jobs) != calls:
        fail(f"{calls} calls, but {len(jobs)} jobs in TESSERA_STATS", result)
    for job in jobs:
        tasks = sum(device["tasks"] for device in job["devices"] if device["device"].startswith("host:"))
        if not re.search("gemm(t|_batch)?$", job["routine"]) or tasks == 0 or len(job["devices"]) < 3:
            fail(f"not a job on three host devices: {job}")
    print(f"{calls} calls ran on host devices")


def check_addresses(library, program):
    for kibibytes, used in ((700_000, 0), (2_500_000, 1), (4_000_000, 2)):
        limited = ["sh", "-c", f'ulimit -s 8192 && ulimit -v {kibibytes} && exec "$0" "$@"', *program]
        result = run(library, limited, **HOST)
        expect_good(result, silent=False)
        told = [line for line in result.stderr.splitlines() if "MiB of address space" in line]
        expected = ["host devices cannot be used"] if used == 0 else [f"host:{device} is not used" for device in range(used, 3)]
        if result.stderr.count("\n") != len(expected) or not all(text in line for text, line in zip(expected, told, strict=True)):
            fail(f"with {kibibytes} KiB of addresses: not one line for each of {expected}", result)


def check_stats_refused(library, program):
    result = run(library, program, TESSERA_STATS="/nonexistent/a b", **HOST)
    expect_good(result, silent=False)
    if result.stderr != "tessera: cannot write TESSERA_STATS=/nonexistent/a b: No such file or directory\n":
        fail("a file that cannot be written is not told of in one line", result)


def check_same_results(library, program, other=None):
    plain = run(None, other or program)
    expect_good(plain)
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        result = run(library, program, TESSERA_STATS=stats, **{**HOST, "TESSERA_TILE": "8"})
        expect_good(result)
        with open(stats, encoding="utf-8") as file:
            jobs = [json.loads(line) for line in file]
    pairs = list(zip(plain.stdout.splitlines(), result.stdout.splitlines(), strict=True))
    called = []
    for expected, line in pairs[:-1]:
        name, *numbers = line.split()
        expected_name, *expected_numbers = expected.split()
        if name != expected_name or len(numbers) != len(expected_numbers):
            fail(f"{expected_name} became {name}, or its length changed")
        bound = 2e-5 if name[0] in "sc" else 2e-8  # for nine printed digits and elements of about 1
        for number, other in zip(map(float, numbers), map(float, expected_numbers)):
            if not abs(number - other) <= bound * max(1, abs(other)):
                fail(f"{name} {numbers[:2]}: {number} instead of {other}")
        called.append(name)
    if pairs[-1][0] != pairs[-1][1] or len(called) != reported_calls(result):
        fail("the number of calls is wrong")
    ran = [job["routine"] for job in jobs]
    if called != ran:
        fail(f"called {called}\nran on devices {ran}")
    if any(not device["device"].startswith("host:") for job in jobs for device in job["devices"] if device["tasks"] > 0):
        fail("a device that worked is no host device")
    print(f"{len(called)} calls of {len(set(called))} routines ran on host devices")


def check_other_build(library, program):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(os.path.dirname(library), "libtessera.so.0"), folder)
        copy = shutil.copy(library, folder)
        expect_good(run(copy, program))
        with open(copy, "rb") as file:
            content = file.read()
        builds = set(re.findall(rb"TESSERA_BUILD_[0-9a-f]{16}", content))
        if len(builds) != 1:
            fail(f"builds named in {library}: {builds}")
        build = builds.pop()
        other = build[:-1] + (b"1" if build.endswith(b"0") else b"0")
        with open(copy, "wb") as file:
            file.write(content.replace(build, other))
        result = run(copy, program)
        if result.returncode == 0 or f"version `{other.decode()}' not found" not in result.stderr:
            fail("a library of another build was not refused", result)
    print(f"refused: {result.stderr.strip()}")


def check_levels(folder, program, cpu_blas):
    result = run(folder, program, TESSERA_CPU_BLAS=cpu_blas, LD_DEBUG="bindings", **HOST)
    if result.returncode != 0:
        fail("the program failed", result)
    # The loaded files show that our library was used, and no other BLAS than the named one.
    loaded = set(re.findall(r"binding file (\S+) \[0\]", result.stderr))
    ours = os.path.join(folder, "libblas.so.3")
    if not any(os.path.realpath(file) == os.path.realpath(ours) for file in loaded):
        fail(f"{ours} was not used", None)
    others = {file for file in loaded if re.search(r"lib(open)?blas", os.path.basename(file))} - {ours}
    if not others <= {cpu_blas} | {file for file in others if os.path.dirname(file) == os.path.dirname(os.path.realpath(cpu_blas))}:
        fail(f"other BLAS libraries took part: {sorted(others)}")
    print("bound: " + " ".join(sorted(others | {ours})))


def check_loader(program, library):
    """Level 1 to 3 of the reference, from the header's own list: the plain library's symbols without its extensions."""
    definitions = os.path.join(os.path.dirname(__file__), "../../src/blas_api/blas/forwarded.def")
    with open(definitions, encoding="utf-8") as file:
        reference = file.read().split("// Extensions.")[0]
    names = [name + "_" for name in re.findall(r"(?m)^TESSERA_FORWARD_FORTRAN\((\w+)\)", reference) if not name.endswith("sub")]
    names += ["dgemm_", "zherk_", "ctrsm_", "ssyr2k_"]
    with tempfile.TemporaryDirectory() as folder:
        symbols = os.path.join(folder, "symbols")
        with open(symbols, "w", encoding="ascii") as file:
            file.write("\n".join(names))
        stats = os.path.join(folder, "stats.json")
        result = run("linked", program + [library, symbols], TESSERA_STATS=stats, **HOST)
        expect_good(result)
        if "tessera" in library:
            with open(stats, encoding="utf-8") as file:
                jobs = [json.loads(line)["routine"] for line in file]
            if jobs != ["dgemm", "zherk", "dtrsm"]:
                fail(f"ran on devices: {jobs}", result)
    print(result.stdout)


def check_same_output(library, program):
    plain = run(None, program)
    result = run(library, program)
    expect_good(plain)
    expect_good(result)
    for expected, line in zip(plain.stdout.splitlines(), result.stdout.splitlines()):
        if line != expected:
            fail(f"expected: {expected}\nprinted:  {line}")
    if plain.stdout != result.stdout or not plain.stdout:
        fail(f"{len(plain.stdout)} characters became {len(result.stdout)}")
    print(f"{plain.stdout.count(chr(10))} lines agree")


def check_automatic(library, program):
    expect_good(run(library, program))
    result = run(library, program, TESSERA_VERBOSE="1", TESSERA_CUDA_PLUGIN="/nonexistent/plugin.so")
    expect_good(result, silent=False)
    lines = result.stderr.splitlines()
    if len(lines) != reported_calls(result) or not all("too small for devices" in line for line in lines):
        fail("not one line per call that says that it is too small", result)


def check_fallback(library, program, settings, reason, announcements):
    expect_good(run(library, program, **settings))
    result = run(library, program, TESSERA_VERBOSE="1", **settings)
    expect_good(result, silent=False)
    lines = result.stderr.splitlines()
    if sum("CPU BLAS answers" in line for line in lines) != announcements:
        fail(f"not {announcements} announcement(s)", result)
    if sum(" on the CPU BLAS (" in line and reason in line for line in lines) != reported_calls(result):
        fail(f"not one line per call that says '{reason}'", result)


RULES = "never,dgemm=always,zgemm=40,cgemm=60"


def check_switches(library, program):
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        result = run(library, program, TESSERA_STATS=stats, **{**HOST, "TESSERA_OFFLOAD": RULES})
        expect_good(result)
        with open(stats, encoding="utf-8") as file:
            ran = [json.loads(line)["routine"] for line in file]
    quarter = reported_calls(result) // 4  # each type as often
    if ran != ["dgemm"] * quarter + ["zgemm"] * quarter:
        fail(f"ran on devices: {ran}", result)
    refused = run(library, program, TESSERA_OFFLOAD="auto,dgemv=never")
    expect_good(refused, silent=False)
    if refused.stderr.count("\n") != 1 or "expected auto, always or never" not in refused.stderr:
        fail("a wrong rule is not told in one line", refused)
    print(f"{len(ran)} of {4 * quarter} calls ran on host devices")


def read_summaries(text):
    """[(process, {(routine, place): calls}, {reason: calls})]; ignores all other text of the lines."""
    summaries = []
    for line in text.splitlines():
        head = re.fullmatch(r"tessera: summary of process (\d+) \((.+)\), \d+\.\d+ s", line)
        row = re.fullmatch(r"tessera: (\w+) +(?:\d+-\d+)? +(devices|CPU) +(\d+) +\d+\.\d+ +\d+\.\d+", line)
        reason = re.fullmatch(r"tessera: +(\d+) x (.+)", line)
        if head:
            summaries.append((int(head[1]), {}, {}))
        elif row:
            calls = summaries[-1][1]
            calls[row[1], row[2]] = calls.get((row[1], row[2]), 0) + int(row[3])
        elif reason:
            summaries[-1][2][reason[2]] = int(reason[1])
        elif not re.fullmatch(r"tessera: (routine .*|\d+\.\d+ s of it waiting for devices to start)", line):
            fail(f"what does this line mean: {line}")
    return summaries


def check_summary(library, program):
    settings = {**HOST, "TESSERA_OFFLOAD": RULES}
    result = run(library, program, TESSERA_SUMMARY="1", **settings)
    expect_good(result, silent=False)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "summary.txt")
        for _ in range(2):
            expect_good(run(library, program, TESSERA_SUMMARY=path, **settings))
        with open(path, encoding="utf-8") as file:
            in_file = read_summaries(file.read())
    on_stderr = read_summaries(result.stderr)
    quarter = reported_calls(result) // 4
    calls = {("sgemm", "CPU"): quarter, ("dgemm", "devices"): quarter, ("cgemm", "CPU"): quarter,
             ("zgemm", "devices"): quarter, ("all", "devices"): 2 * quarter, ("all", "CPU"): 2 * quarter}
    reasons = {"TESSERA_OFFLOAD=never": quarter, "TESSERA_OFFLOAD=always": quarter,
               "below the size in TESSERA_OFFLOAD": quarter, "from the size in TESSERA_OFFLOAD on": quarter}
    if len(on_stderr) != 1 or len(in_file) != 2:
        fail(f"{len(on_stderr)} and {len(in_file)} summaries", result)
    for process, rows, why in on_stderr + in_file:
        if rows != calls or why != reasons:
            fail(f"process {process} reports {rows} because of {why}", result)
    if len({process for process, _, _ in in_file}) != 2:
        fail("two runs are one process")
    expect_good(run(library, program, TESSERA_SUMMARY="0", **settings))


def check_told_time(library, program):
    """Reports of the first call on devices include the devices' start, and show its share."""
    start_s = 0.05
    settings = {**HOST, "TESSERA_HOST_DEVICE": f"start={start_s * 1e3:.0f}ms", "TESSERA_VERBOSE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        trace = os.path.join(folder, "trace.json")
        result = run(library, program, TESSERA_STATS=stats, TESSERA_TRACE=trace, **settings)
        expect_good(result, silent=False)
        with open(stats, encoding="utf-8") as file:
            jobs = [json.loads(line) for line in file]
        with open(trace, encoding="utf-8") as file:
            bars = [event for event in json.load(file) if event["ph"] == "X" and event["pid"] == 0]
    told = [(float(seconds), float(start or 0)) for seconds, start in
            re.findall(r"(?m)^tessera: .* on host:.*\): (\d+\.\d+) s(?:, (\d+\.\d+) s of it waiting for devices to start)?,", result.stderr)]
    if not told or not len(told) == len(jobs) == len(bars):
        fail(f"{len(told)} calls on devices told, {len(jobs)} in TESSERA_STATS, {len(bars)} in TESSERA_TRACE", result)
    for place, ((seconds, start), job, bar) in enumerate(zip(told, jobs, bars)):
        if (start >= start_s) != (place == 0) or (start > 0) != (place == 0):
            fail(f"call {place} has waited {start} s for devices to start", result)
        if not start + job["device_s"] <= seconds + 1e-6 or abs(job["seconds"] - seconds) > 1e-6 or abs(job["start_s"] - start) > 1e-6:
            fail(f"call {place}: {seconds} s, {start} s of it waiting, but in TESSERA_STATS {job}", result)
        if not 1e-6 * bar["dur"] >= start + job["device_s"] - 1e-6:
            fail(f"call {place} of {seconds} s has a bar of {1e-6 * bar['dur']} s", result)
    print(f"{len(told)} calls told as their caller sees them")


def check_fork_summary(library, program):
    result = run(library, program, TESSERA_SUMMARY="on", **HOST)
    expect_good(result, silent=False)
    child, parent = read_summaries(result.stderr)
    if child[0] == parent[0]:
        fail("child and parent have one process number", result)
    if child[1:] != ({("dgemm", "CPU"): 1, ("all", "CPU"): 1}, {"the devices belong to the parent process": 1}):
        fail(f"the child reports {child[1:]}", result)
    if parent[1:] != ({("dgemm", "devices"): 2, ("all", "devices"): 2}, {"TESSERA_OFFLOAD=always": 2}):
        fail(f"the parent reports {parent[1:]}", result)


def check_crowd(library, program):
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        result = run(library, program, TESSERA_STATS=stats, **HOST, **CPU_THREADS)
        expect_good_family(result)
        with open(stats, encoding="utf-8") as file:
            jobs = sum(1 for line in file if json.loads(line))
    if jobs != reported_calls(result):
        fail(f"{reported_calls(result)} calls, but {jobs} jobs in TESSERA_STATS", result)
    print(f"{jobs} calls ran on host devices")


def check_leave(library, program):
    for way in ("return", "exit", "thread", "main_thread", "quick", "now", "join", "late"):
        for place, settings in (("CPU", {}), ("devices", HOST), ("devices that warm up", {**HOST, "TESSERA_OFFLOAD": "auto", "TESSERA_WARM_UP": "1"})):
            for repetition in range(6):
                moment = str(2000 * repetition**2)  # microseconds
                # On the CPU the calls are large enough for its threads.
                result = run(library, program + [way, "8", "150" if place == "CPU" else "100", moment], **settings, **CPU_THREADS)
                if result.returncode != 7 or result.stdout or result.stderr:
                    fail(f"leaving by {way} on {place} after {moment} us went wrong", result)
    print("every way ended well")


def check_faults(library, program):
    right = aborted = 0
    for operation in range(0, 60):
        result = run(library, program, TESSERA_HOST_DEVICE=f"fail={operation}", **HOST)
        if result.returncode == 0:
            right += 1
        elif result.returncode == -signal.SIGABRT and "aborting" in result.stderr and result.stderr.count("\n") == 1:
            aborted += 1
        else:
            fail(f"failure of operation {operation} went wrong", result)
    print(f"{right} right, {aborted} aborted with a message")
    if right == 0:
        fail("no run survived")


def main():
    library, check, program = sys.argv[1], sys.argv[2], sys.argv[3:]
    if check == "plain":
        expect_good(run(None, program))
    elif check == "preload":
        expect_good(run(library, program))
    elif check in ("devices", "fork"):
        check_devices(library, program)
    elif check == "addresses":
        check_addresses(library, program)
    elif check == "stats_refused":
        check_stats_refused(library, program)
    elif check == "small_stack":
        check_devices(library, ["sh", "-c", 'ulimit -s 64 && exec "$0" "$@"', *program])
    elif check == "same_results":
        check_same_results(library, program[:1], program[1:])
    elif check == "levels":
        check_levels(library, program[:1], program[1])
    elif check == "loader":
        check_loader(program[:1], program[1])
    elif check == "same_output":
        check_same_output(library, program)
    elif check == "automatic":
        check_automatic(library, program)
    elif check == "no_plugin":
        check_fallback(library, program, {"TESSERA_OFFLOAD": "always", "TESSERA_CUDA_PLUGIN": "/nonexistent/plugin.so"},
                       "could not be opened", 1)
        check_fallback(library, program,
                       {"TESSERA_OFFLOAD": "always", "TESSERA_DEVICES": "cuda:0", "TESSERA_CUDA_PLUGIN": "/nonexistent/plugin.so"},
                       "could not be opened", 1)
    elif check == "no_memory":
        check_fallback(library, program, {**HOST, "TESSERA_HOST_DEVICE": "memory=1kB"}, "", 0)
    elif check == "switches":
        check_switches(library, program)
    elif check == "summary":
        check_summary(library, program)
    elif check == "told_time":
        check_told_time(library, program)
    elif check == "fork_summary":
        check_fork_summary(library, program)
    elif check == "crowd":
        check_crowd(library, program)
    elif check == "crowd_cpu":
        expect_good_family(run(library, program, **CPU_THREADS))
    elif check == "fork_beside":
        threads = program.pop(1)
        expect_good_family(run(library, program, OPENBLAS_NUM_THREADS=threads))
    elif check == "lazy_devices":
        result = run(library, program, TESSERA_CPU_WORKER="off", **HOST)
        expect_good(result)
        if not re.search(r"in other threads [1-9]", result.stdout):
            fail("no thread of the library has touched memory first", result)
    elif check == "lazy_cpu":
        expect_good(run(library, program))
    elif check == "first_calls":
        for _ in range(15):
            expect_good_family(run(library, program, **HOST, **CPU_THREADS))
            expect_good_family(run(library, program, **CPU_THREADS))
            expect_good_family(run(library, program, **{**HOST, "TESSERA_OFFLOAD": "auto", "TESSERA_WARM_UP": "1"}, **CPU_THREADS))
    elif check == "leave":
        check_leave(library, program)
    elif check == "other_build":
        check_other_build(library, program)
    elif check == "reopen":
        expect_good(run(None, program + [library], **HOST))
        expect_good(run(None, program + [library]))
    elif check == "faults":
        check_faults(library, program)
    else:
        fail(f"no such check: {check}")


if __name__ == "__main__":
    main()
