#!/usr/bin/env bash
# What the first call of a process takes, and its parts: fresh processes that make the same dgemm twice (first_call.c), under LD_PRELOAD. Writes a
# line of JSON per process and a table of medians.
# usage: bench/first_call.sh BUILD_FOLDER OUT_FOLDER [LIBRARIES]
# LIBRARIES: a folder with libopenblas.so.0 and what it needs, for machines that lack it; otherwise that of the system is taken.
# environment: N (4096), REPEATS (5), DEVICES (as for TESSERA_DEVICES, separated by spaces: cuda:0 and, where there are several GPUs, cuda; host:2
# without a GPU), TIMEOUT (600 seconds for each process)
set -u
source "$(dirname "${BASH_SOURCE[0]}")/blas_libraries.sh"
find_libraries "$@"
gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
case $gpus in
  0) devices=host:2 ;;
  1) devices=cuda:0 ;;
  *) devices="cuda:0 cuda" ;;
esac

stats="$links/stats.jsonl"
: >"$out/first_call.jsonl"
for name in ${DEVICES:-$devices}; do
  for ((repeat = 0; repeat < ${REPEATS:-5}; ++repeat)); do
    : >"$stats"
    run_program "$links/runs.jsonl" "$name" openblas LD_PRELOAD="$tessera_blas" TESSERA_DEVICES="$name" TESSERA_OFFLOAD=always \
      TESSERA_STATS="$stats" -- "$build/bin/first_call" "${N:-4096}"
    # The first of the two jobs tells what it waited for.
    python3 -c 'import json, sys; print(json.dumps({**json.loads(sys.argv[1]), **json.loads(sys.argv[2] or "{}").get("start_up", {})}))' \
      "$result" "$(head -n 1 "$stats")" >>"$out/first_call.jsonl"
  done
done

python3 - "$out/first_call.jsonl" <<'PYTHON' | tee "$out/first_call.txt" || failed=1
import json, statistics, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
columns = {"first_s": "first call", "load_s": "load", "open_s": "open", "reserve_s": "reserve", "first_kernel_s": "first kernel", "second_s": "second call"}
print(f"{'median seconds':<16}" + "".join(f"{title:>14}" for title in columns.values()) + "  runs  correct")
for name in dict.fromkeys(run["run"] for run in runs):
    all_runs = [run for run in runs if run["run"] == name]
    good = [run for run in all_runs if run.get("correct") and "first_kernel_s" in run]
    medians = "".join(f"{statistics.median(run[column] for run in good):14.4f}" if good else f"{'-':>14}" for column in columns)
    print(f"{name:<16}{medians}  {len(good):4}  {'yes' if len(good) == len(all_runs) else 'NO'}")
PYTHON
grep -q ' NO$' "$out/first_call.txt" && failed=1
exit $failed
