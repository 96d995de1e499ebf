// Runs problems (tests/device_api/lapack_problem.hpp) as a batch of one of LAPACK's routines in host memory, in any form. All
// matrices lie between guards; what is no result must keep its bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tessera/lapack_batch.hpp"
#include "tests/device_api/lapack_problem.hpp"

namespace tessera::test {

enum class HostForm : std::uint8_t { groups_of_one, merged_groups, strides };

inline tessera_uplo c_uplo(Uplo uplo) { return uplo == Uplo::lower ? TESSERA_LOWER : TESSERA_UPPER; }
inline tessera_transpose c_op(Op op) { return static_cast<tessera_transpose>(static_cast<int>(op) + TESSERA_NO_TRANS); }

/// Problems as the caller of a batch has them.
template <Scalar T>
class HostBatchOf {
 public:
  HostBatchOf(const LapackVariant& variant, const std::vector<LapackProblem<T>>& problems, HostForm form)
      : variant_(variant), form_(form), count_(static_cast<index_t>(problems.size())) {
    for (const LapackProblem<T>& problem : problems) {
      const bool same = form != HostForm::groups_of_one && !m_.empty() && m_.back() == problem.m &&
                        n_.back() == problem.n && nrhs_.back() == problem.nrhs && lda_.back() == problem.lda &&
                        ldb_.back() == problem.ldb;
      if (same) {
        ++size_.back();
      } else {
        m_.push_back(problem.m), n_.push_back(problem.n), nrhs_.push_back(problem.nrhs);
        lda_.push_back(problem.lda), ldb_.push_back(problem.ldb), size_.push_back(1);
      }
      a_.push_back(place(A_, problem.A));
      b_.push_back(place(B_, problem.B));
      std::vector<int> pivots(problem.ipiv.begin(), problem.ipiv.end());
      ipiv_.push_back(place(pivots_, pivots));
    }
    info_.assign(problems.size() + 1, 12345);
    uplo_.assign(size_.size(), c_uplo(variant.uplo));
    op_.assign(size_.size(), c_op(variant.op));
    tiny_.assign(size_.size(), static_cast<RealPart<T>>(variant.tiny));
  }

  void run(const Context& context) { form_ == HostForm::strides ? run_strided(context) : run_groups(context); }

  /// Brings the results back. Elements beside the results must have kept their bytes.
  void take(std::vector<LapackProblem<T>>& problems) const {
    EXPECT_EQ(info_.back(), 12345) << "behind info";
    std::vector<char> is_a(A_.size(), 0), is_b(B_.size(), 0), is_pivot(pivots_.size(), 0);
    const bool writes_a = !solves(variant_.routine) || factors(variant_.routine);
    for (std::size_t p = 0; p < problems.size(); ++p) {
      LapackProblem<T>& problem = problems[p];
      const auto take_element = [&](std::vector<T>& to, std::size_t at, const std::vector<T>& from, std::size_t begin,
                                    std::vector<char>& is_result) {
        to[at] = from[begin + at];
        is_result[begin + at] = 1;
      };
      for (index_t j = 0; j < problem.n && writes_a; ++j) {
        for (index_t i = 0; i < problem.m; ++i) {
          if (is_stored(variant_, i, j))
            take_element(problem.A, static_cast<std::size_t>(i + j * problem.lda), A_, a_[p], is_a);
        }
      }
      for (index_t v = 0; v < problem.nrhs; ++v) {
        for (index_t i = 0; i < problem.n; ++i)
          take_element(problem.B, static_cast<std::size_t>(i + v * problem.ldb), B_, b_[p], is_b);
      }
      for (std::size_t i = 0; i < problem.ipiv.size() && factors(variant_.routine); ++i) {
        problem.ipiv[i] = pivots_[ipiv_[p] + i];
        is_pivot[ipiv_[p] + i] = 1;
      }
      problem.info = info_[p];
    }
    expect_others_kept(A_, before_a_, is_a);
    expect_others_kept(B_, before_b_, is_b);
    expect_others_kept(pivots_, before_pivots_, is_pivot);
  }

  void keep() { before_a_ = A_, before_b_ = B_, before_pivots_ = pivots_; }

 private:
  static constexpr index_t between = 3;  ///< elements between matrices

