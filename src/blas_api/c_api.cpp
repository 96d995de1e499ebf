// The own C API (tessera/tessera.h): checks, conversion to column-major form, and exceptions into status codes. Nothing is
// thrown through it. Row-major problems are computed as C^T = op(B)^T op(A)^T, which costs nothing.
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "blas_api/arguments.hpp"
#include "blas_api/context.hpp"
#include "core/error.hpp"
#include "core/level3.hpp"
#include "tessera/tessera.h"

using tessera::AnyScalar;
using tessera::Layout;
using tessera::Op;
using tessera::Scalar;

struct tessera_context_struct {
  explicit tessera_context_struct(tessera::Config config) : context(std::move(config)) {}

  tessera::api::Context context;
  pid_t maker = getpid();
  std::shared_mutex in_use;  ///< shared by calls, taken by tessera_destroy to wait for them
  std::mutex last_mutex;     ///< guards the rest
  std::optional<tessera::runtime::JobStatistics> last;
};

namespace {

struct LastError {
  std::string text;
  int position = 0;
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

tessera_status fail(tessera_status status, const char* text, int position = 0) noexcept {
  LastError& error = last_error();
  error.position = position;
  try {
    error.text = text;
  } catch (...) {  // no memory for the text: the status must do
    error.text.clear();
  }
  return status;
}

/// Runs `body`; what it throws becomes a status and this thread's last error.
template <class Body>
tessera_status guarded(Body&& body) noexcept {
  last_error().position = 0;
  last_error().text.clear();
  try {
    body();
    return TESSERA_SUCCESS;
  } catch (const tessera::InvalidArgument& error) {
    return fail(TESSERA_INVALID_ARGUMENT, error.what(), error.position());
  } catch (const tessera::OutOfDeviceMemory& error) {
    return fail(TESSERA_OUT_OF_DEVICE_MEMORY, error.what());
  } catch (const tessera::DeviceLost& error) {
    return fail(TESSERA_DEVICE_LOST, error.what());
  } catch (const tessera::NotAvailable& error) {
    return fail(TESSERA_NOT_AVAILABLE, error.what());
  } catch (const std::exception& error) {
    return fail(TESSERA_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(TESSERA_INTERNAL_ERROR, "unknown error");
  }
}

void require(bool good, int position, const char* what) {
  if (!good) throw tessera::InvalidArgument("argument " + std::to_string(position) + ": " + what, position);
}

/// Fills the caller's buffer as far as it reaches. Positions: text 2, size 3, needed 4.
void hand_out(const std::string& from, char* text, std::size_t size, std::size_t* needed) {
  require(text != nullptr || size == 0, 2, "text is null, but size is not 0");
  if (needed != nullptr) *needed = from.size() + 1;
  if (size == 0) return;
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(text, from.data(), length);
  text[length] = '\0';
}

void make_context(tessera_context* ctx, const char* settings) {
  require(ctx != nullptr, 1, "ctx is null");
  *ctx = nullptr;
  auto made =
      std::make_unique<tessera_context_struct>(tessera::Config::from_settings(settings != nullptr ? settings : ""));
  const tessera::Config& config = made->context.config();
  const bool named = config.devices == tessera::DeviceChoice::cuda || config.devices == tessera::DeviceChoice::host;
  if (named && config.offload != tessera::Offload::never) static_cast<void>(made->context.runtime());
  *ctx = made.release();
}

/// What stands wrong at each position of ?gemm of this API, after ctx and layout; by position in the Fortran order.
constexpr const char* gemm_complaints[] = {"",
                                           "transa is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS",
                                           "transb is none of TESSERA_NO_TRANS, TESSERA_TRANS, TESSERA_CONJ_TRANS",
                                           "m is negative",
                                           "n is negative",
                                           "k is negative",
                                           "alpha is null",
                                           "A is null",
                                           "lda is smaller than the stored extent of A (or 1)",
                                           "B is null",
                                           "ldb is smaller than the stored extent of B (or 1)",
                                           "beta is null",
                                           "C is null",
                                           "ldc is smaller than the stored extent of C (or 1)"};
constexpr int positions_before_transa = 2;  // ctx, layout

void require_gemm(bool good, int fortran_position) {
  require(good, fortran_position + positions_before_transa, gemm_complaints[fortran_position]);
}

/// @param alpha, beta addresses; null where the caller passed null
template <Scalar T>
tessera_status gemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa, tessera_transpose transb,
                    int64_t m, int64_t n, int64_t k, const T* alpha, const void* A, int64_t lda, const void* B,
                    int64_t ldb, const T* beta, void* C, int64_t ldc) noexcept {
  return guarded([&] {
    require(ctx != nullptr, 1, "ctx is null");
    const std::optional<Layout> order = tessera::api::layout_from_cblas(static_cast<int>(layout));
    require(order.has_value(), 2, "layout is neither TESSERA_ROW_MAJOR nor TESSERA_COL_MAJOR");
    const tessera::api::Arguments arguments = {tessera::api::op_from_cblas(static_cast<int>(transa)),
                                               tessera::api::op_from_cblas(static_cast<int>(transb)),
                                               m,
                                               n,
                                               k,
                                               lda,
                                               ldb,
                                               ldc,
                                               *order};
    const int bad = tessera::api::first_bad_argument(tessera::api::gemm_signature, arguments);
    require_gemm(bad == 0, bad);
    require_gemm(alpha != nullptr, 6);
    require_gemm(beta != nullptr, 11);

    tessera::Level3 problem = {.type = tessera::scalar_type_of<T>(),
                                              .op_a = *arguments.op_a,
                                              .op_b = *arguments.op_b,
                                              .m = m,
                                              .n = n,
                                              .k = k,
                                              .alpha = *alpha,
                                              .A = A,
                                              .lda = lda,
                                              .B = B,
                                              .ldb = ldb,
                                              .beta = *beta,
                                              .C = C,
                                              .ldc = ldc};
    const bool writes = m > 0 && n > 0;
    require_gemm(!writes || problem.only_scales() || A != nullptr, 7);
    require_gemm(!writes || problem.only_scales() || B != nullptr, 9);
    require_gemm(!writes || C != nullptr, 12);
    if (*order == Layout::row_major) {
      std::swap(problem.op_a, problem.op_b);
      std::swap(problem.m, problem.n);
      std::swap(problem.A, problem.B);
      std::swap(problem.lda, problem.ldb);
    }

    const std::shared_lock alive(ctx->in_use);
    const double begin = tessera::device::now_seconds();
    std::optional<tessera::runtime::JobStatistics> job = ctx->context.gemm(problem);
    if (!job) {
      job.emplace();
      job->routine = std::string(1, tessera::letter(problem.type)) + "gemm";
      job->m = problem.m;
      job->n = problem.n;
      job->k = problem.k;
      job->seconds = tessera::device::now_seconds() - begin;
      job->flops = flops_of(problem);
    }
    const std::lock_guard lock(ctx->last_mutex);
    ctx->last = std::move(job);
  });
}

tessera::runtime::JobStatistics last_job(tessera_context ctx) {
  require(ctx != nullptr, 1, "ctx is null");
  const std::lock_guard lock(ctx->last_mutex);
  require(ctx->last.has_value(), 1, "no call has completed on this context yet");
  return *ctx->last;
}

}  // namespace

extern "C" {

tessera_status tessera_create(tessera_context* ctx) { return tessera_create_with(ctx, nullptr); }

tessera_status tessera_create_with(tessera_context* ctx, const char* settings) {
  return guarded([&] { make_context(ctx, settings); });
}

tessera_status tessera_destroy(tessera_context ctx) {
  return guarded([&] {
    if (ctx == nullptr) return;
    // In a child after fork, calls of threads that exist only in the parent may hold the lock for ever.
    if (ctx->maker == getpid()) const std::unique_lock idle(ctx->in_use);
    delete ctx;
  });
}

const char* tessera_last_error(void) { return last_error().text.c_str(); }

int tessera_last_error_position(void) { return last_error().position; }

#define TESSERA_TEXT_OF(x) #x
#define TESSERA_VERSION_TEXT(major, minor, patch) \
  TESSERA_TEXT_OF(major) "." TESSERA_TEXT_OF(minor) "." TESSERA_TEXT_OF(patch)
const char* tessera_version(void) {
  return TESSERA_VERSION_TEXT(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}

tessera_status tessera_sgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                             tessera_transpose transb, int64_t m, int64_t n, int64_t k, float alpha, const float* A,
                             int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  return gemm<float>(ctx, layout, transa, transb, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
}

tessera_status tessera_dgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                             tessera_transpose transb, int64_t m, int64_t n, int64_t k, double alpha, const double* A,
                             int64_t lda, const double* B, int64_t ldb, double beta, double* C, int64_t ldc) {
  return gemm<double>(ctx, layout, transa, transb, m, n, k, &alpha, A, lda, B, ldb, &beta, C, ldc);
}

tessera_status tessera_cgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                             tessera_transpose transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                             const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta, void* C,
                             int64_t ldc) {
  using T = std::complex<float>;
  return gemm<T>(ctx, layout, transa, transb, m, n, k, static_cast<const T*>(alpha), A, lda, B, ldb,
                 static_cast<const T*>(beta), C, ldc);
}

tessera_status tessera_zgemm(tessera_context ctx, tessera_layout layout, tessera_transpose transa,
                             tessera_transpose transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                             const void* A, int64_t lda, const void* B, int64_t ldb, const void* beta, void* C,
                             int64_t ldc) {
  using T = std::complex<double>;
  return gemm<T>(ctx, layout, transa, transb, m, n, k, static_cast<const T*>(alpha), A, lda, B, ldb,
                 static_cast<const T*>(beta), C, ldc);
}

tessera_status tessera_last_job_stats(tessera_context ctx, tessera_job_stats* stats) {
  return guarded([&] {
    const tessera::runtime::JobStatistics job = last_job(ctx);
    require(stats != nullptr, 2, "stats is null");
    require(stats->struct_size == sizeof(tessera_job_stats), 2, "stats->struct_size is not sizeof(tessera_job_stats)");
    tessera_job_stats out = {};
    out.struct_size = sizeof(tessera_job_stats);
    out.devices = static_cast<int>(job.devices.size());
    out.seconds = job.seconds;
    out.flops = job.flops;
    out.tile_m = job.tile_m;
    out.tile_n = job.tile_n;
    out.tile_k = job.tile_k;
    out.bytes_up = job.bytes_up();
    out.bytes_down = job.bytes_down();
    out.bytes_peer = job.bytes_peer();
    out.compulsory_up = job.compulsory_up;
    out.compulsory_down = job.compulsory_down;
    for (const tessera::runtime::DeviceStatistics& device : job.devices) {
      out.l1_hits += device.l1_hits;
      out.l2_hits += device.l2_hits;
      out.misses += device.misses;
      out.tasks += device.tasks;
      out.stolen += device.stolen;
      out.kernel_s += device.kernel_s;
      out.transfer_s += device.transfer_s;
      out.other_s += device.other_s;
    }
    *stats = out;
  });
}

tessera_status tessera_last_job_json(tessera_context ctx, char* text, size_t size, size_t* needed) {
  return guarded([&] { hand_out(tessera::runtime::to_json(last_job(ctx)), text, size, needed); });
}

tessera_status tessera_devices(tessera_context ctx, char* text, size_t size, size_t* needed) {
  return guarded([&] {
    require(ctx != nullptr, 1, "ctx is null");
    const std::shared_lock alive(ctx->in_use);
    hand_out(ctx->context.describe_devices(), text, size, needed);
  });
}

}  // extern "C"
