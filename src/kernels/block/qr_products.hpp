// QR factors of some columns of a panel from the products of these columns, computed by a team of thread blocks
// (block_team.hpp) in two meetings, where a factorization column by column takes one for each.
//
// The rows of the panel's triangle, its top, are kept as they are; of the rows below there is the matrix of products.
// From both of them every thread block computes all reflectors by itself, and the matrix W that makes reflectors of
// columns below the top: V = A W. Each step takes a multiple of the current column from the others, and so changes the
// products and W.
//
// Where columns are nearly dependent, few digits of such products are left. So the sizes of all that is taken from
// a column are added up. If they are too far above what is left of it, nothing is written, and the caller has to factor
// column by column. The same holds for numbers that are not finite, too large or too small to be squared.
//
// Sources: LAPACK's ?geqr2 and ?larfg; Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, "Roundoff error analysis of the
// CholeskyQR2 algorithm", for what products of columns lose; Ballard, Demmel, Grigori, Jacquelin, Knight, Nguyen,
// "Reconstructing Householder vectors from Tall-Skinny QR", for reflectors of an orthogonal matrix.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/block/block_team.hpp"
#include "kernels/block/element.hpp"

namespace tessera::kernels::block {

template <class R, int parts>
TESSERA_DEVICE Element<R, parts> conjugate_of(Element<R, parts> a) {
  if constexpr (parts == 2) a.part[1] = -a.part[1];
  return a;
}

/// An elementary reflector I - tau v v^H, whose v has a one in front of scale times the rest of a column.
template <class E>
struct Reflector {
  E tau{}, scale{}, beta{};  ///< beta is what is left of the column: its first element
};

/// @param below the sum of squares of the column below its first element, alpha
template <class R, int parts>
TESSERA_DEVICE Reflector<Element<R, parts>> reflector_of(const Element<R, parts>& alpha, R below) {
  using E = Element<R, parts>;
  using std::sqrt;
  Reflector<E> reflector;
  reflector.beta = alpha;
  const R re = alpha.part[E::re], im = parts == 2 ? alpha.part[parts - 1] : R(0);
  if (below == 0 && im == 0) return reflector;
  const R norm = sqrt(fused(re, re, fused(im, im, below)));
  const R b = re < 0 ? norm : -norm;
  reflector.tau.part[E::re] = (b - re) / b;
  if constexpr (parts == 2) reflector.tau.part[E::im] = -im / b;
  E difference = alpha;
  difference.part[E::re] -= b;
  reflector.scale = reciprocal(difference);
  reflector.beta = {};
  reflector.beta.part[E::re] = b;
  return reflector;
}

/// Smaller sums of squares are not exact.
template <class R>
inline constexpr R least_sum_of_squares = sizeof(R) == sizeof(double) ? R(1e-280) : R(1e-24F);

/// A column of a step has so many threads at most, each for some of its rows.
inline constexpr int most_groups_of_rows = 8;

/// Columns of a thread's block of products. They are not neighbours, so that threads read neighbours.
inline constexpr int of_product_block = 4;

/// @tparam most columns
template <class E, int most>
struct QrProductsMemory {
  static constexpr int rows_at_once = 32;
  static constexpr int stage_ld = most + 1;  // else threads that store a column would share a bank
  alignas(16) E top[most][most];
  /// Of columns below the top: the conjugate of the first with the second, which is not before it.
  E products[most][most];
  /// W without the scales of its columns; before that, rows of A for the sums.
  alignas(16) E W[std::max(most * most, rows_at_once* stage_ld)];
  E of_group[most_groups_of_rows][most];
  E factor[most], change[most], scale[most], beta[most], tau[most];
  /// Of a column below the top: the squares of all terms that its sums have had, and the sum of their sizes.
  typename E::Part noise[most], size[most];
};

/// In global memory.
template <class E, int most>
struct QrProductsSums {
  static constexpr int blocks = most / of_product_block, pairs = blocks * (blocks + 1) / 2;
  static constexpr int of_pair = of_product_block * of_product_block;
  static constexpr int most_groups = 2;  ///< of a block's threads
  alignas(16) E of_block[most_blocks_of_team * most_groups][pairs * of_pair];
  alignas(16) E all[pairs * of_pair];
};

/// @tparam threads of a thread block: several warps
/// @tparam most columns
template <class E, int threads, int most, class Machine>
class QrProducts {
  using R = typename E::Part;
  static constexpr int parts = E::part_count;

