#include "kernels/cuda/dense_calls.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "kernels/cuda/dense_kernels.hpp"

namespace tessera::kernels::cuda {
namespace {

cudaDataType type_of(ScalarType type) {
  constexpr cudaDataType types[] = {CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F};
  return types[static_cast<int>(type)];
}
cudaDataType real_type_of(ScalarType type) { return real_bytes(type) == sizeof(float) ? CUDA_R_32F : CUDA_R_64F; }
cublasFillMode_t fill_of(Uplo uplo) { return uplo == Uplo::lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER; }
cusolverEigMode_t mode_of(bool vectors) { return vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR; }
signed char letter_of(VectorJob job) {
  constexpr signed char letters[] = {'N', 'S', 'A', 'O'};
  return letters[static_cast<int>(job)];
}

template <class Function>
Function needed(Function function, const char* name) {
  if (function == nullptr) throw NotAvailable(std::string("this version of cuSOLVER has no ") + name);
  return function;
}
#define TESSERA_NEEDED(name) needed(TESSERA_CUSOLVER_PROBLEM(name), "cusolverDn" #name)

/// A launch that failed has left its error to cudaGetLastError().
cusolverStatus_t status_of(cudaError_t launch) {
  return launch == cudaSuccess ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}

/// read_pivots() of the problem's factors.
cusolverStatus_t read(const DenseHandle& dn, const LapackCall& p, const void* ipiv, int bits, std::int64_t* wide,
                      int* info) {
  return status_of(read_pivots({p.type, p.n, p.n, p.A, p.lda}, ipiv, bits, wide, info, dn.stream));
}

// --- the 64-bit interface ---

// One argument list serves both the query for space and the call. `last` are the arguments behind it.
template <class Function, class... Last>
cusolverStatus_t syevd(Function function, const DenseHandle& dn, const LapackCall& p, Last... last) {
  return function(dn.handle, dn.params, mode_of(p.vectors), fill_of(p.uplo), p.n, type_of(p.type), p.A, p.lda,
                  real_type_of(p.type), p.values, type_of(p.type), last...);
}

template <class Function, class... Last>
cusolverStatus_t syevdx(Function function, const DenseHandle& dn, const LapackCall& p, std::int64_t* found,
                        Last... last) {
  constexpr cusolverEigRange_t ranges[] = {CUSOLVER_EIG_RANGE_ALL, CUSOLVER_EIG_RANGE_V, CUSOLVER_EIG_RANGE_I};
  float narrow_bounds[] = {static_cast<float>(p.vl), static_cast<float>(p.vu)};
  double bounds[] = {p.vl, p.vu};
  const bool is_single = real_bytes(p.type) == sizeof(float);
  const auto bound = [&](int i) {
    return is_single ? static_cast<void*>(narrow_bounds + i) : static_cast<void*>(bounds + i);
  };
  return function(dn.handle, dn.params, mode_of(p.vectors), ranges[static_cast<int>(p.range)], fill_of(p.uplo), p.n,
                  type_of(p.type), p.A, p.lda, bound(0), bound(1), p.il, p.iu, found, real_type_of(p.type), p.values,
                  type_of(p.type), last...);
}

template <class Function, class... Last>
cusolverStatus_t gesvd(Function function, const DenseHandle& dn, const TallSvd& s, Last... last) {
  const cudaDataType type = type_of(s.type);
  return function(dn.handle, dn.params, letter_of(s.left), letter_of(s.right), s.m, s.n, type, s.A, s.lda,
                  real_type_of(s.type), s.values, type, s.U, std::max<index_t>(s.ldu, 1), type, s.V,
                  std::max<index_t>(s.ldv, 1), type, last...);
}

template <class Function, class... Last>
cusolverStatus_t gesvdp(Function function, const DenseHandle& dn, const TallSvd& s, Last... last) {
  const cudaDataType type = type_of(s.type);
  const bool vectors = s.left != VectorJob::none || s.right != VectorJob::none;
  const int economy = s.left == VectorJob::all ? 0 : 1;
  return function(dn.handle, dn.params, mode_of(vectors), economy, s.m, s.n, type, s.A, s.lda, real_type_of(s.type),
                  s.values, type, s.U, std::max<index_t>(s.ldu, s.m), type, s.V, std::max<index_t>(s.ldv, s.n), type,
                  last...);
}

// Real types, too, get a separate type of eigenvalues here: all real parts, and behind them the imaginary parts.
template <class Function, class... Last>
cusolverStatus_t geev(Function function, const DenseHandle& dn, const LapackCall& p, Last... last) {
  const cudaDataType type = type_of(p.type);
  void* const none = nullptr;
  return function(dn.handle, dn.params, mode_of(false), mode_of(p.vectors), p.n, type, p.A, p.lda, type, p.values, type,
                  none, p.n, type, p.vectors ? p.U : none, p.n, type, last...);
}

template <class Function, class... Last>
cusolverStatus_t trtri(Function function, const DenseHandle& dn, const LapackCall& p, Last... last) {
  return function(dn.handle, fill_of(p.uplo), p.diag == Diag::unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, p.n,
                  type_of(p.type), p.A, p.lda, last...);
}

// --- the older one ---

/// The four functions of a routine, one per type.
template <class S, class D, class C, class Z>
struct OfTypes {
  S s;
  D d;
  C c;
  Z z;
};
template <class S, class D, class C, class Z>
OfTypes(S, D, C, Z) -> OfTypes<S, D, C, Z>;
#define TESSERA_REAL_AND_COMPLEX(real, complex) \
  OfTypes { TESSERA_NEEDED(S##real), TESSERA_NEEDED(D##real), TESSERA_NEEDED(C##complex), TESSERA_NEEDED(Z##complex) }

/// Calls `call(function, element, real)` with null addresses of the types that the function takes.
template <class Functions, class Call>
cusolverStatus_t with(ScalarType type, const Functions& functions, Call call) {
  switch (type) {
    case ScalarType::s:
      return call(functions.s, static_cast<float*>(nullptr), static_cast<float*>(nullptr));
    case ScalarType::d:
      return call(functions.d, static_cast<double*>(nullptr), static_cast<double*>(nullptr));
    case ScalarType::c:
      return call(functions.c, static_cast<cuComplex*>(nullptr), static_cast<float*>(nullptr));
    case ScalarType::z:
      break;
  }
  return call(functions.z, static_cast<cuDoubleComplex*>(nullptr), static_cast<double*>(nullptr));
}
template <class Pointer>
Pointer as(void* address, Pointer /*type*/) {
  return static_cast<Pointer>(address);
}

cusolverEigType_t type_of_itype(int itype) {
  constexpr cusolverEigType_t types[] = {CUSOLVER_EIG_TYPE_1, CUSOLVER_EIG_TYPE_2, CUSOLVER_EIG_TYPE_3};
  return types[itype - 1];
}
cublasSideMode_t side_of(Side side) { return side == Side::left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT; }
cublasOperation_t operation_of(const LapackCall& p) {
  if (p.op == Op::no_trans) return CUBLAS_OP_N;
  return is_complex(p.type) ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/// A workspace of the older interface, counted in elements of the matrices' type.
struct OldSpace {
  void* memory = nullptr;
  int elements = 0;
};
OldSpace old_space(const LapackCall& p, const DenseWorkspace& w) {
  const std::size_t elements = w.space.device_bytes / element_bytes(p.type);
  return {w.on_device, static_cast<int>(std::min<std::size_t>(elements, std::numeric_limits<int>::max()))};
}

cusolverStatus_t old_problem_space(const DenseHandle& dn, const LapackCall& p, int* elements) {
  const int m = narrow(p.m), n = narrow(p.n), k = narrow(p.k), lda = narrow(p.lda), ldb = narrow(p.ldb);
  switch (p.routine) {
    case Routine::hegvd:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(sygvd_bufferSize, hegvd_bufferSize),
                  [&](auto function, auto type, auto real) {
                    return function(dn.handle, type_of_itype(p.itype), mode_of(p.vectors), fill_of(p.uplo), n,
                                    as(p.A, type), lda, as(p.B, type), ldb, as(p.values, real), elements);
                  });
    case Routine::ungqr:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(orgqr_bufferSize, ungqr_bufferSize),
                  [&](auto function, auto type, auto) {
                    return function(dn.handle, m, n, k, as(p.A, type), lda, as(p.tau, type), elements);
                  });
    case Routine::unmqr:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(ormqr_bufferSize, unmqr_bufferSize),
                  [&](auto function, auto type, auto) {
                    return function(dn.handle, side_of(p.side), operation_of(p), m, n, k, as(p.A, type), lda,
                                    as(p.tau, type), as(p.B, type), ldb, elements);
                  });
    case Routine::unmtr:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(ormtr_bufferSize, unmtr_bufferSize),
                  [&](auto function, auto type, auto) {
                    return function(dn.handle, side_of(p.side), fill_of(p.uplo), operation_of(p), m, n, as(p.A, type),
                                    lda, as(p.tau, type), as(p.B, type), ldb, elements);
                  });
    default:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(potri_bufferSize, potri_bufferSize),
                  [&](auto function, auto type, auto) {
                    return function(dn.handle, fill_of(p.uplo), n, as(p.A, type), lda, elements);
                  });
  }
}

