#!/usr/bin/env bash
# What the first calls of a process take: fresh processes that multiply pageable matrices under LD_PRELOAD (first_call.c), without a file of rates from
# earlier runs. Three tables of medians, and all runs as JSON:
#   1. seconds until the first, the second and the third call of each size have returned: with the CPU BLAS alone, with BEFORE, with this build
#   2. seconds of series of calls
#   3. the parts of the start, where devices take the first call (TESSERA_OFFLOAD=always)
# usage: bench/first_call.sh BUILD_FOLDER OUT_FOLDER [LIBRARIES]
# environment: SIZES, SERIES (as N:COUNT), START_SIZES, REPEATS (3), BEFORE (another build folder), LARGEST_ON_CPU (8192: larger ones are not timed on the CPU alone),
# DEVICES (as for TESSERA_DEVICES, separated by spaces: cuda:0 and, where there are several GPUs, cuda; host:2 without a GPU), TIMEOUT (600 seconds for each
# process), OPENBLAS_CORETYPE (where OpenBLAS does not know the processor)
set -u
source "$(dirname "${BASH_SOURCE[0]}")/blas_libraries.sh"
find_libraries "$@"
gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
case $gpus in
  0) devices=host:2 ;;
  1) devices=cuda:0 ;;
  *) devices="cuda:0 cuda" ;;
esac
runs="$out/first_call.jsonl"
: >"$runs"

# fresh LABEL DEVICES OFFLOAD N COUNT [LIBRARY]: one process, over the CPU BLAS alone if there is no library.
fresh() {
  rm -rf "$links/cache"
  : >"$links/stats.jsonl"
  run_program "$links/runs.jsonl" "$1" openblas ${6:+LD_PRELOAD="$6"} TESSERA_DEVICES="$2" TESSERA_OFFLOAD="$3" XDG_CACHE_HOME="$links/cache" \
    TESSERA_STATS="$links/stats.jsonl" -- "$build/bin/first_call" "$4" "$5"
  python3 -c 'import json, sys; print(json.dumps({**json.loads(sys.argv[1]), "devices": sys.argv[2], **json.loads(sys.argv[3] or "{}").get("start_up", {})}))' \
    "$result" "$2" "$(head -n 1 "$links/stats.jsonl")" >>"$runs"
}

for ((repeat = 0; repeat < ${REPEATS:-3}; ++repeat)); do
  for name in ${DEVICES:-$devices}; do
    for n in ${SIZES:-512 1024 2048 4096 8192 16384}; do
      [ "$n" -le "${LARGEST_ON_CPU:-8192}" ] && fresh three/cpu "$name" never "$n" 3
      [ -z "${BEFORE:-}" ] || fresh three/before "$name" auto "$n" 3 "$BEFORE/lib/libtessera_blas.so"
      fresh three/now "$name" auto "$n" 3 "$tessera_blas"
    done
    for series in ${SERIES:-4096:20 2048:200 16384:1}; do
      [ -z "${BEFORE:-}" ] || fresh series/before "$name" auto "${series%:*}" "${series#*:}" "$BEFORE/lib/libtessera_blas.so"
      fresh series/now "$name" auto "${series%:*}" "${series#*:}" "$tessera_blas"
    done
    for n in ${START_SIZES:-4096 16384}; do fresh start "$name" always "$n" 2 "$tessera_blas"; done
  done
done

python3 - "$runs" <<'PYTHON' | tee "$out/first_call.txt"
import itertools, json, statistics, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
is_good = lambda run: run.get("correct") and (run["run"] != "start" or "first_kernel_s" in run)
wrong = [run for run in runs if not is_good(run)]
runs = [run for run in runs if is_good(run)]
for devices in dict.fromkeys(run["devices"] for run in runs):
    here = [run for run in runs if run["devices"] == devices]
    def median(kind, value, **where):
        found = [value(run) for run in here if run["run"] == kind and all(run[k] == v for k, v in where.items())]
        return statistics.median(found) if found else None
    text = lambda seconds: f"{seconds:10.4f}" if seconds is not None else f"{'-':>10}"
    print(f"\n{devices}: seconds until the first, second, third call has returned")
    print(f"{'n':>6}  {'CPU alone':^32}  {'before':^32}  {'now':^32}  {'over the sooner':^24}")
    for n in dict.fromkeys(run["n"] for run in here if run["run"] == "three/now"):
        rows = {who: [median(f"three/{who}", lambda run: sum(run["seconds"][:calls]), n=n) for calls in (1, 2, 3)] for who in ("cpu", "before", "now")}
        best = [min((x for x in pair if x is not None), default=None) for pair in zip(rows["cpu"], rows["before"])]
        over = [f"{now / than - 1:+7.1%}" if than else f"{'-':>7}" for now, than in zip(rows["now"], best)]
        print(f"{n:6}  " + "  ".join(" ".join(text(s) for s in rows[who]) for who in ("cpu", "before", "now")) + "  " + " ".join(over))
    print(f"\n{devices}: seconds of so many calls\n{'n':>6} {'calls':>6} {'before':>10} {'now':>10} {'last call':>10}")
    for n, calls in dict.fromkeys((run["n"], run["calls"]) for run in here if run["run"] == "series/now"):
        total = lambda run: run["total_s"]
        print(f"{n:6} {calls:6} {text(median('series/before', total, n=n, calls=calls))} {text(median('series/now', total, n=n, calls=calls))} "
              f"{text(median('series/now', lambda run: run['last_s'], n=n, calls=calls))}")
    columns = {"first_s": "first call", "load_s": "load", "open_s": "open", "reserve_s": "reserve", "first_kernel_s": "first kernel", "last_s": "second call"}
    print(f"\n{devices}: the start\n{'n':>6}" + "".join(f"{title:>14}" for title in columns.values()))
    for n in dict.fromkeys(run["n"] for run in here if run["run"] == "start"):
        print(f"{n:6}" + "".join(f"{median('start', lambda run: run[column], n=n):14.4f}" for column in columns))
print(f"\n{len(runs)} processes, all right" if not wrong else f"\nNOT RIGHT: {wrong}")
sys.exit(bool(wrong))
PYTHON
grep -q '^NOT RIGHT' "$out/first_call.txt" && failed=1
exit $failed
