// Measures which blocks of products and which strips of triangular calls are the quickest in batches on this GPU, and
// where cuBLAS is sooner, and writes the tables that plan/product_blocks.hpp, sweep_strips.hpp and vendor_batches.hpp
// read.
// usage: batch_blocks FOLDER [types, as in sdcz; others keep their rows [blocks | strips: only these]]
//        (src/kernels/plan)
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
    std::fprintf(stderr, "usage: batch_blocks FOLDER [types [blocks | strips]]\n");
    return 2;
  }
  try {
    using namespace tessera;  // NOLINT(google-build-using-namespace): a program
    cudaDeviceProp gpu{};
    bench::check(cudaGetDeviceProperties(&gpu, 0), "no GPU");
    const std::string types = argc > 2 ? argv[2] : "sdcz", what = argc > 3 ? argv[3] : "";
    const auto is_measured = [&](ScalarType type, const char* part) {
      return (what.empty() || what == part) && types.find(letter(type)) != std::string::npos;
    };
    std::ostringstream table, vendor_table;
    vendor_table << "// One " << gpu.name << ". For batch_sizes.\n";
    table << "// One " << gpu.name
          << ". {rows, columns, warps_down, warps_across, stages, residents, problems} for block_sizes.\n";
    for (const ScalarType type : scalar_types) {
      for (std::ostream* const out : {&table, &vendor_table}) *out << "// " << letter(type) << "\n";
      if (!is_measured(type, "blocks")) {
        bench::keep_blocks(table, type);
        bench::keep_vendor(vendor_table, type);
      } else {
        dispatch(type, [&]<Scalar T>(T) { bench::choose_blocks<scalar_type_of<T>()>(table, vendor_table); });
      }
    }
    std::ostringstream strips_table;
    strips_table << "// One " << gpu.name << ". {warps, columns, residents, problems} for block_sizes.\n{{\n";
    for (const bool is_solve : {false, true}) {
      strips_table << (is_solve ? "}}, {{\n// Solves: s, d, c, z\n" : "// Products: s, d, c, z\n");
      for (const ScalarType type : scalar_types) {
        if (!is_measured(type, "strips")) {
          bench::keep_strips(strips_table, is_solve, type);
        } else {
          dispatch(type, [&]<Scalar T>(T) { bench::choose_strips<scalar_type_of<T>()>(is_solve, strips_table); });
        }
      }
    }
    strips_table << "}},\n";
    const auto write = [&](const char* name, const std::ostringstream& text) {
      std::ofstream file(std::string(argv[1]) + "/" + name);
      file << text.str();
      if (!file.flush()) throw std::runtime_error("cannot write the table");
    };
    write("product_blocks.inc", table);
    write("vendor_batches.inc", vendor_table);
    write("sweep_strips.inc", strips_table);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "batch_blocks: %s\n", error.what());
    return 1;
  }
}