cusolverStatus_t solve_old_problem(const DenseHandle& dn, const LapackCall& p, const OldSpace& space, int* info) {
  const int m = narrow(p.m), n = narrow(p.n), k = narrow(p.k), lda = narrow(p.lda), ldb = narrow(p.ldb);
  switch (p.routine) {
    case Routine::hegvd:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(sygvd, hegvd), [&](auto function, auto type, auto real) {
        return function(dn.handle, type_of_itype(p.itype), mode_of(p.vectors), fill_of(p.uplo), n, as(p.A, type), lda,
                        as(p.B, type), ldb, as(p.values, real), as(space.memory, type), space.elements, info);
      });
    case Routine::ungqr:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(orgqr, ungqr), [&](auto function, auto type, auto) {
        return function(dn.handle, m, n, k, as(p.A, type), lda, as(p.tau, type), as(space.memory, type), space.elements,
                        info);
      });
    case Routine::unmqr:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(ormqr, unmqr), [&](auto function, auto type, auto) {
        return function(dn.handle, side_of(p.side), operation_of(p), m, n, k, as(p.A, type), lda, as(p.tau, type),
                        as(p.B, type), ldb, as(space.memory, type), space.elements, info);
      });
    case Routine::unmtr:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(ormtr, unmtr), [&](auto function, auto type, auto) {
        return function(dn.handle, side_of(p.side), fill_of(p.uplo), operation_of(p), m, n, as(p.A, type), lda,
                        as(p.tau, type), as(p.B, type), ldb, as(space.memory, type), space.elements, info);
      });
    default:
      return with(p.type, TESSERA_REAL_AND_COMPLEX(potri, potri), [&](auto function, auto type, auto) {
        return function(dn.handle, fill_of(p.uplo), n, as(p.A, type), lda, as(space.memory, type), space.elements,
                        info);
      });
  }
}

