#include "core/gpu_list.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include "core/parse_integer.hpp"

namespace tessera {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// The value of the line "Name: value".
void read_information(const std::string& file, ListedGpu& gpu) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view name = trimmed(std::string_view(line).substr(0, colon));
    const std::string_view value = trimmed(std::string_view(line).substr(colon + 1));
    if (name == "Model") gpu.model = value;
    if (name == "GPU UUID") gpu.uuid = value;
    if (name == "Device Minor") parse_integer(value, 0, std::numeric_limits<int>::max(), gpu.device_minor);
  }
}

bool is_version(const std::string& word) {
  return word.find('.') != std::string::npos &&
         std::all_of(word.begin(), word.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

}  // namespace

std::vector<ListedGpu> list_gpus(const std::string& folder) {
  std::vector<ListedGpu> gpus;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder + "/gpus", error), end; !error && entry != end;
       entry.increment(error)) {
    ListedGpu gpu;
    gpu.pci_bus_id = entry->path().filename().string();
    for (char& c : gpu.pci_bus_id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    read_information((entry->path() / "information").string(), gpu);
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const ListedGpu& a, const ListedGpu& b) { return a.pci_bus_id < b.pci_bus_id; });
  return gpus;
}

std::string driver_version(const std::string& folder) {
  std::string line;
  std::getline(std::ifstream(folder + "/version"), line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (is_version(word)) return word;
  }
  return "";
}

std::optional<std::vector<ListedGpu>> visible_gpus(const std::vector<ListedGpu>& all, const char* visible) {
  if (visible == nullptr) return all;
  std::vector<ListedGpu> seen;
  std::string_view rest = visible;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view entry = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (entry.starts_with("MIG")) return std::nullopt;
    auto gpu = all.end();
    if (entry.starts_with("GPU-")) {
      gpu = std::find_if(all.begin(), all.end(), [&](const ListedGpu& g) { return g.uuid.starts_with(entry); });
    } else {
      int number = 0;
      if (parse_integer(entry, 0, static_cast<int>(all.size()) - 1, number)) gpu = all.begin() + number;
    }
    if (gpu == all.end()) break;
    seen.push_back(*gpu);
  }
  return seen;
}

}  // namespace tessera
