// Writes slots, also where the loader has made their pages read-only.
//
// A page is made writable, and gets back the protection that it had, when the writer turns to another page or ends. Two
// writers must not be at work at the same time: one could close a page that the other has found open. A writer serves
// one object, since it reads the protections once: objects that are loaded meanwhile still change theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::slots {

/// The value of a slot that other threads may call through or bind.
void* value_of(void** slot) noexcept;

/// @pre the slots' object is held as long as the writer lives, from before its first write
class SlotWriter {
 public:
  enum class Outcome : std::uint8_t {
    written,
    changed,  ///< the slot has another value than was expected
    refused,  ///< why() has the reason
  };

  SlotWriter() = default;
  ~SlotWriter() { close_page(); }
  SlotWriter(const SlotWriter&) = delete;
  SlotWriter& operator=(const SlotWriter&) = delete;

  /// Replaces the value if it is `expected`, in one step for the threads that call through the slot.
  /// @throws std::bad_alloc, with the slot as it was
  Outcome replace(void** slot, void* expected, void* desired);
  /// Of the last slot that was refused.
  const std::string& why() const { return why_; }

 private:
  struct Mapping {
    std::uintptr_t begin, end;
    int protection;
  };

  bool open_page_of(void** slot);
  void close_page() noexcept;
  void read_mappings();

  std::vector<Mapping> mappings_;  ///< of the process, as they were when the first slot was written
  char* page_ = nullptr;           ///< the page that has been made writable; nullptr: none
  std::size_t page_bytes_ = 0;
  int protection_ = 0;  ///< which that page had
  std::string why_;
};

}  // namespace tessera::slots
