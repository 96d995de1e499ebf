// A named range in the timeline of NVIDIA's profilers; a test of one pointer where no profiler is attached.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace tessera::device::cuda {

class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace tessera::device::cuda
