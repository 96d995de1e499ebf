"""Tests of the scripts and programs in bench/ that measure: sweep.py, network_bench, first_call.sh,
concurrent_calls.sh, lapack_gpu.sh, network_gpu.sh, all on host devices.
usage: measuring_test.py [CASE], with the build folder in TESSERA_TEST_BUILD."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True  # beside the sources

from tool_test import BUILD, REFERENCE_LAPACK, SOURCE, TESSERA, ToolCase, environment, run

sys.path.insert(0, str(SOURCE / "bench"))
import report
import survey
import sweep

SVG = "{http://www.w3.org/2000/svg}"
NO_CUDA = {"TESSERA_CUDA_PLUGIN": "/nonexistent/plugin.so"}


def texts(picture):
    return [text.text for text in xml.etree.ElementTree.parse(picture).getroot().iter(SVG + "text")]


def is_running(pid):
    try:
        return "zombie" not in (pathlib.Path("/proc") / pid / "status").read_text()
    except OSError:
        return False


class Scripts(unittest.TestCase):
    def test_what_names_its_interpreter_can_be_called_by_its_name(self):
        scripts = [file for folder in ("bench", "tools", "tests") for suffix in ("py", "sh") for file in (SOURCE / folder).rglob(f"*.{suffix}")
                   if file.read_bytes().startswith(b"#!")]
        self.assertIn(SOURCE / "bench" / "survey.py", scripts)
        self.assertEqual([str(file) for file in scripts if not os.access(file, os.X_OK)], [])

    def test_what_pages_call_by_its_name_can_be_called(self):
        pages = "\n".join(page.read_text() for page in (SOURCE / "docs").rglob("*.md"))
        called = set(re.findall(r"(?m)^(?:\w+=\S+ )*((?:bench|tools|tests)/\S+\.(?:py|sh))", pages))
        self.assertIn("bench/survey.py", called)
        self.assertEqual([name for name in sorted(called) if not os.access(SOURCE / name, os.X_OK)], [])


class Reports(ToolCase):
    """What reports share, and the reports that have no class of their own."""

    def file(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def test_of_two_results_with_one_key_the_later_one_counts(self):
        first = self.file("1.json", {"name": "first", "results": [{"n": 1, "seconds": {"tessera": 1}}, {"n": 2, "error": "differs"}, {"n": 3, "seconds": {}}]})
        last = self.file("2.json", {"name": "last", "results": [{"n": 1, "error": "fails"}, {"n": 2, "seconds": {"tessera": 2}},
                                                                {"n": 4, "seconds": {}, "wrong": {"cublas": "residual"}}]})
        results, failed, of_last = report.read([first, last], lambda result: result["n"])
        self.assertEqual(set(results), {2, 3, 4})
        self.assertEqual(set(failed), {1, 4})
        self.assertEqual(of_last["name"], "last")

    def test_tables(self):
        self.assertEqual(report.table(["", "n"], [["dgemm", 4], ["", 5]]), "| | n |\n|---|---|\n| dgemm | 4 |\n|  | 5 |\n")
        self.assertEqual([report.quotient(3, 2), report.quotient(1, 2, "{:.0%}"), report.quotient(None, 2), report.quotient(1, None)], ["1.50", "50%", "", ""])

    def test_lines_are_of_what_there_is(self):
        series = [("a", "A", "red"), ("b", "B", "blue"), ("c", "C", "green")]
        lines = report.lines_of({8: {"a": 1, "roof": 3}, 4: {"a": 2, "c": 5, "roof": 4}}, dict.get, series)
        self.assertEqual([(points, words, mark) for points, words, _, mark in lines],
                         [([(4, 4), (8, 3)], "roof", None), ([(4, 2), (8, 1)], "A", 0), ([(4, 5)], "C", 2)])
        picture = report.rates_picture("T", [("panel", lines)], series, "bound")
        self.assertIn(">bound<", picture)
        self.assertNotIn(">B<", picture)
        self.assertIsNone(report.rates_picture("T", [], series, "bound"))

    def test_what_comes_after_the_dashes(self):
        self.assertEqual(report.split_at_dashes(["a", "--", "b", "--", "c"]), (["a"], ["b", "--", "c"]))
        self.assertEqual(report.split_at_dashes(["a"]), (["a"], []))

    def test_batches(self):
        def result(routine, shape, x, **seconds):
            return {"routine": routine, "shape": shape, "x": x, "count": 100, "flops": 1e9, "roof_s": 5e-4, "host_seconds": {"tessera": 1e-5},
                    "seconds": {"tessera": 1e-3, **seconds}}
        file = self.file("batch.json", {"variable": [result("dgemm", "square", 32, grouped=4e-3, loop_16=9e-3, loop_32=8e-3), {**result("dtrsm", "square", 64), "error": "differs"}],
                                        "fixed": [result("dgemm", "one size", 8, cublas=2e-3)]})
        answer = run(sys.executable, SOURCE / "bench" / "batch_report.py", self.folder / "out", file)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("| dgemm | square | 32 | 1000.0 | 1000.0 | 4.00 | 8.00 |  | 50% |  |  |  | 10.0 |", answer.stdout)
        self.assertIn("| dgemm | 8 | 100 | 1000.0 | 1000.0 | 2.00 | 50% |  | 10.0 |", answer.stdout)
        self.assertIn("FAILED: dtrsm, square, 64: differs", answer.stdout)
        self.assertEqual({path.name for path in (self.folder / "out").iterdir()}, {"fig12a.svg", "one_size_gemm.svg"})

    def test_batches_of_lapack(self):
        def result(n, batch, **seconds):
            return {"routine": "dgetrf", "uplo": "", "n": n, "batch": batch, "flops": 1e9, "bytes": 1e6, "memory_roof_s": 2e-4, "roof_s": 5e-4, "seconds": seconds}
        file = self.file("lapack.json", {"gpu": "X", "copy_bytes_per_s": 4e12, "magma": "none", "results": [
            result(8, 1000, tessera=1e-3, cublas=3e-3), result(8, 100000, tessera=2e-3), {**result(16, 1000, cublas=1e-3), "wrong": {"tessera": "residual"}}]})
        answer = run(sys.executable, SOURCE / "bench" / "lapack_batch_report.py", self.folder / "out", file, "--batch", "1000")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("| 8 | 1000 | 1000.0 | 1000.0 | 1 | 333.3 | 3.00 | 20% | 50% |", answer.stdout)
        self.assertIn("| 16 | 1000 |  |  |  | 1000.0 |  |  |  |", answer.stdout)
        self.assertIn("FAILED: dgetrf  n = 16, 1000 problems: tessera: residual", answer.stdout)
        self.assertEqual({path.name for path in (self.folder / "out").iterdir()}, {"fig1.svg", "fig8.svg"})
        self.assertTrue(any(word.startswith("LU: 1000 problems") for word in texts(self.folder / "out" / "fig8.svg")))

    def test_without_files_a_report_tells_its_usage(self):
        answer = run(sys.executable, SOURCE / "bench" / "device_report.py")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("usage: bench/device_report.py OUT FILE...", answer.stderr)


class DeviceReport(ToolCase):
    """The output of device_bench, in numbers that are easy to distinguish."""

    def result(self, routine, order, columns, **seconds):
        return {"routine": routine, "side": "left", "uplo": "lower", "op": "n", "order": order, "columns": columns, "flops": 1e9,
                "seconds": {"tessera": 1e-3, "cublas": 4e-3, "paper": 3e-3, "gemm": 1e-3, **seconds}}

    def report(self, *documents):
        files = []
        for index, results in enumerate(documents):
            files.append(self.folder / f"{index}.json")
            files[-1].write_text(json.dumps({"gpu": "X", "results": results}))
        return run(sys.executable, SOURCE / "bench" / "device_report.py", self.folder / "out", *files)

    def test_table_and_pictures(self):
        answer = self.report([self.result("dtrsm", 256, 32), self.result("dtrsm", 1024, 32), self.result("dtrsm", 1024, 1024),
                              self.result("dtrmm", 256, 32, tessera_workspace=5e-4, cublas_apart=4e-4)])
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # Half of gemm's rate, since gemm has twice the operations; four and three times as fast as the others.
        self.assertIn("| dtrsm | left | 256 | 32 | 1000.0 | 50 % | 4.00 | 3.00 |  |  |", answer.stdout)
        self.assertIn("| dtrmm | left | 256 | 32 | 1000.0 | 50 % | 4.00 | 3.00 | 500.0 | 0.80 |", answer.stdout)
        words = texts(self.folder / "out" / "trsm.svg")
        for expected in ("dtrsm, 32 right-hand sides, TFLOP/s", "dtrsm, as many right-hand sides, TFLOP/s", "256", "1024"):
            self.assertIn(expected, words)
        self.assertIn("Tessera, with workspace", texts(self.folder / "out" / "trmm.svg"))
        self.assertNotIn("Tessera, with workspace", words)

    def test_the_last_file_counts(self):
        answer = self.report([self.result("strsm", 256, 32)], [self.result("strsm", 256, 32, tessera=2e-3)])
        self.assertIn("| strsm | left | 256 | 32 | 2000.0 | 25 % | 2.00 |", answer.stdout)
        self.assertEqual(answer.stdout.count("strsm"), 1)


class HalfBatches(ToolCase):
    """What half_batch_bench writes."""

    def result(self, kind, shape, n, count, **seconds):
        return {"type": kind, "shape": shape, "n": n, "k": n, "count": count, "flops": 1e9, "bytes": 1e6, "roof_s": 5e-4,
                "seconds": {"tessera": 1e-3, "tessera_strided": 5e-4, **seconds}}

    def report(self, *results):
        file = self.folder / "half.json"
        file.write_text(json.dumps({"gpu": "X", "copy_bytes_per_s": 4e12, "peak_flops": 7e14, "results": results}))
        return run(sys.executable, SOURCE / "bench" / "half_batch_report.py", self.folder / "out", file)

    def test_table_and_pictures(self):
        real = {"cublas": 3e-3, "cublas_strided": 1e-3, "cublas_single": 4e-3}
        answer = self.report(*[self.result("h", "square", n, 1000, **real) for n in (8, 100)], self.result("hc", "square", 16, 10000, four=7e-3),
                             self.result("hc", "rank16", 64, 1000, planar=2e-3, planar_converted=6e-3, four=5e-3))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("| hgemm | square | 100 | 1000 | 1000.0 | 1000.0 | 50% | 500.0 | 3.00 | 2.00 | 4.00 |  |  |", answer.stdout)
        self.assertIn("| hcgemm | rank 16 | 64 | 1000 | 1000.0 | 1000.0 | 50% | 500.0 | 2.00 |  |  | 6.00 | 5.00 |", answer.stdout)
        # Without a result of cublasLt, four products count.
        self.assertIn("| hcgemm | square | 16 | 10000 | 1000.0 | 1000.0 | 50% | 500.0 | 7.00 |", answer.stdout)
        self.assertEqual({file.name for file in (self.folder / "out").iterdir()},
                         {f"half-fig{number}.svg" for number in (10, 11, 12, 13, 19)})
        self.assertIn("square, 1000 problems, times", texts(self.folder / "out" / "half-fig11.svg"))
        self.assertIn("rank 16, 1000 problems, TFLOP/s", texts(self.folder / "out" / "half-fig12.svg"))

    def test_failures_are_told(self):
        answer = self.report({**self.result("h", "square", 8, 10), "error": "differs"})
        self.assertEqual(answer.returncode, 1)
        self.assertIn("FAILED: hgemm, square, 8, 10 problems: differs", answer.stdout)


class Sweep(ToolCase):
    SCRIPT = SOURCE / "bench" / "sweep.py"
    DEVICES = ["--", "--host-device", "memory=32MiB,speed=50GFLOP/s,link=8GB/s"]

    def setUp(self):
        super().setUp()
        self.out = self.folder / "page"

    def arguments(self, *options, devices=None):
        return [sys.executable, self.SCRIPT, self.out, "--build", BUILD, "--backend", "host", "--repeats", "1", *options,
                *(self.DEVICES if devices is None else devices)]

    def sweep(self, *options, devices=None):
        return run(*self.arguments(*options, devices=devices), **NO_CUDA)

    def points(self):
        return {(p["routine"], p["devices"], p["result"]["n"], p["cpu_worker"] or p["tile"]): p for p in json.loads((self.out / "sweep.json").read_text())["points"]}

    def page(self):
        return (self.out / "README.md").read_text()

    def test_page(self):
        options = ["--n", "48,64:128:32", "--cpu-up-to", "64", "--tiles", "32,64", "--tile-n", "96", "--volume-n", "100", "--cpu-worker-n", "128"]
        self.assert_good(self.sweep(*options))
        points = self.points()
        routines = ["d" + name for name in ("gemm", "symm", "syrk", "syr2k", "trmm", "trsm")]
        expected = {(routine, count, n, None) for routine in routines for count in (1, 2) for n in (48, 64, 96, 128)}
        self.assertEqual(set(points), expected | {("dgemm", 2, 96, 32), ("dgemm", 2, 96, 64)} | {("dgemm", 1, 128, use) for use in ("off", "auto", "on")})
        for (_, count, n, tile), point in points.items():
            if tile in ("off", "auto", "on"):
                continue
            result = point["result"]
            self.assertEqual("cpu" in result, count == 2 and n <= 64)
            self.assertTrue(result["tessera"]["correct"])
            self.assertEqual(len(result["tessera"]["job"]["devices"]), count)
            self.assertLessEqual(result["tessera"]["job"]["tile_m"], tile or n)

        page = self.page()
        for words in ("Fig. 7", "Table III", "Table V", "n = 96 (BLASX, Table V)", "Fig. 9", "Fig. 10", "host devices", "processors", "bench/sweep.py",
                      "All results were checked and are correct.", "| dsyr2k | ", "| compulsory | "):
            self.assertIn(words, page)
        self.assertNotIn("not reached", page)
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["README.md", "fig10.svg", "fig7.svg", "sweep.json"])
        words = texts(self.out / "fig7.svg")
        for expected in ["Tessera", "CPU BLAS", "1 device", "2 devices", "matrix size n"]:
            self.assertIn(expected, words)
        self.assertNotIn("cublasXt", words)
        self.assertTrue(all(any(word.startswith(routine + ",") for word in words) for routine in routines))
        self.assertTrue(any("n = 96, 2 devices" in word for word in texts(self.out / "fig10.svg")))

        # Existing results are not measured again; additional requested ones are.
        self.assert_good(self.sweep(*options))
        self.assertEqual(self.points(), points)
        options[1] += ",160"
        self.assert_good(self.sweep(*options))
        more = self.points()
        self.assertEqual({key: more[key] for key in points}, points)
        self.assertEqual({key[2] for key in set(more) - set(points)}, {160})

        # The same page, made from the file alone.
        drawn = self.folder / "drawn"
        self.assert_good(run(sys.executable, self.SCRIPT, drawn, "--volume-n", "100", "--draw", self.out / "sweep.json"))
        self.assertEqual((drawn / "fig7.svg").read_text(), (self.out / "fig7.svg").read_text())
        self.assertEqual((drawn / "README.md").read_text(), self.page())

    # A `tessera` that measures only the first size and then hangs, if a file "hang" exists.
    HANGING = """#!{python}
