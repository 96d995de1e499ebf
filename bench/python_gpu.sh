#!/usr/bin/env bash
# The Python package on a machine with GPUs, from a build folder or an installation: its cases with every call on devices; NumPy's tests of
# numpy.linalg and SciPy's of scipy.linalg, alone, with the package, and with every call on devices; small calls beside NumPy alone; stacks; whole
# programs (programs.py).
# usage: bench/python_gpu.sh PREFIX OUT [PYTHON]      PREFIX has bin/tessera and lib
# environment: PARTS ("cases suites small stacks programs"), PROGRAMS (options of programs.py), TIMEOUT (600 seconds for each command)
set -u
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prefix=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
python=${3:-python3}
export TESSERA_LIBRARIES="$prefix/lib" PYTHONPATH="$source_folder/python${PYTHONPATH:+:$PYTHONPATH}" TESSERA_CALIBRATION=off
all_calls=(TESSERA_DEVICES=cuda TESSERA_OFFLOAD=always)
cd "$out" || exit 2
failed=0

wanted() { [[ " ${PARTS:-cases suites small stacks programs} " == *" $1 "* ]]; }
run() { # name [variables...] -- command...
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  env "${variables[@]}" timeout "${TIMEOUT:-600}" "$@" >"$out/$name.txt" 2>&1
  local status=$?
  echo "$name: status $status, $(tail -n 1 "$out/$name.txt")"
  return $status
}

if wanted cases; then
  for cases in linalg scipy; do
    run "cases_$cases" "${all_calls[@]}" -- "$python" "$source_folder/python/tests/${cases}_cases.py" || failed=1
  done
fi
if wanted suites; then
  tests=(-m pytest -q -W ignore -p no:cacheprovider -m "not slow" --pyargs)
  for suite in numpy.linalg scipy.linalg; do
    # A failure here is the program's own.
    run "suite_${suite}_alone" -- "$python" "${tests[@]}" "$suite"
    run "suite_${suite}_package" TESSERA_DEVICES=cuda -- "$python" -m tessera_blas "${tests[@]}" "$suite" || failed=1
    run "suite_${suite}_devices" "${all_calls[@]}" -- "$python" -m tessera_blas "${tests[@]}" "$suite" || failed=1
  done
fi
if wanted small; then
  small=("$source_folder/bench/linalg_bench.py" --sizes 100,200,500 --repeats 200 --turns 5 --routines solve,inv,cholesky,qr,eigh,svd)
  for turn in 1 2; do
    run "small_alone_$turn" -- "$python" "${small[@]}" || failed=1
    run "small_package_$turn" -- "$python" "${small[@]}" --package || failed=1
  done
fi
if wanted stacks; then
  run stacks -- "$python" "$source_folder/bench/stacks.py" || failed=1
fi
if wanted programs; then
  read -r -a options <<<"${PROGRAMS:-}"
  run programs -- "$python" "$source_folder/bench/programs.py" --python "$python" --tessera "$prefix/bin/tessera" --out "$out/programs.jsonl" \
    "${options[@]}" || failed=1
  cat "$out/programs.txt"
fi
exit $failed
