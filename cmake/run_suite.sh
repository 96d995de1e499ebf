#!/usr/bin/env bash
# run_suite.sh <test binary> <arguments...>: runs a suite for ctest (cmake/add_suites.cmake) and distinguishes a skipped
# suite from one that passed. The binary's own status is 0 for both.
# Status: 0 if nothing failed and some test passed, 77 if nothing failed and all were skipped; else a failure. A suite
# without tests is a failure.
"$@" 2>&1 | awk '
  { print; fflush() }
  /^\[  PASSED  \] [1-9]/ { passed = 1 }
  /^\[  SKIPPED \] [1-9]/ { skipped = 1 }
  END { exit passed ? 0 : skipped ? 77 : 1 }'
statuses=("${PIPESTATUS[@]}")
if [[ ${statuses[0]} -ne 0 ]]; then
  [[ ${statuses[0]} -eq 77 ]] && exit 1
  exit "${statuses[0]}"
fi
[[ ${statuses[1]} -eq 1 ]] && echo "run_suite.sh: no test has run"
exit "${statuses[1]}"