import os, pathlib, subprocess, sys, time
arguments, folder = sys.argv[1:], pathlib.Path(__file__).parent
if arguments[0] == "bench" and (folder / "hang").exists():
    (folder / "pid").write_text(str(os.getpid()))
    sizes = arguments.index("--n") + 1
    arguments[sizes] = arguments[sizes].split(",")[0]
    subprocess.run(["{tessera}", *arguments], stdout=subprocess.DEVNULL)
    time.sleep(600)
os.execv("{tessera}", ["{tessera}", *arguments])
"""

    def test_cut_off(self):
        options = ["--n", "32,64", "--routines", "gemm,trsm", "--tiles", "none", "--cpu-worker-n", "none", "--build", self.folder]
        (self.folder / "bin").mkdir()
        program, hang = self.folder / "bin" / "tessera", self.folder / "bin" / "hang"
        program.write_text(self.HANGING.format(python=sys.executable, tessera=TESSERA))
        program.chmod(0o755)
        hang.touch()
        expected = [("dgemm", 2, 32, None), ("dtrsm", 2, 32, None), ("dgemm", 2, 64, None), ("dtrsm", 2, 64, None)]
        for how, status, points in ((signal.SIGTERM, 3, expected[:2]), (signal.SIGKILL, -signal.SIGKILL, expected)):
            with self.subTest(how=how):
                script = subprocess.Popen([str(a) for a in self.arguments(*options)], stdout=subprocess.PIPE, text=True, env=environment(**NO_CUDA))
                self.addCleanup(script.stdout.close)
                while "dtrsm" not in script.stdout.readline():
                    self.assertIsNone(script.poll())
                script.send_signal(how)
                self.assertEqual(script.wait(60), status)
                self.assertEqual(set(self.points()), set(points))
                while is_running((self.folder / "bin" / "pid").read_text()):  # no process is left on the devices
                    time.sleep(0.01)
        self.assertIn("not reached yet", self.page())
        before = self.points()
        hang.unlink()
        self.assert_good(self.sweep(*options))
        after = self.points()
        self.assertEqual(set(after), {(routine, count, n, None) for routine in ("dgemm", "dtrsm") for count in (1, 2) for n in (32, 64)})
        self.assertEqual({key: after[key] for key in before}, before)
        self.assertNotIn("not reached yet", self.page())

    def test_time_budget(self):
        result = self.sweep("--n", "64", "--time-budget", "0")
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertIn("the time budget is used up", result.stdout)
        self.assert_good(self.sweep("--n", "64", "--time-budget", "600", "--tiles", "none"))

    def test_failures(self):
        result = self.sweep("--n", "64", "--tiles", "none", "--peer", "cublasxt")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("cublasxt needs GPUs", result.stdout)
        self.assertNotIn("Traceback", result.stderr)
        wrong = ["--", "--host-device", "memory=32MiB,compute=off"]
        self.out = self.folder / "wrong"
        result = self.sweep("--n", "64", "--routines", "gemm", "--tiles", "none", devices=wrong)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("**Wrong results:** dgemm 2 64, dgemm 1 64", self.page())

    def test_other_machine_or_options(self):
        options = ["--n", "64", "--routines", "gemm", "--tiles", "none", "--counts", "1"]
        self.assert_good(self.sweep(*options))
        refused = self.sweep(*options, devices=["--", "--host-device", "memory=64MiB"])
        self.assertEqual(refused.returncode, 1)
        self.assertIn("name another folder", refused.stderr)
        document = json.loads((self.out / "sweep.json").read_text())
        document["machine"]["cpu"] = "another"
        (self.out / "sweep.json").write_text(json.dumps(document))
        refused = self.sweep(*options)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("another machine", refused.stderr)

    def test_wrong_use(self):
        self.assert_refused(self.sweep("--n", "0"), "--n")
        self.assert_refused(self.sweep("--routines", "gemv"), "--routines")
        self.assert_refused(self.sweep("--routines", "hemm"), "c and z")
        self.assert_refused(self.sweep("--type", "q"), "--type")

    def options_with_gpus(self, *arguments):
        """The cases on a machine with four GPUs."""
        options = sweep.parse([str(self.out), *arguments])
        options.backend, options.counts, options.peers = "cuda", [1, 2, 4], ("cublasxt",)
        return options

    def test_order(self):
        options = self.options_with_gpus("--n", "1024:4096:1024,16384,32768,39936", "--cpu-up-to", "2048", "--tiles", "1024,16384", "--tile-n", "8192,16384")
        runs = sweep.join(sweep.wanted_runs(options))
        small, large, xt = (2048, 4096), (4096,), ("cublasxt",)
        expected = [
            # Coarse and small on all numbers of devices, with the CPU beside the largest number; coarse and large, with
            # one block size of cublasXt.
            (4, (1024, 2048), None, xt + ("cpu",), small), (4, (4096, 16384), None, xt, small),
            (2, (1024, 2048, 4096, 16384), None, xt, small), (1, (1024, 2048, 4096, 16384), None, xt, small),
            (4, (32768, 39936), None, xt, large), (2, (32768, 39936), None, xt, large), (1, (32768, 39936), None, xt, large),
            # Tile sizes on the largest number of devices, and Tessera's own choice unless it is measured anyway; none
            # larger than the matrices.
            (4, (8192,), None, xt, small), (4, (8192, 16384), 1024, xt, (1024,)), (4, (16384,), 16384, xt, (16384,)),
            # The CPU beside one device, by TESSERA_CPU_WORKER.
            (1, (16384,), None, (), ()), (1, (16384,), None, (), ()), (1, (16384,), None, (), ()),
            # The sizes between.
            (4, (3072,), None, xt, small), (2, (3072,), None, xt, small), (1, (3072,), None, xt, small)]
        self.assertEqual([(run.devices, run.sizes, run.tile, run.peers, run.blocks) for run in runs], expected)
        self.assertEqual({run.routines for run in runs[7:10]}, {("gemm",)})
        self.assertEqual([run.cpu_worker for run in runs[10:14]], ["off", "auto", "on", None])
        self.assertEqual(sweep.bench_command(options, runs[11], "file.json")[-4:], ["--cpu-worker", "auto", "--offload", "auto"])
        command = sweep.bench_command(options, runs[2], "file.json")
        for words in (("--devices", "cuda:0,1"), ("--peer", "cublasxt"), ("--cublasxt-blocks", "2048,4096"), ("--n", "1024,2048,4096,16384")):
            self.assertEqual(command[command.index(words[0]) + 1], words[1])

    def test_machine(self):
        gpus = [{"name": "NVIDIA X", "memory_bytes": 80 << 30}] * 2
        info = {"cuda": {"devices": gpus, "peer_access": [[False, True], [True, False]]}}
        machine = sweep.machines.describe(info, self.options_with_gpus("--machine", "rented"))
        text = "\n".join(sweep.machines.lines_of(machine))
        for words in ("rented", "2 x NVIDIA X, 80 GiB each", "which reach each other", "processors"):
            self.assertIn(words, text)
        self.assertEqual(sweep.machines.name_of(machine), "2 x NVIDIA X")

    @staticmethod
    def bench_file(seconds, devices, blocks=None):
        """As `tessera bench` writes it. @param seconds of Tessera by n; cublasXt takes twice as long on one device"""
        def result(n, s):
            flops = 2 * n**3
            job = {"devices": [{"device": name, "bytes_up": 3 << 20, "bytes_down": 1 << 20, "bytes_peer": (2 << 20) if len(devices) > 1 else 0,
                                "kernel_s": s / 2, "transfer_s": s / 4, "other_s": s / 4} for name in devices],
                   "compulsory_up": 6 << 20, "compulsory_down": 2 << 20}
            slow = {"median_s": 2 * s if len(devices) == 1 else s}
            return {"m": n, "n": n, "k": n, "flops": flops, "bound_s": s / 2, "fraction_of_bound": 0.5,
                    # Three runs, of which the middle one counts.
                    "tessera": {"median_s": s, "tflops": flops / s * 1e-12, "seconds": [2 * s, s, s / 2], "jobs": [{}, job, {}], "correct": True},
                    "cublasxt": {"median_s": slow["median_s"], "tflops": flops / slow["median_s"] * 1e-12, "ratio": slow["median_s"] / s,
                                 "block_sizes": {"2048": {**slow, "correct": True}}}}
        return {"tessera_version": "1.2.3", "routine": "dgemm", "host_memory": "pinned", "repeats": 3, "settings": "TESSERA_DEVICES=cuda",
                "rates": {"cublas": 130100}, "devices": " ".join(devices), "results": [result(n, s) for n, s in seconds.items()]}

    def draw(self, *documents):
        files = []
        for index, document in enumerate(documents):
            files.append(self.folder / f"{index}.json")
            files[-1].write_text(json.dumps(document))
        return run(sys.executable, self.SCRIPT, self.out, "--machine", "a machine of two GPUs", "--draw", *files)

    def test_tables(self):
        one = self.bench_file({1024: 1.0, 4096: 8.0}, ["cuda:0"])
        two = self.bench_file({1024: 1.0, 4096: 4.0, 8192: 9.0}, ["cuda:0", "cuda:1"])
        self.assert_good(self.draw(one, two))
        page = self.page()
        # Efficiencies of 1/2 and 1, and between them in steps of 1024 two thirds and five sixths: 3/4. cublasXt: 1 and
        # 2, so 3/2.
        self.assertIn("| dgemm | 75.0 % | 150.0 % | 1024 to 4096 (2) | 93.5 % | 89.8 % |", page)
        self.assertIn("n = 8192 (BLASX, Table V)", page)
        self.assertIn("| cuda:1 | 4.00 + 2.00 |", page)
        self.assertIn("| all | 8.00 + 4.00 |", page)
        self.assertIn("| compulsory | 8.00 |", page)
        self.assertIn("| dgemm | cuda:0 | 4500 | 2250 | 2250 |", page)
        for words in ("# Level 3 on a machine of two GPUs", "cuBLAS 13.1.0", "Tessera 1.2.3", "page-locked", "2048 for n = 1024 to 8192", "(BLASX, Fig. 9)\nNot measured."):
            self.assertIn(words, page)
        # Marks of the lines: two sizes on one GPU and three on two, of two contestants.
        root = xml.etree.ElementTree.parse(self.out / "fig7.svg").getroot()
        self.assertEqual(len([mark for mark in root.iter(SVG + "title")]), 10)

    def test_recorded_runs_can_be_drawn(self):
        recorded = SOURCE / "docs" / "performance" / "h200-x2"
        self.assert_good(run(sys.executable, self.SCRIPT, self.out, "--draw", recorded / "sweep.json", recorded / "x1-all.json"))
        self.assertIn("| dgemm | 84.7 % | - | 1024 to 16384 (5) |", self.page())

    def test_what_is_written_by_hand_stays(self):
        file = self.bench_file({1024: 1.0}, ["cuda:0"])
        self.assert_good(self.draw(file))
        self.assertNotIn("Beside the sweep", self.page())
        drawn, by_hand = self.page(), "## Beside the sweep\n### Pageable memory\n## LAPACK\n"
        (self.out / "README.md").write_text("# An older page\n" + by_hand)
        self.assert_good(self.draw(file))
        link = "\nMore of this machine: [beside the sweep](#beside-the-sweep).\n"
        self.assertIn(link, self.page())
        self.assertEqual(self.page().replace(link, ""), drawn + "\n" + by_hand)

    def test_files_that_cannot_be_drawn(self):
        for document in ({"results": []}, {"no": "results"}, {"runs": [{"routine": "dgemm"}]}):
            with self.subTest(document=document):
                result = self.draw(document)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn("sweep.py: ", result.stderr)
                self.assertNotIn("Traceback", result.stderr)


class Network(ToolCase):
    PROGRAM = BUILD / "bin" / "network_bench"
    SMALL = ["40-70-50-10", "30", "4"]
    PRELOAD = {"LD_PRELOAD": str(BUILD / "lib" / "libtessera_blas.so"), "TESSERA_DEVICES": "host:2", "TESSERA_OFFLOAD": "always",
               "TESSERA_TILE": "32", "TESSERA_HOST_DEVICE": "memory=32MiB"}

    def bench(self, *options, **extra):
        result = run(self.PROGRAM, *options, **extra)
        self.assert_good(result)
        return json.loads(result.stdout)

    def test_preloaded(self):
        for calls in ("cblas", "fortran"):
            with self.subTest(calls=calls):
                plain = self.bench(*self.SMALL, calls)
                stats = self.folder / f"{calls}.jsonl"
                preloaded = self.bench(*self.SMALL, calls, TESSERA_STATS=str(stats), **self.PRELOAD)
                for name in ("first_loss", "last_loss"):
                    self.assertAlmostEqual(plain[name], preloaded[name], delta=1e-5)
                self.assertLess(preloaded["last_loss"], preloaded["first_loss"])
                jobs = [json.loads(line) for line in stats.read_text().splitlines()]
                # Of three layers, in each of four passes: three products forward, two derivatives handed down, three updates.
                self.assertEqual([job["routine"] for job in jobs], ["sgemm"] * 4 * 8)

    def test_wrong_use(self):
        for options in (["10", "1", "1"], ["10-x", "1", "1"], ["10-0-3", "1", "1"], ["10-3", "0", "1"], ["10-3", "1", "1", "other"], ["10-3", "1"]):
            with self.subTest(options=options):
                self.assert_refused(run(self.PROGRAM, *options), "usage: network_bench")


class FirstCalls(ToolCase):
    """first_call.sh, concurrent_calls.sh and told_time.py, over host devices."""
    DEVICES = {"TESSERA_HOST_DEVICE": "memory=32MiB,start=10ms"}

    def script(self, name, **extra):
        result = run(SOURCE / "bench" / f"{name}.sh", BUILD, self.folder, **{**self.DEVICES, **extra})
        self.assertEqual((self.folder / f"{name}.txt").read_text(), result.stdout)
        return result, [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]

    def first_calls(self, **extra):
        return self.script("first_call", SIZES="100 200", SERIES="150:5", START_SIZES="200", REPEATS="2", LARGEST_ON_CPU="100", **extra)

    def test_first_calls(self):
        result, runs = self.first_calls(DEVICES="host:1 host:2", BEFORE=BUILD)
        self.assert_good(result)
        kinds = ["three/cpu", "three/before", "three/now", "three/before", "three/now", "series/before", "series/now", "start"]
        self.assertEqual([one["run"] for one in runs], kinds * 2 * 2)
        for one in runs:
            self.assertTrue(one["correct"])
            self.assertEqual(len(one["seconds"]), one["calls"])
            self.assertAlmostEqual(sum(one["seconds"]), one["total_s"], delta=1e-4)
            if one["run"] == "start":
                self.assertGreaterEqual(one["open_s"], 0.01)
                self.assertGreater(one["first_kernel_s"], one["load_s"] + one["open_s"] + one["reserve_s"])
                self.assertGreater(one["first_s"], one["first_kernel_s"])
        for devices in ("host:1", "host:2"):
            self.assertIn(f"{devices}: seconds until the first, second, third call", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^   150      5 +[0-9.]+ +[0-9.]+ +[0-9.]+$")
        self.assertIn("32 processes, all right", result.stdout)

    def test_failures_are_told(self):
        result, _ = self.first_calls(DEVICES="none")  # the CPU BLAS computes, which starts nothing
        self.assertEqual(result.returncode, 1)
        self.assertIn("NOT RIGHT", result.stdout)

    def test_concurrent_calls(self):
        result, runs = self.script("concurrent_calls", SIZES="64", THREADS="1 3", SECONDS_EACH="0.2", WARM_SECONDS="0.05", REPEATS="1", DEVICES="host:2")
        self.assert_good(result)
        self.assertEqual([(one["run"], one["threads"]) for one in runs], [(run, threads) for threads in (1, 3) for run in ("always", "never", "auto")])
        for one in runs:
            self.assertTrue(one["correct"])
            self.assertGreater(one["calls_per_s"], 0)
        self.assertRegex(result.stdout, r"(?m)^     64        3( +[0-9.]+){3} +[0-9.]+x$")


    def test_told_time(self):
        result = run(SOURCE / "bench" / "told_time.py", BUILD, "--sizes", "64", "--threads", "1,3", "--seconds", "0.2", "--within", "1", TESSERA_DEVICES="host:2",
                     TESSERA_OFFLOAD="always", **self.DEVICES)
        self.assert_good(result)
        runs = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([one["threads"] for one in runs], [1, 3])
        for one in runs:
            # Holds on any machine: the reported time is at most the measured one, and includes the start of the
            # devices. Six digits are printed.
            self.assertGreaterEqual(one["start_s"], 0.01)
            self.assertLessEqual(one["start_s"], one["told_s"])
            self.assertLessEqual(one["told_s"], one["seen_s"] + 2e-6)


class Survey(ToolCase):
    """survey.py: problems drawn at random."""

    def survey(self, *arguments):
        return run(sys.executable, SOURCE / "bench" / "survey.py", *arguments, "--build", BUILD, "--memory", "0.003", "--seconds", "1e-4", "--repeats", "1", "--no-peer",
                   "--pageable-only", "--", "--devices", "host:2", "--host-device", "memory=32MiB,speed=1GFLOP/s,link=0.1GB/s")

    def test_problems_within_limits(self):
        problems = survey.draw_problems(3, 200, 1e9, 0.01)
        self.assertEqual(problems, survey.draw_problems(3, 200, 1e9, 0.01))
        self.assertNotEqual(problems, survey.draw_problems(4, 200, 1e9, 0.01))
        self.assertEqual({p["routine"][1:] for p in problems}, set(survey.ROUTINES))
        self.assertEqual({p["memory"] for p in problems}, {"pinned", "pageable"})
        for p in problems:
            self.assertLessEqual(survey.flops(p) / survey.FLOPS_PER_S, 0.01)
            for key, shape in zip(("lda", "ldb", "ldc"), survey.shapes(p)):
                self.assertGreaterEqual(p.get(key, shape and shape[0] or 0), shape[0] if shape else 0)

    def test_a_survey_and_its_picture(self):
        result = self.survey("5", "24", self.folder)
        self.assert_good(result)
        document = json.loads((self.folder / "survey-5.json").read_text())
        self.assertTrue(document["problems"] and all(p["right"] and p["seconds"] > 0 and p["bound_s"] > 0 for p in document["problems"]))
        self.assertIn("operations per byte that crosses the link", texts(self.folder / "survey-5.svg"))
        drawn = run(sys.executable, SOURCE / "bench" / "survey.py", "--draw", self.folder / "again", self.folder / "survey-5.json")
        self.assert_good(drawn)
        self.assertEqual(drawn.stdout, result.stdout)

    def test_the_worst_come_first(self):
        base = {"routine": "dgemm", "n": 9000, "m": 9000, "k": 9000, "transa": "N", "transb": "N", "alpha": 1, "beta": 0, "memory": "pinned", "right": True, "tile": 2048}
        records = [{**base, "seconds": s, "beside_s": s, "bound_s": 0.02, "cublasxt_s": 0.03, "n": n} for s, n in ((0.025, 1000), (0.04, 2000), (0.021, 3000))]
        text, _ = survey.report([*records, {**base, "seconds": 1, "beside_s": 1, "bound_s": 1e-3, "cublasxt_s": 1}])
        self.assertIn("4 problems, 4 right; 3 with a bound of 2 ms or more.", text)
        self.assertIn("To cublasXt: median 1.20 x, least 0.75 x, 1 of 3 below 1.", text)
        self.assertLess(text.index("x 2000 x"), text.index("x 1000 x"))
        self.assertLess(text.index("x 1000 x"), text.index("x 3000 x"))


class Linalg(ToolCase):
    """linalg_report.py."""

    def test_table_and_picture(self):
        lines = [{"routine": routine, "n": n, "who": who, "median_s": n * factor, "right": True}
                 for routine in ("solve", "qr") for n in (1000, 4000) for who, factor in (("numpy", 4e-4), ("tessera", 1e-4), ("cupy", 2e-4))]
        file = self.folder / "lines.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = run(sys.executable, SOURCE / "bench" / "linalg_report.py", self.folder / "out.svg", file)
        self.assert_good(result)
        self.assertIn("| solve | 1000 | 0.4 | 0.1 | 0.2 | 4.00 | 2.00 |", result.stdout)
        self.assertIn("qr, times as fast", texts(self.folder / "out.svg"))


class Programs(ToolCase):
    """programs.py, of runs that are there already."""

    @staticmethod
    def line(way, seconds, **more):
        return {"program": "polar", "way": way, "sizes": {"n": 8}, "first_s": seconds + 1, "median_s": seconds, "checksum": 5.0, "bound": 1e-9,
                "correct": True, **more}

    def draw(self, *runs):
        lines, out = self.folder / "lines.jsonl", self.folder / "out.jsonl"
        lines.write_text("".join(json.dumps(one) + "\n" for one in runs))
        return run(sys.executable, SOURCE / "bench" / "programs.py", "--out", out, "--draw", lines)

    def test_tables_and_picture(self):
        result = self.draw(self.line("numpy", 3), self.line("run", 2), self.line("package", 1, checksum=5 + 1e-9), self.line("cupy", 4),
                           {**self.line("numpy", 6), "program": "inverse"}, {**self.line("package", 2), "program": "inverse"})
        self.assert_good(result)
        for line in ("| polar | 3 | 1.50 | 3.00 | 0.75 |", "| polar | 4 | 1.33 | 2.00 | 0.80 |", "| inverse | 6 |  | 3.00 |  |", "| median |  | 1.50 | 3.00 | 0.75 |",
                     "The package beside `tessera run`: 2.00 x in the median, 2.00 x at least."):
            self.assertIn(line, result.stdout)
        drawn = texts(self.folder / "out.svg")
        for words in ("polar", "inverse", "tessera run", "package", "CuPy", "NumPy alone", "1.50", "0.750"):
            self.assertIn(words, drawn)

    def test_what_is_not_right(self):
        result = self.draw(self.line("numpy", 3), self.line("run", 2, checksum=5.1), self.line("package", 1, correct=False),
                           {"program": "polar", "way": "cupy", "cut_after_s": 9.0}, {"program": "inverse", "way": "numpy", "failed": 1, "errors": "E"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("| polar | 3 | other result | wrong | > 9 s |", result.stdout)
        self.assertIn("| inverse | failed |  |  |  |", result.stdout)
        self.assertEqual(result.stdout.count("NOT RIGHT"), 4)
        self.assertFalse((self.folder / "out.svg").exists())


class GpuScripts(ToolCase):
    """lapack_gpu.sh and network_gpu.sh where there is no GPU: over the CPU and Tessera's host devices."""
    DEVICES = {"TESSERA_DEVICES": "host:2", "TESSERA_OFFLOAD": "always", "TESSERA_HOST_DEVICE": "memory=32MiB"}

    def script(self, name, **extra):
        result = run(SOURCE / "bench" / name, BUILD, self.folder, **{**self.DEVICES, **extra})
        lines = self.folder / name.replace("_gpu.sh", ".jsonl")
        return result, [json.loads(line) for line in lines.read_text().splitlines()]

    def test_network(self):
        result, runs = self.script("network_gpu.sh", LAYERS="40-64-10", BATCHES="16 32", RUNS="cpu tessera")
        self.assert_good(result)
        self.assertEqual([(one["run"], one["batch"], one["correct"]) for one in runs],
                         [(label, batch, True) for label in ("CPU: OpenBLAS", "Tessera") for batch in (16, 32)])
        self.assertRegex(result.stdout, r"(?m)^Tessera +32 .* yes$")

    def test_lapack(self):
        if REFERENCE_LAPACK is None:
            self.skipTest("no reference LAPACK is installed")
        result, runs = self.script("lapack_gpu.sh", N="150", REPEATS="1", BLOCKS="default 64", RUNS="cpu tessera")
        self.assert_good(result)
        self.assertEqual([one["routine"] for one in runs], ["dpotrf", "dgetrf"] * 3)
        self.assertTrue(all(one["correct"] for one in runs))
        self.assertRegex(result.stdout, r"(?m)^Tessera, reference LAPACK, blocks of 64 +dgetrf .* yes$")

    def test_runs_that_take_too_long_are_cut(self):
        # Every operation of a device takes longer than the run may.
        result, runs = self.script("network_gpu.sh", LAYERS="40-64-10", BATCHES="16", RUNS="tessera", TIMEOUT="1",
                                   TESSERA_HOST_DEVICE="memory=32MiB,delay=10s")
        self.assert_good(result)
        self.assertEqual([one["cut_after_s"] for one in runs], [1])
        self.assertIn("cut after 1 s", result.stdout)

    def test_failures_are_told(self):
        result, runs = self.script("network_gpu.sh", LAYERS="40", BATCHES="16", RUNS="cpu")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(runs[0]["failed"], 2)
        self.assertIn("failed, status 2", result.stdout)


if __name__ == "__main__":
    unittest.main()
