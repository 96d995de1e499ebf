#include "blas_api/lapack/system_lapack.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "blas_api/lapack/next_symbol.hpp"
#include "core/environment.hpp"
#include "core/loaded_objects.hpp"
#include "core/log.hpp"
#include "core/thread.hpp"

namespace tessera::lapack {
namespace {

/// Exported by all libraries of ours that have LAPACK's names, so that none is taken for the LAPACK behind it.
constexpr const char* own_marker = "tessera_blas_marker";

#if TESSERA_INTEGER_BITS == 64
constexpr const char* library = "liblapack64.so.3";
constexpr const char* own_folders[] = {"lapack64"};
constexpr const char* other_libraries[] = {"libopenblas64.so.0", "libmkl_rt.so.2"};
#else
constexpr const char* library = "liblapack.so.3";
constexpr const char* own_folders[] = {"lapack"};
constexpr const char* other_libraries[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libflexiblas.so.3"};
#endif
constexpr const char* library_roots[] = {"/usr/lib/*/", "/usr/lib64/", "/usr/lib/", "/usr/local/lib/"};

std::vector<std::string> files_like(const std::string& pattern) {
  std::vector<std::string> files;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

/// The reference first: its calls of BLAS can be caught. Then what a distribution offers in its place.
std::vector<std::string> candidates() {
  std::vector<std::string> files;
  const auto append = [&](const std::string& pattern) {
    for (std::string& file : files_like(pattern)) files.push_back(std::move(file));
  };
  for (const char* root : library_roots) {
    for (const char* folder : own_folders) append(std::string(root) + folder + "/" + library);
  }
  for (const char* root : library_roots) append(std::string(root) + "*/" + library);
  for (const char* root : library_roots) append(std::string(root) + library);
  files.insert(files.end(), std::begin(other_libraries), std::end(other_libraries));
  return files;
}

// Defined in the library itself, not in one that it needs.
bool is_own(void* handle) { return object_of(dlsym(handle, own_marker)) == handle; }

struct Opened {
  void* handle = nullptr;
  std::string name;
};

Opened open_first(const std::vector<std::string>& files) {
  std::string tried;
  for (const std::string& file : files) {
    // Local: its names must not come in front of the program's. Not bound deeply: its calls of BLAS are to be seen.
    void* const handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
    tried += " " + file;
    if (handle == nullptr) continue;
    if (!is_own(handle) && others_symbol(handle, "dgetrf_") != nullptr) return {handle, file};
    dlclose(handle);
  }
  return {nullptr, "none of" + tried};
}

/// Never freed: functions of it may run while the process ends.
const Opened& opened() {
  // The release of the exchange, which publishes what was opened, pairs with the acquire load.
  static std::atomic<const Opened*> kept = nullptr;
  if (const Opened* const found = kept.load(std::memory_order_acquire)) return *found;
  const WithoutCancellation stays;
  const char* const named = environment_variable("TESSERA_CPU_LAPACK");
  const bool is_named = named != nullptr && *named != '\0';
  auto mine = std::make_unique<const Opened>(open_first(is_named ? std::vector<std::string>{named} : candidates()));
  if (is_named && mine->handle == nullptr) {
    log_line(std::string("TESSERA_CPU_LAPACK=\"") + named + "\" cannot be used; the default is");
    mine = std::make_unique<const Opened>(open_first(candidates()));
  }
  const Opened* expected = nullptr;
  if (kept.compare_exchange_strong(expected, mine.get(), std::memory_order_acq_rel)) return *mine.release();
  return *expected;
}

}  // namespace

void* system_lapack_function(const char* symbol) noexcept {
  try {
    return others_symbol(opened().handle, symbol);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::string system_lapack_name() { return opened().name; }

}  // namespace tessera::lapack
