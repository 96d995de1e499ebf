// `tessera trace draw FILE`: a call of a TESSERA_TRACE file as a picture, and the shares of its time as a table.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "commands.hpp"
#include "text_table.hpp"
#include "timeline.hpp"

namespace tessera::tools {
namespace {

struct DrawOptions {
  std::string file;
  std::string output;
  std::size_t call = 0;
};

Timeline read_file(const DrawOptions& options) {
  std::ifstream input(options.file);
  if (!input) throw std::runtime_error(options.file + ": cannot be read");
  try {
    return read_timeline(nlohmann::json::parse(input), options.call);
  } catch (const std::exception& error) {
    throw std::runtime_error(options.file + ": " + error.what());
  }
}

int draw(const DrawOptions& options) {
  const Timeline timeline = read_file(options);
  if (!options.output.empty()) {
    std::ofstream output(options.output);
    output << draw_svg(timeline);
    output.close();
    if (!output) throw std::runtime_error(options.output + ": cannot be written");
  }
  fmt::print("{}: {} ms\n\n", timeline.call, three_digits(1e-3 * timeline.length_us));
  TextTable table({"device", "start-up", "kernels", "waiting", "tail"});
  for (const DeviceRows& device : timeline.devices) {
    const LostTime time = device.lost_time(timeline.length_us);
    const auto cell = [&](double us) {
      return fmt::format("{} ms ({})", three_digits(1e-3 * us), percent_text(us, timeline.length_us));
    };
    table.add_row(
        {device.name, cell(time.start_up_us), cell(time.compute_us), cell(time.waiting_us), cell(time.tail_us)});
  }
  fmt::print("{}", table.text());
  return 0;
}

}  // namespace

Command add_trace_draw(CLI::App& trace) {
  CLI::App* app = trace.add_subcommand(
      "draw", "one call: a row per stream as SVG, and the time before, in, between and after kernels as a table");
  auto options = std::make_shared<DrawOptions>();
  app->add_option("file", options->file, "file that TESSERA_TRACE named")->required()->type_name("FILE");
  app->add_option("-o,--output", options->output, "write the picture to this file")->type_name("FILE");
  app->add_option("--call", options->call, "the call with this number, from 1; the last one if not given")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  return {app, [options] { return draw(*options); }};
}

}  // namespace tessera::tools
