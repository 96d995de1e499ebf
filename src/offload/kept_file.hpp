// Files that processes of a user keep for later ones.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::offload {

/// FNV-1a: a name for a file or an entry, not a safeguard; that says itself what it belongs to.
std::uint64_t hash_of(const std::string& text);

/// By the XDG Base Directory Specification; empty: there is none. Not made yet, perhaps.
std::string cache_folder();

/// Replaces the file as a whole: a reader meanwhile gets the old file or the new one. Several processes, on several
/// machines, may do so at once. @throws NotAvailable if it cannot be written
void write_whole(const std::string& path, const std::string& text);

}  // namespace tessera::offload
