// Which programs have used devices, so that these are started before the first call of their next run.
//
// A program is its executable, its arguments and the folder it runs in: other arguments may want no device. All are in
// one small file of the user's cache, the last ones first. A file that cannot be read counts as empty.
#pragma once

#include <string>

namespace tessera::offload {

class ProgramHistory {
 public:
  enum class Seen : char {
    nothing = ' ',  ///< nobody knows
    used = '+',     ///< its last run used devices
    children = '-'  ///< a child wanted the devices that its parent had started early: never again
  };
  /// So many programs are remembered.
  static constexpr std::size_t most_programs = 200;

  /// @param file empty: nothing is kept @param program what tells it from others
  ProgramHistory(std::string file, const std::string& program);
  /// The program that runs here. @param calibration Config::calibration; where that is off, nothing is kept
  static ProgramHistory of_this_process(const std::string& calibration);

  Seen seen() const;
  /// Replaces what is known, but for Seen::children, which stays. @throws NotAvailable if it cannot be written
  void note(Seen seen) const;

 private:
  std::string file_;
  std::string name_;  ///< of its line
};

}  // namespace tessera::offload
