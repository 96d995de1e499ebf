// Times on the host, and what is told of several.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace tessera::bench {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class Work>
double seconds_of(const Work& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return seconds_since(begin);
}

/// Of an even number of values the larger one of the two in the middle.
/// @pre there are some
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tessera::bench