  template <class E>
  static std::size_t place(std::vector<E>& memory, const std::vector<E>& matrix) {
    const std::size_t at = memory.size();
    memory.insert(memory.end(), matrix.begin(), matrix.end());
    memory.resize(memory.size() + between, E(-7));
    return at;
  }
  template <class E>
  static void expect_others_kept(const std::vector<E>& now, const std::vector<E>& before, const std::vector<char>& is) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < now.size(); ++i)
      wrong += is[i] == 0 && std::memcmp(&now[i], &before[i], sizeof(E)) != 0 ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << "beside the results";
  }
  template <class E>
  static std::vector<E*> addresses(std::vector<E>& memory, const std::vector<std::size_t>& at) {
    std::vector<E*> all;
    for (const std::size_t offset : at) all.push_back(memory.data() + offset);
    return all;
  }
  index_t stride(const std::vector<std::size_t>& at) const {
    return at.size() > 1 ? static_cast<index_t>(at[1] - at[0]) : 0;
  }

  void run_groups(const Context& c) {
    using enum Routine;
    const auto A = addresses(A_, a_), B = addresses(B_, b_);
    const auto pivots = addresses(pivots_, ipiv_);
    int* const* const ipiv = variant_.with_pivots ? pivots.data() : nullptr;
    const T* const* const factor = const_cast<const T* const*>(A.data());
    int* const info = info_.data();
    const auto groups = static_cast<index_t>(size_.size());
    const index_t* const size = size_.data();
    const index_t *const m = m_.data(), *const n = n_.data(), *const nrhs = nrhs_.data(), *const lda = lda_.data(),
                         *const ldb = ldb_.data();
    switch (variant_.routine) {
      case potrf:
        return potrf_batch<T>(c, uplo_.data(), n, A.data(), lda, info, groups, size);
      case potrs:
        return potrs_batch<T>(c, uplo_.data(), n, nrhs, factor, lda, B.data(), ldb, info, groups, size);
      case posv:
        return posv_batch<T>(c, uplo_.data(), n, nrhs, A.data(), lda, B.data(), ldb, info, groups, size);
      case potri:
        return potri_batch<T>(c, uplo_.data(), n, A.data(), lda, info, groups, size);
      case getrf:
        return getrf_batch<T>(c, m, n, A.data(), lda, ipiv, info, groups, size);
      case getrf_nopiv:
        return getrf_nopiv_batch<T>(c, m, n, A.data(), lda, tiny_.data(), info, groups, size);
      case getrs:
        return getrs_batch<T>(c, op_.data(), n, nrhs, factor, lda, ipiv, B.data(), ldb, info, groups, size);
      case gesv:
        return gesv_batch<T>(c, n, nrhs, A.data(), lda, ipiv, B.data(), ldb, info, groups, size);
      case getri:
        return getri_batch<T>(c, n, A.data(), lda, ipiv, info, groups, size);
      default:
        break;
    }
  }

  void run_strided(const Context& c) {
    using enum Routine;
    T *const A = A_.data(), *const B = B_.data();
    int *const ipiv = variant_.with_pivots ? pivots_.data() : nullptr, *const info = info_.data();
    const index_t sa = stride(a_), sb = stride(b_), sp = stride(ipiv_);
    const index_t m = m_[0], n = n_[0], nrhs = nrhs_[0], lda = lda_[0], ldb = ldb_[0];
    switch (variant_.routine) {
      case potrf:
        return potrf_batch_strided<T>(c, uplo_[0], n, A, lda, sa, info, count_);
      case potrs:
        return potrs_batch_strided<T>(c, uplo_[0], n, nrhs, A, lda, sa, B, ldb, sb, info, count_);
      case posv:
        return posv_batch_strided<T>(c, uplo_[0], n, nrhs, A, lda, sa, B, ldb, sb, info, count_);
      case potri:
        return potri_batch_strided<T>(c, uplo_[0], n, A, lda, sa, info, count_);
      case getrf:
        return getrf_batch_strided<T>(c, m, n, A, lda, sa, ipiv, sp, info, count_);
      case getrf_nopiv:
        return getrf_nopiv_batch_strided<T>(c, m, n, A, lda, sa, tiny_[0], info, count_);
      case getrs:
        return getrs_batch_strided<T>(c, op_[0], n, nrhs, A, lda, sa, ipiv, sp, B, ldb, sb, info, count_);
      case gesv:
        return gesv_batch_strided<T>(c, n, nrhs, A, lda, sa, ipiv, sp, B, ldb, sb, info, count_);
      case getri:
        return getri_batch_strided<T>(c, n, A, lda, sa, ipiv, sp, info, count_);
      default:
        break;
    }
  }

  LapackVariant variant_;
  HostForm form_;
  index_t count_;
  std::vector<index_t> m_, n_, nrhs_, lda_, ldb_, size_;
  std::vector<tessera_uplo> uplo_;
  std::vector<tessera_transpose> op_;
  std::vector<RealPart<T>> tiny_;
  std::vector<T> A_, B_, before_a_, before_b_;
  std::vector<int> pivots_, before_pivots_, info_;
  std::vector<std::size_t> a_, b_, ipiv_;
};

template <Scalar T>
std::vector<LapackProblem<T>> solved(const Context& context, const LapackVariant& variant,
                                     const std::vector<LapackProblem<T>>& problems,
                                     HostForm form = HostForm::groups_of_one) {
  HostBatchOf<T> batch(variant, problems, form);
  batch.keep();
  batch.run(context);
  std::vector<LapackProblem<T>> after = problems;
  batch.take(after);
  return after;
}

}  // namespace tessera::test
