// Panels of factorizations on one GPU, through the device's tile kernels: alone, and beside products that keep it busy
// on streams of lower rank. Milliseconds, the best and the median of some runs.
//
//   panel_bench [--m 30000,16384,8192] [--n 768] [--kind getrf|geqrf] [--runs 7] [--plugin FILE]
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/frame/timing.hpp"
#include "kernels/panel.hpp"
#include "kernels/plugin_loader.hpp"

namespace {

using namespace tessera;
using device::EventStatus;
using device::StreamKind;

void finish(device::Device& device, device::StreamId stream) {
  const device::EventPtr event = device.record(stream);
  while (event->status() == EventStatus::pending) std::this_thread::yield();
  if (event->status() == EventStatus::failed) throw std::runtime_error("the device has failed");
}

double seconds_until(const device::EventPtr& event, bench::Clock::time_point begin) {
  while (event->status() == EventStatus::pending) {
  }
  return bench::seconds_since(begin);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("panels of factorizations");
  std::vector<index_t> heights = {30000, 16384, 8192, 4096};
  index_t n = 768;
  int runs = 7;
  std::string plugin, kind = "getrf";
  app.add_option("--m", heights)->delimiter(',');
  app.add_option("--n", n);
  app.add_option("--runs", runs);
  app.add_option("--kind", kind);
  app.add_option("--plugin", plugin);
  CLI11_PARSE(app, argc, argv);
  const auto backend = kernels::open_plugin(plugin);
  kernels::Opened opened = backend->open({0}, 0);
  if (opened.accelerators.empty()) return 1;
  device::Device& device = *opened.accelerators[0].device;
  device.attach_thread();
  kernels::TileOps& ops = *opened.accelerators[0].ops;
  ops.load_panels();
  std::byte* const slab = device.reserve(std::size_t{20} << 30);
  constexpr index_t order = 8192;  // of the products
  constexpr index_t size = sizeof(double);
  const kernels::PanelKind of = kind == "getrf" ? kernels::PanelKind::lu : kernels::PanelKind::qr;
  for (const index_t m : heights) {
    std::vector<double> A(static_cast<std::size_t>(m * n));
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (double& value : A) value = uniform(random);
    std::byte* const products = slab + (std::size_t{4} << 30);
    std::byte* const tail = slab + (std::size_t{3} << 30);
    const kernels::Panel panel{of, ScalarType::d, m, n, slab, m, tail};
    const index_t columns = of == kernels::PanelKind::lu ? n : kernels::columns_of_part;
    const auto load = [&] {
      device.copy_up({slab, m * size}, {reinterpret_cast<std::byte*>(A.data()), m * size}, {m * size, n});
      finish(device, {StreamKind::up});
    };
    const auto factor = [&] {
      for (index_t first = 0; first < n; first += columns)
        ops.factor_panel(0, panel, first, std::min(columns, n - first));
      return device.record({StreamKind::compute, 0});
    };
    const Level3 product{.m = order,
                         .n = order,
                         .k = 768,
                         .A = products,
                         .lda = order,
                         .B = products + order * order * size,
                         .ldb = order,
                         .C = products + 2 * order * order * size,
                         .ldc = order};
    std::vector<double> alone, beside;
    for (int run = 0; run < runs + 2; ++run) {
      load();
      const auto begin = bench::Clock::now();
      const double seconds = seconds_until(factor(), begin);
      if (run >= 2) alone.push_back(seconds);
    }
    for (int run = 0; run < runs + 1; ++run) {
      load();
      for (int turn = 0; turn < 12; ++turn) {
        for (const int stream : {2, 3}) ops.run(stream, product);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto begin = bench::Clock::now();
      const double seconds = seconds_until(factor(), begin);
      if (run >= 1) beside.push_back(seconds);
      for (const int stream : {2, 3}) finish(device, {StreamKind::compute, stream});
    }
    std::printf("%s %6ld x %ld: alone %.3f %.3f ms, beside products %.3f %.3f ms\n", kind.c_str(), m, n,
                1e3 * *std::min_element(alone.begin(), alone.end()), 1e3 * bench::median(alone),
                1e3 * *std::min_element(beside.begin(), beside.end()), 1e3 * bench::median(beside));
    std::fflush(stdout);
  }
}
