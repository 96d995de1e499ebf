#include "runtime/trace.hpp"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/log.hpp"

namespace tessera::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, device::stream_count> stream_names = {
    "compute 0", "compute 1", "compute 2", "compute 3", "up", "down", "peer"};
constexpr std::string_view array_end = "\n]\n";

std::string name_of(const device::Operation& operation) {
  std::string name = stream_names[static_cast<std::size_t>(stream_number(operation.stream))];
  if (operation.stream.kind == device::StreamKind::compute) name = "gemm";
  if (operation.task >= 0) name += " task " + std::to_string(operation.task);
  if (operation.step >= 0) name += " step " + std::to_string(operation.step);
  return name;
}

Json metadata(const char* what, std::size_t pid, std::size_t tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

}  // namespace

void TraceFile::append(const JobStatistics& job, double begin_s, const std::vector<std::string>& names,
                       const std::vector<std::vector<device::Operation>>& operations) {
  if (path_.empty()) return;
  std::ostringstream text;
  const char* separator = begun_ ? ",\n" : "[\n";
  const auto emit = [&](const Json& event) {
    text << separator << event.dump();
    separator = ",\n";
  };
  if (!begun_) {
    origin_s_ = begin_s;
    emit(metadata("process_name", 0, 0, "calls"));
    for (std::size_t d = 0; d < names.size(); ++d) {
      emit(metadata("process_name", d + 1, 0, names[d]));
      for (std::size_t s = 0; s < stream_names.size(); ++s) emit(metadata("thread_name", d + 1, s, stream_names[s]));
    }
  }
  const auto micros = [this](double seconds) { return (seconds - origin_s_) * 1e6; };
  emit({{"ph", "X"},
        {"name", job.routine},
        {"pid", 0},
        {"tid", 0},
        {"ts", micros(begin_s)},
        {"dur", job.seconds * 1e6},
        {"args", {{"m", job.m}, {"n", job.n}, {"k", job.k}}}});
  for (std::size_t d = 0; d < operations.size(); ++d) {
    for (const device::Operation& operation : operations[d]) {
      emit({{"ph", "X"},
            {"name", name_of(operation)},
            {"pid", d + 1},
            {"tid", stream_number(operation.stream)},
            {"ts", micros(operation.begin_s)},
            {"dur", (operation.end_s - operation.begin_s) * 1e6},
            {"args", {{"bytes", operation.bytes}, {"flops", operation.flops}}}});
    }
  }
  text << array_end;

  const auto mode = begun_ ? std::ios::in | std::ios::out : std::ios::out | std::ios::trunc;
  std::fstream file(path_, mode | std::ios::binary);
  if (begun_) file.seekp(-static_cast<std::streamoff>(array_end.size()), std::ios::end);
  file << text.str();
  file.close();
  if (!file) {
    log_line("cannot write the trace file " + path_);
    path_.clear();
  }
  begun_ = true;
}

}  // namespace tessera::runtime
