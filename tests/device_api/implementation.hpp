// What the suites of device routines run on: one interface, and who has it.
//
//   reference     libtessera_device_host.so
//   block         the code of thread blocks (src/kernels/block) on host threads, put together by the plan (src/kernels/plan)
//   cuda          libtessera_device.so on the GPU; skipped where there is none
//   cuda_standin  the same launches over the stand-in for CUDA (tests/cuda_standin), which computes by the reference
//
// The latter two are there only where the build has CUDA.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/level3.hpp"
#include "tests/device_api/device_api.hpp"

namespace tessera::test {

/// Memory, and routines on matrices in it. What is submitted is done when it is read.
class Implementation {
 public:
  virtual ~Implementation() = default;
  /// Until the end. Aligned to 256 bytes. @return nullptr if there is not so much
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void write(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void read(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void run(const Level3& call) = 0;
  virtual void run_batch(const kernels::Level3Batch& batch) = 0;
  virtual void run_half_batch(const kernels::HalfBatch& batch) = 0;
  /// Not what code of thread blocks is put together to.
  virtual void run_lapack_batch(const kernels::LapackBatch& /*batch*/) {
    throw std::logic_error("no batches of LAPACK's routines");
  }
  virtual std::size_t workspace_bytes(const Level3& /*call*/) { return 0; }
  virtual std::size_t batch_workspace_bytes(index_t /*count*/) { return 0; }
  virtual std::size_t lapack_workspace_bytes(const kernels::LapackBatch& /*batch*/) { return 0; }
  virtual void set_workspace(std::byte* /*memory*/, std::size_t /*bytes*/) {}
};

/// An implementation by a library, whose API tests call themselves.
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

/// Those that this build has.
std::vector<ImplementationKind> all_implementations();
std::vector<ImplementationKind> library_implementations();

/// nullptr, and why, where it cannot run here.
std::unique_ptr<Implementation> open_implementation(ImplementationKind kind, std::string& missing);
std::unique_ptr<LibraryImplementation> open_library_implementation(ImplementationKind kind, std::string& missing);

}  // namespace tessera::test

/// For the body of a test: opens it, or skips; where TESSERA_TEST_REQUIRE_CUDA is 1, fails.
#define TESSERA_OPEN_IMPLEMENTATION(variable, opener, kind)             \
  std::string missing_##variable;                                       \
  const auto variable = opener(kind, missing_##variable);               \
  if (variable == nullptr) {                                            \
    if (::tessera::test::cuda_required()) FAIL() << missing_##variable; \
    GTEST_SKIP() << missing_##variable;                                 \
  }                                                                     \
  static_assert(true, "")
