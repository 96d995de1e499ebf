#include "offload/program_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "offload/calibration_file.hpp"
#include "offload/kept_file.hpp"

namespace tessera::offload {
namespace {

/// Lines of a name, a blank and a mark.
std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  if (file.empty()) return lines;
  std::ifstream stream(file);
  for (std::string line; lines.size() < ProgramHistory::most_programs && std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::string text_of_file(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

ProgramHistory::ProgramHistory(std::string file, const std::string& program)
    : file_(std::move(file)), name_(fmt::format("{:016x}", hash_of(program))) {}

ProgramHistory ProgramHistory::of_this_process(const std::string& calibration) {
  const std::string folder = CalibrationFile::is_off(calibration) ? "" : cache_folder();
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string() + '\n' +
                              std::filesystem::current_path(error).string() + '\n' + text_of_file("/proc/self/cmdline");
  return {folder.empty() ? "" : folder + "/programs", program};
}

ProgramHistory::Seen ProgramHistory::seen() const {
  for (const std::string& line : lines_of(file_)) {
    if (line == name_ + ' ' + static_cast<char>(Seen::used)) return Seen::used;
    if (line == name_ + ' ' + static_cast<char>(Seen::children)) return Seen::children;
  }
  return Seen::nothing;
}

void ProgramHistory::note(Seen seen) const {
  const Seen before = this->seen();
  if (file_.empty() || before == Seen::children || (before == seen && seen == Seen::nothing)) return;
  std::vector<std::string> lines = lines_of(file_);
  std::erase_if(lines, [&](const std::string& line) { return line.starts_with(name_); });
  if (seen != Seen::nothing) lines.insert(lines.begin(), name_ + ' ' + static_cast<char>(seen));
  if (lines.size() > most_programs) lines.resize(most_programs);
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  write_whole(file_, text);
}

}  // namespace tessera::offload
