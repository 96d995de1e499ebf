#include "contestants.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "api_call.hpp"
#include "device/device.hpp"
#include "kernels/host/cpu_blas.hpp"
#include "tessera/tessera.h"

namespace tessera::tools {
namespace {

class TesseraContestant final : public Contestant {
 public:
  explicit TesseraContestant(const std::string& settings) { expect(tessera_create_with(&context_, settings.c_str())); }
  ~TesseraContestant() override { tessera_destroy(context_); }
  TesseraContestant(const TesseraContestant&) = delete;
  TesseraContestant& operator=(const TesseraContestant&) = delete;

  const std::string& name() const override { return name_; }

  Outcome run(const Level3& call) override {
    Outcome outcome;
    const double begin = device::now_seconds();
    const tessera_status status = call_tessera(context_, call);
    outcome.seconds = device::now_seconds() - begin;
    expect(status);
    std::size_t needed = 0;
    expect(tessera_last_job_json(context_, nullptr, 0, &needed));
    std::string text(needed, '\0');
    expect(tessera_last_job_json(context_, text.data(), text.size(), nullptr));
    outcome.job = nlohmann::ordered_json::parse(text.c_str());
    return outcome;
  }

 private:
  void expect(tessera_status status) const {
    if (status != TESSERA_SUCCESS) throw std::runtime_error(fmt::format("{}: {}", name_, tessera_last_error()));
  }

  std::string name_ = "Tessera";
  tessera_context context_ = nullptr;
};

class CpuContestant final : public Contestant {
 public:
  explicit CpuContestant(const std::string& path) : blas_(kernels::CpuBlas::open(path)) {}

  const std::string& name() const override { return name_; }

  Outcome run(const Level3& call) override {
    const double begin = device::now_seconds();
    blas_->run(call);
    return {device::now_seconds() - begin, nullptr};
  }

 private:
  std::string name_ = "CPU BLAS";
  std::shared_ptr<const kernels::CpuBlas> blas_;
};

class CublasXtContestant final : public Contestant {
 public:
  CublasXtContestant(const tessera_bench_cuda& cuda, const std::vector<int>& ordinals, int block_size, bool pin)
      : name_(fmt::format("cublasXt {}", block_size)), cuda_(cuda) {
    expect(cuda_.xt_create(ordinals.data(), static_cast<int>(ordinals.size()), block_size, pin ? 1 : 0, &xt_));
  }
  ~CublasXtContestant() override { cuda_.xt_destroy(xt_); }
  CublasXtContestant(const CublasXtContestant&) = delete;
  CublasXtContestant& operator=(const CublasXtContestant&) = delete;

  const std::string& name() const override { return name_; }

  Outcome run(const Level3& call) override {
    // The peers' library numbers routines so (cuda_peers.h).
    static_assert(number_of(Routine::gemm) == 0 && number_of(Routine::gemmt) == 9);
    const tessera_bench_level3 same = {.routine = static_cast<int>(call.routine),
                                       .type = letter(call.type),
                                       .side = static_cast<int>(call.side),
                                       .uplo = static_cast<int>(call.uplo),
                                       .op_a = static_cast<int>(call.op_a),
                                       .op_b = static_cast<int>(call.op_b),
                                       .diag = static_cast<int>(call.diag),
                                       .m = call.m,
                                       .n = call.n,
                                       .k = call.k,
                                       .alpha = {call.alpha.real(), call.alpha.imag()},
                                       .beta = {call.beta.real(), call.beta.imag()},
                                       .A = call.A,
                                       .lda = call.lda,
                                       .B = call.B,
                                       .ldb = call.ldb,
                                       .C = call.C,
                                       .ldc = call.ldc};
    const double begin = device::now_seconds();
    const int status = cuda_.xt_level3(xt_, &same);  // returns when C is complete in host memory
    const double seconds = device::now_seconds() - begin;
    expect(status);
    return {seconds, nullptr};
  }

 private:
  void expect(int status) const {
    if (status != 0) throw std::runtime_error(fmt::format("{}: {}", name_, cuda_.last_error()));
  }

  std::string name_;
  const tessera_bench_cuda& cuda_;
  tessera_bench_xt xt_ = nullptr;
};

}  // namespace

std::unique_ptr<Contestant> make_tessera_contestant(const std::string& settings) {
  return std::make_unique<TesseraContestant>(settings);
}

std::unique_ptr<Contestant> make_cpu_contestant(const std::string& path) {
  return std::make_unique<CpuContestant>(path);
}

std::unique_ptr<Contestant> make_cublasxt_contestant(const tessera_bench_cuda& cuda, const std::vector<int>& ordinals,
                                                     int block_size, bool pin) {
  return std::make_unique<CublasXtContestant>(cuda, ordinals, block_size, pin);
}

}  // namespace tessera::tools
