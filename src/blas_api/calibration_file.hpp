// Where measured rates are kept between processes: one JSON file per set of devices, in the user's cache directory unless
// TESSERA_CALIBRATION names another one.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernels/backend.hpp"
#include "runtime/performance_model.hpp"

namespace tessera::api {

class CalibrationFile {
 public:
  /// @param setting      Config::calibration
  /// @param devices      that are used together
  /// @param copy_threads of each of them
  CalibrationFile(const std::string& setting, std::span<const device::DeviceInfo> devices, int copy_threads);

  /// Empty: rates are not to be kept, or there is no place for them.
  const std::string& path() const { return path_; }

  /// Rates that were measured on these devices; nothing if there is no such file. Never throws for a file that is
  /// broken or belongs to others.
  std::optional<runtime::Calibration> read() const;

  /// Whether nothing is there and write() would work, as far as can be told.
  bool is_free() const;

  /// Replaces the file as a whole. @throws NotAvailable if there is no place for it or it cannot be written
  void write(const runtime::Calibration& rates) const;

 private:
  int devices_;
  std::string machine_;  ///< what the rates belong to, in words
  std::string path_;
};

}  // namespace tessera::api