// --- symmetric indefinite matrices: the older interface factors them, the 64-bit one solves ---

/// In front of cuSOLVER's own workspace: pivots of the width that the problem's have not, and the info of the solve.
std::size_t bytes_in_front(const LapackCall& p) {
  constexpr std::size_t alignment = 256;
  return (static_cast<std::size_t>(p.n) * sizeof(std::int64_t) / alignment + 2) * alignment;
}

template <class Function, class... Last>
cusolverStatus_t sytrs(Function function, const DenseHandle& dn, const LapackCall& p, const void* pivots,
                       Last... last) {
  const cudaDataType type = type_of(p.type);
  return function(dn.handle, fill_of(p.uplo), p.n, p.k, type, p.A, p.lda, static_cast<const std::int64_t*>(pivots),
                  type, p.B, p.ldb, last...);
}

cusolverStatus_t indefinite_space(const DenseHandle& dn, const LapackCall& p, DenseSpace* space) {
  int elements = 1;
  cusolverStatus_t status = CUSOLVER_STATUS_SUCCESS;
  if (solves(p.routine) && p.k > 0) {
    status = sytrs(TESSERA_NEEDED(Xsytrs_bufferSize), dn, p, p.ipiv, &space->device_bytes, &space->host_bytes);
  }
  if (factors(p.routine) && status == CUSOLVER_STATUS_SUCCESS) {
    status =
        with(p.type, TESSERA_REAL_AND_COMPLEX(sytrf_bufferSize, sytrf_bufferSize), [&](auto function, auto type, auto) {
          return function(dn.handle, narrow(p.n), as(p.A, type), narrow(p.lda), &elements);
        });
  }
  const std::size_t of_factors = static_cast<std::size_t>(std::max(elements, 1)) * element_bytes(p.type);
  space->device_bytes = bytes_in_front(p) + std::max(space->device_bytes, of_factors);
  return status;
}

