// A device whose copies from host memory come from its own memory where an earlier call has left them there.
//
// It stands in the place of the device for all who copy. A block of a known matrix (residence.hpp) goes up into the
// mirror, and from there to where it is wanted; next time only the second step is left. Results that come down go to
// host memory and into the mirror, those in lazy matrices into the mirror alone. Both steps are in the same stream:
// events say of both what they say of one, and whoever may overwrite or read a place in host memory may do so in the
// mirror.
//
// A block that is here as it is wanted is lent, and not copied at all.
//
// Triangles go up as the whole of their blocks, of which the rest may change meanwhile: that is a write, and drops it.
//
// Values of a lazy matrix that host memory does not have come from the mirrors that have them, those of peers included.
// A tile is read only after the end of the copy that wrote it, and its place is written again only after the end of
// that reading: the tile cache's rules about places in host memory order devices here, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "device/device.hpp"
#include "residence/residence.hpp"

namespace tessera::residence {

class MirroredDevice final : public device::Device {
 public:
  /// @param residence outlives this device
  /// @param most_bytes of the device's memory are for the mirror; nobody else is told of them
  /// @param verifies ends the process if what is found differs from host memory: for tests
  MirroredDevice(std::unique_ptr<device::Device> device, Residence& residence, std::size_t most_bytes,
                 bool verifies = false);
  ~MirroredDevice() override;
  MirroredDevice(const MirroredDevice&) = delete;
  MirroredDevice& operator=(const MirroredDevice&) = delete;

  Mirror& mirror() { return mirror_; }
  /// Empties the mirror, and gives the device's memory back. @pre nobody else uses the device meanwhile
  void give_back();
  /// Copies down what only this device has of a part of a matrix. The mirror stays as it is.
  /// @return the event of its end; nullptr: there is nothing
  device::EventPtr copy_down_only_copies(MatrixId matrix, const Rectangle& part, device::Block to);
  /// The device is lost, and so is what it alone had.
  void forget() noexcept;
  /// Bytes that copies up have found here so far.
  std::int64_t found_bytes() const { return found_bytes_.load(std::memory_order_relaxed); }
  /// Bytes of copies down that stayed here so far.
  std::int64_t stayed_bytes() const { return stayed_bytes_.load(std::memory_order_relaxed); }

  void copy_up(device::Block device_to, device::Block host_from, device::Extent extent) override;
  void copy_down(device::Block host_to, device::Block device_from, device::Extent extent) override;
  std::optional<device::LentBlock> lend(device::Block host, device::Extent extent) override;
  void copy_slices_down(device::Block host_to, device::Block device_from, device::Extent extent,
                        const device::WrittenSlicesPtr& written) override;
  void copy_peer(device::Block device_to, device::Device& source, device::Block source_from,
                 device::Extent extent) override;
  void copy_to_peer(device::Device& target, device::Block target_to, device::Block device_from,
                    device::Extent extent) override;
  bool can_access(const device::Device& peer) const override;
  /// Nobody knows what of the mirror was written. Only copies stay: whose writing has failed says which are wrong.
  bool recover() noexcept override;

  const device::DeviceInfo& info() const override { return info_; }
  std::size_t free_memory_bytes() const override;

  // As the device does.
  std::byte* reserve(std::size_t bytes) override { return device_->reserve(bytes); }
  std::byte* reserve_addresses(std::size_t bytes) override { return device_->reserve_addresses(bytes); }
  std::size_t commit(std::size_t bytes) override { return device_->commit(bytes); }
  std::size_t decommit(std::size_t keep_bytes) override { return device_->decommit(keep_bytes); }
  bool can_copy_slices(device::Extent extent, device::SliceKind kind) override {
    return device_->can_copy_slices(extent, kind);
  }
  void copy_within(device::StreamKind stream, device::Block to, device::Block from, device::Extent extent) override {
    device_->copy_within(stream, to, from, extent);
  }
  device::EventPtr record(device::StreamId stream) override { return device_->record(stream); }
  void wait(device::StreamId stream, const device::EventPtr& event) override { device_->wait(stream, event); }
  std::unique_ptr<device::HostPinning> pin_host(std::span<const device::HostRange> ranges) override {
    return device_->pin_host(ranges);
  }
  PageLocker* page_locker() noexcept override { return device_->page_locker(); }
  std::unique_ptr<device::HostMemory> host_memory(std::size_t bytes) override { return device_->host_memory(bytes); }
  bool on_completion(std::function<void()> listener) override { return device_->on_completion(std::move(listener)); }
  void attach_thread() override { device_->attach_thread(); }
  std::byte* take_memory(std::size_t bytes) override { return device_->take_memory(bytes); }
  void free_memory(std::byte* memory) override { device_->free_memory(memory); }
  bool has_locked(const std::byte* host) const override { return device_->has_locked(host); }
  std::string diagnosis() const override { return device_->diagnosis(); }

 private:
  static device::Device& behind(device::Device& device);
  std::optional<Mirror::Events> uses_end();
  template <class Copy>
  void write(device::Block host_to, device::Extent extent, Copy copy);
  void note_filling(const Residence::Place& place, device::StreamKind stream);
  void verify(const Mirror::Piece& piece, const Rectangle& wanted, device::Block host_from);
  void wait_for(device::StreamKind stream);
  /// Brings what the matrix is now to a place of this device, in the up stream.
  void fill(const Residence::Place& place, device::Block to, device::Block host_from);
  /// A block of its own for a rectangle of which some is only on devices. @return nothing if there is no memory for it
  std::optional<device::Block> assemble(const Residence::Place& place, device::Block host_from);
  void copy_up_lazy(const Residence::Place& place, device::Block device_to, device::Block host_from,
                    device::Extent extent);
  /// @return whether it must go to host memory as well
  /// @param extent becomes what must
  bool keep(device::Block host_to, device::Block device_from, device::Extent& extent);
  void keep_in(device::Block block, const Residence::Place& place, device::Block device_from, device::Extent extent);
  bool keep_triangle(const Residence::Place& place, device::Block host_to, device::Block device_from,
                     device::Extent& extent);
  void fill_rest(const Residence::Place& place, device::Block host, device::Block device, device::Extent extent);
  /// As fill(), of the bytes [first, last) of one column of the place.
  void fill_column(const Residence::Place& place, device::Block to, device::Block host_from, index_t j, index_t first,
                   index_t last);

  const std::unique_ptr<device::Device> device_;
  device::DeviceInfo info_;  ///< of what is left of the device
  const std::size_t most_bytes_;
  const bool verifies_;
  Residence& residence_;
  Mirror mirror_;
  std::atomic<std::int64_t> found_bytes_{0}, stayed_bytes_{0};
};

}  // namespace tessera::residence
