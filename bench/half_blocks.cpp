// Measures which blocks of products of 16-bit numbers are the quickest on this GPU, and how tiny ones are, and writes the
// tables that plan/half_blocks.hpp reads. Half precision is measured; bfloat16 has the same kernels but for the name of the
// instruction, and the same tables. What cuBLAS takes is only told: it does not take all pointers that we take.
// usage: half_blocks FOLDER [types, of h and hc; others keep their rows]        (src/kernels/plan)
#include "bench/half_blocks.hpp"

#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/device_timer.hpp"

namespace {

using tessera::HalfType;
using tessera::bench::HalfTables;
using tessera::kernels::plan::HalfBlocks;
using tessera::kernels::plan::TinyWay;

std::string text_of(const HalfBlocks& b) {
  std::string text = "{";
  for (const int number : {b.rows, b.columns, b.depth, b.warps_down, b.warps_across})
    text += std::to_string(number) + ", ";
  text += std::string(b.c_ahead ? "true" : "false") + ", " + std::to_string(b.residents);
  return text + (b.problems > 1 ? ", " + std::to_string(b.problems) : "") + "}";
}
std::string text_of(TinyWay way) {
  return way == TinyWay::blocks         ? "TinyWay::blocks"
         : way == TinyWay::tensor_cores ? "TinyWay::tensor_cores"
                                        : "TinyWay::lanes";
}

template <class Entries>
std::string row_of(const Entries& entries) {
  std::string text;
  for (const auto& entry : entries) text += (text.empty() ? "" : ", ") + text_of(entry);
  return text;
}

void write(const std::string& name, const std::string& text) {
  std::ofstream file(name);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: half_blocks FOLDER [types]\n");
    return 2;
  }
  try {
    cudaDeviceProp gpu{};
    tessera::bench::check(cudaGetDeviceProperties(&gpu, 0), "no GPU");
    const std::string types = argc > 2 ? std::string(",") + argv[2] + "," : ",h,hc,", folder = argv[1];
    HalfTables real = tessera::bench::present_tables(HalfType::h);
    HalfTables complex = tessera::bench::present_tables(HalfType::hc);
    if (types.find(",h,") != std::string::npos) real = tessera::bench::measured_tables<HalfType::h>();
    if (types.find(",hc,") != std::string::npos) complex = tessera::bench::measured_tables<HalfType::hc>();
    const std::string head = std::string("// One ") + gpu.name + ". ";
    std::string blocks = head +
                         "{rows, columns, depth, warps_down, warps_across, c_ahead, residents, problems} for "
                         "half_sizes.\n";
    std::string tiny = head + "For tiny_sizes.\n";
    for (const HalfType type : tessera::half_types) {
      const HalfTables& tables = is_complex(type) ? complex : real;
      const std::string name = std::string("// ") + letters(type) + "\n";
      blocks += name + "{{" + row_of(tables.blocks) + "}},\n";
      tiny += name + "{" + row_of(tables.tiny) + "},\n";
    }
    write(folder + "/half_blocks.inc", blocks);
    write(folder + "/tiny_ways.inc", tiny);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "half_blocks: %s\n", error.what());
    return 1;
  }
}
