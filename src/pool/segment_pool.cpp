#include "pool/segment_pool.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "core/environment.hpp"
#include "core/thread.hpp"

namespace tessera::pool {
namespace {

/// The range of the process's pool, for owns(). The release of the size pairs with the acquire load.
std::atomic<std::byte*> region_of_process = nullptr;
std::atomic<std::size_t> bytes_of_process = 0;

std::size_t memory_of_machine() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// TESSERA_POOL_MEMORY, a number of bytes; else a quarter of the machine's memory.
std::size_t most_kept() {
  const char* const text = environment_variable("TESSERA_POOL_MEMORY");
  const long long bytes = text != nullptr ? std::atoll(text) : -1;
  return bytes >= 0 ? static_cast<std::size_t>(bytes) : memory_of_machine() / 4;
}

/// Addresses that nobody may touch. nullptr: the process may not have so many, or they are counted (ulimit -v) and its own
/// malloc needs them.
std::byte* reserve(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return nullptr;
  void* const range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return range == MAP_FAILED ? nullptr : static_cast<std::byte*>(range);
}

}  // namespace

// No static variable of a function, for which a child could wait for ever.
SegmentPool* SegmentPool::of_process() noexcept {
  static std::atomic<SegmentPool*> pool = nullptr;
  static std::atomic<SegmentPool*> at_fork = nullptr;  ///< the one whose mutex a fork holds
  static std::atomic<bool> is_being_made = false;
  SegmentPool* const there = pool.load(std::memory_order_acquire);
  if (there != nullptr || is_being_made.exchange(true)) return there;
  // Many times what there is, since segments of different sizes leave gaps.
  auto* const made = new (std::nothrow) SegmentPool({16 * memory_of_machine(), most_kept()});
  const auto before = [] {
    at_fork = pool.load();
    if (at_fork != nullptr) at_fork.load()->before_fork();
  };
  const auto in_parent = [] {
    if (at_fork != nullptr) at_fork.load()->after_fork();
  };
  const auto in_child = [] {
    if (at_fork != nullptr) at_fork.load()->after_fork_in_child();
  };
  if (made == nullptr || pthread_atfork(before, in_parent, in_child) != 0) return nullptr;
  region_of_process.store(made->begin_, std::memory_order_relaxed);
  bytes_of_process.store(made->bytes_, std::memory_order_release);  // before anybody can have a segment
  pool.store(made, std::memory_order_release);
  return made;
}

bool SegmentPool::owns(const void* address) noexcept {
  const std::size_t bytes = bytes_of_process.load(std::memory_order_acquire);
  const std::byte* const begin = region_of_process.load(std::memory_order_relaxed);
  return static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin) < bytes;
}

SegmentPool::SegmentPool(const Limits& limits) : most_kept_bytes_(limits.most_kept_bytes), patience_(limits.patience) {
  std::size_t bytes = (limits.region_bytes + 2 * unit) / unit * unit;
  std::byte* range = reserve(bytes);
  while (range == nullptr && bytes > 64 * unit) range = reserve(bytes = bytes / 2 / unit * unit);
  if (range == nullptr) return;
  begin_ = range + (unit - reinterpret_cast<std::uintptr_t>(range) % unit) % unit;
  bytes_ = static_cast<std::size_t>(range + bytes - begin_) / unit * unit;
  runs_.emplace(0, bytes_ / unit);
}

SegmentPool::~SegmentPool() {
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !has_keeper_; });
  }
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

// At most an eighth more than was asked for, so that segments fit others of nearly the same size.
std::size_t SegmentPool::capacity_for(std::size_t bytes) {
  const std::size_t step = std::max(std::bit_floor(std::max<std::size_t>(bytes, 1)) / 8 / unit * unit, unit);
  return (bytes + step - 1) / step * step;
}

void* SegmentPool::allocate(std::size_t bytes, bool zeroed) noexcept {
  if (bytes > bytes_ || bytes == 0) return nullptr;
  const std::size_t capacity = capacity_for(bytes);
  std::byte* begin = nullptr;
  bool is_clear = false;
  try {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Used> used = take_kept(capacity);
    if (!used) {
      used = make(capacity);
      is_clear = true;
    }
    if (!used && kept_bytes_ > 0) {  // free segments may stand in its way
      while (!kept_.empty()) release_oldest();
      used = make(capacity);
    }
    if (!used) return nullptr;
    const Segment& segment = *used->place.mapped();
    begin = segment.begin;
    used_bytes_ += segment.bytes;
    used_.emplace(unit_of(begin), std::move(used));
  } catch (const std::exception&) {  // the addresses of a segment whose place could not be made are lost
    return nullptr;
  }
  if (zeroed && !is_clear) std::memset(begin, 0, bytes);
  return begin;
}

/// The most recently freed one of that size, whose pages are most likely there, or one that is a quarter larger at most.
std::unique_ptr<SegmentPool::Used> SegmentPool::take_kept(std::size_t capacity) {
  auto place = kept_.lower_bound(capacity);
  if (place == kept_.end() || place->first > capacity + capacity / 4) return nullptr;
  place = std::prev(kept_.upper_bound(place->first));
  auto used = std::make_unique<Used>();
  kept_bytes_ -= place->first;
  used->place = kept_.extract(place);
  return used;
}

