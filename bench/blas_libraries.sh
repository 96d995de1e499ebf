# Sourced by lapack_gpu.sh, network_gpu.sh, first_call.sh and programs.sh: finds the BLAS and LAPACK of this machine, makes folders from which the loader takes
# one or the other, and runs a program over them within a time limit.
#
# make_folders BUILD OUT sets, as absolute paths:
#   build, out      the arguments; OUT is made
#   links           a folder that goes with the script. Its folder own is empty: over it, programs have the libraries that they have anyway
# find_libraries BUILD OUT [LIBRARIES] does that, too, and sets (LIBRARIES: a folder with libopenblas.so.0 and what it needs, for machines that lack it):
#   openblas        OpenBLAS; the script ends if there is none
#   reference       the reference LAPACK, nvblas: NVBLAS where there is a GPU; empty where they are not found
# and adds to links the folders openblas and reference (libblas.so.3 and liblapack.so.3, to be put on LD_LIBRARY_PATH), nvblas.conf (NVBLAS page-locks operands
# by itself) and nvblas-pageable.conf (it does not).
# environment: TIMEOUT, seconds that one run may take (600); RUNS, the kinds of runs, separated by spaces.
time_limit=${TIMEOUT:-600}
failed=0

first() { for file in "$@"; do [ -e "$file" ] && { echo "$file"; return; }; done; }

make_folders() {
  build=$(cd "$1" && pwd) || exit 1
  mkdir -p "$2"
  out=$(cd "$2" && pwd) || exit 1
  libraries=
  links=$(mktemp -d)
  trap 'rm -rf "$links"' EXIT
  mkdir "$links/own"
}

find_libraries() {
  make_folders "$1" "$2"
  libraries=${3:+$(cd "$3" && pwd)}
  openblas=$(first ${libraries:+"$libraries"/libopenblas.so*} /usr/lib/*/openblas-pthread/libopenblas.so.0 /usr/lib/*/libopenblas.so.0 /usr/lib64/libopenblasp.so.0 /usr/lib64/libopenblas.so.0)
  reference=$(first ${libraries:+"$libraries/liblapack.so.3"} /usr/lib/*/lapack/liblapack.so.3 /usr/lib64/liblapack.so.3)
  nvblas=$(first /usr/local/cuda/lib64/libnvblas.so /usr/local/cuda/lib64/libnvblas.so.* /usr/lib/*/libnvblas.so.*)
  [ -n "$openblas" ] || { echo "no libopenblas.so.0 found; name a folder with it" >&2; exit 1; }
  # Without a GPU, NVBLAS drops the calls that it meant for one.
  [ -e /dev/nvidiactl ] || nvblas=
  tessera_blas="$build/lib/libtessera_blas.so"
  tessera_lapack="$build/lib/libtessera_lapack.so"

  mkdir "$links/openblas" "$links/reference"
  ln -s "$openblas" "$links/openblas/libblas.so.3"
  ln -s "$openblas" "$links/openblas/liblapack.so.3"
  ln -s "$openblas" "$links/reference/libblas.so.3"
  [ -z "$reference" ] || ln -s "$reference" "$links/reference/liblapack.so.3"
  cat >"$links/nvblas-pageable.conf" <<TEXT
NVBLAS_LOGFILE $out/nvblas.log
NVBLAS_CPU_BLAS_LIB $openblas
NVBLAS_GPU_LIST ALL
NVBLAS_TILE_DIM 2048
TEXT
  { cat "$links/nvblas-pageable.conf"; echo NVBLAS_AUTOPIN_MEM_ENABLED; } >"$links/nvblas.conf"
}

# wanted KIND: whether RUNS has it, or there is no RUNS.
wanted() { [[ " ${RUNS:-$1} " == *" $1 "* ]]; }

# run_program LINES LABEL FOLDER VARIABLE=VALUE... -- PROGRAM...: one run with libraries of the folder of $links. Its line of JSON, with the label and
# the program's arguments, is appended to the file LINES and left in $result; a run that took too long or printed nothing has "cut_after_s" or
# "failed" there. Sets failed=1 if the program failed, not if it was cut.
run_program() {
  local lines=$1 label=$2 folder=$3 line status variables=()
  shift 3
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  variables+=(LD_LIBRARY_PATH="$links/$folder${libraries:+:$libraries}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
  line=$(timeout --kill-after=10 "$time_limit" env "${variables[@]}" "$@" 2>"$out/last_errors.txt")
  status=$?
  if [ $status = 124 ] || [ $status = 137 ]; then
    line="{\"cut_after_s\": $time_limit}"
  elif [ $status != 0 ]; then
    failed=1
    [ -n "$line" ] || line="{\"failed\": $status}"
  fi
  shift
  result=$(python3 -c 'import json, sys; print(json.dumps({"run": sys.argv[1], "arguments": sys.argv[2], **json.loads(sys.argv[3])}))' \
    "$label" "$*" "$line")
  echo "$result" >>"$lines"
}

# field FORMAT NAME...: fields of $result through Python's format, or what came in their place.
field() {
  python3 - "$result" "$@" <<'PYTHON'
import json, sys
result, form, names = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
if "cut_after_s" in result:
    print(f"  cut after {result['cut_after_s']:g} s")
elif "failed" in result:
    print(f"  failed, status {result['failed']}")
else:
    print(form.format(*(result[name] for name in names)), "yes" if result["correct"] else "NO")
PYTHON
}
