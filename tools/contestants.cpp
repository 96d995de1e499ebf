#include "contestants.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "device/device.hpp"
#include "tessera/tessera.h"

namespace tessera::tools {
namespace {

class TesseraContestant final : public Contestant {
 public:
  TesseraContestant(std::string name, const std::string& settings) : name_(std::move(name)) {
    expect(tessera_create_with(&context_, settings.c_str()));
  }
  ~TesseraContestant() override { tessera_destroy(context_); }
  TesseraContestant(const TesseraContestant&) = delete;
  TesseraContestant& operator=(const TesseraContestant&) = delete;

  const std::string& name() const override { return name_; }

  Outcome run(const tessera_bench_gemm_call& call) override {
    Outcome outcome;
    const double begin = device::now_seconds();
    const tessera_status status = multiply(call);
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

  static tessera_transpose transpose(char letter) {
    return letter == 'N' ? TESSERA_NO_TRANS : letter == 'T' ? TESSERA_TRANS : TESSERA_CONJ_TRANS;
  }

  tessera_status multiply(const tessera_bench_gemm_call& c) {
    const tessera_transpose ta = transpose(c.transa), tb = transpose(c.transb);
    constexpr tessera_layout layout = TESSERA_COL_MAJOR;
    switch (c.type) {
      case 's':
        return tessera_sgemm(context_, layout, ta, tb, c.m, c.n, c.k, *static_cast<const float*>(c.alpha),
                             static_cast<const float*>(c.A), c.lda, static_cast<const float*>(c.B), c.ldb,
                             *static_cast<const float*>(c.beta), static_cast<float*>(c.C), c.ldc);
      case 'd':
        return tessera_dgemm(context_, layout, ta, tb, c.m, c.n, c.k, *static_cast<const double*>(c.alpha),
                             static_cast<const double*>(c.A), c.lda, static_cast<const double*>(c.B), c.ldb,
                             *static_cast<const double*>(c.beta), static_cast<double*>(c.C), c.ldc);
      case 'c':
        return tessera_cgemm(context_, layout, ta, tb, c.m, c.n, c.k, c.alpha, c.A, c.lda, c.B, c.ldb, c.beta, c.C,
                             c.ldc);
      default:
        return tessera_zgemm(context_, layout, ta, tb, c.m, c.n, c.k, c.alpha, c.A, c.lda, c.B, c.ldb, c.beta, c.C,
                             c.ldc);
    }
  }

  std::string name_;
  tessera_context context_ = nullptr;
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

  Outcome run(const tessera_bench_gemm_call& call) override {
    const double begin = device::now_seconds();
    const int status = cuda_.xt_gemm(xt_, &call);  // returns when C is complete in host memory
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

std::unique_ptr<Contestant> make_tessera_contestant(std::string name, const std::string& settings) {
  return std::make_unique<TesseraContestant>(std::move(name), settings);
}

std::unique_ptr<Contestant> make_cublasxt_contestant(const tessera_bench_cuda& cuda, const std::vector<int>& ordinals,
                                                     int block_size, bool pin) {
  return std::make_unique<CublasXtContestant>(cuda, ordinals, block_size, pin);
}

}  // namespace tessera::tools
