#include "runtime/devices/fresh_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tessera::runtime {
namespace {

/// Smaller areas are written before threads have started.
constexpr std::size_t least_bytes = std::size_t{8} << 20;
/// A large page. A thread makes as much at a time, so that two of them never make parts of one.
constexpr std::size_t piece_bytes = std::size_t{2} << 20;
/// From here on pages are asked to be large: fewer to make, to look up and to lock.
constexpr std::size_t least_bytes_of_large_pages = std::size_t{32} << 20;
/// More threads wait for each other in the kernel: eight took twice as long as four for pages of 4 KiB (Linux 6.18).
constexpr int most_useful_threads = 4;

std::size_t page_size() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* rounded_up(std::byte* address, std::size_t unit) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return address + ((value + unit - 1) / unit * unit - value);
}
std::byte* rounded_down(std::byte* address, std::size_t unit) {
  return address - reinterpret_cast<std::uintptr_t>(address) % unit;
}

void add_pieces(std::byte* first, std::byte* last, std::size_t page_bytes, std::size_t piece_bytes,
                std::vector<Pages>& pieces) {
  std::byte* const end = rounded_down(last, page_bytes);
  for (std::byte* begin = rounded_up(first, page_bytes); begin < end;) {
    std::byte* const piece_end = std::min(end, rounded_up(begin + 1, piece_bytes));
    pieces.push_back({begin, static_cast<std::size_t>(piece_end - begin)});
    begin = piece_end;
  }
}

/// Whether enough of some pages, evenly chosen, are missing and can be made. Some memory of drivers looks as if it were.
bool some_are_missing(std::span<const Pages> pieces) {
  constexpr std::size_t looked_at = 16;
  constexpr int enough = 2;
  int missing = 0;
  for (std::size_t i = 0; i < looked_at; ++i) {
    unsigned char is_there = 1;
    const Pages& piece = pieces[i * pieces.size() / looked_at];
    std::byte* const page = piece.begin + piece.bytes / page_size() * i / looked_at * page_size();
    if (mincore(page, page_size(), &is_there) != 0 || (is_there & 1) != 0) continue;
    if (madvise(page, page_size(), MADV_POPULATE_WRITE) != 0) return false;
    ++missing;
  }
  return missing >= enough;
}

/// No page lies in a gap between columns.
bool is_dense(const WrittenArea& area, std::size_t page_bytes) {
  const index_t gap = area.block.pitch_bytes - area.extent.column_bytes;
  return area.extent.part == Part::full && gap < static_cast<index_t>(page_bytes);
}

/// Of each run of pieces that are whole.
void ask_for_large_pages(std::span<const Pages> pieces) {
  const auto is_whole = [](const Pages& piece) { return piece.bytes == piece_bytes; };
  for (auto first = pieces.begin(); first != pieces.end();) {
    auto last = first;
    while (last != pieces.end() && is_whole(*last) &&
           last->begin == first->begin + (last - first) * std::ptrdiff_t{piece_bytes})
      ++last;
    if (last == first) {
      ++first;
      continue;
    }
    static_cast<void>(madvise(first->begin, static_cast<std::size_t>(last - first) * piece_bytes, MADV_HUGEPAGE));
    first = last;
  }
}

}  // namespace

std::vector<Pages> pages_inside(const WrittenArea& area, std::size_t page_bytes, std::size_t piece_bytes) {
  const auto& [block, extent] = area;
  std::vector<Pages> pieces;
  if (extent.columns <= 0 || extent.column_bytes <= 0) return pieces;
  if (is_dense(area, page_bytes)) {
    std::byte* const last_column = block.address + (extent.columns - 1) * block.pitch_bytes;
    add_pieces(block.address, last_column + extent.column_bytes, page_bytes, piece_bytes, pieces);
    return pieces;
  }
  for (index_t j = 0; j < extent.columns; ++j) {
    std::byte* const column = block.address + j * block.pitch_bytes;
    add_pieces(column + extent.first_byte(j), column + extent.last_byte(j), page_bytes, piece_bytes, pieces);
  }
  return pieces;
}

FreshPages::FreshPages(std::span<const WrittenArea> areas, int most_threads) noexcept {
  try {
    for (const WrittenArea& area : areas) {
      if (area.extent.bytes() < static_cast<index_t>(least_bytes)) continue;
      const std::vector<Pages> pieces = pages_inside(area, page_size(), piece_bytes);
      if (pieces.empty() || !some_are_missing(pieces)) continue;
      const bool is_large = static_cast<std::size_t>(area.extent.bytes()) >= least_bytes_of_large_pages;
      if (is_large && is_dense(area, page_size())) ask_for_large_pages(pieces);
      pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
    }
    const int threads = std::min(most_threads, most_useful_threads);
    if (pieces_.empty()) return;
    threads_.reserve(static_cast<std::size_t>(threads));
    for (int t = 0; t < threads; ++t) threads_.push_back(start_thread([this] { make(); }));
  } catch (const std::exception&) {  // no memory or no thread: fewer do as well, or none
  }
}

FreshPages::~FreshPages() {
  stopping_.store(true, std::memory_order_relaxed);
  wait();
}

void FreshPages::wait() {
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
}

void FreshPages::make() {
  for (std::size_t i = next_.fetch_add(1); i < pieces_.size(); i = next_.fetch_add(1)) {
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (madvise(pieces_[i].begin, pieces_[i].bytes, MADV_POPULATE_WRITE) != 0) {
      stopping_.store(true, std::memory_order_relaxed);
      return;
    }
    made_bytes_.fetch_add(static_cast<std::int64_t>(pieces_[i].bytes), std::memory_order_relaxed);
  }
}

}  // namespace tessera::runtime
