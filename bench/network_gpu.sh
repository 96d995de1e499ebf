#!/usr/bin/env bash
# Training passes of a fully connected network (network_bench.c) on a machine with GPUs: over OpenBLAS on the CPU, over Tessera, and over NVBLAS.
# Writes one JSON line per run and a table.
# usage: bench/network_gpu.sh BUILD_FOLDER OUT_FOLDER [LIBRARIES]
# environment: LAYERS (3072-16384-16384-10), BATCHES ("1024 8192"), PASSES (3, of which the best counts; devices start in the first), RUNS
# ("cpu tessera nvblas nvblas-pageable"), TIMEOUT (600 seconds for each run; a run that takes longer is cut, and the table says so)
set -u
source "$(dirname "${BASH_SOURCE[0]}")/blas_libraries.sh"
find_libraries "$@"
layers=${LAYERS:-3072-16384-16384-10}
batches=${BATCHES:-1024 8192}
# Threads of the program's own loops must not spin on cores that the BLAS needs.
export OMP_WAIT_POLICY=passive

table="$out/network.txt"
: >"$out/network.jsonl"
printf '%-34s %6s %9s %9s %9s %10s  %-22s %s\n' "$layers" batch s/pass products first GFLOP/s "first and last loss" correct | tee "$table"

run() { # label variables... -- options...
  local label=$1 batch variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  for batch in $batches; do
    run_program "$out/network.jsonl" "$label" openblas "${variables[@]}" -- \
      "$build/bin/network_bench" "$layers" "$batch" "${PASSES:-3}" "$@"
    printf '%-34s %6s %s\n' "$label" "$batch" \
      "$(field '{:9.3f} {:9.3f} {:9.3f} {:10.1f}  {:<10.7g} {:<11.7g}' seconds products_s first_s gflops first_loss last_loss)" | tee -a "$table"
  done
}

! wanted cpu || run "CPU: OpenBLAS" --
! wanted tessera || run "Tessera" LD_PRELOAD="$tessera_blas" --
if [ -n "$nvblas" ]; then
  # NVBLAS catches the Fortran symbols only.
  ! wanted nvblas || run "NVBLAS, Fortran calls" NVBLAS_CONFIG_FILE="$links/nvblas.conf" LD_PRELOAD="$nvblas" -- fortran
  ! wanted nvblas-pageable ||
    run "NVBLAS without page-locking" NVBLAS_CONFIG_FILE="$links/nvblas-pageable.conf" LD_PRELOAD="$nvblas" -- fortran
else
  echo "NVBLAS: not found, or no GPU" | tee -a "$table"
fi
exit $failed
