#include "runtime/tiles/step.hpp"

namespace tessera::runtime {
namespace {

double flops_of(const kernels::Addition& /*addition*/) { return 0; }
double flops_of(const PanelFactorization& step) { return kernels::flops_of(step.panel, step.columns); }

const char* kernel_name(const Level3& call) { return name_of(call.routine, call.type); }
const char* kernel_name(const kernels::Addition& /*addition*/) { return "add"; }
const char* kernel_name(const kernels::TileFactorization& tile) { return name_of(Routine::potrf, tile.type); }
const char* kernel_name(const PanelFactorization& step) { return name_of(step.panel.kind); }
const char* kernel_name(const kernels::PanelUpdate& update) {
  constexpr const char* names[] = {"apply LU", "apply QR", "apply LQ"};
  return names[static_cast<int>(update.panel.kind)];
}

}  // namespace

Kernel Step::placed(const PlacedTile& C, const PlacedTile& A, const PlacedTile& B, int* info) const {
  const auto row = [](const PlacedTile& tile, index_t first, ScalarType type) {
    return tile.address + first * static_cast<index_t>(element_bytes(type));
  };
  const auto line = [&](const PlacedTile& tile, index_t first, const kernels::Panel& panel) {
    return row(tile, is_in_rows(panel.kind) ? first * tile.ld : first, panel.type);
  };
  const auto place = [&](kernels::Panel& panel, const PlacedTile& tile, index_t first) {
    panel.A = line(tile, first, panel);
    panel.lda = tile.ld;
    panel.tail = tile.tail;
  };
  Kernel placed = kernel;
  std::visit(ByKind{[&](Level3& call) {
                      call.A = row(A, a.first_row, call.type);
                      call.lda = A.ld;
                      call.B = row(B, b.first_row, call.type);
                      call.ldb = B.ld;
                      call.C = C.address;
                      call.ldc = C.ld;
                    },
                    [&](kernels::Addition& addition) {
                      addition.X = A.address;
                      addition.ldx = A.ld;
                      addition.C = C.address;
                      addition.ldc = C.ld;
                    },
                    [&](kernels::TileFactorization& tile) {
                      tile.A = C.address;
                      tile.lda = C.ld;
                      tile.info = info;
                    },
                    [&](PanelFactorization& step) { place(step.panel, C, first_row); },
                    [&](kernels::PanelUpdate& update) {
                      place(update.panel, A, a.first_row);
                      update.C = line(C, first_row, update.panel);
                      update.ldc = C.ld;
                    }},
             placed);
  return placed;
}

double Step::flops() const {
  return std::visit([](const auto& each) { return flops_of(each); }, kernel);
}

const char* Step::name() const {
  return std::visit([](const auto& each) { return kernel_name(each); }, kernel);
}

bool Step::only_adds() const {
  const auto* const level3 = std::get_if<Level3>(&kernel);
  return level3 != nullptr ? !level3->is_triangular() : std::holds_alternative<kernels::Addition>(kernel);
}

Step addition_step(ScalarType type, bool hermitian, const HostTile& C, const Read& X, AnyScalar factor) {
  return {.kernel = kernels::Addition{.type = type,
                                      .part = C.part,
                                      .hermitian = hermitian && C.part != Part::full,
                                      .m = C.rows,
                                      .n = C.cols,
                                      .factor = factor},
          .a = X};
}

}  // namespace tessera::runtime
