#!/usr/bin/env bash
# Programs as users of NumPy, Octave and R write them (examples/programs), unchanged. They run over the language's own BLAS, by
# `tessera run`, and by `tessera run --pool`, in turns. Each run is a fresh process, without rates from earlier runs.
# The script writes a line of JSON per process and a table of medians.
# usage: bench/programs.sh BUILD_FOLDER OUT_FOLDER
# environment:
#   PROGRAMS     polar gauss field network inverse
#   LANGUAGES    numpy octave r; languages that are not installed are left out
#   SCALE        1: factor of all sizes
#   REPEATS      2: computations in one process
#   PROCESSES    1: processes of each kind
#   DEVICES      auto: values of TESSERA_DEVICES, separated by spaces
#   RUNS         own tessera pool
#   PYTHON       python3: one that has NumPy
#   TIMEOUT      600: seconds for each process
# Other settings of Tessera are taken from the environment as they are.
set -u
source "$(dirname "${BASH_SOURCE[0]}")/blas_libraries.sh"
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../examples/programs" && pwd)
make_folders "$@"
python=${PYTHON:-python3}
runs="$out/programs.jsonl"
: >"$runs"

is_installed() {
  case $1 in
    numpy) "$python" -c 'import numpy' 2>/dev/null ;;
    octave) command -v octave-cli >/dev/null ;;
    r) command -v Rscript >/dev/null ;;
    *) echo "no such language: $1" >&2; exit 2 ;;
  esac
}
languages=()
for language in ${LANGUAGES:-numpy octave r}; do
  if is_installed "$language"; then languages+=("$language"); else echo "$language is not installed" >&2; fi
done
[ ${#languages[@]} -gt 0 ] || { echo "none of the languages is installed" >&2; exit 1; }
with_pool=no
if "$build/bin/tessera" run --help | grep -q -- '--pool'; then with_pool=yes; fi

# fresh KIND DEVICES WORD...: one process of $language and $program, behind these words.
fresh() {
  local kind=$1 devices=$2 words=()
  shift 2
  case $language in
    numpy) words=("$python" "$folder/programs.py") ;;
    octave) words=(octave-cli --no-init-file --no-history "$folder/programs.m") ;;
    r) words=(Rscript --vanilla "$folder/programs.R") ;;
  esac
  rm -rf "$links/cache"
  run_program "$links/runs.jsonl" "$kind" own ${devices:+TESSERA_DEVICES="$devices"} XDG_CACHE_HOME="$links/cache" -- \
    "$@" "${words[@]}" "$program" --scale "${SCALE:-1}" --repeats "${REPEATS:-2}"
  python3 - "$result" "$program" "$language" "$devices" "$out/last_errors.txt" <<'PYTHON' | tee -a "$runs" >&2
import json, sys
run = {**json.loads(sys.argv[1]), "program": sys.argv[2], "language": sys.argv[3], "devices": sys.argv[4]}
if "failed" in run:
    run["errors"] = open(sys.argv[5], errors="replace").read()[-500:]
print(json.dumps(run))
PYTHON
}

for ((process = 0; process < ${PROCESSES:-1}; ++process)); do
  for program in ${PROGRAMS:-polar gauss field network inverse}; do
    for language in "${languages[@]}"; do
      ! wanted own || fresh own ""
      for devices in ${DEVICES:-auto}; do
        ! wanted tessera || fresh tessera "$devices" "$build/bin/tessera" run --
        [ $with_pool = no ] || ! wanted pool || fresh pool "$devices" "$build/bin/tessera" run --pool --
      done
    done
  done
done

python3 - "$runs" $with_pool <<'PYTHON' | tee "$out/programs.txt"
import json, statistics, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
wrong = [run for run in runs if not run.get("correct")]
runs = [run for run in runs if run.get("correct")]
KINDS = ("own", "tessera", "pool")

def text(seconds):
    return f"{seconds:10.3f}" if seconds is not None else f"{'-':>10}"

def ratio(one, other):
    return f"{one / other:10.2f}x" if one is not None and other else f"{'-':>11}"

def medians(runs, value):
    """@return by kind: the median of value(run), a list, over all these runs"""
    found = {kind: [x for run in runs if run["run"] == kind for x in value(run)] for kind in KINDS}
    return {kind: statistics.median(seconds) if seconds else None for kind, seconds in found.items()}

print("Seconds: of the first repeat, in which devices start; of the later ones; of the whole script. Medians.")
heads = "".join(f"{kind:>10}" for kind in KINDS)
for devices in list(dict.fromkeys(run["devices"] for run in runs if run["devices"])) or ([""] if runs else []):
    here = [run for run in runs if run["devices"] in (devices, "")]
    print(f"\n{devices}\n{'':17}{'first repeat':^30}{'later repeats':^52}{'whole script':^41}")
    print(f"{'program':8} {'language':>8}{heads}{heads}{'own/tess.':>11}{'tess./pool':>11}{heads}{'tess./pool':>11}")
    for program, language in dict.fromkeys((run["program"], run["language"]) for run in here):
        these = [run for run in here if (run["program"], run["language"]) == (program, language)]
        first = medians(these, lambda run: run["seconds"][:1])
        later = medians(these, lambda run: run["seconds"][1:])
        whole = medians(these, lambda run: [run["whole_s"]])
        columns = [f"{program:8} {language:>8}", *map(text, first.values()), *map(text, later.values()),
                   ratio(later["own"], later["tessera"]), ratio(later["tessera"], later["pool"]),
                   *map(text, whole.values()), ratio(whole["tessera"], whole["pool"])]
        print("".join(columns))
if sys.argv[2] == "no":
    print("\nno pool: this `tessera run` has no --pool")
print()
for run in wrong:
    print(f"NOT RIGHT: {json.dumps(run)}")
if not wrong:
    print(f"{len(runs)} processes, all right")
PYTHON
grep -q '^NOT RIGHT' "$out/programs.txt" && failed=1
exit $failed
