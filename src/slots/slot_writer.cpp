#include "slots/slot_writer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>

namespace tessera::slots {

// Pairs with the loader's store when it binds a slot lazily. Code behind the address was there before.
void* value_of(void** slot) noexcept { return std::atomic_ref(*slot).load(std::memory_order_acquire); }

SlotWriter::Outcome SlotWriter::replace(void** slot, void* expected, void* desired) {
  if (reinterpret_cast<std::uintptr_t>(slot) % std::atomic_ref<void*>::required_alignment != 0) {
    why_ = "a slot is not aligned";
    return Outcome::refused;
  }
  if (!open_page_of(slot)) return Outcome::refused;
  // Callers read the slot with plain loads: they see one of the two addresses.
  return std::atomic_ref(*slot).compare_exchange_strong(expected, desired, std::memory_order_acq_rel)
             ? Outcome::written
             : Outcome::changed;
}

bool SlotWriter::open_page_of(void** slot) {
  const auto address = reinterpret_cast<std::uintptr_t>(slot);
  if (page_bytes_ == 0) {
    page_bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    read_mappings();
  }
  char* const page = reinterpret_cast<char*>(slot) - address % page_bytes_;
  if (page == page_) return true;
  close_page();
  const auto mapping = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& candidate) {
    return address >= candidate.begin && address < candidate.end;
  });
  if (mapping == mappings_.end()) {
    why_ = "the protection of its pages is not known (/proc/self/maps)";
    return false;
  }
  if ((mapping->protection & PROT_WRITE) != 0) return true;
  // Code in the same page must stay executable meanwhile.
  if (mprotect(page, page_bytes_, mapping->protection | PROT_READ | PROT_WRITE) != 0) {
    why_ = std::string("its pages cannot be made writable: ") + std::strerror(errno);
    return false;
  }
  page_ = page;
  protection_ = mapping->protection;
  return true;
}

void SlotWriter::close_page() noexcept {
  // Where this fails, the page stays writable: the program does not need the protection.
  if (page_ != nullptr) mprotect(page_, page_bytes_, protection_);
  page_ = nullptr;
}

// Lines such as "7f0000000000-7f0000001000 r-xp 00000000 08:01 42   /lib/libm.so.6".
void SlotWriter::read_mappings() {
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    Mapping mapping{0, 0, PROT_NONE};
    const char* const end = line.data() + line.size();
    const auto [dash, error] = std::from_chars(line.data(), end, mapping.begin, 16);
    if (error != std::errc() || dash == end) continue;
    const auto [gap, second_error] = std::from_chars(dash + 1, end, mapping.end, 16);
    if (second_error != std::errc() || end - gap < 4) continue;
    const std::string_view letters(gap + 1, 3);
    if (letters[0] == 'r') mapping.protection |= PROT_READ;
    if (letters[1] == 'w') mapping.protection |= PROT_WRITE;
    if (letters[2] == 'x') mapping.protection |= PROT_EXEC;
    mappings_.push_back(mapping);
  }
}

}  // namespace tessera::slots
