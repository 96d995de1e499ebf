#include "residence/mirrored_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
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

/// Where a part of a rectangle lies in the rectangle's block.
Block part_of(Block block, const Rectangle& rectangle, const Rectangle& part) {
  return {block.address + (part.first_column - rectangle.first_column) * block.pitch_bytes +
              (part.first_byte - rectangle.first_byte),
          block.pitch_bytes};
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
  residence_.attach(mirror_);
}

MirroredDevice::~MirroredDevice() { residence_.detach(mirror_); }

std::size_t MirroredDevice::free_memory_bytes() const {
  const std::size_t free = device_->free_memory_bytes(), untaken = most_bytes_ - mirror_.taken_bytes();
  return free - std::min(free, untaken);
}

// Blocks are read in the up stream, and written in both.
std::optional<Mirror::Events> MirroredDevice::uses_end() {
  try {
    return Mirror::Events{device_->record({StreamKind::up}), device_->record({StreamKind::down})};
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

void MirroredDevice::copy_up(Block device_to, Block host_from, Extent extent) {
  const auto place = residence_.place_of(host_from, extent);
  if (!place) return device_->copy_up(device_to, host_from, extent);
  const Rectangle& wanted = place->rectangle;
  std::vector<Mirror::Piece> pieces = mirror_.find(place->matrix, wanted);
  const bool is_triangle = extent.part != Part::full;
  if (pieces.empty() || (is_triangle && pieces.size() > 1)) {
    std::byte* const at = mirror_.make(place->matrix, wanted);
    if (at == nullptr) return device_->copy_up(device_to, host_from, extent);
    pieces = {{wanted, {at, wanted.column_bytes}}};
    try {
      device_->copy_up(pieces.front().on_device, host_from, {wanted.column_bytes, wanted.columns});
    } catch (...) {
      mirror_.drop(place->matrix, wanted);
      throw;
    }
  } else {
    found_bytes_.fetch_add(extent.bytes(), std::memory_order_relaxed);
    for (const Mirror::Piece& piece : pieces) {
      if (verifies_ && !is_triangle) verify(piece, wanted, host_from);
    }
  }
  if (is_triangle) return device_->copy_within(StreamKind::up, device_to, pieces.front().on_device, extent);
  for (const Mirror::Piece& piece : pieces) {
    const Rectangle& part = piece.part;
    device_->copy_within(StreamKind::up, part_of(device_to, wanted, part), piece.on_device,
                         {part.column_bytes, part.columns});
  }
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
  keep(host_to, device_from, extent);
  write(host_to, extent, [&] { device_->copy_down(host_to, device_from, extent); });
}

void MirroredDevice::copy_slices_down(Block host_to, Block device_from, Extent extent,
                                      const device::WrittenSlicesPtr& written) {
  keep(host_to, device_from, extent);
  write(host_to, extent, [&] { device_->copy_slices_down(host_to, device_from, extent, written); });
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

// Blocks are kept before they go down: the end of a copy to host memory may be in another stream of the device. Of a
// triangle only if the other one of its block is here.
void MirroredDevice::keep(Block host_to, Block device_from, Extent extent) {
  const auto place = residence_.place_of(host_to, extent);
  if (!place) return;
  const Rectangle& written = place->rectangle;
  try {
    if (extent.part != Part::full) {
      const std::vector<Mirror::Piece> pieces = mirror_.find(place->matrix, written);
      if (pieces.size() != 1) return mirror_.drop(place->matrix, written);
      return device_->copy_within(StreamKind::down, pieces.front().on_device, device_from, extent);
    }
    std::byte* const at = mirror_.make(place->matrix, written);
    if (at == nullptr) return;
    device_->copy_within(StreamKind::down, {at, written.column_bytes}, device_from, extent);
  } catch (...) {
    mirror_.drop(place->matrix, written);
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
  mirror_.clear();
  return device_->recover();
}

}  // namespace tessera::residence
