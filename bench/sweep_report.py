"""Points of a sweep, read from the JSON of `tessera bench` or of sweep.py, and the page that is made of them: BLASX's Figs. 7, 8 and 10 and
its Tables III and V (Wang et al. 2016, sections V-A and V-B). Used by sweep.py; needs nothing but Python's standard library.

A point is one routine at one size on so many devices: {"routine", "devices" (how many), "tile" and "cpu_worker" (None: Tessera's own choice),
"settings", "host_memory", "repeats", "rates", "tessera_version", "session", "result"}. Its result is that of `tessera bench`, with the statistics of
the median run alone.
"""
import math
import re

import machines
from report import load, table
from svg_picture import BOUND, CONTESTANTS, DASHES, INK, Panel, Picture, number, tick_step, unit_of

MIB = 1 << 20

# BLASX, Table III: average parallel efficiency on three K40c, n = 1024 to 39936: BLASX, cuBLAS-XT.
PAPER_EFFICIENCY = {"dsyrk": (0.8554, 0.6421), "dtrsm": (0.8158, 0.7727), "dtrmm": (0.8899, 0.8211), "dsymm": (0.9036, 0.5796),
                    "dgemm": (0.9353, 0.8985), "dsyr2k": (0.8554, 0.6421)}

# Values of TESSERA_CPU_WORKER that Fig. 9 compares.
CPU_WORKER_USES = ("off", "auto", "on")

# Heading of the part of a page that is written by hand.
BESIDE = "## Beside the sweep"


# --- points ---

def size_of(result):
    """n of a square problem; None for others, which a sweep has no place for."""
    sizes = {result[name] for name in ("m", "n", "k") if name in result}
    return sizes.pop() if len(sizes) == 1 else None


def count_of(run):
    """Devices that the run was given; where it took what there was, those that it used."""
    given = re.search(r"\bTESSERA_DEVICES=(?:host:(\d+)|cuda:([\d,]+))", run.get("settings", ""))
    if given:
        return int(given.group(1)) if given.group(1) else len(given.group(2).split(","))
    return len([name for name in run["devices"].split() if name != "cpu"])


