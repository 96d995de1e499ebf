#include "pool/segment_pool.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <string_view>

#include "core/memory_limit.hpp"
#include "core/thread.hpp"
#include "pool/pool_settings.hpp"

namespace tessera::pool {
namespace {

using State = Segment::State;

/// More would make the search for a fitting one long.
constexpr std::size_t most_kept = 1024;
constexpr std::size_t least_memory_for_locks = std::size_t{16} << 30;
/// Beyond all memory; below it no size overflows.
constexpr std::size_t most_bytes = std::size_t{1} << (SegmentTable::most_address_bits - 1);

std::atomic<SegmentPool*> pool_of_process = nullptr;

/// At most an eighth more than was asked for, so that segments fit others of nearly the same size.
std::size_t capacity_for(std::size_t bytes) {
  constexpr std::size_t unit = SegmentPool::unit;
  const std::size_t step = std::max(std::bit_floor(bytes) / 8 / unit * unit, unit);
  return (bytes + step - 1) / step * step;
}

[[noreturn]] void end_process(std::string_view text) {
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  std::abort();
}

/// A mapping that begins at a multiple of a unit. Newer kernels align large ones by themselves.
std::byte* map_aligned(std::size_t bytes, int protection, int flags) {
  constexpr std::size_t unit = SegmentPool::unit;
  const auto map = [&](std::size_t size) {
    void* const made = mmap(nullptr, size, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return made != MAP_FAILED ? static_cast<std::byte*>(made) : nullptr;
  };
  const auto beyond = [](const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address) % unit; };
  std::byte* const exact = map(bytes);
  if (exact == nullptr || beyond(exact) == 0) return exact;
  munmap(exact, bytes);
  std::byte* const wide = map(bytes + unit);
  if (wide == nullptr) return nullptr;
  const std::size_t before = (unit - beyond(wide)) % unit;
  if (before > 0) munmap(wide, before);
  if (before < unit) munmap(wide + before + bytes, unit - before);
  return wide + before;
}

/// The addresses are nobody's from here on. Too many mappings: the pages go, the addresses stay taken.
void unmap(std::byte* begin, std::size_t bytes) {
  if (munmap(begin, bytes) != 0) static_cast<void>(madvise(begin, bytes, MADV_DONTNEED));
}

/// Before Linux 5.10 the parent of a fork could get new pages in place of its locked ones, of which devices know nothing.
bool kernel_copies_locked() {
  utsname system{};
  int major = 0, minor = 0;
  return uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
         (major > 5 || (major == 5 && minor >= 10));
}

SegmentPool::Limits limits_of_process(bool locks) {
  const std::size_t memory = memory_limit();
  // A group's limit may be near what a program needs: there large pages could end it.
  SegmentPool::Limits limits{memory / 4, memory < memory_of_machine() ? 0 : memory / 2};
  int overcommitment = 0;
  // Where all promised memory is counted, what is kept would be denied to other processes.
  if (std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommitment && overcommitment == 2)
    limits.most_kept_bytes = 0;
  limits.most_kept_bytes = bytes_of_setting("TESSERA_POOL_MEMORY").value_or(limits.most_kept_bytes);
  // Under pressure the kernel takes no locked page. So the pool gives them back, which is too late on a small machine.
  limits.least_available_bytes = memory / 8;
  const bool may_lock = is_on("TESSERA_POOL_LOCK", locks) && memory >= least_memory_for_locks && kernel_copies_locked();
  limits.most_locked_bytes = may_lock ? limits.most_kept_bytes : 0;
  if (!is_on("TESSERA_POOL_LARGE_PAGES", true)) limits.most_large_bytes = 0;
  return limits;
}

}  // namespace

void SegmentPool::open_for_process(bool locks) noexcept {
  static std::atomic<bool> is_begun = false;
  if (pool_of_process.load(std::memory_order_acquire) != nullptr || is_begun.exchange(true)) return;
  alignas(SegmentPool) static std::byte place[sizeof(SegmentPool)];
  try {
    pool_of_process.store(new (place) SegmentPool(limits_of_process(locks)), std::memory_order_release);
  } catch (const std::exception&) {  // no memory: there is no pool
  }
}

SegmentPool* SegmentPool::of_process() noexcept { return pool_of_process.load(std::memory_order_acquire); }

bool SegmentPool::owns(const void* address) noexcept {
  const SegmentPool* const pool = of_process();
  return pool != nullptr && pool->has(address);
}

SegmentPool::~SegmentPool() {
  trim();
  std::unique_lock held = lock();
  changed_.wait(held, [this] { return leaving_ == nullptr && !is_leaving_; });
  ending_ = true;
  changed_.notify_all();
  changed_.wait(held, [this] { return !has_keeper_; });
}

bool SegmentPool::owns_piece(const void* address) noexcept {
  const SegmentPool* const pool = of_process();
  const Segment* const segment = pool != nullptr ? pool->table_.find(address) : nullptr;
  return segment != nullptr && segment->begin == address;
}

// In a child, what is the parent's is left first: before anything of a segment is changed.
void SegmentPool::enter() const noexcept {
  mark_.pass([this] { const_cast<SegmentPool*>(this)->leave_parent(); });
}

std::unique_lock<std::mutex> SegmentPool::lock() const noexcept {
  enter();
  return std::unique_lock(mutex_);
}

// The memory of a process is copied page by page while its other threads go on. So their lists may be torn here. Entries
// are not: a segment is entered after it has been mapped, removed before it is unmapped, and nothing is mapped or
// unmapped while memory is copied. Segments in the hands of those threads are lost, or nobody's.
void SegmentPool::leave_parent() noexcept {
  new (&mutex_) std::mutex;
  new (&changed_) std::condition_variable;
  has_keeper_ = keeper_sleeps_ = false;
  oldest_ = newest_ = nullptr;
  kept_ = kept_bytes_ = used_bytes_ = 0;
  large_bytes_ = 0;
  forget_locks();
  table_.for_each([this](Segment& segment) {
    segment.lock = Segment::Lock::none;
    large_bytes_ += segment.is_large ? segment.bytes : 0;
    if (segment.state.load(std::memory_order_relaxed) == State::used)
      used_bytes_ += segment.bytes;
    else
      release(segment);
  });
}

Segment& SegmentPool::used_at(const void* address) const noexcept {
  enter();
  Segment* const segment = table_.find(address);
  const bool is_one = segment != nullptr && segment->begin == address && segment->state.load() == State::used;
  if (!is_one) end_process("tessera: the address of a piece is invalid, or has been freed\n");
  return *segment;
}

void* SegmentPool::allocate(std::size_t bytes, bool zeroed) noexcept {
  if (bytes == 0 || bytes > most_bytes || !mark_) return nullptr;
  const std::size_t capacity = capacity_for(bytes);
  Segment* segment = take_kept(capacity);
  if (segment != nullptr) {
    const bool has_new_pages =
        zeroed && !has_locked_pages(*segment) && madvise(segment->begin, segment->bytes, MADV_DONTNEED) == 0;
    if (zeroed && !has_new_pages) std::memset(segment->begin, 0, bytes);
  } else {
    segment = make(capacity);
    if (segment == nullptr && trim()) segment = make(capacity);
    if (segment == nullptr) return nullptr;
    add_used(static_cast<std::ptrdiff_t>(segment->bytes));
  }
  segment->state.store(State::used);
  recall_wanted(*segment);
  if (has_freed_.load(std::memory_order_relaxed)) ensure_keeper();
  return segment->begin;
}

/// The most recently freed one that fits, whose pages are most likely there; a quarter larger at most.
Segment* SegmentPool::take_kept(std::size_t capacity) noexcept {
  std::unique_lock held = lock();
  Segment* segment = newest_;
  while (segment != nullptr && (segment->bytes < capacity || segment->bytes > capacity + capacity / 4))
    segment = segment->older;
  if (segment == nullptr) return nullptr;
  unlink(*segment);
  used_bytes_ += segment->bytes;
  held.unlock();
  if (madvise(segment->begin, segment->bytes, MADV_KEEPONFORK) == 0) return segment;
  add_used(-static_cast<std::ptrdiff_t>(segment->bytes));
  release(*segment);
  return nullptr;
}

Segment* SegmentPool::make(std::size_t capacity) noexcept {
  std::byte* const begin = map_aligned(capacity, PROT_READ | PROT_WRITE, 0);
  if (begin == nullptr) return nullptr;
  Segment* const segment = table_.make_entries(begin, capacity);
  if (segment == nullptr) {
    unmap(begin, capacity);
    return nullptr;
  }
  segment->begin = begin;
  segment->bytes = capacity;
  segment->is_large = false;
  segment->state.store(State::changing);
  ask_for_large_pages(*segment);
  table_.enter(*segment, begin, capacity);
  return segment;
}

// Pages of a large one are all there when one of them is touched. So memory that is written here and there would take
// more than without the pool. All that is so may take a part of memory only.
void SegmentPool::ask_for_large_pages(Segment& segment) noexcept {
  if (large_bytes_.fetch_add(segment.bytes) + segment.bytes > limits_.most_large_bytes)
    large_bytes_ -= segment.bytes;
  else
    segment.is_large = true;
  if (segment.is_large) static_cast<void>(madvise(segment.begin, segment.bytes, MADV_HUGEPAGE));
}

/// Takes from the segment what its owner may have made of it, and gives its pages to the kernel. Nothing is kept where
/// addresses are counted: other mappings of the program need them.
bool SegmentPool::may_keep(const Segment& segment) const noexcept {
  const auto is_limited = [](auto resource) {
    rlimit limit{};
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  };
  if (!has_keeper_ || segment.bytes > limits_.most_kept_bytes || is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA))
    return false;
  const auto advise = [&](int advice) { return madvise(segment.begin, segment.bytes, advice) == 0; };
  return mprotect(segment.begin, segment.bytes, PROT_READ | PROT_WRITE) == 0 && advise(MADV_DOFORK) &&
         advise(MADV_WIPEONFORK) && (has_locked_pages(segment) || advise(MADV_FREE));  // fails after mlock()
}

