#include "program_reader.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>

#include "blas_names.hpp"
#include "elf_file.hpp"
#include "locations.hpp"

namespace tessera::tools {

namespace fs = std::filesystem;

namespace {

using Command = std::vector<std::string>;

/// The standard output of a program; its standard error is discarded. Empty if it cannot be started.
/// @param library_path put in front of LD_LIBRARY_PATH
std::string output_of(const Command& command, const std::string& library_path) {
  std::vector<std::string> variables;
  std::string libraries = library_path;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    // The question is about the program without our libraries.
    if (text.rfind("LD_PRELOAD=", 0) == 0) continue;
    if (text.rfind("LD_LIBRARY_PATH=", 0) == 0) {
      libraries += (libraries.empty() ? "" : ":") + text.substr(std::strlen("LD_LIBRARY_PATH="));
    } else {
      variables.push_back(text);
    }
  }
  if (!libraries.empty()) variables.push_back("LD_LIBRARY_PATH=" + libraries);
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  Command words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  if (error == 0) {
    std::array<char, 4096> buffer{};
    for (ssize_t count = 0; (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
      output.append(buffer.data(), static_cast<std::size_t>(count));
    }
    int status = 0;
    waitpid(child, &status, 0);
  }
  close(ends[0]);
  return output;
}

bool is_executable_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// As execvp(3) finds it.
std::optional<fs::path> find_program(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    return is_executable_file(name) ? std::optional<fs::path>(fs::absolute(name)) : std::nullopt;
  }
  const char* variable = std::getenv("PATH");
  std::istringstream folders(variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path path = fs::path(folder.empty() ? "." : folder) / name;
    if (is_executable_file(path)) return fs::absolute(path);
  }
  return std::nullopt;
}

bool matches(const std::string& name, const char* pattern) { return std::regex_match(name, std::regex(pattern)); }

/// Programs that start another one, which their arguments name.
bool is_launcher(const std::string& name) {
  return matches(
      name,
      "(mpi(run|exec)|orterun|prterun|srun|aprun|jsrun|ibrun|env|nice|ionice|time|timeout|taskset|numactl|hwloc-"
      "bind|stdbuf|setarch|nohup|setsid|catchsegv|xvfb-run)([._-].*)?");
}

/// The words of a "#!" line; empty if the file has none.
Command shebang_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line(256, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  if (line.rfind("#!", 0) != 0) return {};
  line.resize(std::min(line.find('\n'), line.size()));
  std::istringstream words(line.substr(2));
  Command command;
  for (std::string word; words >> word;) command.push_back(word);
  return command;
}

class Reader {
 public:
  Program read(Command command) {
    // Launchers may start launchers, and scripts scripts: the depth is limited.
    for (int depth = 0; depth < 8; ++depth) {
      const auto path = find_program(command.front());
      if (!path) throw UnreadableProgram(command.front() + ": no such program");
      const std::string name = path->filename();
      program_.path = *path;
      if (is_launcher(name) && step_into(command)) continue;
      if (matches(name, "python[0-9.]*")) return read_python(command.front());
      if (matches(name, "R|Rscript")) return read_r(*path);
      if (matches(name, "octave(-cli|-gui)?(-[0-9.]+)?")) return read_octave(*path);
      Command interpreter = shebang_of(*path);
      if (interpreter.empty()) return read_plain(*path);
      const std::string shell = fs::path(interpreter.front()).filename();
      program_.notes.push_back(name + " is a script of " + interpreter.front() + ".");
      if (matches(shell, "(ba|da|z|k)?sh|perl|make")) {
        program_.notes.push_back("The programs that it starts are started with the same settings; ask about them.");
      }
      interpreter.push_back(*path);
      command = interpreter;
    }
    throw UnreadableProgram(command.front() + ": a script of a script of a script");
  }

