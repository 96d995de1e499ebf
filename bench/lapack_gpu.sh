#!/usr/bin/env bash
# Cholesky and LU of a large matrix on a machine with GPUs: the CPU alone (OpenBLAS's LAPACK, and the reference LAPACK over OpenBLAS),
# Tessera with several block sizes of LAPACK, and NVBLAS, last because it takes longest. Writes one JSON line per run and a table.
# usage: bench/lapack_gpu.sh BUILD_FOLDER OUT_FOLDER [LIBRARIES]
# LIBRARIES: a folder with libopenblas.so.0, liblapack.so.3 (the reference) and what they need (libgfortran.so.5, libquadmath.so.0), for
# machines that lack them; otherwise those of the system are taken.
# environment: N (20000; BLASX's n is 30000), REPEATS (2), ROUTINES ("dpotrf dgetrf"), BLOCKS ("default 0 256 512 1024"; default: as
# libtessera_lapack.so chooses them, 0: LAPACK's own), RUNS ("cpu reference tessera nvblas nvblas-blocks nvblas-pageable"), TIMEOUT (600 seconds for each run; a run
# that takes longer is cut, and the table says so)
set -u
source "$(dirname "${BASH_SOURCE[0]}")/blas_libraries.sh"
find_libraries "$@"
n=${N:-20000}
repeats=${REPEATS:-2}
blocks=${BLOCKS:-default 0 256 512 1024}
routines=${ROUTINES:-dpotrf dgetrf}

table="$out/lapack.txt"
: >"$out/lapack.jsonl"
printf '%-50s %-7s %8s %10s %10s  %s\n' "n = $n" routine seconds GFLOP/s residual correct | tee "$table"

run() { # label folder variables...
  local label=$1 routine
  for routine in $routines; do
    run_program "$out/lapack.jsonl" "$@" -- "$build/bin/lapack_bench" "$routine" "$n" "$repeats"
    printf '%-50s %-7s %s\n' "$label" "$routine" "$(field '{:8.3f} {:10.1f} {:10.2g} ' seconds gflops residual)" | tee -a "$table"
  done
}

! wanted cpu || run "CPU: OpenBLAS with its own LAPACK" openblas
if [ -z "$reference" ]; then
  echo "no reference liblapack.so.3 found: only OpenBLAS's LAPACK was measured" | tee -a "$table"
  exit 1
fi
! wanted reference || run "CPU: reference LAPACK over OpenBLAS" reference
for block in $(! wanted tessera || echo "$blocks"); do
  case $block in
    default) run "Tessera, reference LAPACK" reference LD_PRELOAD="$tessera_blas:$tessera_lapack" ;;
    0) run "Tessera, reference LAPACK, LAPACK's own blocks" reference LD_PRELOAD="$tessera_blas:$tessera_lapack" TESSERA_LAPACK_BLOCK=0 ;;
    *) run "Tessera, reference LAPACK, blocks of $block" reference LD_PRELOAD="$tessera_blas:$tessera_lapack" TESSERA_LAPACK_BLOCK="$block" ;;
  esac
done
if [ -n "$nvblas" ]; then
  ! wanted nvblas || run "NVBLAS, reference LAPACK" reference NVBLAS_CONFIG_FILE="$links/nvblas.conf" LD_PRELOAD="$nvblas"
  ! wanted nvblas-blocks ||
    run "NVBLAS, reference LAPACK, blocks of 512" reference NVBLAS_CONFIG_FILE="$links/nvblas.conf" LD_PRELOAD="$nvblas:$tessera_lapack" TESSERA_LAPACK_BLOCK=512
  # Page-locking by NVBLAS fails on blocks of one matrix that share pages, and it then leaves the product out.
  ! wanted nvblas-pageable ||
    run "NVBLAS without page-locking, blocks of 512" reference NVBLAS_CONFIG_FILE="$links/nvblas-pageable.conf" LD_PRELOAD="$nvblas:$tessera_lapack" TESSERA_LAPACK_BLOCK=512
else
  echo "NVBLAS: not found, or no GPU" | tee -a "$table"
fi
exit $failed
