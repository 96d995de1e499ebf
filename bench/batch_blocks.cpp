// Measures which blocks of products are the quickest in batches on this GPU, and writes the table that
// plan/product_blocks.hpp reads.
// usage: batch_blocks FOLDER [types, as in sdcz; others keep their rows]    (src/kernels/plan)
#include "bench/batch_blocks.hpp"

#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "bench/device_timer.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: batch_blocks FOLDER [types]\n");
    return 2;
  }
  try {
    using namespace tessera;  // NOLINT(google-build-using-namespace): a program
    cudaDeviceProp gpu{};
    bench::check(cudaGetDeviceProperties(&gpu, 0), "no GPU");
    const std::string measured = argc > 2 ? argv[2] : "sdcz";
    std::ostringstream table;
    table << "// One " << gpu.name
          << ". {rows, columns, warps_down, warps_across, stages, residents} for block_sizes.\n";
    for (const ScalarType type : scalar_types) {
      table << "// " << letter(type) << "\n";
      if (measured.find(letter(type)) == std::string::npos) {
        bench::keep_blocks(table, type);
      } else {
        dispatch(type, [&]<Scalar T>(T) { bench::choose_blocks<scalar_type_of<T>()>(table); });
      }
    }
    std::ofstream file(std::string(argv[1]) + "/product_blocks.inc");
    file << table.str();
    if (!file.flush()) throw std::runtime_error("cannot write the table");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "batch_blocks: %s\n", error.what());
    return 1;
  }
}
