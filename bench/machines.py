"""What a machine is: asked once, kept in the JSON of a sweep, told on its page. Used by sweep.py and sweep_report.py."""
import os
import pathlib
import re
import subprocess


def first_match(pattern, file):
    try:
        found = re.search(pattern, pathlib.Path(file).read_text(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def describe(info, options):
    gpus = info["cuda"]["devices"] if options.backend == "cuda" else []
    machine = {"gpus": [gpu["name"] for gpu in gpus], "cpu": first_match(r"^model name\s*:\s*(.*)$", "/proc/cpuinfo"),
               "processors": len(os.sched_getaffinity(0)),
               "host_memory_bytes": 1024 * int(first_match(r"^MemTotal:\s*(\d+)", "/proc/meminfo") or 0)}
    if options.machine:
        machine["text"] = options.machine
    if gpus:
        machine["gpu_memory_bytes"] = gpus[0]["memory_bytes"]
        reach = info["cuda"].get("peer_access", [])
        if len(gpus) > 1:
            machine["peer_access"] = all(reach[i][j] for i in range(len(gpus)) for j in range(len(gpus)) if i != j)
        try:
            query = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True)
            machine["driver"] = query.stdout.split("\n")[0].strip()
        except (OSError, subprocess.CalledProcessError):
            pass  # tells less, measures the same
    else:
        machine["host_devices"] = " ".join(options.bench_options) or "as fast as they go"
    return machine


def is_same(one, other):
    return all(one.get(key) == other.get(key) for key in ("gpus", "cpu", "processors", "host_devices"))


def name_of(machine):
    kinds = list(dict.fromkeys(machine.get("gpus", [])))
    if kinds:
        return ", ".join(f"{machine['gpus'].count(kind)} x {kind}" for kind in kinds)
    return machine.get("text") or "host devices"


def lines_of(machine):
    """What a machine is, one line each. @param machine as sweep.py describes it, or {"text"}"""
    lines = [machine["text"]] if machine.get("text") else []
    if machine.get("gpus"):
        lines.append("GPUs: " + name_of(machine) +
                     (f", {machine['gpu_memory_bytes'] / 2**30:.0f} GiB each" if machine.get("gpu_memory_bytes") else "") +
                     (f", driver {machine['driver']}" if machine.get("driver") else "") +
                     {True: ", which reach each other", False: ", not all of which reach each other"}.get(machine.get("peer_access"), ""))
    elif "cpu" in machine:
        lines.append("no GPUs")
    if machine.get("host_devices"):
        lines.append(f"host devices, which compute on the CPU: `{machine['host_devices']}`")
    if machine.get("cpu"):
        lines.append(f"CPU: {machine['cpu']}, {machine['processors']} processors" +
                     (f", {machine['host_memory_bytes'] / 2**30:.0f} GiB" if machine.get("host_memory_bytes") else ""))
    return lines
