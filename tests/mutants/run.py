#!/usr/bin/env python3
"""run.py [name...]: shows that tests can fail, above all those of the scheduler. Each mutant takes something out of a copy of the sources or turns it
round; the tests named beside it must then fail. A mutant that they let pass has survived, which is an error.

Slow: every mutant is a build. `./dev mutants` runs all of them, or those whose names begin with an argument.
"""
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
TASK_POOL = "src/runtime/tiles/task_pool.hpp"
INTAKE = "src/runtime/tiles/intake.hpp"
STEALING = "src/runtime/tiles/intake.cpp"
PIPELINE = "src/runtime/tiles/pipeline.cpp"
RESULTS = "src/runtime/tiles/results.cpp"


@dataclasses.dataclass
class Mutant:
    name: str
    file: str
    old: str  # occurs once in the file
    new: str
    binary: str
    tests: str  # a filter of GoogleTest


MUTANTS = [
    Mutant("finish-without-waking", TASK_POOL,
           "if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1 || graph_.ordered) raise_();",
           "unfinished_.fetch_sub(1, std::memory_order_acq_rel);",
           "tests_runtime", "TaskPool.ItsLastTaskWakesAllWorkers:TaskPool.EveryTaskWakes*"),
    Mutant("finish-wakes-only-at-the-end", TASK_POOL, " == 1 || graph_.ordered) raise_();", " == 1) raise_();",
           "tests_runtime", "TaskPool.EveryTaskWakes*"),
    Mutant("finish-without-waking-in-the-model", TASK_POOL,
           "if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1 || graph_.ordered) raise_();",
           "unfinished_.fetch_sub(1, std::memory_order_acq_rel);",
           "tests_routines", "WakeUpModel.*"),
    Mutant("publish-without-waking", TASK_POOL,
           "at(task).published.store(true, std::memory_order_release);  // pairs with readable()\n    raise_();",
           "at(task).published.store(true, std::memory_order_release);",
           "tests_runtime", "TaskPool.APublishedResultWakesItsReaders"),
    Mutant("publish-without-waking-in-the-model", TASK_POOL,
           "at(task).published.store(true, std::memory_order_release);  // pairs with readable()\n    raise_();",
           "at(task).published.store(true, std::memory_order_release);",
           "tests_routines", "WakeUpModel.*"),
    Mutant("fail-without-waking", TASK_POOL,
           "failed_.store(true, std::memory_order_release);  // pairs with failed()\n    raise_();",
           "failed_.store(true, std::memory_order_release);",
           "tests_runtime", "TaskPool.AFailureWakesAllWorkers"),
    Mutant("job-lets-every-device-take", TASK_POOL,
           "return runtime::should_take(loads, device, task_flops, unassigned_flops_.load(std::memory_order_relaxed));",
           "static_cast<void>(device), static_cast<void>(task_flops);\n    return true;",
           "tests_runtime", "TaskPool.ASlowDevice*"),
    Mutant("job-waits-for-absent-devices", TASK_POOL, "if (loads_[d].absent) {", "if (false) {",
           "tests_runtime", "TaskPool.ADeviceThatTakesNoPart*"),
    Mutant("every-load-is-right", "src/runtime/tiles/load_balance.hpp",
           "return my_end <= std::max(all_flops / all_flops_per_s, best_other_end);",
           "return my_end <= std::max(all_flops / all_flops_per_s, best_other_end) || true;",
           "tests_runtime", "LoadBalance.*"),
    Mutant("worker-takes-whatever-there-is", INTAKE,
           "auto entry = station.take_best([&](const StationEntry& e) { return job.should_take(me(), e.flops); });",
           "auto entry = station.take_best([&](const StationEntry&) { return true; });",
           "tests_routines", "LoadBalanceModel.*"),
    Mutant("worker-steals-nothing", INTAKE, "may_steal) entry = steal(job);", "may_steal) entry = std::nullopt;",
           "tests_routines", "LoadBalanceModel.*"),
    Mutant("worker-steals-from-stations-only", STEALING, "d < devices && !job.graph().grouped(); ++d) {",
           "d < devices && false; ++d) {",
           "tests_routines", "LoadBalanceModel.*"),
    Mutant("worker-steals-from-queues-only", STEALING, "if (victim == me()) return std::nullopt;",
           "if (victim == me() || true) return std::nullopt;",
           "tests_routines", "LoadBalanceModel.*"),
    Mutant("kernels-keep-what-they-read", PIPELINE, "if (kernel.y != nullptr) place_.cache.release(kernel.y);", "",
           "tests_routines", "ScheduleEnds.EveryGraphEnds"),
    Mutant("kernels-do-not-wait-for-copies-of-old-values", RESULTS,
           "if (read && read->status() != EventStatus::complete) place_.device.wait(stream, read);", "static_cast<void>(stream);",
           "tests_routines", "H200/ScheduleModel.OldValuesAreCopied*"),
    Mutant("tiles-are-copied-before-they-are-fetched", "src/cache/tile_cache.cpp",
           "for (; source != nullptr && source->submitting; source = nearest_peer(device, tile)) submitted_.wait(lock.native());", "",
           "tests_cache", "TileSubmission.IsAwaited*"),
    Mutant("copies-are-submitted-under-the-lock", "src/cache/tile_cache.cpp", "    lock_.unlock();\n  }\n  ~Submitting() {\n    lock_.lock();",
           "  }\n  ~Submitting() {", "tests_cache", "TileSubmission.From*"),
    Mutant("the-only-copy-may-be-dropped", "src/cache/coherence.hpp", "now.holders > (owned ? 1 : 0)", "now.holders > 0",
           "tests_cache", "Coherence.TheOnlyCopy*"),
    Mutant("the-only-copy-may-be-dropped-in-the-model", "src/cache/coherence.hpp", "now.holders > (owned ? 1 : 0)", "now.holders > 0",
           "tests_cache", "All/CoherenceModel.*/one_slot"),
    Mutant("stale-host-memory-is-fetched", "src/cache/tile_directory.cpp",
           "if (event == TileEvent::fetch && !host_has(tile)) throw InternalError(\"cache: what host memory holds is stale\");", "",
           "tests_cache", "OwnedTiles.AreUpdatedInPlace*"),
    Mutant("write-backs-count-from-their-beginning", "src/cache/tile_directory.cpp",
           "return std::exchange(entry.host, TileEntry::none);",
           "entry.state = next(entry.state, TileEvent::write_back);\n  return std::exchange(entry.host, replica.version);",
           "tests_cache", "All/CoherenceModel.*/factorization"),
    Mutant("updates-leave-other-replicas-readable", "src/cache/tile_directory.cpp",
           "  entry.output_state = after;\n  supersede(entry);", "  entry.output_state = after;",
           "tests_cache", "All/CoherenceModel.*/factorization_on_both"),
    Mutant("updates-do-not-wait-for-readers", "src/cache/tile_directory.cpp",
           "return !other || other.get() == &replica || (other->readers == 0 && !other->submitting);", "return !other || true;",
           "tests_cache", "OwnedTiles.AreUpdatedInPlace*"),
    Mutant("host-memory-is-overwritten-while-it-is-fetched", "src/cache/tile_directory.cpp",
           "other->version < replica.version && other->arriving;", "other->version < replica.version && false;",
           "tests_cache", "All/CoherenceModel.*/replaced_while_read"),
    Mutant("torn-tiles-stay-torn", "src/runtime/devices/crew.cpp", "return torn.old && restored(*torn.old);",
           "return static_cast<void>(restored), torn.old != nullptr;",
           "tests_routines", "FaultModel.ATornTileComesBackFromTheKeeper:FaultModel/Loss.LeavesTheResultRight/trmm*"),
    Mutant("calls-overtake", "src/runtime/devices/admission.cpp", "return admission_.serving_ == ticket;",
           "return admission_.serving_ <= ticket;", "tests_runtime", "Admission.WaitsForMemoryAndNobodyOvertakes"),
    Mutant("calls-take-memory-that-is-not-there", "src/runtime/devices/admission.cpp",
           "std::min(share.capacity, at.bytes)", "at.bytes", "tests_runtime", "Admission.KeepsToTheCapacity"),
    Mutant("calls-go-to-the-first-device", "src/runtime/devices/admission.cpp",
           "parts[d].bytes > 0 || places_[d].parts.size() != calls)", "parts[d].bytes > 0)",
           "tests_runtime", "Admission.DealsCallsOfOneDeviceOut"),
    Mutant("copies-between-peers-outlive-their-job", "src/cache/tile_cache.cpp",
           "return !here.peer_arrivals.empty() || !here.kept_on_peers.empty();", "return !here.peer_arrivals.empty();",
           "tests_cache", "KeptTiles.TellsOfCopies*"),
    Mutant("jobs-do-not-see-each-other", "src/runtime/devices/device_traffic.hpp", "sum.kernels += own.kernels;",
           "sum.kernels = own.kernels;", "tests_runtime", "DeviceTraffic.*"),
    Mutant("copies-of-other-jobs-stop", "src/runtime/devices/host_copies.cpp", "return piece.job == job; });",
           "return piece.job != nullptr || job == nullptr; });", "tests_runtime", "HostCopies.OfAnotherJobGoOn"),
    Mutant("old-values-never-go-to-peers", "src/runtime/tiles/old_values.cpp", "on_peers_ && d < devices", "false && d < devices",
           "tests_routines", "FaultModel/Loss.LeavesTheResultRight/trsm_no_beta"),
    Mutant("small-pivots-have-no-quotients", "src/kernels/block/trsm_strip.hpp", "diagonal.divides = machine_.any(divides);",
           "diagonal.divides = machine_.any(divides && false);",
           "tests_threads_kernels", "TrsmStrip.DividesWhere*"),
    Mutant("one-right-hand-side-has-no-quotients", "src/kernels/block/trsv_chain.hpp",
           "if (machine_.any(divides_ || (!is_finite && !system_.unit))) return divide(b);", "static_cast<void>(is_finite);",
           "tests_threads_kernels", "TrsmChain/0.*"),
    Mutant("alpha-enters-with-every-leaf", "src/kernels/block/triangular_sweep.hpp",
           "if (is_solve && row > 0) leaf.scales = false;", "", "tests_threads_kernels", "*TriangularBatchTest*"),
    Mutant("shares-of-a-batch-overlap", "src/kernels/block/tile_schedule.hpp",
           "from_ > start_ ? pieces(from_ - start_, cost) : 0;", "0;", "tests_kernels", "TileSchedule.*"),
    Mutant("rows-behind-the-end-are-read", "src/kernels/block/stage_copy.hpp",
           "line + first_line < steps_there ? count : 0", "line + first_line <= steps_there ? count : 0",
           "tests_threads_kernels", "*GemmBlockTest.AllSizes*"),
    Mutant("mirror-images-are-not-conjugated", "src/kernels/block/gemm_block.hpp",
           "if (!is_in(operand.stored, i, k)) conjugates = !conjugates;", "",
           "tests_threads_kernels", "*GemmBlockTest.AllVariants*"),
    Mutant("tails-stay-where-they-are", "src/cache/tile_cache.cpp",
           "    if (tile.tail_bytes > 0) {\n      device.copy_peer(", "    if (false) {\n      device.copy_peer(",
           "tests_cache", "TilesWithTails.*"),
    Mutant("columns-go-home-in-any-order", "src/routines/block_columns.cpp",
           "repeatable = false;", "repeatable = true;",
           "tests_threads_routines", "ColumnsGraph.*"),
    Mutant("results-overwrite-what-is-still-read", "src/runtime/tiles/task_graph.cpp",
           "written.write_after = std::max(written.write_after, reader);", "static_cast<void>(reader);",
           "tests_routines", "Accesses.*"),
    Mutant("rows-to-the-left-stay", "src/routines/block_columns.cpp",
           "  interchange_left(factored.panels, columns_of(call), runtime.processors());\n",
           "  static_cast<void>(interchange_left);\n", "tests_threads_routines", "Host/ColumnsConformance.EveryShape/host_1"),
    Mutant("hermitian-scaling-by-a-complex-number", "src/kernels/reference/reference.cpp",
           "return is_hermitian_update() ? value * std::real(beta_) : beta_ * value;", "return beta_ * value;",
           "tests_threads_kernels", "Host/TileScaling.*"),
]


