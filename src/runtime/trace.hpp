// The trace file (TESSERA_TRACE): every copy and kernel of every job in the Trace Event Format, which Perfetto and
// Chrome open. One process per device, one thread per stream. The file is a complete JSON array after each job. Not
// thread-safe: written by the thread that ran the job, one job at a time.
//
// A file has one writer. As long as there is one, others that are to write the same file write one beside it, which has
// their process's number in its name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/file.hpp"
#include "device/operation_log.hpp"
#include "runtime/statistics.hpp"

namespace tessera::runtime {

class TraceFile {
 public:
  /// @param path empty: every call does nothing. %p stands for the process's number. A file whose writer has ended, and
  /// all children that it forked while it had the file, is overwritten by the first job.
  explicit TraceFile(std::string path) : path_(std::move(path)) {}

  /// Appends a job of a call that began at `begin_s` (device::now_seconds). `operations[d]` belong to device `names[d]`.
  /// A file that cannot be written is reported once on standard error.
  void append(const JobStatistics& job, double begin_s, const std::vector<std::string>& names,
              const std::vector<std::vector<device::Operation>>& operations);

 private:
  void open();

  std::string path_;
  OutputFile file_;
  std::int64_t end_ = 0;  ///< of the last event, in bytes; 0: nothing has been written
  double origin_s_ = 0;
};

}  // namespace tessera::runtime
