#!/usr/bin/env bash
# The routines on device memory on a machine with a GPU, from a build folder: their tests (none may be skipped), compute-sanitizer on the variants of all
# routines, then device_bench beside cuBLAS.
# usage: bench/device_check.sh BUILD_FOLDER OUT_FOLDER [device_bench arguments, default: all types, the shapes of the paper]
set -u
build=$1
out=$2
shift 2
failed=0
{
  date -u +%Y-%m-%dT%H:%MZ
  nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader
} | tee "$out/machine.txt"

export TESSERA_TEST_REQUIRE_CUDA=1
for name in device_api threads_kernels; do
  "$build/bin/tests_$name" --gtest_filter='*Cuda*:-MultiGpu*:*Standin*' --gtest_brief=1 >"$out/tests_$name.txt" 2>&1 || failed=1
  tail -n 25 "$out/tests_$name.txt" | grep -vE '^$|OK' | sed "s/^/tests_$name: /"
done

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer 2>/dev/null | head -n 1)
if [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck synccheck; do
    timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 9 "$build/bin/tests_device_api" --gtest_filter='Cuda/*.AllVariants*:Cuda/DeviceHalfConformance.EveryVariant*' --gtest_brief=1 \
      >"$out/$tool.txt" 2>&1 || failed=1
    grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool.txt" | tail -n 1 | sed "s/^/$tool: /"
  done
else
  echo "no compute-sanitizer here"
  failed=1
fi

"$build/bin/device_bench" "$@" --json "$out/device.json" 2>&1 | tee "$out/device.txt"
exit $failed
