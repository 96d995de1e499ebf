#include "residence/mirror.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "core/error.hpp"

namespace tessera::residence {
namespace {

bool overlaps(const Rectangle& a, const Rectangle& b) { return common_part(a, b).bytes() > 0; }

}  // namespace

Rectangle common_part(const Rectangle& a, const Rectangle& b) {
  Rectangle part;
  part.first_byte = std::max(a.first_byte, b.first_byte);
  part.first_column = std::max(a.first_column, b.first_column);
  part.column_bytes = std::max<index_t>(std::min(a.end_byte(), b.end_byte()) - part.first_byte, 0);
  part.columns = std::max<index_t>(std::min(a.end_column(), b.end_column()) - part.first_column, 0);
  return part;
}

std::vector<Rectangle> difference(const Rectangle& a, const Rectangle& b) {
  const Rectangle common = common_part(a, b);
  if (common.bytes() == 0) return {a};
  const Rectangle all[] = {{a.first_byte, a.first_column, a.column_bytes, common.first_column - a.first_column},
                           {a.first_byte, common.end_column(), a.column_bytes, a.end_column() - common.end_column()},
                           {a.first_byte, common.first_column, common.first_byte - a.first_byte, common.columns},
                           {common.end_byte(), common.first_column, a.end_byte() - common.end_byte(), common.columns}};
  std::vector<Rectangle> some;
  std::copy_if(std::begin(all), std::end(all), std::back_inserter(some),
               [](const Rectangle& part) { return part.bytes() > 0; });
  return some;
}

device::Block part_of(device::Block block, const Rectangle& rectangle, const Rectangle& part) {
  return {block.address + (part.first_column - rectangle.first_column) * block.pitch_bytes +
              (part.first_byte - rectangle.first_byte),
          block.pitch_bytes};
}

std::vector<Mirror::Piece> Mirror::find(MatrixId matrix, const Rectangle& rectangle) {
  const LockGuard lock(mutex_);
  std::vector<Piece> pieces;
  std::vector<Blocks::iterator> used;
  index_t covered = 0;
  for (auto block = blocks_.begin(); block != blocks_.end() && covered < rectangle.bytes(); ++block) {
    if (block->matrix != matrix) continue;
    const Rectangle part = common_part(block->rectangle, rectangle);
    if (part.bytes() == 0) continue;
    pieces.push_back({part, block->at(part)});
    used.push_back(block);
    covered += part.bytes();  // blocks are disjoint
  }
  if (covered < rectangle.bytes()) return {};
  for (const auto& block : used) blocks_.splice(blocks_.end(), blocks_, block);
  return pieces;
}

std::optional<device::LentBlock> Mirror::lend(MatrixId matrix, const Rectangle& rectangle) {
  const LockGuard lock(mutex_);
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& each) {
    return each.matrix == matrix && each.rectangle == rectangle;
  });
  if (block == blocks_.end()) return std::nullopt;
  // The rest of a block may lie anywhere in its memory.
  const std::shared_ptr<Memory> memory = block->memory;
  if (block->on_device.address != memory->address || block->on_device.pitch_bytes != rectangle.column_bytes)
    return std::nullopt;
  if (block->filled && block->filled->status() != device::EventStatus::complete) return std::nullopt;
  block->filled = nullptr;
  blocks_.splice(blocks_.end(), blocks_, block);
  memory->loans.fetch_add(1, std::memory_order_relaxed);
  const auto end = [memory](const void* /*address*/) { memory->loans.fetch_sub(1, std::memory_order_release); };
  return device::LentBlock{memory->address, {static_cast<const void*>(memory->address), end}};
}

bool Mirror::is_lent(MatrixId matrix, const Rectangle& rectangle) const {
  const LockGuard lock(mutex_);
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.matrix == matrix && block.is_lent() && overlaps(block.rectangle, rectangle);
  });
}

std::vector<Mirror::Piece> Mirror::only_copies(MatrixId matrix, const Rectangle& rectangle) const {
  const LockGuard lock(mutex_);
  std::vector<Piece> pieces;
  for (const Block& block : blocks_) {
    if (block.matrix != matrix || !block.is_only_copy) continue;
    const Rectangle part = common_part(block.rectangle, rectangle);
    if (part.bytes() > 0) pieces.push_back({part, block.at(part)});
  }
  return pieces;
}

bool Mirror::has_only_copies(MatrixId matrix) const {
  const LockGuard lock(mutex_);
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const Block& block) { return block.is_only_copy && block.matrix == matrix; });
}

std::byte* Mirror::make(MatrixId matrix, const Rectangle& rectangle, bool is_only_copy) {
  {
    const LockGuard lock(mutex_);
    drop_overlapped(matrix, rectangle);
  }
  std::byte* const at = place(rectangle.bytes());
  if (at == nullptr) return nullptr;
  try {
    enter(matrix, rectangle, at, is_only_copy);
  } catch (...) {
    give_up(at);
    throw;
  }
  return at;
}

