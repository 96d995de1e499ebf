#include "tests/device_api/device_api.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>

namespace tessera::test {
namespace {

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("no ") + name);
}

tessera_side side_of(const Level3& call) { return call.side == Side::left ? TESSERA_LEFT : TESSERA_RIGHT; }
tessera_uplo uplo_of(const Level3& call) { return call.uplo == Uplo::lower ? TESSERA_LOWER : TESSERA_UPPER; }
tessera_diag diag_of(const Level3& call) { return call.diag == Diag::unit ? TESSERA_UNIT : TESSERA_NON_UNIT; }
tessera_transpose transpose_of(Op op) {
  if (op == Op::no_trans) return TESSERA_NO_TRANS;
  return op == Op::trans ? TESSERA_TRANS : TESSERA_CONJ_TRANS;
}

template <Scalar T, class Function>
tessera_status run_triangular(Function* function, tessera_device_handle handle, const Level3& call) {
  const T alpha = scalar_cast<T>(call.alpha);
  const auto passed = [&] {
    if constexpr (std::floating_point<T>) {
      return alpha;
    } else {
      return static_cast<const void*>(&alpha);
    }
  }();
  return function(handle, side_of(call), uplo_of(call), transpose_of(call.op_a), diag_of(call), call.m, call.n, passed,
                  static_cast<const CArray<T>*>(call.A), call.lda, static_cast<CArray<T>*>(call.C), call.ldc);
}

template <class Function>
tessera_status ask_triangular(Function* function, tessera_device_handle handle, const Level3& call,
                              std::size_t* bytes) {
  return function(handle, side_of(call), uplo_of(call), transpose_of(call.op_a), diag_of(call), call.m, call.n, bytes);
}

}  // namespace

DeviceApi::DeviceApi(const std::string& path) {
  // For good: none of them can be unloaded.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
#define TESSERA_FUNCTION(name) resolve(library, #name, name);
#define TESSERA_ROUTINE(routine, letter, T)                                               \
  resolve(library, "tessera_device_" #letter #routine, tessera_device_##letter##routine); \
  resolve(library, "tessera_device_" #letter #routine "_workspace", tessera_device_##letter##routine##_workspace);
#include "device_api/routines.def"
}

#define TESSERA_RUN_trsm run_triangular
#define TESSERA_RUN_trmm run_triangular
#define TESSERA_ASK_trsm ask_triangular
#define TESSERA_ASK_trmm ask_triangular

tessera_status DeviceApi::run(tessera_device_handle handle, const Level3& call) const {
#define TESSERA_ROUTINE(routine_, letter, T)                                 \
  if (call.routine == Routine::routine_ && call.type == scalar_type_of<T>()) \
    return TESSERA_RUN_##routine_<T>(tessera_device_##letter##routine_, handle, call);
#include "device_api/routines.def"
  throw std::logic_error("no such routine");
}

tessera_status DeviceApi::workspace(tessera_device_handle handle, const Level3& call, std::size_t* bytes) const {
#define TESSERA_ROUTINE(routine_, letter, T)                                 \
  if (call.routine == Routine::routine_ && call.type == scalar_type_of<T>()) \
    return TESSERA_ASK_##routine_(tessera_device_##letter##routine_##_workspace, handle, call, bytes);
#include "device_api/routines.def"
  throw std::logic_error("no such routine");
}

std::vector<DeviceRoutine> all_device_routines() {
  std::vector<DeviceRoutine> all;
#define TESSERA_ROUTINE(routine, letter, T) all.push_back({Routine::routine, scalar_type_of<T>()});
#include "device_api/routines.def"
  return all;
}

std::vector<Routine> distinct_device_routines() {
  std::vector<Routine> distinct;
  for (const DeviceRoutine& one : all_device_routines()) {
    if (std::ranges::find(distinct, one.routine) == distinct.end()) distinct.push_back(one.routine);
  }
  return distinct;
}

}  // namespace tessera::test
