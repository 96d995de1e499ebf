#!/usr/bin/env bash
# The Python package on a machine with GPUs, from a build folder or an installation: its cases with every call on devices; NumPy's tests of
# numpy.linalg and SciPy's of scipy.linalg, alone, with the package, and with every call on devices; ten thousand calls and
# what they leave; PyTorch in the same process; small calls beside NumPy alone; stacks; whole
# programs (programs.py).
# usage: bench/python_gpu.sh PREFIX OUT [PYTHON]      PREFIX has bin/tessera and lib
# environment: PARTS ("cases suites calls small stacks programs"), PROGRAMS (options of programs.py), TIMEOUT (600 seconds for each command),
# DEVICES (cuda)
set -u
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prefix=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
python=${3:-python3}
export TESSERA_LIBRARIES="$prefix/lib" PYTHONPATH="$source_folder/python${PYTHONPATH:+:$PYTHONPATH}" TESSERA_CALIBRATION=off
devices=${DEVICES:-cuda}
cd "$out" || exit 2
failed=0

wanted() { [[ " ${PARTS:-cases suites calls small stacks programs} " == *" $1 "* ]]; }
run() { # name [variables...] -- command...
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  env "${variables[@]}" timeout "${TIMEOUT:-600}" "$@" >"$out/$name.txt" 2>&1
  local status=$?
  echo "$name: status $status, $(grep -v '^tessera: ' "$out/$name.txt" | tail -n 1)"
  return $status
}
on_devices() { # name command...: with every call on devices; it fails, too, if the CPU computes calls because devices are gone
  run "$1" TESSERA_DEVICES="$devices" TESSERA_OFFLOAD=always TESSERA_SUMMARY=on -- "${@:2}" || return
  if ! grep -Eq '^tessera: all +devices ' "$out/$1.txt" || grep -E '(is lost|the devices could not be opened)' "$out/$1.txt"; then
    echo "$1: not all of it ran on devices"
    return 1
  fi
}
small_calls() { # name options...: NumPy alone and with the package, in turns
  local command=("$python" "$source_folder/bench/linalg_bench.py" --turns 5 "${@:2}")
  for turn in 1 2; do
    run "small_$1_alone_$turn" -- "${command[@]}" || failed=1
    run "small_$1_package_$turn" -- "${command[@]}" --package || failed=1
  done
}

if wanted cases; then
  for cases in linalg scipy; do
    on_devices "cases_$cases" "$python" "$source_folder/python/tests/${cases}_cases.py" || failed=1
  done
fi
if wanted suites; then
  tests=(-m pytest -q -W ignore -p no:cacheprovider -m "not slow" --pyargs)
  for suite in numpy.linalg scipy.linalg; do
    # A failure here is the program's own.
    run "suite_${suite}_alone" -- "$python" "${tests[@]}" "$suite"
    run "suite_${suite}_package" TESSERA_DEVICES="$devices" -- "$python" -m tessera_blas "${tests[@]}" "$suite" || failed=1
    on_devices "suite_${suite}_devices" "$python" -m tessera_blas "${tests[@]}" "$suite" || failed=1
  done
fi
if wanted calls; then
  for offload in always auto; do
    for script in "many_calls.py 240" "beside_torch.py torch" "beside_torch.py package"; do
      read -r -a command <<<"$script"
      run "calls_${offload}_${command[0]%.py}_${command[1]}" TESSERA_DEVICES="$devices" TESSERA_OFFLOAD="$offload" -- \
        "$python" "$source_folder/python/tests/${command[0]}" "${command[1]}" || failed=1
    done
  done
fi
if wanted small; then
  small_calls quick --sizes 100,200,500 --repeats 200 --routines solve,inv,cholesky
  small_calls slow --sizes 100,200 --repeats 60 --routines qr,eigh,svd
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
