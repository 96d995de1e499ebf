#include "residence/mirrored_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"

namespace tessera::residence {

using device::Block;
using device::Extent;
using device::StreamKind;

namespace {

/// Whether the copies, which may overlap, have all of the rectangle.
bool cover(std::span<const Residence::OnlyCopy> copies, const Rectangle& wanted) {
  std::vector<Rectangle> left = {wanted};
  for (const Residence::OnlyCopy& copy : copies) {
    std::vector<Rectangle> rest;
    for (const Rectangle& each : left) {
      const std::vector<Rectangle> parts = difference(each, copy.piece.part);
      rest.insert(rest.end(), parts.begin(), parts.end());
    }
    left = std::move(rest);
  }
  return left.empty();
}

}  // namespace

MirroredDevice::MirroredDevice(std::unique_ptr<device::Device> device, Residence& residence, std::size_t most_bytes,
                               bool verifies)
    : device_(std::move(device)),
      info_(device_->info()),
      most_bytes_(std::min(most_bytes, info_.memory_bytes / 2)),
      verifies_(verifies),
      residence_(residence),
      mirror_({.uses_end = [this] { return uses_end(); },
               .take = [this](std::size_t bytes) { return device_->take_memory(bytes); },
               .free = [this](std::byte* memory) { device_->free_memory(memory); },
               .most_bytes = most_bytes_}) {
  info_.memory_bytes -= most_bytes_;
  residence_.attach(mirror_, *device_);
}

MirroredDevice::~MirroredDevice() { residence_.detach(mirror_); }

std::size_t MirroredDevice::free_memory_bytes() const {
  const std::size_t free = device_->free_memory_bytes(), untaken = most_bytes_ - mirror_.taken_bytes();
  return free - std::min(free, untaken);
}

// Blocks are read in the up stream, and written in both and from peers.
std::optional<Mirror::Events> MirroredDevice::uses_end() {
  try {
    Mirror::Events events;
    for (const StreamKind stream : {StreamKind::up, StreamKind::down, StreamKind::peer})
      events.push_back(device_->record({stream}));
    return events;
  } catch (const DeviceLost&) {  // and its memory, too
    return Mirror::Events();
  } catch (const Error&) {
    return std::nullopt;
  }
}

void MirroredDevice::give_back() {
  if (mirror_.taken_bytes() == 0) return;
  try {
    wait_for(StreamKind::up);
    wait_for(StreamKind::down);
  } catch (const Error&) {  // the device is lost, and its memory, too
    return;
  }
  mirror_.give_back();
}

device::EventPtr MirroredDevice::copy_down_only_copies(MatrixId matrix, const Rectangle& part, Block to) {
  const std::vector<Mirror::Piece> pieces = mirror_.only_copies(matrix, part);
  for (const Mirror::Piece& piece : pieces)
    device_->copy_down(part_of(to, part, piece.part), piece.on_device, {piece.part.column_bytes, piece.part.columns});
  return pieces.empty() ? nullptr : device_->record({StreamKind::down});
}

void MirroredDevice::forget() noexcept { residence_.lose_copies_of(mirror_); }

void MirroredDevice::copy_up(Block device_to, Block host_from, Extent extent) {
  const auto place = residence_.place_of(host_from, extent);
  if (!place) return device_->copy_up(device_to, host_from, extent);
  const Rectangle& wanted = place->rectangle;
  std::vector<Mirror::Piece> pieces = mirror_.find(place->matrix, wanted);
  const bool is_triangle = extent.part != Part::full;
  const bool is_here = !pieces.empty() && (!is_triangle || pieces.size() == 1);
  if (!is_here && !residence_.only_copies(place->matrix, wanted).empty())
    return copy_up_lazy(*place, device_to, host_from, extent);
  if (!is_here) {
    std::byte* const at = mirror_.make(place->matrix, wanted);
    if (at == nullptr) return device_->copy_up(device_to, host_from, extent);
    pieces = {{wanted, {at, wanted.column_bytes}}};
    try {
      device_->copy_up(pieces.front().on_device, host_from, {wanted.column_bytes, wanted.columns});
      note_filling(*place, StreamKind::up);
    } catch (...) {
      mirror_.drop(place->matrix, wanted);
      throw;
    }
  } else {
    found_bytes_.fetch_add(extent.bytes(), std::memory_order_relaxed);
    for (const Mirror::Piece& piece : pieces) {
      if (verifies_ && !is_triangle && residence_.only_copies(place->matrix, piece.part).empty())
        verify(piece, wanted, host_from);
    }
  }
  if (is_triangle) return device_->copy_within(StreamKind::up, device_to, pieces.front().on_device, extent);
  for (const Mirror::Piece& piece : pieces) {
    const Rectangle& part = piece.part;
    device_->copy_within(StreamKind::up, part_of(device_to, wanted, part), piece.on_device,
                         {part.column_bytes, part.columns});
  }
}

std::optional<device::LentBlock> MirroredDevice::lend(Block host, Extent extent) {
  if (extent.part != Part::full) return std::nullopt;
  const auto place = residence_.place_of(host, extent);
  if (!place) return std::nullopt;
  const Rectangle& wanted = place->rectangle;
  std::optional<device::LentBlock> lent = mirror_.lend(place->matrix, wanted);
  if (!lent) return std::nullopt;
  found_bytes_.fetch_add(extent.bytes(), std::memory_order_relaxed);
  if (verifies_ && residence_.only_copies(place->matrix, wanted).empty())
    verify({wanted, {lent->address, wanted.column_bytes}}, wanted, host);
  return lent;
}

void MirroredDevice::copy_up_lazy(const Residence::Place& place, Block device_to, Block host_from, Extent extent) {
  if (mirror_.only_copies(place.matrix, place.rectangle).empty()) {
    if (const std::optional<Block> here = assemble(place, host_from))
      return device_->copy_within(StreamKind::up, device_to, *here, extent);
  }
  if (extent.part == Part::full) return fill(place, device_to, host_from);
  for (index_t j = 0; j < extent.columns; ++j)
    fill_column(place, device_to, host_from, j, extent.first_byte(j), extent.last_byte(j));
}

// Only copies of peers stay there. Those of this device are replaced, so that they must be results: if the device
// fails, they are lost.
std::optional<Block> MirroredDevice::assemble(const Residence::Place& place, Block host_from) {
  const Rectangle& wanted = place.rectangle;
  std::byte* const at = mirror_.place(wanted.bytes());
  if (at == nullptr) return std::nullopt;
  const Block here{at, wanted.column_bytes};
  try {
    fill(place, here, host_from);
    mirror_.enter(place.matrix, wanted, at, false, device_->record({StreamKind::up}));
  } catch (...) {
    mirror_.give_up(at);
    throw;
  }
  return here;
}

void MirroredDevice::fill(const Residence::Place& place, Block to, Block host_from) {
  const Rectangle& wanted = place.rectangle;
  const std::vector<Residence::OnlyCopy> copies = residence_.only_copies(place.matrix, wanted);
  if (!cover(copies, wanted)) device_->copy_up(to, host_from, {wanted.column_bytes, wanted.columns});
  bool has_peers = false;
  for (const Residence::OnlyCopy& copy : copies) {
    const Rectangle& part = copy.piece.part;
    const Extent extent{part.column_bytes, part.columns};
    found_bytes_.fetch_add(part.bytes(), std::memory_order_relaxed);
    if (copy.device == device_.get()) {
      device_->copy_within(StreamKind::up, part_of(to, wanted, part), copy.piece.on_device, extent);
      continue;
    }
    if (!std::exchange(has_peers, true)) device_->wait({StreamKind::peer}, device_->record({StreamKind::up}));
    device_->copy_peer(part_of(to, wanted, part), *copy.device, copy.piece.on_device, extent);
  }
  if (has_peers) device_->wait({StreamKind::up}, device_->record({StreamKind::peer}));
}

void MirroredDevice::note_filling(const Residence::Place& place, StreamKind stream) {
  mirror_.note_filling(place.matrix, place.rectangle, device_->record({stream}));
}

void MirroredDevice::verify(const Mirror::Piece& piece, const Rectangle& wanted, Block host_from) {
  const Rectangle& part = piece.part;
  std::vector<std::byte> copy(static_cast<std::size_t>(part.bytes()));
  wait_for(StreamKind::up);  // for what the device writes there first
  device_->copy_down({copy.data(), part.column_bytes}, piece.on_device, {part.column_bytes, part.columns});
  wait_for(StreamKind::down);
  const std::byte* const host = part_of(host_from, wanted, part).address;
  for (index_t j = 0; j < part.columns; ++j) {
    const auto bytes = static_cast<std::size_t>(part.column_bytes);
    if (std::memcmp(copy.data() + j * part.column_bytes, host + j * host_from.pitch_bytes, bytes) == 0) continue;
    log_line(info_.name + ": a matrix that stays on it is not what host memory says, in column " +
             std::to_string(part.first_column + j) + " of " + std::to_string(piece.part.columns));
    std::abort();
  }
}

void MirroredDevice::wait_for(StreamKind stream) {
  const device::EventPtr event = device_->record({stream});
  while (event->status() == device::EventStatus::pending) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void MirroredDevice::copy_down(Block host_to, Block device_from, Extent extent) {
  const bool goes_down = keep(host_to, device_from, extent);
  if (!goes_down) stayed_bytes_.fetch_add(extent.bytes(), std::memory_order_relaxed);
  write(host_to, extent, [&] {
    if (goes_down) device_->copy_down(host_to, device_from, extent);
  });
}

void MirroredDevice::copy_slices_down(Block host_to, Block device_from, Extent extent,
                                      const device::WrittenSlicesPtr& written) {
  const Part part = extent.part;
  const bool goes_down = keep(host_to, device_from, extent);
  if (!goes_down) stayed_bytes_.fetch_add(extent.bytes(), std::memory_order_relaxed);
  write(host_to, extent, [&] {
    if (!goes_down) return;
    if (extent.part == part) return device_->copy_slices_down(host_to, device_from, extent, written);
    device_->copy_down(host_to, device_from, extent);
  });
}

template <class Copy>
void MirroredDevice::write(Block host_to, Extent extent, Copy copy) {
  residence_.drop(host_to, extent, &mirror_);
  try {
    copy();
  } catch (...) {
    if (const auto place = residence_.place_of(host_to, extent)) mirror_.drop(place->matrix, place->rectangle);
    throw;
  }
}

// Blocks are kept before they go down: the end of a copy to host memory may be in another stream of the device.
bool MirroredDevice::keep(Block host_to, Block device_from, Extent& extent) {
  const auto place = residence_.place_of(host_to, extent);
  if (!place) return true;
  if (extent.part != Part::full) return keep_triangle(*place, host_to, device_from, extent);
  std::byte* const at = mirror_.make(place->matrix, place->rectangle, place->is_lazy);
  if (at == nullptr) return true;
  keep_in({at, extent.column_bytes}, *place, device_from, extent);
  return !place->is_lazy;
}

// A triangle is kept only in a block that has the other one. If there is no memory for such a block, both go down.
bool MirroredDevice::keep_triangle(const Residence::Place& place, Block host_to, Block device_from, Extent& extent) {
  const Rectangle& written = place.rectangle;
  const std::vector<Mirror::Piece> pieces = mirror_.find(place.matrix, written);
  std::optional<Block> block;
  if (pieces.size() == 1 && !mirror_.is_lent(place.matrix, written)) {
    block = pieces.front().on_device;
  } else if (residence_.only_copies(place.matrix, written).empty()) {
    mirror_.drop(place.matrix, written);
    return true;
  } else {
    block = assemble(place, host_to);
    if (!block) fill_rest(place, host_to, device_from, extent);
    wait_for(StreamKind::up);  // peers give their copies up next, and do not know of this reader
    if (!block) {
      extent.part = Part::full;
      mirror_.drop(place.matrix, written);
      return true;
    }
  }
  if (place.is_lazy) mirror_.note_only_copy(place.matrix, written);
  keep_in(*block, place, device_from, extent);
  return !place.is_lazy;
}

// Of the tile, nobody uses the other triangle.
void MirroredDevice::fill_rest(const Residence::Place& place, Block host, Block device, Extent extent) {
  for (index_t j = 0; j < extent.columns; ++j) {
    const bool is_lower = extent.part == Part::lower;
    const index_t first = is_lower ? 0 : extent.last_byte(j),
                  last = is_lower ? extent.first_byte(j) : extent.column_bytes;
    if (first < last) fill_column(place, device, host, j, first, last);
  }
}

void MirroredDevice::fill_column(const Residence::Place& place, Block to, Block host_from, index_t j, index_t first,
                                 index_t last) {
  const Rectangle& all = place.rectangle;
  const Rectangle column{all.first_byte + first, all.first_column + j, last - first, 1};
  fill({place.matrix, column}, part_of(to, all, column), part_of(host_from, all, column));
}

void MirroredDevice::keep_in(Block block, const Residence::Place& place, Block device_from, Extent extent) {
  try {
    device_->copy_within(StreamKind::down, block, device_from, extent);
    note_filling(place, StreamKind::down);
  } catch (...) {
    mirror_.drop(place.matrix, place.rectangle);
    throw;
  }
}

device::Device& MirroredDevice::behind(device::Device& device) {
  auto* const mirrored = dynamic_cast<MirroredDevice*>(&device);
  return mirrored != nullptr ? *mirrored->device_ : device;
}

void MirroredDevice::copy_peer(Block device_to, device::Device& source, Block source_from, Extent extent) {
  device_->copy_peer(device_to, behind(source), source_from, extent);
}

void MirroredDevice::copy_to_peer(device::Device& target, Block target_to, Block device_from, Extent extent) {
  device_->copy_to_peer(behind(target), target_to, device_from, extent);
}

bool MirroredDevice::can_access(const device::Device& peer) const {
  const auto* const mirrored = dynamic_cast<const MirroredDevice*>(&peer);
  return device_->can_access(mirrored != nullptr ? *mirrored->device_ : peer);
}

bool MirroredDevice::recover() noexcept {
  mirror_.drop_copies();
  return device_->recover();
}

}  // namespace tessera::residence
