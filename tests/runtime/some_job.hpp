// A job of two devices whose numbers all differ.
#pragma once

#include "runtime/statistics.hpp"

namespace tessera::test {

inline runtime::JobStatistics some_job() {
  runtime::JobStatistics job{.routine = "dgemm", .m = 3, .n = 4, .k = 5, .seconds = 2, .flops = 120, .devices = {}};
  job.devices = {{.device = "host:0", .l1_hits = 1, .bytes_up = 10, .bytes_down = 1, .bytes_peer = 5, .bytes_kept = 3},
                 {.device = "host:1", .misses = 2, .bytes_up = 20, .bytes_down = 2, .bytes_peer = 7}};
  return job;
}

}  // namespace tessera::test
