/* libtessera.so catches exceptions of a plugin by their types, although each of the two has its own C++ runtime and the
 * program has none. argv[1]: the plugin tests/plugins/throws.cpp, which throws the exception that TESSERA_TEST_THROW
 * names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

static const struct {
  const char* thrown;
  tessera_status status;
  const char* text;
  int position;
} cases[] = {
    {"NotAvailable", TESSERA_NOT_AVAILABLE, "NotAvailable", 0},
    {"OutOfDeviceMemory", TESSERA_OUT_OF_DEVICE_MEMORY, "OutOfDeviceMemory", 0},
    {"DeviceLost", TESSERA_DEVICE_LOST, "DeviceLost", 0},
    {"InvalidArgument", TESSERA_INVALID_ARGUMENT, "InvalidArgument", 7},
    {"bad_alloc", TESSERA_INTERNAL_ERROR, "std::bad_alloc", 0},
    {"runtime_error", TESSERA_INTERNAL_ERROR, "runtime_error", 0},
    {"no exception class", TESSERA_INTERNAL_ERROR, "unknown error", 0},
};

/* Otherwise all would share one runtime, and the test would prove nothing. */
static int has_shared_runtime(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int found = 0;
  if (maps == NULL) return 1;
  while (fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, "libstdc++") != NULL || strstr(line, "libgcc_s") != NULL) found = 1;
  }
  fclose(maps);
  return found;
}

int main(int argc, char** argv) {
  char settings[4096];
  int wrong = 0;
  size_t round, i;
  if (argc != 2) return 2;
  snprintf(settings, sizeof settings, "TESSERA_DEVICES=cuda TESSERA_CUDA_PLUGIN=%s", argv[1]);
  /* Twice: the first exception must not affect the next. */
  for (round = 0; round < 2; ++round) {
    for (i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
      tessera_context context = NULL;
      tessera_status status;
      setenv("TESSERA_TEST_THROW", cases[i].thrown, 1);
      status = tessera_create_with(&context, settings);
      if (status != cases[i].status || strcmp(tessera_last_error(), cases[i].text) != 0 ||
          tessera_last_error_position() != cases[i].position) {
        fprintf(stderr, "%s: status %d at %d, \"%s\"\n", cases[i].thrown, (int)status, tessera_last_error_position(),
                tessera_last_error());
        wrong = 1;
      }
    }
  }
  if (has_shared_runtime()) {
    fprintf(stderr, "a shared C++ runtime is in this process\n");
    wrong = 1;
  }
  return wrong;
}
