// The options that `tessera run`, `bench` and `info` share: each is one TESSERA_* variable.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/config.hpp"

namespace CLI {
class App;
}

namespace tessera::tools {

class SettingsOptions {
 public:
  /// Adds the options to `app`, which must not outlive this object.
  void add_to(CLI::App& app);

  /// The variables that were set, with their values; file names are absolute.
  std::vector<std::pair<std::string, std::string>> values() const;

  /// The same as a settings string for tessera_create_with().
  std::string text() const;

  /// The environment's configuration, overridden by these options. @throws InvalidArgument naming the wrong value
  Config config() const;

 private:
  std::string devices_;
  std::string tile_;
  std::string memory_;
  std::string memory_mode_;
  std::string resident_;
  std::string resident_memory_;
  std::string copy_threads_;
  std::string keep_old_values_;
  std::string cpu_worker_;
  std::string host_device_;
  std::string offload_;
  std::string share_;
  std::string cpu_blas_;
  std::string cuda_plugin_;
  std::string calibration_;
  std::string stats_;
  std::string trace_;
  std::string summary_;
  std::string warm_up_;
  bool verbose_ = false;
};

}  // namespace tessera::tools