 public:
  using Memory = QrProductsMemory<E, most>;
  using Sums = QrProductsSums<E, most>;

  TESSERA_DEVICE QrProducts(Memory& memory, Sums& sums, Machine machine)
      : memory_(memory), all_(sums), machine_(machine) {}

  /// @pre width <= most, width <= height
  /// @return the same for all threads of all blocks: whether it has factored. Otherwise the panel is as before.
  TESSERA_DEVICE bool run(E* A, index_t lda, index_t height, int width, E* tau) {
    A_ = machine_.in_global(A);
    lda_ = lda;
    width_ = width;
    const index_t share = (height - width + machine_.blocks() - 1) / machine_.blocks();
    begin_ = width + machine_.block() * share;
    end_ = begin_ + share < height ? begin_ + share : height;
    load_top();
    sum_products();
    machine_.meet_blocks();
    add_up();
    machine_.meet_blocks();
    load_products();
    TESSERA_NO_UNROLL
    for (int k = 0; k < width; ++k) {
      if (eliminate(k)) continue;
      machine_.meet();
      return false;
    }
    make_reflectors();
    if (machine_.block() == 0) store_top(tau);
    return true;
  }

 private:
  TESSERA_DEVICE void load_top() {
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < width_ * width_; e += threads)
      memory_.top[e % width_][e / width_] = A_[e % width_ + (e / width_) * lda_];
  }

  static constexpr int groups = threads / Sums::pairs < Sums::most_groups ? threads / Sums::pairs : Sums::most_groups;

  /// The block's rows, some at a time. Groups of threads take turns with the rows.
  TESSERA_DEVICE void sum_products() {
    constexpr int at_once = Memory::rows_at_once, loads = (at_once * most + threads - 1) / threads;
    static_assert(groups > 0 && most % of_product_block == 0);
    const int group = machine_.thread() / Sums::pairs, pair = machine_.thread() % Sums::pairs;
    int left = 0, right = 0;
    find_blocks(pair, left, right);
    E sums[of_product_block][of_product_block] = {};
    E next[loads];
    load_rows(begin_, next);
    TESSERA_NO_UNROLL
    for (index_t first = begin_; first < end_; first += at_once) {
      machine_.meet();
      TESSERA_UNROLL
      for (int l = 0; l < loads; ++l) {
        const int e = machine_.thread() + l * threads;
        if (e < at_once * most) memory_.W[e % at_once * Memory::stage_ld + e / at_once] = next[l];
      }
      machine_.meet();
      load_rows(first + at_once, next);
      if (group < groups) add_products(memory_.W, group, left, right, sums);
      machine_.sync_warp();
    }
    if (group < groups) {
      E* const to = all_.of_block[machine_.block() * groups + group];
      TESSERA_UNROLL
      for (int u = 0; u < of_product_block; ++u) {
        TESSERA_UNROLL
        for (int v = 0; v < of_product_block; ++v) to[(u * of_product_block + v) * Sums::pairs + pair] = sums[u][v];
      }
    }
    machine_.sync_warp();
  }

  /// Of a group's rows of the stage, the products of columns of two blocks.
  static TESSERA_DEVICE void add_products(const E* stage, int group, int left, int right,
                                          E (&sums)[of_product_block][of_product_block]) {
    TESSERA_NO_UNROLL
    for (int row = group; row < Memory::rows_at_once; row += groups) {
      const E* const elements = stage + row * Memory::stage_ld;
      E a[of_product_block], b[of_product_block];
      TESSERA_UNROLL
      for (int u = 0; u < of_product_block; ++u) {
        a[u] = conjugate_of(elements[left + u * Sums::blocks]);
        b[u] = elements[right + u * Sums::blocks];
      }
      TESSERA_UNROLL
      for (int u = 0; u < of_product_block; ++u) {
        TESSERA_UNROLL
        for (int v = 0; v < of_product_block; ++v) sums[u][v] = fused(a[u], b[v], sums[u][v]);
      }
    }
  }

  /// The two of a pair, of which the left one is not behind the right one.
  static TESSERA_DEVICE void find_blocks(int pair, int& left, int& right) {
    right = 0;
    while ((right + 1) * (right + 2) / 2 <= pair) ++right;
    left = pair - right * (right + 1) / 2;
  }

