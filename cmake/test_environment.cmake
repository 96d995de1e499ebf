# tests_environment: the environment of every test that runs our code. Tests that are not suites of a tests_* binary set
# it themselves: set_tests_properties(... ENVIRONMENT "${tests_environment}").
# Rates that a user has measured must not affect tests.
set(tests_environment "TESSERA_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test_cache")
if(TESSERA_SANITIZE)
  # Threads of the uninstrumented OpenBLAS test nothing here, and cost much under a sanitizer. Accesses of libc on its
  # behalf are ignored, because its synchronisation is not visible.
  list(APPEND tests_environment OPENBLAS_NUM_THREADS=1
    "TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp"
    "ASAN_OPTIONS=detect_stack_use_after_return=1:check_initialization_order=1"
    "UBSAN_OPTIONS=print_stacktrace=1")
endif()
# For tests that are started without ctest: one NAME=value per line.
list(JOIN tests_environment "\n" lines)
file(WRITE ${PROJECT_BINARY_DIR}/test_environment "${lines}\n")