/// cuSOLVER does not tell of every pivot that is zero. read() finds them all, and LAPACK solves such a problem.
cusolverStatus_t solve_indefinite(const DenseHandle& dn, const LapackCall& p, const DenseWorkspace& w, int* info) {
  auto* const wide = static_cast<std::int64_t*>(p.ipiv_bits == 64 ? p.ipiv : w.on_device);
  auto* const narrow_pivots = static_cast<int*>(p.ipiv_bits == 64 ? static_cast<void*>(w.on_device) : p.ipiv);
  std::byte* const own = w.on_device + bytes_in_front(p);
  DenseWorkspace rest = w;
  rest.on_device = own;
  rest.space.device_bytes -= bytes_in_front(p);
  cusolverStatus_t status = CUSOLVER_STATUS_SUCCESS;
  if (factors(p.routine)) {
    const OldSpace space = old_space(p, rest);
    status = with(p.type, TESSERA_REAL_AND_COMPLEX(sytrf, sytrf), [&](auto function, auto type, auto) {
      return function(dn.handle, fill_of(p.uplo), narrow(p.n), as(p.A, type), narrow(p.lda), narrow_pivots,
                      as(space.memory, type), space.elements, info);
    });
    if (status == CUSOLVER_STATUS_SUCCESS) status = read(dn, p, narrow_pivots, 32, wide, info);
  } else {
    status = status_of(cudaMemsetAsync(info, 0, sizeof(*info), dn.stream));
    if (status == CUSOLVER_STATUS_SUCCESS) status = read(dn, p, p.ipiv, p.ipiv_bits, wide, info);
  }
  if (!solves(p.routine) || p.k == 0 || status != CUSOLVER_STATUS_SUCCESS) return status;
  // Xsytrs exchanges rows by pivots that the host has read, and does not wait for what this stream still writes.
  status = status_of(cudaStreamSynchronize(dn.stream));
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  int* const info_of_solve = reinterpret_cast<int*>(own) - 1;
  void* const on_host = w.on_host;
  return sytrs(TESSERA_NEEDED(Xsytrs), dn, p, wide, static_cast<void*>(own), rest.space.device_bytes, on_host,
               w.space.host_bytes, info_of_solve);
}

}  // namespace

int narrow(index_t number) {
  if (number > std::numeric_limits<int>::max()) throw NotAvailable("a size that this routine of cuSOLVER cannot count");
  return static_cast<int>(number);
}

cusolverStatus_t svd_space(const DenseHandle& dn, const TallSvd& svd, SvdAlgorithm algorithm, DenseSpace* space) {
  if (algorithm == SvdAlgorithm::polar)
    return gesvdp(TESSERA_NEEDED(Xgesvdp_bufferSize), dn, svd, &space->device_bytes, &space->host_bytes);
  return gesvd(TESSERA_NEEDED(Xgesvd_bufferSize), dn, svd, &space->device_bytes, &space->host_bytes);
}

