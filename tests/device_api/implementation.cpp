#include "tests/device_api/implementation.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "kernels/plan/triangular_recursion.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/reference/reference_batch.hpp"
#include "tests/device_api/cuda/cuda_implementation.hpp"
#include "tests/kernels/host_batch_machine.hpp"
#include "tests/kernels/host_block_machine.hpp"
#include "tests/kernels/host_half_machine.hpp"
#include "tests/test_plugin.hpp"

namespace tessera::test {
namespace {

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// Host memory for the lifetime of the object.
class HostMemory {
 public:
  std::byte* allocate(std::size_t bytes) {
    void* const made = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    all_.emplace_back(static_cast<std::byte*>(made));
    return all_.back().get();
  }

 private:
  std::vector<std::unique_ptr<std::byte, Freed>> all_;
};

class HostLibrary final : public LibraryImplementation {
 public:
  HostLibrary() : api_((library_folder() / "libtessera_device_host.so").string()) {
    EXPECT_EQ(api_.tessera_device_create(&handle_), TESSERA_SUCCESS) << api_.tessera_device_last_error();
  }
  ~HostLibrary() override { EXPECT_EQ(api_.tessera_device_destroy(handle_), TESSERA_SUCCESS); }
  const DeviceApi& api() const override { return api_; }
  tessera_device_handle handle() const override { return handle_; }
  std::byte* allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  void write(std::byte* to, const std::byte* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(std::byte* to, const std::byte* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }

 private:
  const DeviceApi api_;
  tessera_device_handle handle_ = nullptr;
  HostMemory memory_;
};

/// Composes the kernels as Level3Kernels does, with the reference for products.
class BlockMachine final : public Implementation {
 public:
  std::byte* allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  void write(std::byte* to, const std::byte* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(std::byte* to, const std::byte* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void run(const Level3& call) override {
    constexpr index_t leaf_rows = 64;
    if (call.only_scales()) return kernels::reference_level3(call);
    kernels::plan::run_in_parts(call, leaf_rows, [](const Level3& part) {
      if (part.routine == Routine::gemm) return kernels::reference_level3(part);
      dispatch(part.type, [&]<Scalar T>(T) { run_by_strips<T, 16>(part); });
    });
  }
  void run_batch(const kernels::Level3Batch& batch) override {
    const bool is_triangular = batch.common.is_triangular();
    if (is_triangular && batch.common.only_scales()) return kernels::reference_level3_batch(batch);
    dispatch(batch.common.type, [&]<Scalar T>(T) {
      is_triangular ? run_triangles_by_strips<T>(batch) : run_products_by_blocks<T>(batch);
    });
  }

  /// Warps compute tiny problems: half types by tensor cores, and bfloat16 by lanes.
  void run_half_batch(const kernels::HalfBatch& batch) override {
    const Level3& bounds = batch.products.common;
    const index_t larger = std::max(bounds.m, bounds.n);
    const bool is_tiny = bounds.m > 0 && bounds.n > 0 && larger <= 16;
    dispatch(batch.stored, [&]<class E>(E) {
      if (!is_tiny)
        run_halves_by_blocks<kernels::block::HalfShape<E, kernels::plan::HalfBlocks{16, 32, 16, 1, 1}>>(batch);
      else if (larger <= 4)
        run_tiny<E, 4>(batch);
      else if (larger <= 8)
        run_tiny<E, 8>(batch);
      else
        run_tiny<E, 16>(batch);
    });
  }

 private:
  template <class E, int places>
  static void run_tiny(const kernels::HalfBatch& batch) {
    if constexpr (std::is_same_v<typename E::R, Half>)
      run_tiny_halves<kernels::block::TinyByTensorCores, E, places>(batch);
    else
      run_tiny_halves<kernels::block::TinyByLanes, E, places>(batch);
  }

  HostMemory memory_;
};

}  // namespace

void LibraryImplementation::run(const Level3& call) {
  EXPECT_EQ(api().run(handle(), call), TESSERA_SUCCESS) << api().tessera_device_last_error();
}

void LibraryImplementation::run_batch(const kernels::Level3Batch& batch) {
  EXPECT_EQ(api().run_batch(handle(), form_of(batch), batch), TESSERA_SUCCESS) << api().tessera_device_last_error();
}

void LibraryImplementation::run_half_batch(const kernels::HalfBatch& batch) {
  EXPECT_EQ(api().run_half(handle(), form_of(batch.products), batch), TESSERA_SUCCESS)
      << api().tessera_device_last_error();
}

void LibraryImplementation::run_lapack_batch(const kernels::LapackBatch& batch) {
  EXPECT_EQ(api().run_lapack(handle(), form_of(batch), batch), TESSERA_SUCCESS) << api().tessera_device_last_error();
}

std::size_t LibraryImplementation::lapack_workspace_bytes(const kernels::LapackBatch& batch) {
  if (!inverts(batch.routine)) return 0;
  std::size_t bytes = 0;
  EXPECT_EQ(api().lapack_workspace(handle(), batch, &bytes), TESSERA_SUCCESS) << api().tessera_device_last_error();
  return bytes;
}

std::size_t LibraryImplementation::batch_workspace_bytes(index_t count) {
  std::size_t bytes = 0;
  EXPECT_EQ(api().tessera_device_batch_workspace(handle(), count, &bytes), TESSERA_SUCCESS)
      << api().tessera_device_last_error();
  return bytes;
}

std::size_t LibraryImplementation::workspace_bytes(const Level3& call) {
  std::size_t bytes = 0;
  EXPECT_EQ(api().workspace(handle(), call, &bytes), TESSERA_SUCCESS) << api().tessera_device_last_error();
  return bytes;
}

void LibraryImplementation::set_workspace(std::byte* memory, std::size_t bytes) {
  EXPECT_EQ(api().tessera_device_set_workspace(handle(), memory, bytes), TESSERA_SUCCESS)
      << api().tessera_device_last_error();
}

std::string ImplementationKind::text() const {
  constexpr const char* names[] = {"Reference", "Block", "Cuda", "Standin"};
  return names[name];
}

std::vector<ImplementationKind> library_implementations() {
  std::vector<ImplementationKind> all = {{ImplementationKind::reference}};
#if TESSERA_HAS_CUDA
  all.push_back({ImplementationKind::cuda});
  all.push_back({ImplementationKind::cuda_standin});
#endif
  return all;
}

std::vector<ImplementationKind> all_implementations() {
  std::vector<ImplementationKind> all = library_implementations();
  all.insert(all.begin() + 1, {ImplementationKind::block});
  return all;
}

std::unique_ptr<LibraryImplementation> open_library_implementation(ImplementationKind kind, std::string& missing) {
  switch (kind.name) {
    case ImplementationKind::reference:
      return std::make_unique<HostLibrary>();
    case ImplementationKind::cuda:
      return open_cuda(library_folder() / "libtessera_device.so", missing);
    case ImplementationKind::cuda_standin:
      return open_cuda_standin(library_folder() / "cuda_standin", missing);
    case ImplementationKind::block:
      break;
  }
  throw std::logic_error("not a library");
}

std::unique_ptr<Implementation> open_implementation(ImplementationKind kind, std::string& missing) {
  if (kind.name == ImplementationKind::block) return std::make_unique<BlockMachine>();
  return open_library_implementation(kind, missing);
}

#if !TESSERA_HAS_CUDA
std::unique_ptr<LibraryImplementation> open_cuda(const std::string&, std::string&) { return nullptr; }
std::unique_ptr<LibraryImplementation> open_cuda_standin(const std::string&, std::string&) { return nullptr; }
#endif

}  // namespace tessera::test
