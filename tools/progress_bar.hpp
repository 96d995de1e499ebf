// A bar on standard error that shows the progress of a measurement. Silent if standard error is no terminal.
#pragma once

#include <string>

namespace tessera::tools {

class ProgressBar {
 public:
  explicit ProgressBar(int steps);
  ~ProgressBar();  ///< clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the step that begins.
  void begin(const std::string& what);
  /// One step is done.
  void advance();

 private:
  void draw() const;

  bool terminal_;
  int steps_;
  int done_ = 0;
  std::string what_;
};

}  // namespace tessera::tools