void SegmentPool::free(void* address) noexcept {
  Segment& segment = used_at(address);
  State before = State::used;
  if (!segment.state.compare_exchange_strong(before, State::changing))
    end_process("tessera: a piece is freed twice at once\n");
  has_freed_.store(true, std::memory_order_relaxed);
  if (!may_keep(segment)) {
    add_used(-static_cast<std::ptrdiff_t>(segment.bytes));
    return release(segment);
  }
  std::unique_lock held = lock();
  used_bytes_ -= segment.bytes;
  segment.freed_at = Clock::now();
  segment.state.store(State::kept);
  push_newest(segment);
  Segment* const beyond =
      take_oldest([this](const Segment&) { return kept_bytes_ > limits_.most_kept_bytes || kept_ > most_kept; });
  const bool calls = keeper_sleeps_;
  held.unlock();
  if (calls) changed_.notify_all();
  release_all(beyond);
}

void* SegmentPool::resize(void* address, std::size_t bytes) noexcept {
  Segment& segment = used_at(address);
  if (bytes == 0 || bytes > most_bytes) return nullptr;
  const std::size_t capacity = capacity_for(bytes);
  const auto more = static_cast<std::ptrdiff_t>(capacity) - static_cast<std::ptrdiff_t>(segment.bytes);
  if (more == 0) return address;
  if (!leave_unlocked(segment)) return nullptr;
  Segment* resized = &segment;
  if (more < 0) {
    shrink(segment, capacity);
  } else if (!grow(segment, capacity)) {
    resized = move(segment, capacity);
    if (resized == nullptr && trim()) resized = move(segment, capacity);
    if (resized == nullptr) return nullptr;
  }
  add_used(more);
  return resized->begin;
}

