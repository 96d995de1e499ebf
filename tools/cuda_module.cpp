#include "cuda_module.hpp"

#include <dlfcn.h>

#include "locations.hpp"

namespace tessera::tools {
namespace {

struct Opened {
  const tessera_bench_cuda* table = nullptr;
  std::string why;
};

Opened open_module() {
  constexpr const char* name = "libtessera_bench_cuda.so";
  const auto file = find_library(name);
  if (!file) return {nullptr, std::string(name) + " is not there: built without CUDA"};
  void* handle = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, dlerror()};
  using Entry = const tessera_bench_cuda* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "tessera_bench_cuda_entry"));
  if (entry == nullptr) return {nullptr, file->string() + " has no tessera_bench_cuda_entry"};
  const tessera_bench_cuda* table = entry();
  if (table->abi != TESSERA_BENCH_ABI) return {nullptr, file->string() + " is of another version"};
  const int count = table->device_count();
  if (count < 0) return {nullptr, table->last_error()};
  if (count == 0) return {nullptr, "no GPU"};
  return {table, ""};
}

}  // namespace

const tessera_bench_cuda* cuda_module(std::string& why) {
  static const Opened opened = open_module();
  why = opened.why;
  return opened.table;
}

}  // namespace tessera::tools
