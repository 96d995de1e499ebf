#include "preload_plan.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "commands.hpp"
#include "elf_file.hpp"
#include "locations.hpp"

namespace tessera::tools {

namespace fs = std::filesystem;

namespace {

std::string own_library(const char* name) {
  const auto file = find_library(name);
  if (!file) {
    std::string tried;
    for (const auto& folder : library_folders()) tried += ' ' + folder.string();
    throw std::runtime_error(std::string(name) + " not found in" + tried);
  }
  return *file;
}

bool is_reference_lapack(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return false;
  try {
    return calls_blas_by_symbol(read_elf(file, false));
  } catch (const NotReadable&) {
    return false;
  }
}

/// Whether the loader can search a folder before all others and change nothing but LAPACK.
bool holds_only_lapack(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.find(".so") != std::string::npos && name.rfind("liblapack", 0) != 0) return false;
  }
  return !error;
}

/// LAPACK's factorizations are intercepted if devices may compute them.
bool takes_lapack(const PlanOptions& options) {
  return options.lapack == LapackChoice::reference || (options.lapack == LapackChoice::automatic && options.devices);
}

void plan_lapack(const Program& program, const Report& report, const PlanOptions& options, PreloadPlan& plan) {
  if (takes_lapack(options)) {
    plan.reasons.emplace_back(
        "LAPACK's factorizations and solves are taken, too, and what is left of it is told to work in larger blocks "
        "(TESSERA_LAPACK_BLOCK): libtessera_lapack.so.");
  }
  if (options.lapack != LapackChoice::reference) return;
  if (!report.openblas_lapack) {
    plan.reasons.emplace_back("No LAPACK is put in front: no call of the program goes to OpenBLAS's.");
    return;
  }
  const int bits = options.bits.value_or(report.bits);
  const auto file = !options.lapack_file.empty() ? std::optional<std::string>(options.lapack_file)
                                                 : find_reference_lapack(bits, program);
  if (!file) {
    throw std::runtime_error("no LAPACK that calls BLAS by symbols is installed (Debian: " +
                             std::string(bits == 64 ? "liblapack64-3" : "liblapack3") + ")");
  }
  const fs::path folder = fs::absolute(*file).parent_path();
  if (report.lapack_by_soname && holds_only_lapack(folder)) {
    plan.library_path = folder;
    plan.reasons.push_back("LAPACK becomes " + *file + ", whose BLAS calls can be caught, by " + plan.library_variable +
                           ".");
    return;
  }
  const auto own_blas = find_library(bits == 64 ? "tessera/libblas64.so.3" : "tessera/libblas.so.3");
  if (report.openblas_by_soname && own_blas && holds_only_lapack(folder)) {
    plan.library_path = own_blas->parent_path().string() + ":" + folder.string();
    plan.reasons.push_back("LAPACK becomes " + *file + ", whose BLAS calls can be caught, and BLAS " +
                           own_blas->string() + ", because OpenBLAS would bring its LAPACK along: by " +
                           plan.library_variable + ".");
    return;
  }
  plan.preload.push_back(fs::absolute(*file));
  plan.reasons.push_back("LAPACK becomes " + *file + ", whose BLAS calls can be caught, by LD_PRELOAD.");
}

void plan_pool(const Program& program, const PlanOptions& options, PreloadPlan& plan) {
  const auto has_malloc = [](const ProgramObject& object) {
    const bool is_system = object.soname.rfind("libc.", 0) == 0 || object.soname.rfind("ld-", 0) == 0;
    return !is_system && object.defines.count("malloc") != 0;
  };
  const auto own = std::find_if(program.objects.begin(), program.objects.end(), has_malloc);
  if (own != program.objects.end()) {
    const bool knows_more = own->defines.count("sdallocx") != 0;
    plan.reasons.push_back(
        "The program brings a malloc (" + fs::path(own->path).filename().string() +
        "): " + (knows_more ? "--pool leaves it alone." : "with --pool only its large pieces come from a pool."));
  } else if (options.pool) {
    plan.reasons.emplace_back("Large pieces of malloc come from a pool: libtessera_memory.so.");
  } else {
    plan.reasons.emplace_back(
        "Large arrays come from the C library's malloc, which has their pages made anew each time: --pool reuses "
        "them.");
  }
}

}  // namespace

PlanOptions lapack_option(const std::string& text) {
  PlanOptions options;
  if (text == "auto") return options;
  options.lapack = text == "own" ? LapackChoice::own : LapackChoice::reference;
  if (text != "own" && text != "reference") {
    options.lapack_file = text;
    std::error_code error;
    if (!fs::is_regular_file(text, error)) {
      throw UsageError("--lapack: \"" + text + "\" is neither auto, own or reference nor a file");
    }
  }
  return options;
}

bool devices_expected(const Config& config) {
  if (config.offload.never()) return false;
  switch (config.devices) {
    case DeviceChoice::none:
      return false;
    case DeviceChoice::plugin:
    case DeviceChoice::host:
      return true;
    case DeviceChoice::automatic:
      return access("/dev/nvidiactl", F_OK) == 0;
  }
  return false;
}

PreloadPlan plan_preload(const PlanOptions& options) {
  PreloadPlan plan;
  const bool wide = options.bits == 64;
  plan.preload.push_back(own_library(wide ? "libtessera_blas64.so" : "libtessera_blas.so"));
  if (takes_lapack(options)) plan.preload.push_back(own_library("libtessera_lapack.so"));
  if (options.pool) plan.preload.push_back(own_library("libtessera_memory.so"));
  return plan;
}

PreloadPlan plan_preload(const Program& program, const Report& report, const PlanOptions& options) {
  PlanOptions chosen = options;
  chosen.bits = options.bits.value_or(report.bits);
  PreloadPlan plan = plan_preload(chosen);
  plan.reasons.push_back(chosen.bits == 64 ? "Plain names have 64-bit integers here: libtessera_blas64.so."
                                           : "Plain names have 32-bit integers here: libtessera_blas.so.");
  if (report.mixed && !options.bits) {
    plan.reasons.emplace_back(
        "The program uses plain names with integers of both widths; the 32-bit names are taken, which read sizes below "
        "2^31 rightly from either.");
  }
  plan.library_variable = program.library_variable;
  plan.library_default = program.library_default;
  plan_lapack(program, report, chosen, plan);
  plan_pool(program, chosen, plan);
  return plan;
}

std::optional<std::string> find_reference_lapack(int bits, const Program& near) {
  const std::string width = bits == 64 ? "64" : "";
  std::vector<fs::path> folders;
  const auto add = [&folders](const fs::path& folder) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (!error && std::find(folders.begin(), folders.end(), real) == folders.end()) folders.push_back(real);
  };
  // Debian's loader searches a folder of the architecture; libc is always in it, so its name is not needed.
  for (const ProgramObject& object : near.objects) {
    if (object.soname.rfind("libc.so", 0) == 0 || object.soname.rfind("lib", 0) == 0) {
      add(fs::path(object.path).parent_path());
    }
  }
  for (const char* folder : {"/usr/local/lib", "/usr/lib64", "/usr/lib"}) add(folder);
  for (const fs::path& folder : folders) {
    for (const std::string& sub : {"lapack" + width, std::string()}) {
      const fs::path file = folder / sub / ("liblapack" + width + ".so.3");
      if (is_reference_lapack(file)) return file;
    }
  }
  return std::nullopt;
}

}  // namespace tessera::tools
