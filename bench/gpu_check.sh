#!/usr/bin/env bash
# Correctness, then speed, on a machine with GPUs, from a build folder: the gpu tests of all test binaries (none may be skipped), then
# `tessera bench` beside cublasXt.
# usage: bench/gpu_check.sh BUILD_FOLDER OUT_FOLDER [bench arguments, default: dgemm of four sizes beside cublasXt]
# environment: SANITIZE=1: compute-sanitizer, too, on the variants of all routines on device memory
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
for name in device kernels threads_kernels runtime routines threads_routines offload blas_api device_api; do
  "$build/bin/tests_$name" --gtest_filter="$filter" --gtest_brief=1 >"$out/tests_$name.txt" 2>&1 || failed=1
  tail -n 25 "$out/tests_$name.txt" | grep -vE '^$|OK' | sed "s/^/tests_$name: /"
done
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer 2>/dev/null | head -n 1)
if [ -n "${SANITIZE:-}" ] && [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck synccheck; do
    timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 9 "$build/bin/tests_device_api" --gtest_filter='Cuda/*.AllVariants*:Cuda/DeviceHalfConformance.EveryVariant*' --gtest_brief=1 \
      >"$out/$tool.txt" 2>&1 || failed=1
    grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool.txt" | tail -n 1 | sed "s/^/$tool: /"
  done
elif [ -n "${SANITIZE:-}" ]; then
  echo "no compute-sanitizer here"
  failed=1
fi
[ $# -gt 0 ] || set -- gemm --type d --n 4096,8192,16384,32768 --host pinned --peer cublasxt
TESSERA_DEVICES=cuda "$build/bin/tessera" bench "$@" --json "$out/bench.json" 2>&1 | tee "$out/bench.txt"
exit $failed
