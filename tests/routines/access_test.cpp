// The reads that graphs declare of their tasks, and the facts that the runtime derives from these reads. Both are
// checked against the tiles themselves: task by task in the order of their numbers, and step by step.
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "routines/lapack.hpp"
#include "routines/plan.hpp"
#include "runtime/tiles/task_graph.hpp"

namespace tessera::routines {
namespace access_test {

using runtime::no_task;
using runtime::Read;
using runtime::Step;
using runtime::TaskGraph;
using runtime::TaskId;

constexpr index_t edge = 8;  // of a tile
constexpr std::size_t edge_bytes = edge * edge * sizeof(double);

// Graphs that do not run: only addresses count.
std::byte* operand_at(std::uintptr_t number) { return reinterpret_cast<std::byte*>(number << 45); }

runtime::Machine machine_for(int devices, std::size_t tiles) {
  return {.devices = devices, .heap_bytes = tiles * edge_bytes};
}

/// All that tasks read, in their order.
template <class Visit>
void for_each_read(const TaskGraph& graph, Visit&& visit) {
  for (TaskId task = 0; task < graph.task_count; ++task) {
    for (index_t l = 0; l < graph.step_count(task); ++l) {
      const Step step = graph.step(task, l);
      for (const Read& read : {step.a, step.b}) {
        if (read.exists()) visit(task, read);
      }
    }
  }
}

struct Expected {
  std::vector<TaskId> last_of_old, last_of_result, last_read;
  std::vector<bool> needs_old, published;
  std::vector<std::vector<TaskId>> readers_of_old;
  std::vector<std::vector<bool>> depends;  // by reader, by task
  bool ordered = false;
};

Expected expectation(const TaskGraph& graph) {
  const auto count = static_cast<std::size_t>(graph.task_count);
  Expected is;
  for (auto* tasks : {&is.last_of_old, &is.last_of_result, &is.last_read}) tasks->assign(count, no_task);
  is.needs_old.assign(count, false);
  is.published.assign(count, false);
  is.readers_of_old.resize(count);
  is.depends.assign(count, std::vector<bool>(count, false));
  std::map<std::byte*, TaskId> writer;
  for (TaskId task = 0; task < graph.task_count; ++task) {
    const runtime::Output output = graph.output(task);
    EXPECT_TRUE(writer.emplace(output.tile.address, task).second) << "two tasks write one tile";
    is.needs_old[static_cast<std::size_t>(task)] = output.reads_old;
  }
  std::map<std::byte*, TaskId> written;  // as host memory would be
  TaskId running = 0;
  for_each_read(graph, [&](TaskId reader, const Read& read) {
    for (; running < reader; ++running) written[graph.output(running).tile.address] = running;
    const auto found = writer.find(read.tile.address);
    EXPECT_EQ(read.writer, found == writer.end() ? no_task : found->second);
    if (found == writer.end()) return;
    EXPECT_EQ(read.tile, graph.output(found->second).tile);
    const auto r = static_cast<std::size_t>(reader), w = static_cast<std::size_t>(found->second);
    is.ordered = true;
    const bool is_result = written.contains(read.tile.address);
    EXPECT_EQ(read.result_of(reader), is_result ? found->second : no_task);
    if (is_result) {
      is.published[w] = true;
      is.last_of_result[w] = std::max(is.last_of_result[w], reader);
      is.last_read[r] = std::max(is.last_read[r], found->second);
      is.depends[r][w] = true;
      for (std::size_t t = 0; t < count; ++t) is.depends[r][t] = is.depends[r][t] || is.depends[w][t];
    } else if (r == w) {
      is.needs_old[r] = true;
    } else {
      is.last_of_old[w] = std::max(is.last_of_old[w], reader);
      is.readers_of_old[w].push_back(reader);
    }
  });
  return is;
}

void expect_derived(const TaskGraph& graph) {
  const Expected is = expectation(graph);
  bool replaces = false;
  for (TaskId task = 0; task < graph.task_count; ++task) {
    const auto t = static_cast<std::size_t>(task);
    const runtime::TaskProperties& derived = graph.of(task);
    const bool intermediate = graph.output(task).intermediate;
    EXPECT_EQ(derived.intermediate, intermediate);
    EXPECT_EQ(derived.needs_old, is.needs_old[t]);
    EXPECT_EQ(derived.published, is.published[t]);
    const TaskId after = intermediate ? is.last_of_result[t] : graph.repeatable ? is.last_of_old[t] : is.last_read[t];
    EXPECT_EQ(derived.write_after, after);
    // A task that waits for the last reader has waited for all: each is done after the one before it.
    for (const TaskId reader : is.readers_of_old[t]) {
      TaskId awaited = derived.write_after;
      while (awaited != no_task && awaited != reader) awaited = graph.of(awaited).write_after;
      EXPECT_EQ(awaited, reader) << "overwritten before it is read";
    }
    index_t adding = 0;
    double flops = 0;
    for (index_t l = 0; l < graph.step_count(task); ++l) {
      const Step step = graph.step(task, l);
      adding += adding == l && step.only_adds() ? 1 : 0;
      replaces = replaces || !step.only_adds();
      flops += step.flops();
    }
    EXPECT_EQ(derived.adding_steps, adding);
    EXPECT_EQ(derived.flops, flops);
    if (graph.factors) {
      const std::vector<bool> dependents = dependents_of(graph, task);
      for (std::size_t other = 0; other < is.depends.size(); ++other)
        EXPECT_EQ(dependents[other], is.depends[other][t]);
    }
  }
  EXPECT_EQ(graph.ordered, is.ordered || replaces);
}

/// How many graphs of each kind were seen.
struct Seen {
  int grouped = 0, apart = 0, intermediate = 0;

