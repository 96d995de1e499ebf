#!/usr/bin/env bash
# Correctness, then speed, on a machine with GPUs, from a build folder: the gpu tests of all test binaries (none may be skipped), then
# `tessera bench` beside cublasXt.
# usage: bench/gpu_check.sh BUILD_FOLDER OUT_FOLDER [bench arguments, default: dgemm of four sizes beside cublasXt]
set -u
build=$1
out=$2
shift 2
gpus=$(nvidia-smi -L | wc -l)
{
  date -u +%Y-%m-%dT%H:%MZ
  nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader
  lscpu | grep -E '^(Model name|CPU\(s\)|NUMA node\(s\))'
} | tee "$out/machine.txt"

failed=0
export TESSERA_TEST_REQUIRE_CUDA=1
filter='*Cuda*:*cuda*:*gpu*:*Gpu*'
[ "$gpus" -ge 2 ] && filter="$filter" || filter="$filter:-MultiGpu*:*cuda_2*"
for name in device kernels threads_kernels runtime routines threads_routines blas_api device_api; do
  "$build/bin/tests_$name" --gtest_filter="$filter" --gtest_brief=1 >"$out/tests_$name.txt" 2>&1 || failed=1
  tail -n 25 "$out/tests_$name.txt" | grep -vE '^$|OK' | sed "s/^/tests_$name: /"
done
[ $# -gt 0 ] || set -- gemm --type d --n 4096,8192,16384,32768 --host pinned --peer cublasxt
TESSERA_DEVICES=cuda "$build/bin/tessera" bench "$@" --json "$out/bench.json" 2>&1 | tee "$out/bench.txt"
exit $failed
