// Memory that each thread of a program has, which the C library allocates when a thread first touches it.
namespace {
thread_local unsigned char memory[16 << 20];
}

extern "C" __attribute__((visibility("default"))) int touch_memory_of_thread(int value) {
  memory[12345678] = static_cast<unsigned char>(value);
  return memory[12345678] + memory[1];
}
