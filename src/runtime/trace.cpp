#include "runtime/trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "core/log.hpp"

namespace tessera::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, device::stream_count> stream_names = {
    "compute 0", "compute 1", "compute 2", "compute 3", "up", "down", "peer", "to peer"};
constexpr std::string_view array_end = "\n]\n";

std::string name_of(const device::Operation& operation) {
  std::string name = stream_names[static_cast<std::size_t>(stream_number(operation.stream))];
  if (operation.kernel != nullptr) name = operation.kernel;
  if (operation.task >= 0) name += " task " + std::to_string(operation.task);
  if (operation.step >= 0) name += " step " + std::to_string(operation.step);
  return name;
}

Json metadata(const char* what, std::size_t pid, std::size_t tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

/// "folder/trace.json" with the process's number, "folder/trace.4711.json"; from the second on with a count,
/// "folder/trace.4711-2.json".
std::string of_this_process(const std::string& path, int count) {
  std::string number = "." + std::to_string(getpid());
  if (count > 1) number += "-" + std::to_string(count);
  const std::size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const std::size_t dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && dot > name;
  return std::string(path).insert(has_ending ? dot : path.size(), number);
}

/// %p stands for the process's number.
std::string with_process_number(std::string path) {
  const std::string number = std::to_string(getpid());
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at + number.size()))
    path.replace(at, 2, number);
  return path;
}

}  // namespace

// A file that another process or context is writing is left to it.
void TraceFile::open() {
  constexpr int most_files = 100;  // of one process at the same time
  path_ = with_process_number(std::move(path_));
  file_ = OutputFile(path_, OutputFile::Use::own);
  for (int count = 1; file_.is_taken() && count <= most_files; ++count)
    file_ = OutputFile(of_this_process(path_, count), OutputFile::Use::own);
}

void TraceFile::append(const JobStatistics& job, double begin_s, const std::vector<std::string>& names,
                       const std::vector<std::vector<device::Operation>>& operations) {
  if (path_.empty()) return;
  std::ostringstream text;
  const bool begun = end_ > 0;
  const char* separator = begun ? ",\n" : "[\n";
  const auto emit = [&](const Json& event) {
    text << separator << event.dump();
    separator = ",\n";
  };
  if (!begun) {
    open();
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
  const std::string events = text.str();
  if (!file_ || !file_.replace_from(end_, events + std::string(array_end))) {
    log_line("cannot write the trace file " + path_ + ": " + file_.why());
    path_.clear();
    file_ = OutputFile();
    return;
  }
  end_ += static_cast<std::int64_t>(events.size());
}

}  // namespace tessera::runtime
