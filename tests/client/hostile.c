/* A library that must not be loaded: leaves a file beside itself when it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void leave_mark(void) {
  Dl_info self;
  char name[4096];
  if (dladdr((void*)&leave_mark, &self) == 0) return;
  snprintf(name, sizeof name, "%s.was_loaded", self.dli_fname);
  const int mark = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (mark >= 0) close(mark);
}
