// Runs problems (tests/level3_problem.hpp) on an implementation of the device routines. If a test wants that, operands
// lie at addresses that are aligned to their elements only. Guards lie around the operands and around the workspace.
// Batches: batch_runner.hpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/device_api/implementation.hpp"
#include "tests/level3_problem.hpp"

namespace tessera::test {

/// Memory of an implementation that grows and is reused.
class DeviceMemory {
 public:
  explicit DeviceMemory(Implementation& implementation) : implementation_(implementation) {}
  Implementation& implementation() { return implementation_; }
  std::byte* of(std::size_t bytes) {
    if (bytes > bytes_) {
      bytes_ = std::max(bytes, std::size_t{1} << 22);
      memory_ = implementation_.allocate(bytes_);
    }
    return memory_;
  }

 private:
  Implementation& implementation_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// An image of device memory, before and after a call, with guards of `gap` bytes between operands.
class DeviceImage {
 public:
  explicit DeviceImage(DeviceMemory& memory) : device_(memory), bytes_(gap, guard) {}

  /// @return the offset of the placed elements
  template <class Element>
  std::size_t place(const std::vector<Element>& values, std::size_t shift) {
    const std::size_t begin = bytes_.size() + shift;
    bytes_.resize(begin, guard);
    const auto* const from = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), from, from + values.size() * sizeof(Element));
    bytes_.resize((bytes_.size() + gap - 1) / gap * gap + gap, guard);
    return begin;
  }
  /// The device address of the image. @pre everything has been placed
  std::byte* address() { return memory_ = device_.of(bytes_.size()); }
  /// Writes other values at a place.
  template <class Element>
  void replace(std::size_t begin, const std::vector<Element>& values) {
    if (!values.empty()) std::memcpy(bytes_.data() + begin, values.data(), values.size() * sizeof(Element));
  }
  std::byte* send() {
    device_.implementation().write(address(), bytes_.data(), bytes_.size());
    return memory_;
  }
  void receive() {
    after_.resize(bytes_.size());
    device_.implementation().read(after_.data(), memory_, after_.size());
  }
  template <class Element>
  void take(std::vector<Element>& values, std::size_t begin) {
    if (values.empty()) return;
    std::memcpy(values.data(), after_.data() + begin, values.size() * sizeof(Element));
    forget(begin, values.size() * sizeof(Element));
  }
  void forget(std::size_t begin, std::size_t bytes) {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(begin), bytes,
                after_.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  bool is_as_before() const { return after_ == bytes_; }

 private:
  static constexpr std::size_t gap = 256;
  static constexpr std::byte guard{0xff};  // NaN in every type
  DeviceMemory& device_;
  std::vector<std::byte> bytes_, after_;
  std::byte* memory_ = nullptr;
};

struct Placement {
  bool misaligned = false;      ///< operands begin one element behind an aligned address
  bool with_workspace = false;  ///< of the size that the call can use
};

class DeviceRunner {
 public:
  explicit DeviceRunner(Implementation& implementation) : implementation_(implementation), memory_(implementation) {}

  /// Runs the fixture's problem and copies the memory back to the fixture.
  template <Scalar T>
  void run(Level3Fixture<T>& fixture, const Placement& placement = {}) {
    Level3 call = fixture.problem();
    DeviceImage image(memory_);
    const std::size_t shift = placement.misaligned ? sizeof(T) : 0;
    const std::size_t A = image.place(fixture.A(), shift);
    const std::size_t C = image.place(fixture.C(), shift);
    const std::size_t workspace_bytes = placement.with_workspace ? implementation_.workspace_bytes(call) : 0;
    const std::size_t workspace = image.place(std::vector<std::byte>(workspace_bytes), 0);
    std::byte* const memory = image.send();
    call.A = memory + A;
    call.C = memory + C;
    if (call.B != nullptr) call.B = call.C;
    if (workspace_bytes > 0) implementation_.set_workspace(memory + workspace, workspace_bytes);
    implementation_.run(call);
    if (workspace_bytes > 0) implementation_.set_workspace(nullptr, 0);
    image.receive();
    image.take(fixture.A(), A);
    image.take(fixture.C(), C);
    image.forget(workspace, workspace_bytes);
    EXPECT_TRUE(image.is_as_before()) << "something beside the operands was written";
  }

  template <Scalar T>
  void run_and_check(const Level3Case& c, const Placement& placement = {}, unsigned seed = 1) {
    Level3Fixture<T> fixture(c, seed);
    run(fixture, placement);
    EXPECT_TRUE(fixture.check()) << (placement.misaligned ? "misaligned" : "")
                                 << (placement.with_workspace ? " with workspace" : "");
  }

 private:
  Implementation& implementation_;
  DeviceMemory memory_;
};

/// A triangle of `order` rows and so many right-hand sides; with the triangle on the right these are rows of B.
inline Level3Case triangular_case(Routine routine, Side side, index_t order, index_t right_hand_sides) {
  Level3Case c{.routine = routine, .side = side};
  c.m = side == Side::left ? order : right_hand_sides;
  c.n = side == Side::left ? right_hand_sides : order;
  return c;
}

}  // namespace tessera::test
