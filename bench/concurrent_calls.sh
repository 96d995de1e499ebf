#!/usr/bin/env bash
# How many calls per second several threads of a process get (concurrent_calls.c): devices for all calls, the CPU for all, and what `auto` makes of it, in turns.
# Writes a line of JSON per process and a table of medians; the last column is `auto` beside the better of the others.
# usage: bench/concurrent_calls.sh BUILD_FOLDER OUT_FOLDER [LIBRARIES]
# environment: SIZES (512 2048 8192), THREADS (1 4 8), SECONDS_EACH (3), WARM_SECONDS (1: before calls count), REPEATS (3), DEVICES (as for TESSERA_DEVICES:
# cuda, or host:2 without a GPU), TIMEOUT (600 seconds for each process), OPENBLAS_CORETYPE (where OpenBLAS does not know the processor)
set -u
source "$(dirname "${BASH_SOURCE[0]}")/blas_libraries.sh"
find_libraries "$@"
devices=cuda
[ -e /dev/nvidiactl ] || devices=host:2
runs="$out/concurrent_calls.jsonl"
: >"$runs"
for ((repeat = 0; repeat < ${REPEATS:-3}; ++repeat)); do
  for n in ${SIZES:-512 2048 8192}; do
    for threads in ${THREADS:-1 4 8}; do
      for offload in always never auto; do
        run_program "$runs" "$offload" openblas LD_PRELOAD="$tessera_blas" TESSERA_DEVICES="${DEVICES:-$devices}" TESSERA_OFFLOAD="$offload" \
          XDG_CACHE_HOME="$links/cache" -- "$build/bin/concurrent_calls" "$n" "$threads" "${SECONDS_EACH:-3}" "${WARM_SECONDS:-1}"
      done
    done
  done
done

python3 - "$runs" <<'PYTHON' | tee "$out/concurrent_calls.txt"
import json, statistics, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
wrong = [run for run in runs if not run.get("correct")]
runs = [run for run in runs if run.get("correct")]
print(f"{'calls/s':>7} {'threads':>8} {'always':>10} {'never':>10} {'auto':>10} {'of better':>10}")
for n, threads in dict.fromkeys((run["n"], run["threads"]) for run in runs):
    rates = {}
    for offload in ("always", "never", "auto"):
        found = [run["calls_per_s"] for run in runs if (run["run"], run["n"], run["threads"]) == (offload, n, threads)]
        rates[offload] = statistics.median(found) if found else 0
    better = max(rates["always"], rates["never"])
    share = rates["auto"] / better if better > 0 else 0
    print(f"{n:7} {threads:8} " + " ".join(f"{rate:10.1f}" for rate in rates.values()) + f" {share:9.2f}x")
print(f"{len(runs)} processes, all right" if not wrong else f"NOT RIGHT: {wrong}")
sys.exit(bool(wrong))
PYTHON
grep -q '^NOT RIGHT' "$out/concurrent_calls.txt" && failed=1
exit $failed
