// Device routines on GPUs, and on the stand-in's GPUs. No CUDA types.
#pragma once

#include <memory>
#include <string>

#include "tests/device_api/implementation.hpp"

namespace tessera::test {

/// Opens the library on GPU 0, with a stream of its own. @return nullptr, with the reason, if there is no GPU
std::unique_ptr<LibraryImplementation> open_cuda(const std::string& library, std::string& missing);

/// @param folder folder of the stand-in's libraries
std::unique_ptr<LibraryImplementation> open_cuda_standin(const std::string& folder, std::string& missing);

}  // namespace tessera::test