std::byte* Mirror::place(index_t bytes) {
  const LockGuard lock(mutex_);
  Blocks placed(1);
  placed.front().memory = std::make_shared<Memory>();
  std::byte* const at = allocate(static_cast<std::size_t>(bytes));
  if (at == nullptr) return nullptr;
  placed.front().memory->address = at;
  placed.front().memory->bytes = static_cast<std::size_t>(bytes);
  placed_.splice(placed_.end(), placed);
  return at;
}

Mirror::Blocks::iterator Mirror::placed_at(std::byte* place) {
  return std::find_if(placed_.begin(), placed_.end(), [&](const Block& each) { return each.memory->address == place; });
}

void Mirror::enter(MatrixId matrix, const Rectangle& rectangle, std::byte* place, bool is_only_copy,
                   const device::EventPtr& filled) {
  const LockGuard lock(mutex_);
  const auto block = placed_at(place);
  drop_overlapped(matrix, rectangle);
  block->matrix = matrix;
  block->rectangle = rectangle;
  block->on_device = {place, rectangle.column_bytes};
  block->is_only_copy = is_only_copy;
  block->filled = filled;
  blocks_.splice(blocks_.end(), placed_, block);
}

void Mirror::give_up(std::byte* place) {
  const LockGuard lock(mutex_);
  dropped_.splice(dropped_.end(), placed_, placed_at(place));
}

void Mirror::note_filling(MatrixId matrix, const Rectangle& rectangle, const device::EventPtr& end) {
  const LockGuard lock(mutex_);
  for (Block& block : blocks_) {
    if (block.matrix == matrix && overlaps(block.rectangle, rectangle)) block.filled = end;
  }
}

void Mirror::note_only_copy(MatrixId matrix, const Rectangle& rectangle) {
  const LockGuard lock(mutex_);
  for (Block& block : blocks_) {
    if (block.matrix == matrix && overlaps(block.rectangle, rectangle)) block.is_only_copy = true;
  }
}

void Mirror::note_in_host_memory(MatrixId matrix) {
  const LockGuard lock(mutex_);
  for (Block& block : blocks_) {
    if (block.matrix == matrix) block.is_only_copy = false;
  }
}

// Blocks that are given up may still be in use. Then there is memory next time, and nothing more is given up now.
std::byte* Mirror::allocate(std::size_t bytes) {
  if (bytes > device_.most_bytes) return nullptr;
  for (;;) {
    if (!retire_dropped()) return nullptr;
    free_retired();
    if (std::byte* const address = allocate_in_segments(bytes)) return address;
    if (take_segment(bytes)) continue;
    const auto oldest = std::find_if(blocks_.begin(), blocks_.end(),
                                     [](const Block& block) { return !block.is_only_copy && !block.is_lent(); });
    if (oldest == blocks_.end() || soon_free() >= bytes) return nullptr;
    dropped_.splice(dropped_.end(), blocks_, oldest);
  }
}

std::byte* Mirror::allocate_in_segments(std::size_t bytes) {
  for (auto& [address, heap] : segments_) {
    if (std::byte* const found = heap.allocate(bytes)) return found;
  }
  return nullptr;
}

bool Mirror::take_segment(std::size_t bytes) {
  constexpr std::size_t usual = std::size_t{1} << 30, parts = 8, alignment = heap::FreeList::alignment;
  if (bytes > untaken()) free_small_segments(bytes);
  const std::size_t left = untaken() / alignment * alignment;
  if (bytes > left) return false;
  const std::size_t least = std::max(bytes, std::min(usual, device_.most_bytes / parts));
  const std::size_t wanted = std::min((least + alignment - 1) / alignment * alignment, left);
  std::byte* const address = device_.take(wanted);
  if (address == nullptr) return false;
  segments_.try_emplace(address, address, wanted);
  return true;
}

// Empty ones, in which a block of this size has no place.
void Mirror::free_small_segments(std::size_t bytes) {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto here = segment++;
    if (here->second.occupied_count() > 0 || here->second.capacity() >= bytes) continue;
    device_.free(here->first);
    segments_.erase(here);
  }
}

heap::DeviceHeap& Mirror::heap_of(std::byte* place) { return std::prev(segments_.upper_bound(place))->second; }

void Mirror::free(Block& block) {
  if (--block.memory->blocks == 0) heap_of(block.memory->address).free(block.memory->address);
}

std::size_t Mirror::taken() const {
  std::size_t sum = 0;
  for (const auto& [address, heap] : segments_) sum += heap.capacity();
  return sum;
}

void Mirror::drop(MatrixId matrix, const Rectangle& rectangle) {
  const LockGuard lock(mutex_);
  drop_overlapped(matrix, rectangle);
}

