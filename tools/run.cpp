// `tessera run [options] [--] program args`: looks at the program, sets the preload and the environment, and becomes
// the program.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "commands.hpp"
#include "core/log.hpp"
#include "preload_plan.hpp"
#include "program_reader.hpp"
#include "program_report.hpp"
#include "settings_options.hpp"

namespace tessera::tools {
namespace {

void set_variable(const std::string& name, const std::string& value) {
  if (setenv(name.c_str(), value.c_str(), 1) != 0) throw std::runtime_error(name + ": " + std::strerror(errno));
}

struct RunOptions {
  SettingsOptions settings;
  std::string lapack = "auto";
  std::string lapack_block;
  std::string integers = "auto";
  bool pool = false;
  bool locked_pool = false;
};

PlanOptions plan_options(const RunOptions& options) {
  PlanOptions plan = lapack_option(options.lapack);
  if (options.integers == "32") plan.bits = 32;
  if (options.integers == "64") plan.bits = 64;
  plan.devices = devices_expected(options.settings.config());
  plan.pool = options.pool || options.locked_pool;
  return plan;
}

/// Whether the plan depends on the program. Reading it takes up to a tenth of a second (Python with NumPy and SciPy).
bool needs_program(const PlanOptions& options) { return options.lapack == LapackChoice::reference || !options.bits; }

/// A program that cannot be read can still be run.
PreloadPlan plan_for(const std::vector<std::string>& program, const PlanOptions& options, bool reasons) {
  if (!reasons && !needs_program(options)) return plan_preload(options);
  std::string unread;
  try {
    const Program read = read_program(program);
    return plan_preload(read, analyse(read, read_faces()), options);
  } catch (const UnreadableProgram& error) {
    unread = error.what();
  }
  PreloadPlan plan = plan_preload(options);
  plan.reasons.push_back("Nothing is known of the program (" + unread + ").");
  return plan;
}

/// LD_PRELOAD, and the folders in which its bare names are searched. The loader splits LD_PRELOAD at blanks and colons,
/// without any quoting, but LD_LIBRARY_PATH only at colons and semicolons. So a file in a folder with a blank is given
/// by its bare name.
struct Preload {
  std::string files;
  std::string folders;
};

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ":") + item; }

Preload as_variables(const std::vector<std::string>& files) {
  Preload preload;
  std::string last_folder;  // all our libraries are in one folder
  for (const std::string& file : files) {
    const std::size_t slash = file.rfind('/');
    const std::string name = file.substr(slash + 1);
    if (file.find_first_of(" :") == std::string::npos) {
      append(preload.files, file);
    } else if (slash == std::string::npos || file.find_first_of(":;") != std::string::npos ||
               name.find(' ') != std::string::npos) {
      throw std::runtime_error("LD_PRELOAD cannot name " + file +
                               ": it has a colon or a semicolon in its path, or a blank in its name");
    } else {
      append(preload.files, name);
      const std::string folder = file.substr(0, slash);
      if (folder != last_folder) append(preload.folders, folder);
      last_folder = folder;
    }
  }
  return preload;
}

/// @param otherwise its default
void put_in_front(const std::string& variable, const std::string& value, const std::string& otherwise) {
  const char* set = std::getenv(variable.c_str());
  const std::string before = set != nullptr ? set : otherwise;
  set_variable(variable, before.empty() ? value : value + ":" + before);
}

int run_program(const RunOptions& options, std::vector<std::string> program) {
  if (program.empty()) throw UsageError("run: no program given; use: tessera run [options] program [arguments]");
  // As in `--summary FILE -- program`: the value of such an option is joined by "=".
  if (program.size() > 1 && program[1] == "--")
    throw UsageError("run: " + program[0] +
                     " stands before --, but is no option; a file for the summary is named by --summary=FILE");
  const Config config = options.settings.config();  // reports wrong settings once; each process of the program would
                                                    // repeat it

  const PreloadPlan plan = plan_for(program, plan_options(options), config.verbose);
  const Preload preload = as_variables(plan.preload);
  if (config.verbose) {
    for (const std::string& reason : plan.reasons) log_line("run: " + reason);
  }
  put_in_front("LD_PRELOAD", preload.files, "");
  if (!preload.folders.empty()) put_in_front("LD_LIBRARY_PATH", preload.folders, "");
  if (!plan.library_path.empty()) put_in_front(plan.library_variable, plan.library_path, plan.library_default);
  if (std::getenv("TESSERA_WARM_UP") == nullptr) set_variable("TESSERA_WARM_UP", "known");
  for (const auto& [name, value] : options.settings.values()) set_variable(name, value);
  if (options.locked_pool) set_variable("TESSERA_POOL_LOCK", "1");
  if (!options.lapack_block.empty()) set_variable("TESSERA_LAPACK_BLOCK", options.lapack_block);

  std::vector<char*> argv;
  argv.reserve(program.size() + 1);
  for (std::string& argument : program) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  std::fprintf(stderr, "tessera: %s: %s\n", argv[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;  // as the status of shells and env(1)
}

}  // namespace

std::vector<std::string> take_program(const CLI::App& run, std::vector<std::string>& arguments) {
  auto word = arguments.begin() + 1;
  while (word != arguments.end() && *word != "--" && word->rfind('-', 0) == 0) {
    const CLI::Option* const option = run.get_option_no_throw(word->substr(0, word->find('=')));
    const bool takes_next = option != nullptr && option->get_expected_min() > 0 &&
                            option->get_items_expected_min() > 0 && word->find('=') == std::string::npos;
    ++word;
    if (takes_next && word != arguments.end()) ++word;
  }
  const auto end_of_options = word;
  if (word != arguments.end() && *word == "--") ++word;
  std::vector<std::string> program(word, arguments.end());
  arguments.erase(end_of_options, arguments.end());
  return program;
}

Command add_run(CLI::App& app, const std::vector<std::string>& program) {
  CLI::App* run = app.add_subcommand("run", "run a program with its BLAS calls going through Tessera");
  run->footer(
      "Use: tessera run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
      "What follows the first word that is no option of run belongs to the program. --summary takes a file as "
      "--summary=FILE.");
  auto options = std::make_shared<RunOptions>();
  run->add_option(
         "--lapack", options->lapack,
         "whose LAPACK: own (the program's as it is), auto (the program's; where devices will be used its "
         "factorizations "
         "are caught), reference (the same, and one whose BLAS calls can be caught), or the file of such a one")
      ->type_name("WHICH");
  run->add_option("--lapack-block", options->lapack_block, "block size of LAPACK (TESSERA_LAPACK_BLOCK); 0: as it is")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20).description(""));
  run->add_option(
         "--integers", options->integers,
         "width of the integers behind plain names (dgemm_): 32, 64 or auto (what the program's libraries have)")
      ->type_name("BITS")
      ->check(CLI::IsMember({"auto", "32", "64"}).description(""));
  run->add_flag("--pool", options->pool,
                "large memory of malloc comes from a pool of large pages, which is reused without page faults "
                "(libtessera_memory.so)");
  run->add_flag("--locked-pool", options->locked_pool,
                "the same, and its pages are locked, so that devices copy them at once; not for programs that copy by "
                "CUDA themselves");
  options->settings.add_to(*run);
  return {run, [options, &program] { return run_program(*options, program); }};
}

}  // namespace tessera::tools
