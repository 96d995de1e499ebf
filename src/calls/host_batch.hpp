// Batches of problems in host memory, as the batch entry points and the runtime pass them on: problems, each with sizes
// and matrices of its own, and the few forms that they share. Batches of gemm (gemm_batch.hpp) and of LAPACK
// (lapack_problems.hpp) are both made of it. A caller's groups are merged into forms, since programs pass a group for each
// problem.
//
// Invariant of what BatchBuilder makes: problems of one form lie side by side, in the order in which they came.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/addressable.hpp"
#include "core/scalar.hpp"

namespace tessera {

/// The results of different problems must not overlap. @tparam Problem has the number of its form, `form`
template <class Form, class Problem>
struct HostBatch {
  ScalarType type = ScalarType::d;
  std::vector<Form> forms;
  std::vector<Problem> problems;

  index_t size() const { return static_cast<index_t>(problems.size()); }
  const Problem& problem(index_t number) const { return problems[static_cast<std::size_t>(number)]; }
  const Form& form_of(const Problem& problem) const { return forms[static_cast<std::size_t>(problem.form)]; }
};

/// A matrix for each problem of a group: anywhere, or so many bytes apart.
struct MatricesOfGroup {
  const void* const* each = nullptr;
  const void* first = nullptr;
  index_t distance_bytes = 0;

  const void* of(index_t problem) const {
    if (each != nullptr) return each[problem];
    return static_cast<const std::byte*>(first) + problem * distance_bytes;
  }
  /// For the matrices that are written.
  void* writable(index_t problem) const { return const_cast<void*>(of(problem)); }
};

/// MatricesOfGroup::distance_bytes. It wraps where is_addressable_stride() does not hold, and nobody uses it then.
constexpr index_t distance_in_bytes(index_t elements, std::size_t element_bytes) {
  return static_cast<index_t>(static_cast<std::size_t>(elements) * element_bytes);
}

/// Numbers forms, which are told apart by keys of so many words.
template <class Batch, std::size_t words>
class BatchBuilder {
 public:
  /// @pre no more than most_problems @throws std::bad_alloc
  void reserve(index_t problems) { batch_.problems.reserve(static_cast<std::size_t>(problems)); }

  /// @throws std::bad_alloc
  Batch take() {
    if (changes_ > 1) put_side_by_side();
    return std::move(batch_);
  }

 protected:
  using Key = std::array<std::uint64_t, words>;

  template <class Form>
  index_t number_of(const Form& form, const Key& key) {
    if (changes_ > 0 && key == last_) return last_number_;
    const auto [entry, is_new] = numbers_.try_emplace(key, static_cast<index_t>(batch_.forms.size()));
    if (is_new) batch_.forms.push_back(form);
    ++changes_;
    last_ = key;
    last_number_ = entry->second;
    return last_number_;
  }

  Batch batch_;

 private:
  static_assert(sizeof(typename decltype(Batch::problems)::value_type) <= most_problem_bytes);

  void put_side_by_side() {
    std::vector<std::size_t> next(batch_.forms.size() + 1);
    for (const auto& problem : batch_.problems) ++next[static_cast<std::size_t>(problem.form) + 1];
    for (std::size_t form = 1; form < next.size(); ++form) next[form] += next[form - 1];
    auto sorted = batch_.problems;
    for (const auto& problem : batch_.problems) sorted[next[static_cast<std::size_t>(problem.form)]++] = problem;
    batch_.problems = std::move(sorted);
  }

  std::map<Key, index_t> numbers_;
  Key last_{};
  index_t last_number_ = 0;
  index_t changes_ = 0;  ///< times that a group had another form than the one before it
};

}  // namespace tessera
