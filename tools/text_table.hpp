// Tables and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::tools {

/// Rows of right-aligned cells under a header; the first column is left-aligned.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  /// @pre as many cells as the header has
  void add_row(std::vector<std::string> cells);
  /// Ends with a line break.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Three significant digits without an exponent: 0.0123, 4.56, 78.9, 1234. "-" if not finite.
std::string three_digits(double value);
/// 512 B, 1.50 GiB.
std::string bytes_text(double bytes);
/// `part` of `whole` as "97.3 %"; "-" if whole is 0.
std::string percent_text(double part, double whole);
/// part / whole as "1.02"; "-" if whole is 0.
std::string ratio_text(double part, double whole);

}  // namespace tessera::tools
