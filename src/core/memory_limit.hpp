// How much memory this process may have.
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

std::size_t memory_of_machine();

/// Bytes: the machine's, or the least limit of a cgroup (version 2, or the memory controller of version 1) that this
/// process is in. Reads files; thread-safe. @throws std::bad_alloc
/// @param root the folder that stands for "/", for tests
std::size_t memory_limit(const std::string& root = "");

}  // namespace tessera
