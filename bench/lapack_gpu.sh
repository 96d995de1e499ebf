#!/usr/bin/env bash
# Cholesky and LU of a large matrix on a machine with GPUs: the CPU alone (OpenBLAS's LAPACK, and the reference LAPACK over OpenBLAS),
# NVBLAS, and Tessera with several block sizes of LAPACK. Writes one JSON line per run and a table.
# usage: bench/lapack_gpu.sh BUILD_FOLDER OUT_FOLDER [LIBRARIES]
# LIBRARIES: a folder with libopenblas.so.0, liblapack.so.3 (the reference) and what they need (libgfortran.so.5, libquadmath.so.0), for
# machines that lack them; otherwise those of the system are taken. environment: N (20000), REPEATS (2), BLOCKS ("0 256 512 1024")
set -u
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
libraries=${3:+$(cd "$3" && pwd)}
n=${N:-20000}
repeats=${REPEATS:-2}
blocks=${BLOCKS:-0 256 512 1024}

first() { for file in "$@"; do [ -e "$file" ] && { echo "$file"; return; }; done; }
openblas=$(first ${libraries:+"$libraries"/libopenblas.so*} /usr/lib/*/openblas-pthread/libopenblas.so.0 /usr/lib/*/libopenblas.so.0 /usr/lib64/libopenblasp.so.0 /usr/lib64/libopenblas.so.0)
reference=$(first ${libraries:+"$libraries/liblapack.so.3"} /usr/lib/*/lapack/liblapack.so.3 /usr/lib64/liblapack.so.3)
nvblas=$(first /usr/local/cuda/lib64/libnvblas.so /usr/local/cuda/lib64/libnvblas.so.* /usr/lib/*/libnvblas.so.*)
[ -n "$openblas" ] || { echo "no libopenblas.so.0 found; name a folder with it" >&2; exit 1; }

# The program asks for liblapack.so.3 and libblas.so.3: two folders in which these are what a run needs.
links=$(mktemp -d)
trap 'rm -rf "$links"' EXIT
mkdir "$links/openblas" "$links/reference"
ln -s "$openblas" "$links/openblas/libblas.so.3"
ln -s "$openblas" "$links/openblas/liblapack.so.3"
ln -s "$openblas" "$links/reference/libblas.so.3"
[ -n "$reference" ] && ln -s "$reference" "$links/reference/liblapack.so.3"
cat >"$links/nvblas.conf" <<TEXT
NVBLAS_LOGFILE $out/nvblas.log
NVBLAS_CPU_BLAS_LIB $openblas
NVBLAS_GPU_LIST ALL
NVBLAS_TILE_DIM 2048
NVBLAS_AUTOPIN_MEM_ENABLED
TEXT

table="$out/lapack.txt"
: >"$out/lapack.jsonl"
printf '%-44s %-7s %8s %10s %10s  %s\n' "n = $n" routine seconds GFLOP/s residual correct | tee "$table"

run() { # label folder variables...
  local label=$1 folder=$2 routine line
  shift 2
  for routine in dpotrf dgetrf; do
    line=$(env "$@" LD_LIBRARY_PATH="$links/$folder${libraries:+:$libraries}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
      "$build/bin/lapack_bench" "$routine" "$n" "$repeats" 2>"$out/last_errors.txt") || {
      [ -n "$line" ] || line='{"failed": true}'
      failed=1
    }
    python3 - "$label" "$routine" "$line" "$out/lapack.jsonl" <<'PYTHON' | tee -a "$table"
import json, sys
label, routine, line, file = sys.argv[1:]
result = {"run": label, **json.loads(line)}
with open(file, "a", encoding="utf-8") as lines:
    lines.write(json.dumps(result) + "\n")
if result.get("failed"):
    print(f"{label:<44} {routine:<7}   failed")
else:
    print(f"{label:<44} {routine:<7} {result['seconds']:8.3f} {result['gflops']:10.1f} {result['residual']:10.2g}  {'yes' if result['correct'] else 'NO'}")
PYTHON
  done
}

failed=0
run "CPU: OpenBLAS with its own LAPACK" openblas A=
if [ -z "$reference" ]; then
  echo "no reference liblapack.so.3 found: only OpenBLAS's LAPACK was measured" | tee -a "$table"
  exit 1
fi
run "CPU: reference LAPACK over OpenBLAS" reference A=
blas="$build/lib/libtessera_blas.so"
lapack="$build/lib/libtessera_lapack.so"
# Without a GPU, NVBLAS drops the calls that it meant for one.
if [ -n "$nvblas" ] && [ -e /dev/nvidiactl ]; then
  run "NVBLAS, reference LAPACK" reference NVBLAS_CONFIG_FILE="$links/nvblas.conf" LD_PRELOAD="$nvblas"
  run "NVBLAS, reference LAPACK, blocks of 512" reference NVBLAS_CONFIG_FILE="$links/nvblas.conf" LD_PRELOAD="$nvblas:$lapack" TESSERA_LAPACK_BLOCK=512
else
  echo "NVBLAS: not found, or no GPU" | tee -a "$table"
fi
for block in $blocks; do
  label="blocks of $block"
  [ "$block" = 0 ] && label="LAPACK's own blocks"
  run "Tessera, reference LAPACK, $label" reference LD_PRELOAD="$blas:$lapack" TESSERA_LAPACK_BLOCK="$block"
done
exit $failed
