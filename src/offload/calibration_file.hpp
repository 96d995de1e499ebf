// The record of a machine that is kept between processes: the rates of its devices, and the time that they take to
// start. One JSON file per set of devices, in the user's cache directory unless TESSERA_CALIBRATION names another one.
//
// A file belongs to the devices by their models and PCI addresses, the driver and the copy threads, all of which are
// known without CUDA. In the cache a file that is of no use is replaced. A file that was named is only replaced if it
// is one of ours.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernels/backend.hpp"
#include "runtime/performance_model.hpp"

namespace tessera::offload {

struct MachineRecord {
  std::optional<runtime::Calibration> rates;  ///< nothing: not measured yet
  double start_up_s = 0;                      ///< seconds of the last start of the devices; 0: unknown
  bool operator==(const MachineRecord&) const = default;
};

class CalibrationFile {
 public:
  /// @param setting      Config::calibration
  /// @param devices      that are used together
  /// @param copy_threads of each of them
  /// @param driver       its version; empty for host devices and where it is not told
  CalibrationFile(const std::string& setting, std::span<const device::DeviceInfo> devices, int copy_threads,
                  const std::string& driver);

  /// Nothing is to be kept. @param setting Config::calibration
  static bool is_off(const std::string& setting) { return setting == "off"; }

  /// Empty: nothing is to be kept, or there is no place for it.
  const std::string& path() const { return path_; }

  /// Nothing if there is no such file, or one that is broken or belongs to other devices. Never throws.
  std::optional<MachineRecord> read() const;

  /// Why write() would fail or destroy what is not ours, as far as can be told; empty: it may be called.
  std::string obstacle() const;

  /// Replaces the file as a whole: a reader meanwhile gets the old file or the new one. Several processes, on several
  /// machines, may do so at once. @throws NotAvailable if there is no place for it or it cannot be written
  void write(const MachineRecord& record) const;

 private:
  int devices_;
  std::string devices_in_words_;
  std::string machine_;  ///< the machine of the record, in words: the devices, their driver and copy threads
  std::string path_;
  bool named_ = false;  ///< by the user
};

}  // namespace tessera::offload