  void note(const TaskGraph& graph) {
    grouped += graph.grouped() ? 1 : 0;
    apart += graph.has_steps_apart() ? 1 : 0;
    intermediate += graph.of(0).intermediate ? 1 : 0;
  }
};

/// On machines with much and with little memory. @param make the graph for one
template <class Make>
void expect_derived_everywhere(const std::string& what, Seen& seen, Make&& make) {
  for (const int devices : {1, 3}) {
    for (const std::size_t tiles : {100000, 30, 12}) {
      std::ostringstream text;
      text << what << " on " << devices << " devices, " << tiles << " tiles";
      const testing::ScopedTrace trace(__FILE__, __LINE__, text.str());
      const auto graph = make(machine_for(devices, tiles));
      expect_derived(*graph);
      seen.note(*graph);
    }
  }
}

void expect_derived_of(Level3 call, Seen& seen) {
  call.A = operand_at(1);
  call.B = operand_at(2);
  call.C = operand_at(3);
  call.lda = std::max<index_t>(shape_of_a(call).rows, 1);
  call.ldb = std::max<index_t>(shape_of_b(call).rows, 1);
  call.ldc = call.m;
  std::ostringstream what;
  what << name_of(call) << ' ' << call.m << " x " << call.n << " x " << call.k << ", side " << int(call.side)
       << ", uplo " << int(call.uplo) << ", ops " << int(call.op_a) << int(call.op_b) << ", beta " << call.beta;
  expect_derived_everywhere(what.str(), seen, [&](const runtime::Machine& machine) {
    return choose_plan(call, {&machine, 1}, edge).graph;
  });
}

TEST(Accesses, OfLevel3GiveOrderAndWhatMayBeOverwritten) {
  Seen seen;
  for (const Routine routine : level3_routines) {
    for (const Side side : {Side::left, Side::right}) {
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        for (const Op op : {Op::no_trans, Op::trans}) {
          for (const index_t m : {edge - 1, 3 * edge + 2, 7 * edge}) {
            Level3 call{.routine = routine, .side = side, .uplo = uplo, .op_a = op};
            call.type = exists(call.routine, ScalarType::d) ? ScalarType::d : ScalarType::z;
            call.m = m;
            call.n = call.updates_triangle() ? m : 4 * edge + 1;
            call.k = call.has_k() ? 3 * edge + 1 : 0;
            if (call.has_op_b()) call.op_b = uplo == Uplo::lower ? Op::no_trans : Op::trans;
            call.beta = side == Side::left ? 0.5 : 0;
            expect_derived_of(call, seen);
          }
        }
      }
    }
  }
  EXPECT_GT(seen.grouped, 100);
}

// Lines of trmm that begin together, and sums that are cut into ranges.
TEST(Accesses, OfSumsApartAndOfIntermediateResults) {
  Seen seen;
  for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
    expect_derived_of({.routine = Routine::trmm, .uplo = uplo, .m = 4 * edge, .n = 20 * edge}, seen);
    for (const Routine routine : {Routine::gemm, Routine::syrk, Routine::syr2k})
      expect_derived_of({.routine = routine, .uplo = uplo, .m = 2 * edge, .n = 2 * edge, .k = 40 * edge, .beta = 2},
                        seen);
  }
  EXPECT_GT(seen.apart, 0);
  EXPECT_GT(seen.intermediate, 0);
}

TEST(Accesses, OfFactorizations) {
  Seen seen;
  for (const index_t n : {edge - 1, 3 * edge + 2, 9 * edge}) {
    for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
      expect_derived_everywhere("potrf", seen, [&](const runtime::Machine& machine) {
        const CholeskyCall call{.uplo = uplo, .n = n, .A = operand_at(1), .lda = n};
        return choose_plan(call, {&machine, 1}, edge).graph;
      });
    }
    for (const index_t m : {n, n + 13, n - 5}) {
      expect_derived_everywhere("getrf", seen, [&](runtime::Machine machine) {
        machine.heap_bytes *= 10;
        const LuCall call{.m = m, .n = n, .A = operand_at(1), .lda = m};
        return choose_plan(call, {&machine, 1}, edge).graph;
      });
      for (const auto& [name, storage] :
           {std::pair{"geqrf", ReflectorStorage::columns}, {"gelqf", ReflectorStorage::rows}}) {
        expect_derived_everywhere(name, seen, [&, storage = storage](runtime::Machine machine) {
          machine.heap_bytes *= 10;
          const QrCall call{.m = m, .n = n, .A = operand_at(1), .lda = m, .storage = storage};
          return choose_plan(call, {&machine, 1}, edge).graph;
        });
      }
    }
  }
  EXPECT_GT(seen.grouped, 10);
}

}  // namespace access_test
}  // namespace tessera::routines