cusolverStatus_t solve_svd(const DenseHandle& dn, const TallSvd& svd, SvdAlgorithm algorithm, const DenseWorkspace& w,
                           int* info, double* perturbation) {
  void *const on_device = w.on_device, *const on_host = w.on_host;
  if (algorithm == SvdAlgorithm::polar)
    return gesvdp(TESSERA_NEEDED(Xgesvdp), dn, svd, on_device, w.space.device_bytes, on_host, w.space.host_bytes, info,
                  perturbation);
  return gesvd(TESSERA_NEEDED(Xgesvd), dn, svd, on_device, w.space.device_bytes, on_host, w.space.host_bytes, info);
}

cusolverStatus_t problem_space(const DenseHandle& dn, const LapackCall& p, DenseSpace* space) {
  std::size_t* const sizes[] = {&space->device_bytes, &space->host_bytes};
  std::int64_t found = 0;
  switch (p.routine) {
    case Routine::heevd:
      return syevd(TESSERA_NEEDED(Xsyevd_bufferSize), dn, p, sizes[0], sizes[1]);
    case Routine::heevr:
      return syevdx(TESSERA_NEEDED(Xsyevdx_bufferSize), dn, p, &found, sizes[0], sizes[1]);
    case Routine::geev:
      return geev(TESSERA_NEEDED(Xgeev_bufferSize), dn, p, sizes[0], sizes[1]);
    case Routine::trtri:
      return trtri(TESSERA_NEEDED(Xtrtri_bufferSize), dn, p, sizes[0], sizes[1]);
    case Routine::sytrf:
    case Routine::sytrs:
    case Routine::sysv:
      return indefinite_space(dn, p, space);
    default:
      break;
  }
  int elements = 0;
  const cusolverStatus_t status = old_problem_space(dn, p, &elements);
  space->device_bytes = static_cast<std::size_t>(std::max(elements, 1)) * element_bytes(p.type);
  return status;
}

cusolverStatus_t solve_problem(const DenseHandle& dn, const LapackCall& p, const DenseWorkspace& w, int* info,
                               std::int64_t* found) {
  void *const on_device = w.on_device, *const on_host = w.on_host;
  const std::size_t device_bytes = w.space.device_bytes, host_bytes = w.space.host_bytes;
  switch (p.routine) {
    case Routine::heevd:
      return syevd(TESSERA_NEEDED(Xsyevd), dn, p, on_device, device_bytes, on_host, host_bytes, info);
    case Routine::heevr:
      return syevdx(TESSERA_NEEDED(Xsyevdx), dn, p, found, on_device, device_bytes, on_host, host_bytes, info);
    case Routine::geev:
      return geev(TESSERA_NEEDED(Xgeev), dn, p, on_device, device_bytes, on_host, host_bytes, info);
    case Routine::trtri:
      return trtri(TESSERA_NEEDED(Xtrtri), dn, p, on_device, device_bytes, on_host, host_bytes, info);
    case Routine::sytrf:
    case Routine::sytrs:
    case Routine::sysv:
      return solve_indefinite(dn, p, w, info);
    default:
      return solve_old_problem(dn, p, old_space(p, w), info);
  }
}

cusolverStatus_t solve_by_lu(const DenseHandle& dn, const LapackCall& p, void* B, index_t ldb, index_t columns,
                             std::int64_t* pivots, int* info) {
  const cusolverStatus_t status = read(dn, p, p.ipiv, p.ipiv_bits, pivots, info);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  const cudaDataType type = type_of(p.type);
  return TESSERA_NEEDED(Xgetrs)(dn.handle, dn.params, CUBLAS_OP_N, p.n, columns, type, p.A, p.lda, pivots, type, B, ldb,
                                info);
}

}  // namespace tessera::kernels::cuda
