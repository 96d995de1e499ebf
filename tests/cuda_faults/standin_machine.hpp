// GPUs of the stand-in (tests/cuda_standin), opened as a program opens real ones: by the plugin.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "kernels/plugin_loader.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/test_plugin.hpp"

namespace tessera::cuda_standin {

inline std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << fault.call << " number " << fault.number << " fails with error " << fault.error
             << (fault.stays ? ", which stays" : "");
}

}  // namespace tessera::cuda_standin

namespace tessera::test {

inline std::string standin_plugin() { return (library_folder() / "cuda_standin" / "libtessera_cuda.so").string(); }

struct StandinGpus {
  std::unique_ptr<kernels::Backend> backend;
  std::vector<kernels::Accelerator> accelerators;

  device::Device& device(std::size_t index) { return *accelerators.at(index).device; }
  kernels::TileOps& ops(std::size_t index) { return *accelerators.at(index).ops; }
};

/// @throws as Backend::open; NotAvailable if one of them cannot be opened
inline StandinGpus open_standin_gpus(int count, int copy_threads) {
  StandinGpus opened;
  opened.backend = kernels::open_plugin(standin_plugin());
  std::vector<int> ordinals(static_cast<std::size_t>(count));
  std::iota(ordinals.begin(), ordinals.end(), 0);
  kernels::Opened found = opened.backend->open(ordinals, copy_threads);
  if (!found.refused.empty()) throw NotAvailable(found.refused.front().reason);
  opened.accelerators = std::move(found.accelerators);
  return opened;
}

}  // namespace tessera::test