def copy_tree():
    """Files that have not changed keep their times, so that later runs build little."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for old in TREE.rglob("*"):
        if old.is_file() and str(old.relative_to(TREE)) not in names:
            old.unlink()
    for name in names:
        source, target = ROOT / name, TREE / name
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def build(binary):
    jobs = os.environ.get("TESSERA_JOBS", str(os.cpu_count()))
    made = subprocess.run(["cmake", "--build", BUILD, "-j", jobs, "--target", binary], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        print(made.stdout)
    return made.returncode == 0


def tests_pass(mutant):
    ran = subprocess.run([BUILD / "bin" / mutant.binary, f"--gtest_filter={mutant.tests}"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    return ran.returncode == 0 and "[  PASSED  ] 0 tests" not in ran.stdout


def fate(mutant):
    """What becomes of the mutant; "caught" is what should."""
    file = TREE / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        return f"DOES NOT APPLY: what it replaces occurs {text.count(mutant.old)} times in {mutant.file}"
    file.write_text(text.replace(mutant.old, mutant.new))
    try:
        if not build(mutant.binary):
            return "DOES NOT COMPILE"
        return "SURVIVED" if tests_pass(mutant) else "caught"
    finally:
        file.write_text(text)


def main():
    wanted = [mutant for mutant in MUTANTS
              if len(sys.argv) == 1 or any(mutant.name.startswith(name) for name in sys.argv[1:])]
    if not wanted:
        sys.exit("no such mutant; there are: " + ", ".join(mutant.name for mutant in MUTANTS))
    copy_tree()
    subprocess.run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTESSERA_CUDA=OFF"],
                   check=True, stdout=subprocess.DEVNULL)
    bad = 0
    for binary in sorted({mutant.binary for mutant in wanted}):
        if not build(binary):
            sys.exit(f"{binary} does not compile as it is")
        for mutant in (mutant for mutant in wanted if mutant.binary == binary):
            if not tests_pass(dataclasses.replace(mutant, binary=binary)):
                sys.exit(f"{mutant.tests} of {binary} do not pass as they are, or there are none")
    for mutant in wanted:
        outcome = fate(mutant)
        bad += outcome != "caught"
        print(f"{mutant.name}: {outcome}", flush=True)
    print(f"{len(wanted) - bad} of {len(wanted)} mutants caught")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
