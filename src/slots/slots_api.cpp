// libtessera_slots.so: the four functions by which the Python package redirects calls (redirection.hpp). A handle is
// never freed: calls through its slots may be under way until the process ends. No exception leaves these functions, and
// none of them changes errno.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "core/environment.hpp"
#include "core/error_text.hpp"
#include "slots/redirection.hpp"

namespace {

using tessera::slots::Redirection;

/// As much as there is room for, with a zero at the end. @param to may be null if `size` is 0
void copy_text(std::string_view text, char* to, std::size_t size) {
  if (to == nullptr || size == 0) return;
  const std::size_t count = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), count);
  to[count] = '\0';
}

template <class Result, class Body>
Result answer_of(void* redirection, Result otherwise, Body body) noexcept {
  const tessera::ErrnoKept stays;
  if (redirection == nullptr) return otherwise;
  try {
    return body(*static_cast<Redirection*>(redirection));
  } catch (...) {
    return otherwise;
  }
}

}  // namespace

#define TESSERA_FACE extern "C" __attribute__((visibility("default")))

/// @param libraries names of files
/// @param error     gets the reason of a failure, cut to `error_size` bytes; may be null
/// @return a handle for the functions below; NULL on failure
TESSERA_FACE void* tessera_slots_open(const char* const* libraries, std::size_t count, char* error,
                                      std::size_t error_size) {
  const tessera::ErrnoKept stays;
  copy_text("", error, error_size);
  try {
    return new Redirection(std::vector<std::string>(libraries, libraries + count));
  } catch (...) {
    copy_text(tessera::text_of(std::current_exception()), error, error_size);
    return nullptr;
  }
}

/// @return the number of slots that this call has redirected; -1 on failure
TESSERA_FACE int tessera_slots_apply(void* redirection) {
  return answer_of(redirection, -1, [](Redirection& slots) { return slots.apply(); });
}

/// @return the number of slots that this call has put back; -1 on failure
TESSERA_FACE int tessera_slots_undo(void* redirection) {
  return answer_of(redirection, -1, [](Redirection& slots) { return slots.undo(); });
}

/// The report as JSON, cut to `size` bytes with the zero at its end. @param text may be null if `size` is 0
/// @return the bytes that the whole report needs; 0 on failure
TESSERA_FACE std::size_t tessera_slots_report(void* redirection, char* text, std::size_t size) {
  return answer_of(redirection, std::size_t{0}, [&](const Redirection& slots) {
    const std::string report = slots.report();
    copy_text(report, text, size);
    return report.size() + 1;
  });
}
