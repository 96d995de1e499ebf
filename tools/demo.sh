#!/usr/bin/env bash
# The demo (`./dev demo`): an ordinary CBLAS program, linked with the CPU BLAS, runs once as it is and once under
# `tessera run`; then its two results are compared, and the statistics are shown.
# usage: demo.sh BUILD_FOLDER [FOLDER_FOR_FILES]
set -euo pipefail

indent() { sed 's/^./   &/'; }

build=${1:?usage: demo.sh BUILD_FOLDER [FOLDER_FOR_FILES]}
tessera=$build/bin/tessera
work=${2:-$build/demo}
mkdir -p "$work"
rm -f "$work"/*.bin "$work"/stats.jsonl "$work"/trace.json

for program in tessera cblas_gemm compare_results; do
  if [[ ! -x $build/bin/$program ]]; then
    echo "demo: $build/bin/$program is missing (is there a CPU BLAS with <cblas.h>?)" >&2
    exit 1
  fi
done

# `auto` resolves to GPUs if there are any.
if "$tessera" info --json | grep -q '"devices": "cuda"'; then
  n=8192
  settings=(--devices cuda)
  where="the GPUs"
else
  n=2048
  settings=(--devices host:3 --host-device memory=16MiB)
  where="three host devices of 16 MiB each (no GPU here), for 96 MiB of matrices"
fi
settings+=(--offload always --stats "$work/stats.jsonl" --trace "$work/trace.json")

echo
echo "1. An ordinary program multiplies two $n x $n matrices with the CPU BLAS:"
echo "   \$ cblas_gemm $n"
"$build/bin/cblas_gemm" "$n" "$work/plain.bin" | indent

echo
echo "2. The same program, unchanged, on $where:"
echo "   \$ tessera run ${settings[*]:0:4} ... -- cblas_gemm $n"
"$tessera" run "${settings[@]}" -- "$build/bin/cblas_gemm" "$n" "$work/tessera.bin" | indent
if [[ ! -s $work/stats.jsonl ]]; then
  echo "   The call did not reach the devices." >&2
  exit 1
fi

echo
echo "3. The two results:"
verdict=0
"$build/bin/compare_results" "$work/plain.bin" "$work/tessera.bin" | indent || verdict=1

echo
echo "4. Where the work ran and what moved:"
"$tessera" stats "$work/stats.jsonl" | indent
rm -f "$work"/*.bin

if [[ -s $work/trace.json ]]; then
  echo
  echo "5. Every copy and kernel, as a picture: open https://ui.perfetto.dev and load"
  echo "   $work/trace.json"
fi
exit "$verdict"
