// Device routines on GPUs, and on those of the stand-in for CUDA. No CUDA types.
#pragma once

#include <memory>
#include <string>

#include "tests/device_api/implementation.hpp"

namespace tessera::test {

/// On GPU 0, in a stream of its own. @return nullptr, and why, where there is none
std::unique_ptr<LibraryImplementation> open_cuda(const std::string& library, std::string& missing);

/// @param folder of the stand-in's libraries
std::unique_ptr<LibraryImplementation> open_cuda_standin(const std::string& folder, std::string& missing);

}  // namespace tessera::test
