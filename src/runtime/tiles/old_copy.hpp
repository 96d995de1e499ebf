// A tile of C as it was before its task, kept until its new value is in host memory, wherever the copy lies.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace tessera::runtime {

class OldCopy {
 public:
  virtual ~OldCopy() = default;
  OldCopy(const OldCopy&) = delete;
  OldCopy& operator=(const OldCopy&) = delete;

  /// Whether the tile may be overwritten in host memory. Once true, it stays so.
  virtual bool is_whole() const = 0;
  /// Whether it will never be whole.
  virtual bool has_failed() const { return false; }
  /// The event that kernels wait for before they overwrite the old value on the device; nullptr: it is not read there.
  virtual device::EventPtr read_on_device() const { return nullptr; }
  /// The device that has the copy; no_device: it is in host memory.
  virtual int holder() const { return no_device; }
  static constexpr int no_device = -1;
  /// Makes the tile what it was. @return false if the copy has been lost, too
  /// @pre is_whole(); nobody else reads or writes the tile; called by the thread of its holder, if it has one
  virtual bool restore() noexcept = 0;

 protected:
  OldCopy() = default;
};

/// Dropping the last one frees the memory of the copy.
using OldCopyPtr = std::shared_ptr<OldCopy>;

}  // namespace tessera::runtime
