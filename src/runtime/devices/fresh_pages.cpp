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

std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

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

/// No page lies in a gap between columns.
bool is_dense(const WrittenArea& area, std::size_t page_bytes) {
  const index_t gap = area.block.pitch_bytes - area.extent.column_bytes;
  return area.extent.part == Part::full && gap < static_cast<index_t>(page_bytes);
}

struct Span {
  std::byte* first = nullptr;
  std::byte* last = nullptr;
};
Span span_of_column(const WrittenArea& area, index_t j) {
  std::byte* const column = area.block.address + j * area.block.pitch_bytes;
  return {column + area.extent.first_byte(j), column + area.extent.last_byte(j)};
}
/// Of all columns, with the gaps between them.
Span span_of_all(const WrittenArea& area) {
  return {area.block.address, span_of_column(area, area.extent.columns - 1).last};
}

/// Whether enough of some pages, evenly chosen, are missing and can be made. Some memory of drivers looks as if it were.
bool some_are_missing(const WrittenArea& area) {
  constexpr index_t looked_at = 16;
  constexpr int enough = 2;
  int missing = 0;
  for (index_t i = 0; i < looked_at; ++i) {
    const Span span =
        is_dense(area, page_size()) ? span_of_all(area) : span_of_column(area, i * area.extent.columns / looked_at);
    std::byte* const page = rounded_up(span.first + i * (span.last - span.first) / looked_at, page_size());
    unsigned char is_there = 1;
    if (page + page_size() > span.last || mincore(page, page_size(), &is_there) != 0 || (is_there & 1) != 0) continue;
    if (madvise(page, page_size(), MADV_POPULATE_WRITE) != 0) return false;
    ++missing;
  }
  return missing >= enough;
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
  std::vector<Pages> pieces;
  if (area.extent.columns <= 0 || area.extent.column_bytes <= 0) return pieces;
  const bool is_one = is_dense(area, page_bytes);
  for (index_t j = 0; j < (is_one ? 1 : area.extent.columns); ++j) {
    const Span span = is_one ? span_of_all(area) : span_of_column(area, j);
    add_pieces(span.first, span.last, page_bytes, piece_bytes, pieces);
  }
  return pieces;
}

FreshPages::FreshPages(std::span<const WrittenArea> areas, int most_threads) noexcept {
  try {
    for (const WrittenArea& area : areas) {
      if (area.extent.bytes() < static_cast<index_t>(least_bytes) || !some_are_missing(area)) continue;
      const std::vector<Pages> pieces = pages_inside(area, page_size(), piece_bytes);
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