void Mirror::drop(MatrixId matrix) {
  const LockGuard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto here = block++;
    if (here->matrix == matrix) dropped_.splice(dropped_.end(), blocks_, here);
  }
}

void Mirror::drop_copies() {
  const LockGuard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto here = block++;
    if (!here->is_only_copy) dropped_.splice(dropped_.end(), blocks_, here);
  }
}

void Mirror::clear() {
  const LockGuard lock(mutex_);
  dropped_.splice(dropped_.end(), blocks_);
}

void Mirror::give_back() {
  const LockGuard lock(mutex_);
  if (std::any_of(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.is_only_copy; })) return;
  blocks_.clear();
  dropped_.clear();
  retired_.clear();
  for (const auto& [address, heap] : segments_) device_.free(address);
  segments_.clear();
}

std::size_t Mirror::untaken() const { return device_.most_bytes - std::min(taken(), device_.most_bytes); }

std::size_t Mirror::taken_bytes() const {
  const LockGuard lock(mutex_);
  return taken();
}

std::size_t Mirror::resident_bytes() const {
  const LockGuard lock(mutex_);
  std::size_t sum = 0;
  for (const Block& block : blocks_) sum += static_cast<std::size_t>(block.rectangle.bytes());
  return sum;
}

bool Mirror::is_crowded() const {
  const LockGuard lock(mutex_);
  std::set<const Memory*> memories;  // a small rest of a block takes all of the block's
  std::size_t sum = 0;
  for (const Block& block : blocks_) {
    if (block.is_only_copy && memories.insert(block.memory.get()).second) sum += block.memory->bytes;
  }
  return 2 * sum > device_.most_bytes;
}

index_t Mirror::resident_bytes(MatrixId matrix, const Rectangle& rectangle) const {
  const LockGuard lock(mutex_);
  index_t sum = 0;
  for (const Block& block : blocks_) {
    if (block.matrix == matrix) sum += common_part(block.rectangle, rectangle).bytes();
  }
  return sum;
}

// Of an only copy, what is left takes its place in the order.
void Mirror::drop_overlapped(MatrixId matrix, const Rectangle& rectangle) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto here = block++;
    if (here->matrix != matrix || !overlaps(here->rectangle, rectangle)) continue;
    Blocks left;
    if (here->is_only_copy) {
      for (const Rectangle& part : difference(here->rectangle, rectangle)) {
        left.push_back({matrix, part, here->at(part), here->memory, true, here->filled});
        ++here->memory->blocks;
      }
    }
    blocks_.splice(here, left);
    dropped_.splice(dropped_.end(), blocks_, here);
  }
}

/// @return false: nobody knows when their uses end
bool Mirror::retire_dropped() {
  if (dropped_.empty()) return true;
  const std::optional<Events> until = device_.uses_end();
  if (!until) return false;
  while (!dropped_.empty()) {
    retired_.push_back({dropped_.front(), *until});
    dropped_.pop_front();
  }
  return true;
}

/// Bytes of blocks that are given up, and in use for a little while. Loans may take longer.
std::size_t Mirror::soon_free() const {
  std::size_t sum = 0;
  for (const Retired& retired : retired_) {
    if (!retired.block.is_lent()) sum += static_cast<std::size_t>(retired.block.rectangle.bytes());
  }
  return sum;
}

// Events of a stream complete in order, and so do these.
void Mirror::free_retired() {
  const auto is_pending = [](const device::EventPtr& event) { return event->status() == device::EventStatus::pending; };
  for (auto retired = retired_.begin(); retired != retired_.end();) {
    const auto here = retired++;
    if (std::any_of(here->until.begin(), here->until.end(), is_pending)) return;
    here->until.clear();
    if (here->block.is_lent()) continue;
    free(here->block);
    retired_.erase(here);
  }
}

void Mirror::check_invariants() const {
  const LockGuard lock(mutex_);
  std::size_t occupied = 0;
  for (const auto& [address, heap] : segments_) {
    heap.check_invariants();
    occupied += heap.occupied_count();
  }
  std::set<const Memory*> memories;
  for (const Blocks* const blocks : {&blocks_, &placed_, &dropped_}) {
    for (const Block& block : *blocks) memories.insert(block.memory.get());
  }
  for (const Retired& retired : retired_) memories.insert(retired.block.memory.get());
  if (occupied != memories.size()) throw InternalError("mirror: memory that belongs to no block");
  for (auto a = blocks_.begin(); a != blocks_.end(); ++a) {
    for (auto b = std::next(a); b != blocks_.end(); ++b) {
      if (a->matrix == b->matrix && overlaps(a->rectangle, b->rectangle))
        throw InternalError("mirror: blocks of a matrix overlap");
    }
  }
}

}  // namespace tessera::residence