void SegmentPool::shrink(Segment& segment, std::size_t capacity) noexcept {
  std::byte* const end = segment.begin + capacity;
  const std::size_t rest = segment.bytes - capacity;
  table_.remove(end, rest);
  segment.bytes = capacity;
  if (segment.is_large) large_bytes_ -= rest;
  unmap(end, rest);
}

/// Where nothing is mapped behind it.
bool SegmentPool::grow(Segment& segment, std::size_t capacity) noexcept {
  std::byte* const end = segment.begin + segment.bytes;
  const std::size_t more = capacity - segment.bytes;
  if (mremap(segment.begin, segment.bytes, capacity, 0) == MAP_FAILED) return false;
  if (table_.make_entries(end, more) == nullptr) {
    unmap(end, more);
    return false;
  }
  segment.bytes = capacity;
  bound_large_pages(segment, more);
  table_.enter(segment, end, more);
  return true;
}

/// Has grown by `more`.
void SegmentPool::bound_large_pages(Segment& segment, std::size_t more) noexcept {
  if (!segment.is_large || large_bytes_.fetch_add(more) + more <= limits_.most_large_bytes) return;
  segment.is_large = false;
  large_bytes_ -= segment.bytes;
  static_cast<void>(madvise(segment.begin, segment.bytes, MADV_NOHUGEPAGE));
}