 private:
  /// Takes the launcher's words off the front. @return false if no program follows
  bool step_into(Command& command) {
    for (std::size_t i = 1; i < command.size(); ++i) {
      if (command[i].rfind('-', 0) == 0 || !find_program(command[i])) continue;
      program_.notes.push_back(command.front() + " starts " + command[i] + ".");
      command.erase(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  /// The object's index; files are read once.
  std::size_t add(const std::string& path, bool is_main) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    const std::string key = error ? path : real.string();
    const auto found = indices_.find(key);
    if (found != indices_.end()) return found->second;
    ProgramObject object = read_elf(path, is_main);
    object.executable = object.executable && is_main;
    indices_[key] = program_.objects.size();
    program_.objects.push_back(std::move(object));
    return program_.objects.size() - 1;
  }

  /// `path` with everything that the loader would load for it, breadth first, as it lists it.
  Scope with_libraries(const std::string& path, bool is_main) {
    Scope scope = {add(path, is_main)};
    if (program_.objects[scope.front()].is_static) return scope;
    // The loader of this machine, not the one that the file names: a file may name anything.
    static const std::string loader = interpreter_of("/proc/self/exe").value_or("");
    if (loader.empty()) throw UnreadableProgram("this command is statically linked and knows no loader");
    // Dozens of extension modules have the same libraries, so listings are reused.
    const std::string key = fs::path(path).parent_path().string() + '\n' + program_.objects[scope.front()].loads;
    const auto [listed, is_new] = listings_.try_emplace(key);
    if (is_new) listed->second = output_of({loader, "--list", path}, library_path_);
    std::istringstream lines(listed->second);
    for (std::string line; std::getline(lines, line);) {
      static const std::regex found("\\s*(?:\\S+ => )?(/.*) \\(0x[0-9a-f]+\\)");
      static const std::regex missing("\\s*(\\S+) => not found");
      std::smatch parts;
      if (std::regex_match(line, parts, found)) {
        const std::size_t index = add(parts[1], false);
        if (std::find(scope.begin(), scope.end(), index) == scope.end()) scope.push_back(index);
      } else if (is_new && std::regex_match(line, parts, missing)) {
        program_.notes.push_back("The loader does not find " + parts[1].str() + ", which " + path + " needs.");
      }
    }
    return scope;
  }

  void read_main(const std::string& path) { program_.global = with_libraries(path, true); }

  /// Modules in `folder` that call BLAS or LAPACK.
  void read_modules(const fs::path& folder) {
    std::error_code error;
    std::vector<std::string> files;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename();
      if (name.ends_with(".so")) files.push_back(entry->path());
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) {
      try {
        const ProgramObject module = read_elf(file, false);
        const bool calls_blas = std::any_of(module.references.begin(), module.references.end(),
                                            [](const std::string& name) { return parse_blas_name(name).has_value(); });
        if (calls_blas) read_module(file);
      } catch (const NotReadable&) {
        // A module of another machine, or no module at all: the interpreter would not load it either.
      }
    }
  }

  void read_module(const std::string& file) {
    Scope scope;
    for (const std::size_t index : with_libraries(file, false)) {
      const std::string& soname = program_.objects[index].soname;
      // A library that is already loaded under this name is not loaded again.
      const bool loaded = std::any_of(program_.global.begin(), program_.global.end(), [&](std::size_t other) {
        return other == index || (!soname.empty() && program_.objects[other].soname == soname);
      });
      if (!loaded) scope.push_back(index);
    }
    program_.modules.push_back(scope);
  }

  Program read_plain(const fs::path& path) {
    read_main(path);
    const bool opens_later = std::any_of(program_.global.begin(), program_.global.end(), [this](std::size_t i) {
      return program_.objects[i].executable && program_.objects[i].references.count("dlopen") != 0;
    });
    if (opens_later) program_.notes.push_back("It can open libraries later (dlopen); those are not seen here.");
    return std::move(program_);
  }

  Program read_python(const std::string& python) {
    const std::string question =
        // Replaces importlib.util.find_spec and json, whose import alone takes 20 ms.
        "import sys\n"
        "def where(name):\n"
        "    for finder in sys.meta_path:\n"
        "        found = finder.find_spec(name, None)\n"
        "        if found: return list(found.submodule_search_locations or [])\n"
        "    return []\n"
        "def quoted(text): return '\"' + text.replace('\\\\', '\\\\\\\\').replace('\"', '\\\\\"') + '\"'\n"
        "def listed(texts): return '[' + ','.join(map(quoted, texts)) + ']'\n"
        "print('[%s,%s,%s]' % (quoted(sys.executable), listed(where('numpy')), listed(where('scipy'))))\n";
    const auto answer = nlohmann::json::parse(output_of({python, "-c", question}, ""), nullptr, false);
    if (!answer.is_array() || answer.size() != 3) throw UnreadableProgram(python + ": does not answer as Python does");
    const std::string executable = answer[0];
    program_.path = executable.empty() ? find_program(python)->string() : executable;
    read_main(program_.path);
    for (std::size_t package = 1; package < 3; ++package) {
      const char* name = package == 1 ? "numpy" : "scipy";
      if (answer[package].empty()) program_.notes.push_back(std::string("This Python has no ") + name + ".");
      for (const auto& folder : answer[package]) {
        program_.notes.push_back(std::string(name) + " is in " + folder.get<std::string>() + ".");
        read_modules(folder.get<std::string>());
      }
    }
    return std::move(program_);
  }

  Program read_r(const fs::path& path) {
    const fs::path beside = path.parent_path() / "R";
    const std::string r = is_executable_file(beside) ? beside.string() : "R";
    const auto line_of = [](std::string output) {
      output.erase(std::find(output.begin(), output.end(), '\n'), output.end());
      return output;
    };
    const std::string home = line_of(output_of({r, "RHOME"}, ""));
    if (home.empty()) throw UnreadableProgram(path.string() + ": R RHOME gives no folder");
    // R prepends its own folders to LD_LIBRARY_PATH, unless a variable sets them.
    library_path_ = line_of(output_of({r, "CMD", "printenv", "LD_LIBRARY_PATH"}, ""));
    program_.library_variable = "R_LD_LIBRARY_PATH";
    program_.library_default = library_path_;
    read_main(home + "/bin/exec/R");
    read_modules(fs::path(home) / "modules");
    read_modules(fs::path(home) / "library");
    return std::move(program_);
  }

  Program read_octave(const fs::path& path) {
    // `octave` only chooses between octave-cli and octave-gui, which have the same libraries.
    const fs::path cli = path.parent_path() / "octave-cli";
    read_main(is_executable_file(cli) ? cli : path);
    return std::move(program_);
  }

  Program program_;
  std::string library_path_;
  std::map<std::string, std::size_t> indices_;
  std::map<std::string, std::string> listings_;  ///< the loader's output
};

std::set<std::string> exports_of(const char* library) {
  const auto file = find_library(library);
  return file ? read_elf(file->string(), false).defines : std::set<std::string>();
}

}  // namespace

Program read_program(const std::vector<std::string>& command) { return Reader().read(command); }

Faces read_faces() { return {exports_of("libtessera_blas.so"), exports_of("libtessera_blas64.so")}; }

}  // namespace tessera::tools