std::unique_ptr<SegmentPool::Used> SegmentPool::make(std::size_t capacity) {
  auto segment = std::make_unique<Segment>();
  Kept one;
  const auto run = std::find_if(runs_.begin(), runs_.end(), [&](const auto& r) { return r.second >= capacity / unit; });
  if (run == runs_.end()) return nullptr;
  const std::size_t first = run->first;
  segment->begin = begin_ + first * unit;
  segment->bytes = capacity;
  std::byte* const begin = segment->begin;
  auto used = std::make_unique<Used>();
  used->place = one.extract(one.emplace(capacity, std::move(segment)));
  if (mprotect(begin, capacity, PROT_READ | PROT_WRITE) != 0) return nullptr;
  if (!take_units(first, capacity / unit)) return nullptr;
  static_cast<void>(madvise(begin, capacity, MADV_HUGEPAGE));
  return used;
}

bool SegmentPool::take_units(std::size_t first, std::size_t count) {
  const auto run = std::prev(runs_.upper_bound(first));
  if (run == runs_.end() || run->first > first || run->first + run->second < first + count) return false;
  const std::size_t end = run->first + run->second;
  if (end > first + count) runs_.emplace(first + count, end - first - count);
  if (run->first == first)
    runs_.erase(run);
  else
    run->second = first - run->first;
  return true;
}

void SegmentPool::give_back_units(std::size_t first, std::size_t count) noexcept {
  const auto after = runs_.find(first + count);
  if (after != runs_.end()) {
    count += after->second;
    runs_.erase(after);
  }
  if (const auto next = runs_.lower_bound(first); next != runs_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == first) {
      before->second += count;
      return;
    }
  }
  try {
    runs_.emplace(first, count);
  } catch (const std::bad_alloc&) {  // these addresses are lost
  }
}

void SegmentPool::free(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(unit_of(address));
  Kept::node_type place = std::move(used->second->place);
  used_.erase(used);
  Segment& segment = *place.mapped();
  used_bytes_ -= segment.bytes;
  kept_bytes_ += segment.bytes;
  segment.freed_at = Clock::now();
  static_cast<void>(madvise(segment.begin, segment.bytes, MADV_FREE));
  kept_.insert(std::move(place));
  while (kept_bytes_ > most_kept_bytes_) release_oldest();
  if (!has_keeper_ && kept_bytes_ > 0) start_keeper();
}

bool SegmentPool::resize(void* address, std::size_t bytes) noexcept {
  if (bytes > bytes_) return false;
  const std::lock_guard lock(mutex_);
  Used& used = *used_.find(unit_of(address))->second;
  Segment& segment = *used.place.mapped();
  if (bytes <= segment.bytes) return bytes >= segment.bytes / 2;
  const std::size_t capacity = capacity_for(bytes), more = capacity - segment.bytes;
  std::byte* const end = segment.begin + segment.bytes;
  try {
    const auto run = runs_.find(unit_of(end));
    if (run == runs_.end() || run->second < more / unit) return false;
    if (mprotect(end, more, PROT_READ | PROT_WRITE) != 0 || !take_units(unit_of(end), more / unit)) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  static_cast<void>(madvise(end, more, MADV_HUGEPAGE));
  segment.bytes = used.place.key() = capacity;
  used_bytes_ += more;
  return true;
}

std::size_t SegmentPool::capacity_of(const void* address) const noexcept {
  const std::lock_guard lock(mutex_);
  return used_.find(unit_of(address))->second->place.mapped()->bytes;
}

// Mapped anew: addresses without memory, as they were.
void SegmentPool::release(Kept::iterator place) noexcept {
  const std::unique_ptr<Segment> segment = std::move(place->second);
  kept_bytes_ -= segment->bytes;
  kept_.erase(place);
  void* const made =
      mmap(segment->begin, segment->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (made == MAP_FAILED) {  // too many mappings: the pages go, the addresses stay taken
    static_cast<void>(madvise(segment->begin, segment->bytes, MADV_DONTNEED));
    return;
  }
  give_back_units(unit_of(segment->begin), segment->bytes / unit);
}

void SegmentPool::release_oldest() noexcept {
  const auto older = [](const auto& one, const auto& other) { return one.second->freed_at < other.second->freed_at; };
  release(std::min_element(kept_.begin(), kept_.end(), older));
}

/// @return when the next one will have been idle for so long
SegmentPool::Clock::time_point SegmentPool::release_idle(Clock::time_point now) noexcept {
  Clock::time_point next = now + patience_;
  for (auto place = kept_.begin(); place != kept_.end();) {
    const auto here = place++;
    const Clock::time_point end = here->second->freed_at + patience_;
    if (end <= now)
      release(here);
    else
      next = std::min(next, end);
  }
  return next;
}

void SegmentPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  while (!kept_.empty()) release(kept_.begin());
}

std::size_t SegmentPool::kept_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}
std::size_t SegmentPool::used_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

void SegmentPool::start_keeper() noexcept {
  try {
    start_thread([this] { serve(); }).detach();
    has_keeper_ = true;
  } catch (const std::exception&) {  // the next free() tries again
  }
}

void SegmentPool::serve() noexcept {
  pthread_setname_np(pthread_self(), "ts-pool");
  std::unique_lock lock(mutex_);
  while (!ending_ && !kept_.empty()) changed_.wait_until(lock, release_idle(Clock::now()));
  has_keeper_ = false;
  changed_.notify_all();
}

// The parent's keeper is not here. Its condition variable may have been in use.
void SegmentPool::after_fork_in_child() noexcept {
  has_keeper_ = false;
  new (&changed_) std::condition_variable;
  mutex_.unlock();
}

}  // namespace tessera::pool
