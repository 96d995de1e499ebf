// The last moment of a drop-in library. A preloaded library is torn down before those that the program is linked with, libtessera.so
// after them; so it is from here that the CPU BLAS, if the program brought it, is protected.
#include "blas_api/bridge.hpp"

namespace {
[[gnu::destructor]] void at_unload() { tessera_private_leave(); }
}  // namespace
