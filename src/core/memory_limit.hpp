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

/// Bytes that this process could still take without another one being ended or swapped out: what the machine has, or the
/// least that is left below a limit of its cgroups. Pages of files that can be read again count. As memory_limit().
std::size_t available_memory(const std::string& root = "");

}  // namespace tessera
