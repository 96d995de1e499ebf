// Calls a function while it is being loaded: the one whose address is in TESSERA_TEST_CALL_AT_LOAD.
#include <cstdint>
#include <cstdlib>

namespace {
[[gnu::constructor]] void at_load() {
  const char* const address = std::getenv("TESSERA_TEST_CALL_AT_LOAD");
  if (address != nullptr)
    reinterpret_cast<void (*)()>(static_cast<std::uintptr_t>(std::strtoull(address, nullptr, 10)))();
}
}  // namespace