def middle_job(contestant):
    """Statistics of the run with the median time, the faster one of two in the middle, as `tessera bench` takes them."""
    if "job" in contestant:
        return contestant["job"]
    order = sorted(range(len(contestant["seconds"])), key=contestant["seconds"].__getitem__)
    return contestant["jobs"][order[(len(order) - 1) // 2]]


def points_of_bench(document, session=0):
    """Points of a file of `tessera bench`, whole or as far as it got."""
    points = []
    for run in document.get("runs", [document]):
        settings = run.get("settings", "")
        tile = re.search(r"\bTESSERA_TILE=(\d+)", settings)
        cpu_worker = re.search(r"\bTESSERA_CPU_WORKER=(\w+)", settings)
        for result in run.get("results", []):
            if size_of(result) is None:
                continue
            tessera = {key: value for key, value in result["tessera"].items() if key != "jobs"}
            tessera["job"] = middle_job(result["tessera"])
            points.append({"routine": run["routine"], "devices": count_of(run), "tile": int(tile.group(1)) if tile else None,
                           "cpu_worker": cpu_worker.group(1) if cpu_worker else None, "settings": settings, "host_memory": run.get("host_memory", ""), "repeats": run.get("repeats", 0),
                           "rates": run.get("rates"), "tessera_version": run.get("tessera_version", ""), "session": session,
                           "result": {**result, "tessera": tessera}})
    return points


def key_of(point):
    return point["routine"], point["devices"], size_of(point["result"]), point["tile"], point.get("cpu_worker")


def is_of_own_choice(point):
    return point["tile"] is None and point.get("cpu_worker") is None


def seconds_of(point, who):
    return point["result"][who]["median_s"] if who in point["result"] else None


def tflops_of(point, who):
    """Rate of a contestant, or of the bound. None if it is not known."""
    result = point["result"]
    if who == "bound":
        return result["flops"] / result["bound_s"] * 1e-12 if "bound_s" in result else None
    return result[who]["tflops"] if who in result else None


def is_wrong(point):
    result = point["result"]
    judged = [result[who] for who in ("tessera", "cpu") if who in result]
    judged += result.get("cublasxt", {}).get("block_sizes", {}).values()
    return any(one.get("correct") is False for one in judged)


class Points:
    """Points by what they are of. Of two of the same, the later one counts."""

    def __init__(self, points):
        self.by_key = {key_of(point): point for point in points}
        self.all = list(self.by_key.values())

    def routines(self):
        return list(dict.fromkeys(point["routine"] for point in self.all))

    def counts(self, least=1):
        """Numbers of devices from `least` on. There are none where a call ran on the CPU."""
        return sorted({point["devices"] for point in self.all if point["devices"] >= least})

    def by_size(self, routine, count):
        """Points by n, with Tessera's own tile size."""
        found = {size_of(p["result"]): p for p in self.all if (p["routine"], p["devices"]) == (routine, count) and is_of_own_choice(p)}
        return dict(sorted(found.items()))


# --- figures ---

def efficiency(points, routine, count, who):
    """BLASX, section V-A: T(1) / (G * T(G)), averaged over n in equal steps from the smallest to the largest size that was measured on one and on
    G devices. The step is the largest that meets all sizes; in between, the efficiency is interpolated linearly, so that sizes measured
    close together weigh no more than others. @return (average, sizes measured), or None"""
    one, several = points.by_size(routine, 1), points.by_size(routine, count)
    measured = {}
    for n in sorted(one.keys() & several.keys()):
        alone, together = seconds_of(one[n], who), seconds_of(several[n], who)
        if alone is not None and together is not None:
            measured[n] = alone / (count * together)
    if not measured:
        return None
    sizes = sorted(measured)
    values = []
    for n in range(sizes[0], sizes[-1] + 1, math.gcd(*sizes)):
        above = next(size for size in sizes if size >= n)
        below = max(size for size in sizes if size <= n)
        part = (n - below) / (above - below) if above > below else 0
        values.append(measured[below] + part * (measured[above] - measured[below]))
    return sum(values) / len(values), sizes


def volume_size(points, wanted):
    """The n whose communication volume is shown: the one that the paper shows, or the largest below it, or the smallest."""
    sizes = sorted({size_of(p["result"]) for p in points.all if is_of_own_choice(p)})
    return max([n for n in sizes if n <= wanted] or sizes[:1], default=None)


def devices_text(points, count):
    kinds = {device["device"].split(":")[0] for p in points.all for device in p["result"]["tessera"]["job"].get("devices", [])}
    noun = "GPU" if kinds <= {"cuda", "cpu"} else "device"
    return f"{count} {noun}" + ("s" if count != 1 else "")


# --- pictures ---

def draw_legend(picture, left, points, contestants, counts, has_bound):
    x = picture.legend(left, contestants)
    for index, count in enumerate(counts):
        words = devices_text(points, count)
        picture.mark(index, x + 5, 50, INK)
        picture.text(x + 15, 54, words, 12, "start")
        x += 34 + 7 * len(words)
    if has_bound:
        picture.dashed_legend(x, BOUND[1], BOUND[2])


def draw_rates(points, title):
    """Fig. 7: TFLOP/s over n, one panel for each routine. The CPU BLAS is the same on any number of devices and drawn once."""
    routines, counts = points.routines(), points.counts()
    names = [key for key, _, _ in CONTESTANTS] + ["bound"]
    rates = [rate for p in points.all for rate in [tflops_of(p, name) for name in names] if rate is not None and p["tile"] is None]
    unit, factor = unit_of(max(rates))
    top, widest = max(rates) * factor, max(size_of(p["result"]) for p in points.all if p["tile"] is None)
    columns = min(3, len(routines))
    rows = -(-len(routines) // columns)
    panel_width, panel_height, left, above = 300, 210, 64, 108
    picture = Picture(max(900, left + columns * (panel_width + 56)), above + rows * (panel_height + 84))
    picture.title(left, title)
    shown = [one for one in CONTESTANTS if any(one[0] in p["result"] for p in points.all)]
    draw_legend(picture, left, points, shown, counts, any("bound_s" in p["result"] for p in points.all))
    ticks = [(tick * tick_step(widest), f"{tick * tick_step(widest):g}") for tick in range(int(widest / tick_step(widest)) + 1)]
    for index, routine in enumerate(routines):
        panel = Panel(picture, left + index % columns * (panel_width + 56), above + index // columns * (panel_height + 84), panel_width,
                      panel_height, widest, top)
        panel.axes(f"{routine}, {unit}", ticks, "matrix size n")

        def line_of(count, who):
            found = [(n, tflops_of(p, who)) for n, p in points.by_size(routine, count).items()]
            return [(n, rate * factor) for n, rate in found if rate is not None]

        for count in counts:
            bound = line_of(count, "bound")
            panel.series(bound, BOUND[2], extra=DASHES)
            if len(bound) == 1:
                x, y = panel.x(bound[0][0]), panel.y(bound[0][1])
                picture.line(x - 9, y, x + 9, y, BOUND[2], 1.6, DASHES)
                picture.text(x + 13, y + 4, str(count), 10, "start")
            elif bound:
                picture.text(panel.x(bound[-1][0]) + 4, panel.y(bound[-1][1]) + 4, str(count), 10, "start")
        for who, words, colour in reversed(shown):
            for place, count in enumerate(counts):
                if who != "cpu":
                    panel.series(line_of(count, who), colour, place, f"{routine} {words} {devices_text(points, count)}")
        cpu = {n: rate for count in counts for n, rate in line_of(count, "cpu")}
        panel.series(list(cpu.items()), CONTESTANTS[-1][2], 0, f"{routine} CPU BLAS")
    return picture.svg()


def tile_groups(points):
    """What Fig. 10 is made of: points with a given tile size, by (routine, devices, n)."""
    groups = {}
    for point in points.all:
        if point["tile"] is not None:
            groups.setdefault((point["routine"], point["devices"], size_of(point["result"])), []).append(point)
    return {key: sorted(group, key=lambda p: p["tile"]) for key, group in sorted(groups.items())}


def own_choice(points, group):
    """The point that Fig. 10 compares a group with: the same without a tile size, if it was measured."""
    return points.by_key.get((*group, None, None))


def draw_tiles(points, title):
    """Fig. 10: TFLOP/s over the tile size, one panel for each size of the matrices."""
    groups = tile_groups(points)
    tiles = sorted({p["tile"] for group in groups.values() for p in group})
    place = {tile: index + 0.5 for index, tile in enumerate(tiles)}
    rates = [tflops_of(p, who) for key, group in groups.items() for p in [*group, own_choice(points, key)] if p is not None
             for who in ("tessera", "cublasxt") if who in p["result"]]
    unit, factor = unit_of(max(rates))
    panel_width, panel_height, left, above = 380, 230, 64, 108
    picture = Picture(max(760, left + len(groups) * (panel_width + 56)), above + panel_height + 56)
    picture.title(left, title)
    shown = [one for one in CONTESTANTS[:2] if any(one[0] in p["result"] for group in groups.values() for p in group)]
    picture.dashed_legend(picture.legend(left, shown), "Tessera with the tiles of its own choice", CONTESTANTS[0][2])
    for index, (key, group) in enumerate(groups.items()):
        routine, count, n = key
        panel = Panel(picture, left + index * (panel_width + 56), above, panel_width, panel_height, len(tiles), max(rates) * factor)
        panel.axes(f"{routine}, n = {n}, {devices_text(points, count)}, {unit}", [(place[t], str(t)) for t in tiles], "tile size")
        own = own_choice(points, key)
        if own is not None:
            y = tflops_of(own, "tessera") * factor
            panel.series([(0, y), (len(tiles), y)], CONTESTANTS[0][2], extra=DASHES)
        for who, words, colour in reversed(shown):
            line = [(place[p["tile"]], tflops_of(p, who) * factor) for p in group if who in p["result"]]
            panel.series(line, colour)
            for p in group if line else []:
                if who in p["result"]:
                    rate = tflops_of(p, who) * factor
                    picture.mark(0, panel.x(place[p["tile"]]), panel.y(rate), colour, f"{words}, tiles of {p['tile']}: {number(rate)} {unit}")
    return picture.svg()


# --- tables ---

def rate_text(point, who, factor):
    rate = tflops_of(point, who)
    return "-" if rate is None else number(rate * factor)


def percent(value):
    return f"{100 * value:.1f} %"


def blocks_text(point):
    return "/".join(point["result"].get("cublasxt", {}).get("block_sizes", {}))


def rates_tables(points):
    counts = points.counts()
    sized = [p for p in points.all if is_of_own_choice(p)]
    unit, factor = unit_of(max(tflops_of(p, "tessera") for p in sized))
    peer = any("cublasxt" in p["result"] for p in sized)
    cpu = any("cpu" in p["result"] for p in sized)
    in_core = any("in_core" in p["result"] for p in sized)
    parts = []
    for routine in points.routines():
        by_count = {count: points.by_size(routine, count) for count in counts}
        sizes = sorted({n for found in by_count.values() for n in found})
        if not sizes:
            continue
        header, rows = ["n"], []
        for count in counts:
            header += [f"{devices_text(points, count)}: Tessera"] + (["cublasXt", "ratio"] if peer else []) + ["of bound"]
            header += ["of bound, kernels as long"] if in_core else []
        header += ["CPU BLAS"] if cpu else []
        for n in sizes:
            row = [str(n)]
            for count in counts:
                p = by_count[count].get(n)
                if p is None:
                    row += ["-"] * (2 + 2 * peer + in_core)
                    continue
                row.append(rate_text(p, "tessera", factor) + (" **wrong**" if is_wrong(p) else ""))
                if peer:
                    row += [rate_text(p, "cublasxt", factor), f"{p['result']['cublasxt']['ratio']:.2f}" if "cublasxt" in p["result"] else "-"]
                row.append(percent(p["result"]["fraction_of_bound"]) if "fraction_of_bound" in p["result"] else "-")
                if in_core:
                    row.append(percent(p["result"]["in_core"]["fraction_of_bound"]) if "in_core" in p["result"] else "-")
            if cpu:
                found = [by_count[count][n] for count in counts if n in by_count[count] and "cpu" in by_count[count][n]["result"]]
                row.append(rate_text(found[0], "cpu", factor) if found else "-")
            rows.append(row)
        parts.append(f"### {routine}, {unit}\n{table(header, rows)}")
    return "\n".join(parts)


def efficiency_table(points):
    counts = points.counts(2)
    peer = any("cublasxt" in p["result"] for p in points.all)
    header, rows = ["routine"], []
    for count in counts:
        header += [f"{devices_text(points, count)}: Tessera"] + (["cublasXt"] if peer else []) + ["sizes"]
    routines = [r for r in points.routines() if any(efficiency(points, r, count, "tessera") for count in counts)]
    paper = any(routine in PAPER_EFFICIENCY for routine in routines)
    header += ["BLASX on 3 K40c", "cuBLAS-XT on 3 K40c"] if paper else []
    for routine in routines:
        row = [routine]
        for count in counts:
            own = efficiency(points, routine, count, "tessera")
            other = efficiency(points, routine, count, "cublasxt")
            row.append(percent(own[0]) if own else "-")
            if peer:
                row.append(percent(other[0]) if other else "-")
            row.append((f"{own[1][0]}" if len(own[1]) == 1 else f"{own[1][0]} to {own[1][-1]} ({len(own[1])})") if own else "-")
        if paper:
            row += [percent(value) for value in PAPER_EFFICIENCY[routine]] if routine in PAPER_EFFICIENCY else ["-", "-"]
        rows.append(row)
    return table(header, rows) if rows else ""


def megabytes(count):
    return number(count / MIB) if count < 10 * MIB else f"{count / MIB:.0f}"


def jobs_at(points, n):
    """Of each number of devices, with which there are some: what Tessera did at that size, by routine."""
    for count in points.counts():
        jobs = {routine: points.by_size(routine, count)[n]["result"]["tessera"]["job"]
                for routine in points.routines() if n in points.by_size(routine, count)}
        if jobs:
            yield count, jobs


def volume_tables(points, n):
    parts = []
    for count, jobs in jobs_at(points, n):
        names = list(dict.fromkeys(device["device"] for job in jobs.values() for device in job["devices"]))

        def cell(devices):
            host, peer = sum(d["bytes_up"] + d["bytes_down"] for d in devices), sum(d["bytes_peer"] for d in devices)
            return megabytes(host) + (f" + {megabytes(peer)}" if peer else "")

        rows = [[name] + [cell([d for d in job["devices"] if d["device"] == name]) for job in jobs.values()] for name in names]
        if count > 1:
            rows.append(["all"] + [cell(job["devices"]) for job in jobs.values()])
        rows.append(["compulsory"] + [megabytes(job["compulsory_up"] + job["compulsory_down"]) for job in jobs.values()])
        parts.append(table([devices_text(points, count), *jobs], rows))
    return "\n".join(parts)


def profile_tables(points, n):
    parts = []
    for count, jobs in jobs_at(points, n):
        rows = [[routine, device["device"]] + [number(1e3 * device[name]) for name in ("kernel_s", "transfer_s", "other_s")]
                for routine, job in jobs.items() for device in job["devices"]]
        if rows:
            parts.append(table(["routine", devices_text(points, count), "kernels", "copies alone", "other"], rows))
    return "\n".join(parts)


def tiles_table(points):
    groups = tile_groups(points)
    everything = [p for group in groups.values() for p in group]
    unit, factor = unit_of(max(tflops_of(p, "tessera") for p in everything))
    tiles, rows = sorted({p["tile"] for p in everything}), []
    for key, group in groups.items():
        routine, count, n = key
        for who, words in (("tessera", "Tessera"), ("cublasxt", "cublasXt, blocks of that size")):
            rates = {p["tile"]: rate_text(p, who, factor) for p in group if who in p["result"]}
            if rates:
                own = own_choice(points, key) if who == "tessera" else None
                rows.append([routine, str(n), devices_text(points, count), words] + [rates.get(t, "-") for t in tiles] +
                            [rate_text(own, who, factor) if own else "-"])
    return table(["routine", "n", "on", unit] + [str(t) for t in tiles] + ["own choice"], rows)


# --- the page ---

def cublas_version(point):
    number = (point["rates"] or {}).get("cublas")
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else ""


def values_text(points, of):
    return ", ".join(dict.fromkeys(str(of(point)) for point in points if of(point)))


def cpu_worker_table(points):
    """Fig. 9: TFLOP/s without the CPU, with what it takes by the estimate, and with all that it can get; and its part of the operations."""
    groups = {}
    for point in points.all:
        if point.get("cpu_worker") is not None:
            groups.setdefault((point["routine"], point["devices"], size_of(point["result"])), {})[point["cpu_worker"]] = point
    if not groups:
        return ""
    unit, factor = unit_of(max(tflops_of(p, "tessera") for group in groups.values() for p in group.values()))
    rows = []
    for (routine, count, n), group in sorted(groups.items()):
        row = [routine, devices_text(points, count), str(n)]
        for use in CPU_WORKER_USES:
            row.append(rate_text(group[use], "tessera", factor) if use in group else "-")
            if use != "off":
                row.append(percent(cpu_part(group[use])) if use in group else "-")
        rows.append(row)
    header = ["routine", "devices", "n", f"off, {unit}"] + [text for use in CPU_WORKER_USES[1:] for text in (f"{use}, {unit}", "by the CPU")]
    return ("`TESSERA_CPU_WORKER`: `off`, `auto` (where the call ends notably sooner for it), `on` (all tiles that it can get); and the part of the "
            "operations that the CPU computed.\n\n" + table(header, rows))


def cpu_part(point):
    flops = {device["device"]: device["flops"] for device in point["result"]["tessera"]["job"].get("devices", [])}
    return flops.get("cpu", 0) / sum(flops.values()) if flops else 1.0  # without devices: all of the call


def head_of_page(points, head):
    """Title, machines, where the points come from, how they were measured, and whether all are right."""
    parts = ["# Level 3 on " + " and ".join(dict.fromkeys(map(machines.name_of, head["machines"]))) + "\n"]
    parts.append("\n".join("- " + line for machine in head["machines"] for line in machines.lines_of(machine)) + "\n")
    parts.append("\n".join(head["sources"]) + "\n")
    repeats = values_text(points.all, lambda p: p["repeats"])
    memory = values_text(points.all, lambda p: {"pinned": "page-locked", "pageable": "pageable"}.get(p["host_memory"], ""))
    cublas = values_text(points.all, cublas_version)
    parts.append(f"Medians of {repeats} after a warm-up, {memory} host memory, all contestants in turns in the same process. How it is measured, and "
                 "what the bound is, is in `docs/bench.md`." + (f" cuBLAS {cublas}." if cublas else ""))
    blocks = {}
    for p in points.all:
        if is_of_own_choice(p) and blocks_text(p):
            blocks.setdefault(blocks_text(p), []).append(size_of(p["result"]))
    if blocks:
        parts.append("cublasXt's block sizes, of which the better one counts: " +
                     "; ".join(f"{text} for n = {min(sizes)} to {max(sizes)}" for text, sizes in blocks.items()) + ".")
    wrong = [p for p in points.all if is_wrong(p)]
    checked = all("correct" in p["result"]["tessera"] for p in points.all)
    parts.append("**Wrong results:** " + ", ".join(" ".join(map(str, key_of(p)[:3])) for p in wrong) if wrong else
                 "All results were checked and are correct." if checked else "Not all results were checked.")
    if head["beside"]:
        parts.append("\nMore of this machine: [beside the sweep](#beside-the-sweep).")
    return parts


def page(points, head, pictures):
    """@param head {"machines", "sources" (lines on where the points come from), "missing" (lines), "volume_n", "beside" (there is such a part)}
    @param pictures names of the files of Figs. 7 and 10, "" if there is none"""
    parts = head_of_page(points, head)
    parts.append("\n## TFLOP/s over n (BLASX, Fig. 7)\n" + (f"![rates over matrix size]({pictures['fig7']})\n" if pictures["fig7"] else ""))
    if any(map(is_of_own_choice, points.all)):
        parts.append(rates_tables(points))
    parts.append("## Average parallel efficiency (BLASX, Table III)\nTime on one device over G times the time on G devices, averaged over n in equal "
                 "steps, between measured sizes interpolated.\nBLASX's columns, of three K40c and n = 1024 to 39936, are for orientation.\n")
    parts.append(efficiency_table(points) or "Needs the same sizes on one device and on several.\n")
    n = volume_size(points, head["volume_n"])
    if n is not None:
        parts.append(f"## Communication volume, MB, n = {n} (BLASX, Table V)\nBoth directions of the host link, + from peers, in units of 2^20 "
                     "bytes, in the run with the median time. Compulsory: every input once up, every output once down. cublasXt does not count its bytes.\n")
        parts.append(volume_tables(points, n))
        parts.append(f"## Where the time went, ms, n = {n} (BLASX, Fig. 8)\nOf Tessera's devices in the same run: kernels; copies that no kernel "
                     "hid; the rest.\n")
        parts.append(profile_tables(points, n))
    parts.append("## What the CPU adds (BLASX, Fig. 9)\n" + (cpu_worker_table(points) or "Not measured.\n"))
    parts.append("## Tile size (BLASX, Fig. 10)\n")
    if tile_groups(points):
        parts.append((f"![rates over tile size]({pictures['fig10']})\n\n" if pictures["fig10"] else "") +
                     "Square tiles of a given size, and those that Tessera chooses, which need not be square.\n")
        parts.append(tiles_table(points))
    else:
        parts.append("Not measured.\n")
    if head["missing"]:
        parts.append("## Not measured\n" + "\n".join("- " + line for line in head["missing"]) + "\n")
    return "\n".join(parts)


def read_file(name):
    """@return (points, machine or None, lines on where the points come from)"""
    document = load(name)
    if "points" in document:
        return document["points"], document["machine"], source_lines(document["sessions"], document["points"])
    points = points_of_bench(document)
    if not points:
        raise ValueError(f"{name}: no result of square matrices")
    return points, None, [f"From `{name.rsplit('/', 1)[-1]}`, Tessera {points[0]['tessera_version']}.  "]


def source_lines(sessions, points):
    """When and how, of the sessions that measured something that still counts."""
    used = {point["session"] for point in points}
    lines = [f"{session['date']}, Tessera {session['version']}: `{session['command']}`" +
             (f" with `{session['settings']}`" if session.get("settings") else "") + "  "
             for index, session in enumerate(sessions) if index in used]
    return list(dict.fromkeys(lines))
