// The implementations under the suites of device routines, behind one interface.
//
//   reference     libtessera_device_host.so
//   block         the code of thread blocks (src/kernels/block) on host threads, composed according to src/kernels/plan
//   cuda          libtessera_device.so on the GPU; skipped if there is none
//   cuda_standin  the same launches over the stand-in for CUDA (tests/cuda_standin), which computes by the reference
//
// The latter two exist only if the build has CUDA.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "calls/level3.hpp"
#include "tests/device_api/device_api.hpp"

namespace tessera::test {

/// Memory, and routines on matrices in it. Submitted work is done when memory is read.
class Implementation {
 public:
  virtual ~Implementation() = default;
  /// Memory that stays until the end, aligned to 256 bytes. @return nullptr if there is not enough
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void write(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void read(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void run(const Level3& call) = 0;
  virtual void run_batch(const kernels::Level3Batch& batch) = 0;
  virtual void run_half_batch(const kernels::HalfBatch& batch) = 0;
  /// Implemented by libraries only: the code of thread blocks has no batches of LAPACK's routines.
  virtual void run_lapack_batch(const kernels::LapackBatch& /*batch*/) {
    throw std::logic_error("no batches of LAPACK's routines");
  }
  virtual std::size_t workspace_bytes(const Level3& /*call*/) { return 0; }
  virtual std::size_t batch_workspace_bytes(index_t /*count*/) { return 0; }
  virtual std::size_t lapack_workspace_bytes(const kernels::LapackBatch& /*batch*/) { return 0; }
  virtual void set_workspace(std::byte* /*memory*/, std::size_t /*bytes*/) {}
};

/// An implementation by a library, whose functions tests may also call directly.
class LibraryImplementation : public Implementation {
 public:
  virtual const DeviceApi& api() const = 0;
  virtual tessera_device_handle handle() const = 0;
  void run(const Level3& call) override;
  void run_batch(const kernels::Level3Batch& batch) override;
  void run_half_batch(const kernels::HalfBatch& batch) override;
  void run_lapack_batch(const kernels::LapackBatch& batch) override;
  std::size_t workspace_bytes(const Level3& call) override;
  std::size_t batch_workspace_bytes(index_t count) override;
  std::size_t lapack_workspace_bytes(const kernels::LapackBatch& batch) override;
  void set_workspace(std::byte* memory, std::size_t bytes) override;
};

struct ImplementationKind {
  enum Name { reference, block, cuda, cuda_standin } name = reference;
  bool is_slow() const { return name == block; }  ///< takes milliseconds where others take microseconds
  bool is_library() const { return name != block; }
  std::string text() const;
  friend std::ostream& operator<<(std::ostream& out, const ImplementationKind& kind) { return out << kind.text(); }
};

/// The implementations in this build.
std::vector<ImplementationKind> all_implementations();
std::vector<ImplementationKind> library_implementations();

/// @return nullptr, with the reason, if the implementation cannot run here
std::unique_ptr<Implementation> open_implementation(ImplementationKind kind, std::string& missing);
std::unique_ptr<LibraryImplementation> open_library_implementation(ImplementationKind kind, std::string& missing);

}  // namespace tessera::test

/// For the body of a test: opens the implementation, or skips the test. With TESSERA_TEST_REQUIRE_CUDA=1 the test fails
/// instead.
#define TESSERA_OPEN_IMPLEMENTATION(variable, opener, kind)             \
  std::string missing_##variable;                                       \
  auto variable = opener(kind, missing_##variable);                     \
  if (variable == nullptr) {                                            \
    if (::tessera::test::cuda_required()) FAIL() << missing_##variable; \
    GTEST_SKIP() << missing_##variable;                                 \
  }                                                                     \
  static_assert(true, "")