/// The pages move, not what is in them.
Segment* SegmentPool::move(Segment& segment, std::size_t capacity) noexcept {
  if (errno != ENOMEM) return nullptr;  // the program has divided the mapping: it cannot be moved as one
  std::byte* const place = map_aligned(capacity, PROT_NONE, MAP_NORESERVE);
  if (place == nullptr) return nullptr;
  Segment* const moved = table_.make_entries(place, capacity);
  if (moved == nullptr) {
    unmap(place, capacity);
    return nullptr;
  }
  // Once the pages have moved, the entry may be another segment's.
  std::byte* const begin = segment.begin;
  const std::size_t bytes = segment.bytes;
  const bool is_large = segment.is_large;
  table_.remove(begin, bytes);
  if (mremap(begin, bytes, capacity, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
    table_.enter(segment, begin, bytes);
    return nullptr;  // the place may be somebody else's by now, and is left alone
  }
  moved->begin = place;
  moved->bytes = capacity;
  moved->is_large = is_large;
  moved->state.store(State::used);
  bound_large_pages(*moved, capacity - bytes);
  table_.enter(*moved, place, capacity);
  return moved;
}

void SegmentPool::release(Segment& segment) noexcept {
  if (leave_to_keeper(segment)) return;
  std::byte* const begin = segment.begin;
  const std::size_t bytes = segment.bytes;
  if (segment.is_large) large_bytes_ -= bytes;
  table_.remove(begin, bytes);
  unmap(begin, bytes);
}

// Linked by `newer`.
void SegmentPool::release_all(Segment* chain) noexcept {
  while (chain != nullptr) {
    Segment& segment = *chain;
    chain = segment.newer;
    release(segment);
  }
}

bool SegmentPool::trim() noexcept {
  if (!mark_) return false;
  std::unique_lock held = lock();
  Segment* const all = take_oldest([](const Segment&) { return true; });
  const bool calls = used_bytes_ == 0;
  held.unlock();
  if (calls) changed_.notify_all();
  release_all(all);
  await_leaving();
  return all != nullptr;
}

void SegmentPool::add_used(std::ptrdiff_t bytes) noexcept {
  std::unique_lock held = lock();
  used_bytes_ += static_cast<std::size_t>(bytes);
  const bool calls = used_bytes_ + kept_bytes_ == 0;  // the keeper has nothing left to wait for
  held.unlock();
  if (calls) changed_.notify_all();
}
std::size_t SegmentPool::kept_bytes() const noexcept {
  const std::unique_lock held = lock();
  return kept_bytes_;
}
std::size_t SegmentPool::used_bytes() const noexcept {
  const std::unique_lock held = lock();
  return used_bytes_;
}

void SegmentPool::push_newest(Segment& segment) noexcept {
  segment.older = newest_;
  segment.newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = &segment;
  newest_ = &segment;
  ++kept_;
  kept_bytes_ += segment.bytes;
}

void SegmentPool::unlink(Segment& segment) noexcept {
  (segment.newer != nullptr ? segment.newer->older : newest_) = segment.older;
  (segment.older != nullptr ? segment.older->newer : oldest_) = segment.newer;
  segment.state.store(State::changing);
  --kept_;
  kept_bytes_ -= segment.bytes;
}

/// The oldest ones, as long as `which` says so. @return a chain of them, linked by `newer`
template <class Which>
Segment* SegmentPool::take_oldest(Which which) noexcept {
  Segment* chain = nullptr;
  while (oldest_ != nullptr && which(*oldest_)) {
    Segment& segment = *oldest_;
    unlink(segment);
    segment.newer = chain;
    chain = &segment;
  }
  return chain;
}

// In allocate() only: free() is also called where no thread can be started, by the end of another one.
void SegmentPool::ensure_keeper() noexcept {
  constexpr std::chrono::seconds until_next_attempt{10};
  if (has_keeper_.load(std::memory_order_relaxed)) return;
  {
    const std::unique_lock held = lock();
    const Clock::time_point now = Clock::now();
    if (has_keeper_ || now < no_keeper_until_) return;
    has_keeper_ = true;
    no_keeper_until_ = now + until_next_attempt;
  }
  try {
    start_thread([this] { serve(); }).detach();
  } catch (const std::exception&) {
    has_keeper_ = false;
  }
}

void SegmentPool::serve() noexcept {
  constexpr std::chrono::milliseconds until_next_look{50};
  pthread_setname_np(pthread_self(), "ts-pool");
  std::unique_lock held = lock();
  for (;;) {
    bool is_short = false;
    if (oldest_ != nullptr && locked_bytes_ > 0) {
      held.unlock();
      is_short = is_memory_short();
      held.lock();
    }
    if (ending_ || (kept_bytes_ + used_bytes_ + locked_bytes_ == 0 && leaving_ == nullptr)) break;
    if (serve_locks(held)) continue;
    const Clock::time_point now = Clock::now();
    Segment* going = take_oldest([&](const Segment& s) { return s.freed_at + limits_.patience <= now; });
    if (going == nullptr && is_short) going = take_locked_kept();
    if (going != nullptr) {
      held.unlock();
      release_all(going);
      held.lock();
    } else if (oldest_ != nullptr) {
      const Clock::time_point next = oldest_->freed_at + limits_.patience;
      changed_.wait_until(held, locked_bytes_ > 0 ? std::min(next, now + until_next_look) : next);
    } else {
      keeper_sleeps_ = true;
      changed_.wait(held);
      keeper_sleeps_ = false;
    }
  }
  has_keeper_ = false;
  no_keeper_until_ = {};
  changed_.notify_all();
}

}  // namespace tessera::pool
