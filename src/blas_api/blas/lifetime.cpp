// The first and the last moment of a drop-in library. A preloaded library is set up after those that the program is linked with, and
// torn down before them; libtessera.so is not. So it is from here that the CPU BLAS, if the program brought it, is protected
// from forks that begin before the first call, and from the end of the process.
#include "offload/bridge.hpp"

namespace {
[[gnu::constructor]] void at_load() { tessera_private_enter(); }
[[gnu::destructor]] void at_unload() { tessera_private_leave(); }
}  // namespace
