#include "progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tessera::tools {

ProgressBar::ProgressBar(int steps) : terminal_(isatty(STDERR_FILENO) == 1), steps_(steps) {}

ProgressBar::~ProgressBar() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::begin(const std::string& what) {
  what_ = what;
  draw();
}

void ProgressBar::advance() {
  ++done_;
  draw();
}

void ProgressBar::draw() const {
  if (!terminal_ || steps_ < 1) return;
  constexpr int width = 30;
  const int filled = width * done_ / steps_;
  const std::string line =
      fmt::format("\r\033[K[{:#<{}}{:.<{}}] {}/{} {}", "", filled, "", width - filled, done_, steps_, what_);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace tessera::tools