  template <int loads>
  TESSERA_DEVICE void load_rows(index_t first, E (&next)[loads]) const {
    constexpr int at_once = Memory::rows_at_once;
    TESSERA_UNROLL
    for (int l = 0; l < loads; ++l) {
      const int e = machine_.thread() + l * threads, column = e / at_once;
      const index_t row = first + e % at_once;
      next[l] = E{};
      if (row < end_ && column < width_) next[l] = A_[row + column * lda_];
    }
  }

  /// Each thread of the team adds up a product of all blocks.
  TESSERA_DEVICE void add_up() {
    const int count = machine_.blocks() * groups;
    TESSERA_NO_UNROLL
    for (int e = machine_.block() * threads + machine_.thread(); e < Sums::pairs * Sums::of_pair;
         e += machine_.blocks() * threads) {
      all_.all[e] = combined<E>(
          0, count, 1, [&](int b) { return all_.of_block[b][e]; }, AddElements());
    }
  }

  TESSERA_DEVICE void load_products() {
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < Sums::pairs * Sums::of_pair; e += threads) {
      int left = 0, right = 0;
      find_blocks(e % Sums::pairs, left, right);
      const int i = left + e / Sums::pairs / of_product_block * Sums::blocks;
      const int j = right + e / Sums::pairs % of_product_block * Sums::blocks;
      const E sum = all_.all[e];
      if (i <= j)
        memory_.products[i][j] = sum;
      else if (left != right)  // else another thread has it, too
        memory_.products[j][i] = conjugate_of(sum);
    }
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < most * most; e += threads) {
      memory_.W[e] = E{};
      if (e / most == e % most) memory_.W[e].part[E::re] = 1;
    }
    machine_.meet();
    using std::sqrt;
    for (int j = machine_.thread(); j < most; j += threads) {
      memory_.noise[j] = memory_.products[j][j].part[E::re];
      memory_.size[j] = sqrt(memory_.noise[j]);
    }
    machine_.meet();
  }

  // A thread has one column, and every so many rows.
  static constexpr int across = most < 32 ? 32 : most, groups_of_rows = threads / across;
  static_assert(threads % across == 0 && groups_of_rows > 0 && groups_of_rows <= most_groups_of_rows);

  /// @return the same for all threads: whether the column has digits enough
  TESSERA_DEVICE bool eliminate(int k) {
    const int j = machine_.thread() % across, group = machine_.thread() / across;
    const bool is_column = j >= k && j < width_;
    if (is_column) {
      E sum{};
      TESSERA_NO_UNROLL
      for (int i = k + 1 + group; i < width_; i += groups_of_rows)
        sum = fused(conjugate_of(memory_.top[i][k]), memory_.top[i][j], sum);
      memory_.of_group[group][j] = sum;
    }
    machine_.meet();
    const E alpha = memory_.top[k][k], square = memory_.products[k][k];
    const R noise = memory_.noise[k], size = memory_.size[k];
    R below = square.part[E::re];
    TESSERA_UNROLL
    for (int g = 0; g < groups_of_rows; ++g) below += memory_.of_group[g][k].part[E::re];
    R all = below;
    TESSERA_UNROLL
    for (int p = 0; p < parts; ++p) all = fused(alpha.part[p], alpha.part[p], all);
    // A NaN is in no order with any number. A sum that has cancelled to zero may have had something left.
    const bool is_exact = noise <= most_noise * all && size * size <= most_lost * all && (below > 0 || noise == 0);
    if (!(below >= 0 && all >= least_sum_of_squares<R> && all <= E::most_normal && is_exact)) return false;
    const Reflector<E> reflector = reflector_of(alpha, below);
    if (is_column && group == 0) {
      if (j == k) {
        memory_.tau[k] = reflector.tau;
        memory_.scale[k] = reflector.scale;
        memory_.beta[k] = reflector.beta;
      } else {
        E sum = memory_.products[k][j];
        TESSERA_UNROLL
        for (int g = 0; g < groups_of_rows; ++g) AddElements()(sum, memory_.of_group[g][j]);
        const E factor =
            product(conjugate_of(reflector.tau), fused(conjugate_of(reflector.scale), sum, memory_.top[k][j]));
        const E change = product(reflector.scale, factor);
        memory_.factor[j] = factor;
        memory_.change[j] = change;
        const R times = absolute(change);
        memory_.noise[j] = fused(times * times, noise, memory_.noise[j]);
        memory_.size[j] = fused(times, size, memory_.size[j]);
      }
    }
    machine_.meet();
    if (is_column && j > k) {
      const E factor = negative(memory_.factor[j]), change = negative(memory_.change[j]);
      const E own = memory_.products[k][j];
      if (group == 0) AddElements()(memory_.top[k][j], factor);
      TESSERA_NO_UNROLL
      for (int i = k + 1 + group; i < width_; i += groups_of_rows)
        memory_.top[i][j] = fused(memory_.top[i][k], change, memory_.top[i][j]);
      // Columns i and j lose multiples of column k.
      const E rest = fused(square, change, own);
      TESSERA_NO_UNROLL
      for (int i = k + 1 + group; i <= j; i += groups_of_rows) {
        E value = fused(conjugate_of(memory_.products[k][i]), change, memory_.products[i][j]);
        memory_.products[i][j] = fused(conjugate_of(negative(memory_.change[i])), rest, value);
      }
      TESSERA_NO_UNROLL
      for (int i = group; i <= k; i += groups_of_rows)
        memory_.W[i * most + j] = fused(memory_.W[i * most + k], change, memory_.W[i * most + j]);
    }
    machine_.meet();
    return true;
  }

  /// Computes V = A W, where A lies. Columns of V are written from the last to the first, since each needs those before
  /// it.
  TESSERA_DEVICE void make_reflectors() {
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < most * most; e += threads)
      if (e % most < width_) memory_.W[e] = product(memory_.W[e], memory_.scale[e % most]);
    machine_.meet();
    constexpr int at_once = 8;
    static_assert(most % at_once == 0);
    TESSERA_NO_UNROLL
    for (index_t row = begin_ + machine_.thread(); row < end_; row += threads) {
      TESSERA_NO_UNROLL
      for (int first = (width_ - 1) / at_once * at_once; first >= 0; first -= at_once) {
        const int end = first + at_once < width_ ? first + at_once : width_;
        E sums[at_once] = {};
        TESSERA_NO_UNROLL
        for (int i = 0; i < end; i += at_once) {
          E elements[at_once];
          TESSERA_UNROLL
          for (int u = 0; u < at_once; ++u) elements[u] = i + u < end ? A_[row + (i + u) * lda_] : E{};
          TESSERA_UNROLL
          for (int u = 0; u < at_once; ++u) {
            TESSERA_UNROLL
            for (int j = 0; j < at_once; ++j)
              sums[j] = fused(elements[u], memory_.W[(i + u) * most + first + j], sums[j]);
          }
        }
        TESSERA_UNROLL
        for (int j = 0; j < at_once; ++j) {
          if (first + j < width_) A_[row + (first + j) * lda_] = sums[j];
        }
      }
    }
  }

  TESSERA_DEVICE void store_top(E* tau) {
    TESSERA_NO_UNROLL
    for (int e = machine_.thread(); e < width_ * width_; e += threads) {
      const int i = e % width_, j = e / width_;
      E value = memory_.top[i][j];
      if (i > j) value = product(value, memory_.scale[j]);
      if (i == j) value = memory_.beta[j];
      A_[i + j * lda_] = value;
    }
    TESSERA_NO_UNROLL
    for (int j = machine_.thread(); j < width_; j += threads) machine_.in_global(tau)[j] = memory_.tau[j];
  }

  static TESSERA_DEVICE R absolute(const E& a) {
    using std::sqrt;
    if constexpr (parts == 1) return a.part[0] < 0 ? -a.part[0] : a.part[0];
    return sqrt(fused(a.part[0], a.part[0], a.part[parts - 1] * a.part[parts - 1]));
  }

  /// Of squares: two and a half bits of the numbers are lost if rounding errors are independent, and five at most.
  static constexpr R most_noise = 32, most_lost = 1024;

  Memory& memory_;
  Sums& all_;
  Machine machine_;
  E* A_ = nullptr;
  index_t lda_ = 0, begin_ = 0, end_ = 0;
  int width_ = 0;
};

}  // namespace tessera::kernels::block
