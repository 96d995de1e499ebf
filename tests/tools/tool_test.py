"""Tests of the `tessera` command. usage: tool_test.py [CASE], with the build folder in TESSERA_TEST_BUILD."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BUILD = pathlib.Path(os.environ["TESSERA_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
TESSERA = BUILD / "bin" / "tessera"
# A sanitized library cannot be preloaded before the sanitizer's runtime, which comes with the program.
TESSERA_RUNS_PROGRAMS = not os.environ.get("TESSERA_TEST_SANITIZED") and all(
    (BUILD / file).exists() for file in ("lib/libtessera_blas.so", "bin/cblas_gemm"))
TWO_HOST_DEVICES = ["--devices", "host:2", "--host-device", "memory=32MiB,speed=50GFLOP/s,link=8GB/s"]


def environment(**extra):
    """The environment without the user's own settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_") and name != "LD_PRELOAD"}
    return {**clean, **extra}


def run(*arguments, **extra):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, env=environment(**extra), timeout=240)


def tessera(*arguments, **extra):
    return run(TESSERA, *arguments, **extra)


class ToolCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_good(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def assert_refused(self, result, *parts):
        """Wrong use: status 2, nothing on standard output, and a message that names the error."""
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        for part in parts:
            self.assertIn(part, result.stderr)


class Info(ToolCase):
    def test_text_without_cuda(self):
        result = tessera("info", TESSERA_CUDA_PLUGIN="/nonexistent/plugin.so")
        self.assert_good(result)
        self.assertEqual(result.stderr, "")
        self.assertIn("CPU BLAS", result.stdout)
        self.assertIn("looked for /nonexistent/plugin.so", result.stdout)
        self.assertIn("auto means   none: no CUDA devices", result.stdout)
        self.assertIn("calls run on no devices", result.stdout)

    def test_json_without_cuda(self):
        result = tessera("info", "--json", TESSERA_CUDA_PLUGIN="/nonexistent/plugin.so")
        self.assert_good(result)
        info = json.loads(result.stdout)
        self.assertEqual(info["settings"], {"TESSERA_CUDA_PLUGIN": "/nonexistent/plugin.so"})
        self.assertEqual(info["auto"]["devices"], "none")
        self.assertFalse(info["cuda_plugin"]["loaded"])
        self.assertIn("/nonexistent/plugin.so", info["cuda_plugin"]["error"])
        self.assertEqual(info["used"]["devices"], [])

    def test_a_device_that_cannot_be_opened_is_named_and_the_others_are_used(self):
        options = ["--devices", "host:3", "--host-device", ";open_fails=9;"]
        used = json.loads(tessera("info", "--json", *options).stdout)["used"]
        self.assertEqual(["not_used" in device for device in used["devices"]], [False, True, False])
        self.assertEqual(used["peer_access"], [[False, False, True], [False, False, False], [True, False, False]])
        result = tessera("bench", "gemm", "--type", "d", "--n", "300", "--repeats", "1", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("host:1 is not used"), 1)

    def test_a_device_that_is_lost_is_named_once(self):
        options = ["--devices", "host:2", "--host-device", ";fail=3"]
        result = tessera("bench", "gemm", "--type", "d", "--n", "300", "--repeats", "3", "--check", "--verbose", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("host:1 is lost"), 1)

    def test_host_devices(self):
        result = tessera("info", "--json", "--devices", "host:2", "--host-device", "memory=16MiB;memory=1MiB,link=2GB/s,speed=8GFLOP/s,speed=d:1GFLOP/s,share=3MiB")
        self.assert_good(result)
        used = json.loads(result.stdout)["used"]
        self.assertEqual([d["id"] for d in used["devices"]], ["host:0", "host:1"])
        self.assertEqual([d["memory_bytes"] for d in used["devices"]], [16 << 20, 1 << 20])
        self.assertEqual(used["devices"][1]["link_bytes_per_s"], 2e9)
        self.assertEqual(used["devices"][0]["flops_per_s"], {"s": 0, "d": 0, "c": 0, "z": 0})
        self.assertEqual(used["devices"][1]["flops_per_s"], {"s": 8e9, "d": 1e9, "c": 8e9, "z": 8e9})
        profile = used["devices"][1]["profile"]
        self.assertEqual((profile["architecture"], profile["measured"]), ("host", False))
        self.assertEqual(profile["numbers"]["share_bytes"], 3 << 20)
        self.assertEqual(used["peer_access"], [[False, True], [True, False]])
        text = tessera("info", "--devices", "host:2").stdout
        self.assertIn("calls run on host:0, host:1", text)
        self.assertIn("peer access", text)
        self.assertNotIn("profile of", text)
        text = tessera("info", "--verbose", "--devices", "host:2", "--host-device", "share=3MiB").stdout
        self.assertIn("profile of host:1: host, not measured", text)
        self.assertRegex(text, r"share_bytes +3145728\n")

    def test_share_of_a_rank(self):
        ranks = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
        result = tessera("info", "--json", "--devices", "host:6", **ranks)
        self.assert_good(result)
        used = json.loads(result.stdout)["used"]
        self.assertEqual([d["id"] for d in used["devices"]], ["host:1", "host:2"])
        self.assertEqual(used["peer_access"], [[False, True], [True, False]])
        self.assertEqual(used["share"], {"rank": 1, "ranks": 4, "launcher": "Open MPI", "of": 6, "sharers": 1})
        text = tessera("info", "--devices", "host:2", **ranks).stdout
        self.assertIn("calls run on host:0\n", text)
        self.assertIn("share        rank 1 of 4 on this host (Open MPI): 1 of 2 device(s), shared by 2 ranks\n", text)
        text = tessera("info", "--devices", "host:2", "--share", "off", **ranks).stdout
        self.assertIn("calls run on host:0, host:1\n", text)
        self.assertNotIn("on this host", text)
        self.assert_refused(tessera("info", "--share", "4/4"), "TESSERA_SHARE", '"4/4"')

    def test_devices_that_are_not_there(self):
        result = tessera("info", "--json", "--devices", "cuda:63", "--cuda-plugin", "/nonexistent/plugin.so")
        self.assert_good(result)
        self.assertIn("error", json.loads(result.stdout)["used"])

    def test_offload_rules_in_words(self):
        result = tessera("info", "--offload", "auto,trsm=never,zherk=2000")
        self.assert_good(result)
        self.assertRegex(result.stdout, r"(?m)^offload +auto \(.*\); zherk: devices from m\*n\*k = 2000\^3 on; trsm: never devices$")
        self.assertEqual(json.loads(tessera("info", "--offload", "never", "--json").stdout)["offload"], "never devices")

    def test_wrong_use(self):
        self.assert_refused(tessera("info", "--devices", "gpu"), "TESSERA_DEVICES", '"gpu"')
        self.assert_refused(tessera("info", "--nonsense"), "--nonsense")
        self.assert_refused(tessera("info", "--", "env"), "tessera run")
        self.assert_refused(tessera(), "subcommand")

    def test_version(self):
        result = tessera("--version")
        self.assert_good(result)
        self.assertRegex(result.stdout, r"^tessera \d+\.\d+\.\d+\n$")


class Run(ToolCase):
    def variables(self, *options, **extra):
        result = tessera("run", *options, "--", "env", **extra)
        self.assert_good(result)
        return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)

    def test_variables(self):
        seen = self.variables("--devices", "host:3", "--tile", "256", "--memory", "64MiB", "--memory-mode", "whole", "--resident", "auto", "--resident-memory", "32MiB", "--copy-threads", "6", "--keep-old-values", "off", "--cpu-worker", "on", "--host-device", "memory=64MiB",
                              "--offload", "auto,trsm=never", "--verbose", "--stats", "s.jsonl", "--trace", "/tmp/t.json",
                              "--summary")
        self.assertEqual([pathlib.Path(file).resolve() for file in seen["LD_PRELOAD"].split(":")],
                         [(BUILD / "lib" / name).resolve() for name in ("libtessera_blas.so", "libtessera_lapack.so")])
        expected = {"TESSERA_DEVICES": "host:3", "TESSERA_TILE": "256", "TESSERA_DEVICE_MEMORY": "64MiB", "TESSERA_DEVICE_MEMORY_MODE": "whole", "TESSERA_RESIDENT": "auto", "TESSERA_RESIDENT_MEMORY": "32MiB", "TESSERA_COPY_THREADS": "6", "TESSERA_KEEP_OLD_VALUES": "off", "TESSERA_CPU_WORKER": "on",
                    "TESSERA_HOST_DEVICE": "memory=64MiB", "TESSERA_OFFLOAD": "auto,trsm=never", "TESSERA_VERBOSE": "1",
                    "TESSERA_STATS": os.path.abspath("s.jsonl"), "TESSERA_TRACE": "/tmp/t.json",
                    "TESSERA_SUMMARY": "1", "TESSERA_WARM_UP": "known"}
        self.assertEqual({name: value for name, value in seen.items() if name.startswith("TESSERA_")}, expected)

    def test_devices_are_started_early_unless_something_else_is_asked_for(self):
        self.assertEqual(self.variables()["TESSERA_WARM_UP"], "known")
        self.assertEqual(self.variables(TESSERA_WARM_UP="0")["TESSERA_WARM_UP"], "0")
        self.assertEqual(self.variables("--warm-up", "--tile=64", TESSERA_WARM_UP="0")["TESSERA_WARM_UP"], "1")
        self.assertEqual(self.variables("--warm-up=0")["TESSERA_WARM_UP"], "0")

    def test_a_program_that_used_devices_has_them_early_the_next_time(self):
        if not TESSERA_RUNS_PROGRAMS:
            self.skipTest("no program to run")
        told = [tessera("run", "--devices", "host:1", "--offload", "always", "--verbose", "--", BUILD / "bin" / "cblas_gemm", "64", XDG_CACHE_HOME=str(self.folder)) for _ in range(3)]
        for result in told:
            self.assert_good(result)
        self.assertEqual(["started early" in result.stderr for result in told], [False, True, True])

    def test_a_pool_is_a_preload_of_its_own(self):
        names = [pathlib.Path(file).name for file in self.variables("--devices", "host:1", "--pool")["LD_PRELOAD"].split(":")]
        self.assertEqual(names, ["libtessera_blas.so", "libtessera_lapack.so", "libtessera_memory.so"])
        self.assertNotIn("libtessera_memory.so", self.variables()["LD_PRELOAD"])
        self.assertNotIn("TESSERA_POOL_LOCK", self.variables("--pool"))
        locked = self.variables("--devices", "host:1", "--locked-pool")
        self.assertIn("libtessera_memory.so", locked["LD_PRELOAD"])
        self.assertEqual(locked["TESSERA_POOL_LOCK"], "1")

    def test_options_win_over_the_environment_and_leave_the_rest(self):
        seen = self.variables("--tile", "128", TESSERA_TILE="512", TESSERA_OFFLOAD="never")
        self.assertEqual(seen["TESSERA_TILE"], "128")
        self.assertEqual(seen["TESSERA_OFFLOAD"], "never")

    def test_a_summary_is_a_switch_or_a_file(self):
        self.assertEqual(self.variables("--summary=calls.txt")["TESSERA_SUMMARY"], os.path.abspath("calls.txt"))
        self.assertEqual(self.variables("--summary=off")["TESSERA_SUMMARY"], "off")
        self.assertNotIn("TESSERA_SUMMARY", self.variables())

    def test_other_preloads_are_kept(self):
        other = str((BUILD / "lib" / "libtessera.so").resolve())
        preload = self.variables(LD_PRELOAD=other)["LD_PRELOAD"].split(":")
        self.assertEqual(len(preload), 2)
        self.assertIn("libtessera_blas.so", preload[0])
        self.assertEqual(preload[1], other)

    def test_arguments_reach_the_program_as_they_are(self):
        result = tessera("run", "--tile", "64", "--", "printf", "%s|", "--devices", "a b", "--", "", "--help")
        self.assert_good(result)
        self.assertEqual(result.stdout, "--devices|a b|--||--help|")

    def test_dashes_are_not_needed(self):
        result = tessera("run", "--tile=64", "--verbose", "--devices", "host:2", "printf", "%s|", "--tile", "--help", "-n", "--", "-x")
        self.assert_good(result)
        self.assertEqual(result.stdout, "--tile|--help|-n|--|-x|")
        # An optional value is not taken from the words that follow; a required one is.
        for options, expected in ((["--summary"], {"TESSERA_SUMMARY": "1"}), (["--stats", "env"], {"TESSERA_STATS": os.path.abspath("env")}),
                                  (["--tile", "32", "--summary=off"], {"TESSERA_TILE": "32", "TESSERA_SUMMARY": "off"})):
            result = tessera("run", *options, "env")
            self.assert_good(result)
            seen = dict(line.split("=", 1) for line in result.stdout.splitlines() if line.startswith("TESSERA_"))
            self.assertEqual(seen, {**expected, "TESSERA_WARM_UP": "known"})

    def test_a_blank_in_the_name_of_the_folder(self):
        prefix = self.folder / "with a blank"
        (prefix / "bin").mkdir(parents=True)
        shutil.copy(TESSERA, prefix / "bin")
        (prefix / "lib").symlink_to(BUILD / "lib")
        # The shell's child inherits it; our library is found by its name, and the user's path stays in effect.
        result = run(prefix / "bin" / "tessera", "run", "--devices", "host:2", "--offload", "always", "--verbose",
                     "sh", "-c", f"'{BUILD / 'bin' / 'cblas_gemm'}' 100; echo $LD_PRELOAD; echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH="/nonexistent")
        self.assert_good(result)
        self.assertIn("on host:0,host:1", result.stderr)
        self.assertNotIn("cannot be preloaded", result.stderr)
        self.assertEqual(result.stdout.splitlines()[-2:], ["libtessera_blas.so:libtessera_lapack.so", f"{prefix}/lib:/nonexistent"])

        other = self.folder / "with:colon"
        prefix.rename(other)
        refused = run(other / "bin" / "tessera", "run", "env")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("LD_PRELOAD cannot name", refused.stderr)

    def test_the_program_is_looked_at_only_if_something_depends_on_it(self):
        starts = self.folder / "starts"
        python = self.folder / "python3"  # `info` asks it for the folders of its modules
        python.write_text(f'#!/bin/sh\necho "$1" >> {starts}\n')
        python.chmod(0o755)
        for options, expected in (([], ["-c", "script"]), (["--integers", "32"], ["script"]), (["--integers", "64", "--lapack", "own"], ["script"]),
                                  (["--integers", "32", "--verbose"], ["-c", "script"]),
                                  (["--integers", "32", "--devices", "host:2"], ["script"]),
                                  (["--integers", "32", "--devices", "host:2", "--lapack", "reference"], ["-c", "script"]),
                                  (["--integers", "32", "--devices", "host:2", "--lapack", "own"], ["script"])):
            starts.write_text("")
            self.assert_good(tessera("run", *(options if "--devices" in options else ["--devices", "none", *options]), python, "script"))
            self.assertEqual(starts.read_text().split(), expected, options)

    def test_status_of_the_program(self):
        self.assertEqual(tessera("run", "--", "sh", "-c", "exit 7").returncode, 7)
        missing = tessera("run", "--", "/nonexistent/program")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("/nonexistent/program", missing.stderr)
        self.assertEqual(tessera("run", "--", "/dev/null").returncode, 126)

    def test_wrong_use(self):
        self.assert_refused(tessera("run"), "no program")
        self.assert_refused(tessera("run", "--tile", "64"), "no program")
        self.assert_refused(tessera("run", "--no-such-option", "env"), "--no-such-option")
        self.assert_refused(tessera("run", "--tile", "0", "--", "env"), "TESSERA_TILE", '"0"')
        self.assert_refused(tessera("run", "--offload", "perhaps", "--", "env"), "TESSERA_OFFLOAD", "auto, always or never")
        self.assert_refused(tessera("run", "--host-device", "memory=1XB", "--", "env"), "TESSERA_HOST_DEVICE")


def first_existing(*patterns):
    for pattern in patterns:
        for found in sorted(pathlib.Path("/").glob(pattern.lstrip("/"))):
            return found
    return None


OPENBLAS = first_existing("/usr/lib/*/openblas*/libopenblas.so.0")
OPENBLAS64 = first_existing("/usr/lib/*/openblas64*/libopenblas64.so.0", "/usr/lib/*/libopenblas64.so.0")
REFERENCE_BLAS = first_existing("/usr/lib/*/blas/libblas.so.3")
REFERENCE_LAPACK = first_existing("/usr/lib/*/lapack/liblapack.so.3")


class BuiltProgramCase(ToolCase):
    """Small programs, built here, against the BLAS libraries that are installed."""
    def build(self, name, code, *arguments):
        source = self.folder / (name + ".c")
        source.write_text(code)
        target = self.folder / name
        self.assert_good(run(os.environ.get("CC", "cc"), "-o", target, source, *arguments))
        return target

    def caller(self, name, symbols, *arguments):
        """A program that refers to these functions. It is never run."""
        code = "".join(f"void {s}(void);\n" for s in symbols)
        return self.build(name, code + "int main(void) { " + " ".join(f"{s}();" for s in symbols) + " return 0; }\n", *arguments)

    def library(self, path, symbols, code="", *arguments):
        body = code + "".join(f"void {s}(void) {{}}\n" for s in symbols)
        return self.build(path, body, "-shared", "-fPIC", f"-Wl,-soname,{path}", *arguments)

    def need(self, *files):
        if not all(files):
            self.skipTest("the libraries of this test are not installed")


LEVEL3 = [f"{t}{r}" for r in ("gemm", "gemmt", "gemmtr", "symm", "syrk", "syr2k", "trmm", "trsm") for t in "sdcz"] + \
         [f"{t}{r}" for r in ("hemm", "herk", "her2k") for t in "cz"]


class Check(BuiltProgramCase):
    # A BLAS and LAPACK that is right except for one product and one decomposition, of one size each: real libraries
    # fail like this.
    WRONG = """
#include <dlfcn.h>
static void* right(const char* name) { return dlsym(dlopen(RIGHT, RTLD_NOW | RTLD_LOCAL), name); }
void dgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const double* alpha, const double* a, const int* lda,
            const double* b, const int* ldb, const double* beta, double* c, const int* ldc) {
  ((void (*)(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*, const double*,
             const int*, const double*, double*, const int*))right("dgemm_"))(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (*m == 64 && *n == 64 && *ta == 'N' && *tb == 'N') c[70] += 1e-6;
}
void ssyevd_(const char* jobz, const char* uplo, const int* n, float* a, const int* lda, float* w, float* work, const int* lwork, int* iwork,
             const int* liwork, int* info) {
  ((void (*)(const char*, const char*, const int*, float*, const int*, float*, float*, const int*, int*, const int*, int*))right("ssyevd_"))(
      jobz, uplo, n, a, lda, w, work, lwork, iwork, liwork, info);
  if (*n == 31 && *lwork != -1) *info = 30;
}
"""

    def check(self, *options):
        result = tessera("info", "--check", "--json", *options)
        self.assertLessEqual(result.returncode, 1, result.stderr)
        return result.returncode, json.loads(result.stdout)

    def test_what_is_right_is_told_in_a_line_each(self):
        result = tessera("info", "--check", "--devices", "host:2")
        self.assert_good(result)
        lines = result.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["CPU", "host:0", "host:1"])
        for line in lines:
            self.assertIn("are right", line)

    def test_devices_compute_all_that_is_said_to_be_theirs(self):
        status, parts = self.check("--devices", "host:1")
        self.assertEqual(status, 0)
        cpu, device = parts
        self.assertTrue(pathlib.Path(cpu["library"]).exists())
        self.assertGreaterEqual(device["problems"], 56)
        self.assertEqual(device["problems"], cpu["problems"])
        # The check finds a device whose kernels do nothing, and reports no error for the CPU.
        status, (cpu, device) = self.check("--devices", "host:1", "--host-device", "compute=off")
        self.assertEqual(status, 1)
        self.assertEqual(cpu["wrong"], [])
        self.assertIn("dgemm NN", {wrong["routine"] for wrong in device["wrong"]})

    def test_a_wrong_library_is_named_with_routine_and_size(self):
        self.need(OPENBLAS)
        library = self.library("libwrong.so", [], f'#define RIGHT "{OPENBLAS}"\n' + self.WRONG, "-Wl,--no-as-needed", OPENBLAS, "-ldl")
        result = tessera("info", "--check", "--cpu-blas", library, "--devices", "none")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(f"  WRONG ssyevd, n = 31, by {library}: info 30, not 0\n", result.stdout)
        self.assertIn(f"  WRONG dgemm NN, n = 64, by {library}: off by 1e-06, allowed are ", result.stdout)
        self.assertIn(", 2 are WRONG\n", result.stdout)
        status, (cpu, device) = self.check("--cpu-blas", library, "--devices", "host:1")
        self.assertEqual(status, 1)
        self.assertIn({"routine": "ssyevd", "library": "host:0", "n": 31, "finding": "info 30, not 0"}, device["wrong"])

    def test_a_library_without_lapack_is_told_of_and_is_no_fault(self):
        self.need(REFERENCE_BLAS)
        result = tessera("info", "--check", "--cpu-blas", REFERENCE_BLAS, "--devices", "none")
        self.assert_good(result)
        self.assertIn("; without ssyevd, sgesvd, dsyevd", result.stdout)

    def test_what_cannot_be_checked(self):
        result = tessera("info", "--check", "--devices", "host:2", "--host-device", ";open_fails=9")
        self.assert_good(result)
        self.assertIn("host:1 is not checked", result.stderr)
        result = tessera("info", "--check", "--devices", "cuda:63", "--cuda-plugin", "/nonexistent/plugin.so")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no device is checked", result.stderr)
        self.assert_refused(tessera("info", "--check", "--program", "env"), "--check")


class Calibrate(ToolCase):
    def test_rates_are_kept_and_found(self):
        kept = self.folder / "rates.json"
        devices = ["--devices", "host:2", "--host-device", "memory=8MiB,speed=20GFLOP/s,link=1GB/s,compute=off", "--calibration", kept]
        result = tessera("calibrate", *devices)
        self.assert_good(result)
        for part in ("host:0", "host:1", "d gemm", "pageable memory", "from a peer", str(kept)):
            self.assertIn(part, result.stdout)
        rates = json.loads(kept.read_text())["rates"]
        self.assertEqual(rates["devices"], 2)
        self.assertLess(rates["flops_per_s"]["d"], 41e9)
        if TESSERA_RUNS_PROGRAMS:
            result = tessera("run", "--verbose", *devices, "--", BUILD / "bin" / "cblas_gemm", "600")
            self.assert_good(result)
            self.assertIn(f"rates of the devices: {kept}", result.stderr)

    def test_the_default_is_the_cache_of_the_user(self):
        result = tessera("calibrate", "--devices", "host:1", "--host-device", "memory=8MiB,compute=off", XDG_CACHE_HOME=str(self.folder))
        self.assert_good(result)
        self.assertEqual(len(list((self.folder / "tessera").glob("calibration-*.json"))), 1)

    def test_without_devices_or_place(self):
        result = tessera("calibrate", "--devices", "none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no devices", result.stderr)
        result = tessera("calibrate", "--devices", "host:1", "--calibration", "off")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no place", result.stderr)


class ProgramInfo(BuiltProgramCase):
    def info(self, program, *options):
        result = tessera("info", "--program", program, "--json", *options)
        self.assert_good(result)
        return json.loads(result.stdout)

    def names(self, info, fate):
        verdict = info["verdict"]["caught"] + info["verdict"]["not_caught"]
        return sorted(name for part in verdict if part["fate"] == fate for name in part["names"])

    def test_shared_blas(self):
        self.need(REFERENCE_BLAS)
        program = self.caller("prog", ["dgemm_", "cblas_ztrsm", "daxpy_"], REFERENCE_BLAS)
        info = self.info(program)
        self.assertEqual(self.names(info, "caught"), ["cblas_ztrsm", "dgemm_"])
        self.assertEqual(info["verdict"]["not_caught"], [])
        self.assertEqual((info["integer_bits"], info["blas_inside"], info["statically_linked"]), (32, False, False))
        row = next(r for r in info["objects"] if r["object"] == str(program))
        self.assertTrue(row["from"].endswith("libblas.so.3"), row)
        text = tessera("info", "--program", program)
        self.assert_good(text)
        self.assertTrue(text.stdout.startswith("`tessera run` will catch:\n  cblas_ztrsm dgemm_\n"), text.stdout)
        self.assertIn(f"Use: tessera run -- {program}\n", text.stdout)

    def test_blas_in_the_program(self):
        # As with a static libblas.a: defined, not exported; and the same stripped.
        code = "".join(f"void {name}_(void) {{}}\n" for name in LEVEL3) + 'const char* const volatile error[] = {"DGEMM ", "DTRSM "};\n'
        program = self.build("prog", code + "int main(void) { dgemm_(); return error[0] == error[1]; }\n")
        self.assertTrue(self.info(program)["blas_inside"])
        self.assert_good(run("strip", program))
        self.assertTrue(self.info(program)["blas_inside"])
        self.assertIn("linked into the executable", tessera("info", "--program", program).stdout)

    def test_static_program(self):
        program = self.build("prog", "int main(void) { return 0; }\n", "-static")
        self.assertTrue(self.info(program)["statically_linked"])
        self.assertIn("will catch nothing", tessera("info", "--program", program).stdout)

    def test_64_bit_integers(self):
        self.need(OPENBLAS64)
        info = self.info(self.caller("prog", ["dgemm_"], OPENBLAS64))
        self.assertEqual(info["integer_bits"], 64)
        self.assertEqual([r["integer_bits"] for r in info["objects"] if not r["library"]], [64])

    def test_renamed_and_width_in_the_name(self):
        self.library("libwheel.so", [f"scipy_cblas_{name}64_" for name in LEVEL3])
        self.library("libacme.so", [f"acme_{name}_" for name in LEVEL3])
        program = self.caller("prog", ["scipy_cblas_dgemm64_", "acme_dgemm_"], self.folder / "libwheel.so", self.folder / "libacme.so",
                              f"-Wl,-rpath,{self.folder}")
        info = self.info(program)
        self.assertIn("acme_dgemm_", self.names(info, "renamed"))
        self.assertEqual(info["integer_bits"], 32)
        self.assertEqual({r["integer_bits"] for r in info["objects"] if "scipy_cblas_dgemm64_" in r["names"]}, {64})

    def test_lapack_of_openblas(self):
        self.need(OPENBLAS)
        info = self.info(self.caller("prog", ["dgetrf_", "dpotrf_", "dgeqrf_"], OPENBLAS), "--devices", "none")
        self.assertEqual(self.names(info, "openblas_lapack"), ["dgetrf_", "dpotrf_"])
        self.assertEqual(self.names(info, "partly_lapack"), ["dgeqrf_"])
        self.assertTrue(info["openblas_lapack_stays"])

    def test_lapack_that_is_taken_as_a_whole(self):
        self.need(OPENBLAS)
        program = self.caller("prog", ["dgetrf_", "cgels_", "dgehrd_"], OPENBLAS)
        self.assertEqual(self.info(program)["caught_whole"], ["cgels_", "dgetrf_"])
        text = tessera("info", "--program", program)
        self.assertIn("caught as a whole, whosever LAPACK it is:\n  cgels_ dgetrf_\n", text.stdout)

    def test_reference_lapack(self):
        self.need(REFERENCE_LAPACK, REFERENCE_BLAS)
        program = self.caller("prog", ["dgetrf_"], REFERENCE_LAPACK, f"-Wl,-rpath,{REFERENCE_LAPACK.parent}")
        info = self.info(program)
        self.assertEqual(self.names(info, "through_lapack"), ["dgetrf_"])
        self.assertFalse(info["openblas_lapack_stays"])

    def test_no_blas(self):
        program = self.build("prog", "int main(void) { return 0; }\n")
        info = self.info(program)
        self.assertEqual((info["objects"], info["verdict"]), ([], {"caught": [], "not_caught": []}))
        self.assertIn("calls no Level-3 BLAS", tessera("info", "--program", program).stdout)

    def test_a_library_of_its_own(self):
        self.need(REFERENCE_BLAS)
        code = "void dgemm_(void);\nvoid solve(void) { dgemm_(); }\n"
        info = self.info(self.library("libsolve.so", [], code, REFERENCE_BLAS))
        self.assertEqual(self.names(info, "caught"), ["dgemm_"])

    def test_scripts(self):
        script = self.folder / "script"
        script.write_text("#!/usr/bin/env sh\nexit 7\n")
        script.chmod(0o755)
        info = self.info(script)
        self.assertTrue(info["program"].endswith("/sh"), info["program"])
        self.assertIn("script is a script of /usr/bin/env.", info["notes"])

    def test_python_is_asked_and_numpy_is_not_imported(self):
        # A private Python whose numpy is a folder with a module that calls BLAS and fails when it is imported.
        self.need(REFERENCE_BLAS)
        package = self.folder / "site" / "numpy" / "linalg"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").write_text("raise SystemExit('imported')\n")
        code = "void cblas_dgemm(void);\nvoid solve(void) { cblas_dgemm(); }\n"
        self.library("module.so", [], code, REFERENCE_BLAS).rename(package / "module.so")
        result = tessera("info", "--json", "--program", sys.executable, PYTHONPATH=str(self.folder / "site"))
        self.assert_good(result)
        rows = json.loads(result.stdout)["objects"]
        self.assertIn((str(package / "module.so"), ["cblas_dgemm"], True), [(r["object"], r["names"], r["caught"]) for r in rows])

    def test_a_pool_is_named_where_it_helps(self):
        code = "void* malloc(unsigned long);\nint main(void) { return malloc(1) == 0; }\n"
        reasons = lambda *libraries: " ".join(self.info(self.build("allocates", code, f"-Wl,-rpath,{self.folder}", *libraries))["reasons"])
        self.assertIn("--pool reuses them", reasons())
        other = self.library("libother.so", ["malloc"])
        self.assertIn("(libother.so): with --pool only its large pieces", reasons(other))
        jemalloc = self.library("libjemalloc.so", ["malloc", "sdallocx"])
        self.assertIn("(libjemalloc.so): --pool leaves it alone", reasons(jemalloc))

    def test_wrong_use(self):
        missing = tessera("info", "--program", "/nonexistent/program")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("/nonexistent/program: no such program", missing.stderr)
        damaged = self.folder / "damaged"
        damaged.write_bytes(b"\x7fELF" + bytes(100))
        damaged.chmod(0o755)
        result = tessera("info", "--program", damaged)
        self.assertEqual(result.returncode, 1)
        self.assertIn(str(damaged), result.stderr)


class RunPlan(BuiltProgramCase):
    """The libraries that `tessera run` preloads for each program."""
    def prefix(self):
        """An installation with the 64-bit library; if the build has none, an empty file with its name replaces it."""
        prefix = self.folder / "prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "tessera").write_bytes(TESSERA.read_bytes())
        (prefix / "bin" / "tessera").chmod(0o755)
        (prefix / "lib").mkdir()
        for file in (BUILD / "lib").iterdir():
            (prefix / "lib" / file.name).symlink_to(file)
        if not (prefix / "lib" / "libtessera_blas64.so").exists():
            self.library("libtessera_blas64.so", [name + "_" for name in LEVEL3]).rename(prefix / "lib" / "libtessera_blas64.so")
        return prefix

    def variables(self, command, program, *options, **extra):
        """The environment of the program, which prints it."""
        result = run(command, "run", *options, "--", program, **extra)
        self.assert_good(result)
        seen = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
        preload = [pathlib.Path(file).name for file in seen.get("LD_PRELOAD", "").split(":")]
        return preload, seen.get("LD_LIBRARY_PATH", ""), result.stderr

    PRINTER = """#include <stdio.h>
extern char** environ;
int main(int argc, char** argv) { if (argc > 99) { CALLS } for (char** e = environ; *e; ++e) puts(*e); return argv == 0; }
"""

    def printer(self, name, symbols, *arguments):
        declared = "".join(f"void {s}(void);\n" for s in symbols)
        return self.build(name, declared + self.PRINTER.replace("CALLS", " ".join(f"{s}();" for s in symbols)), *arguments)

    def test_width(self):
        self.need(OPENBLAS, OPENBLAS64)
        command = self.prefix() / "bin" / "tessera"
        narrow = self.printer("narrow", ["dgemm_"], OPENBLAS)
        wide = self.printer("wide", ["dgemm_"], OPENBLAS64)
        self.assertEqual(self.variables(command, narrow)[0], ["libtessera_blas.so"])
        preload, _, told = self.variables(command, wide, "--verbose")
        self.assertEqual(preload, ["libtessera_blas64.so"])
        self.assertIn("64-bit integers here", told)
        self.assertEqual(self.variables(command, wide, "--integers", "32")[0], ["libtessera_blas.so"])
        # Behind a launcher the launched program counts.
        result = run(command, "run", "--", "env", "A=b", wide)
        self.assertRegex(result.stdout, "(?m)^LD_PRELOAD=.*libtessera_blas64.so$")

    def test_lapack(self):
        self.need(OPENBLAS, REFERENCE_LAPACK)
        program = self.printer("prog", ["dgetrf_"], OPENBLAS)
        reference = ["libtessera_blas.so", "libtessera_lapack.so", "liblapack.so.3"]
        devices = ["--devices", "host:2"]
        self.assertEqual(self.variables(TESSERA, program, *devices)[0], reference[:2])
        self.assertEqual(self.variables(TESSERA, program, "--devices", "none")[0], ["libtessera_blas.so"])
        self.assertEqual(self.variables(TESSERA, program, *devices, "--lapack", "own")[0], ["libtessera_blas.so"])
        self.assertEqual(self.variables(TESSERA, program, "--devices", "none", "--lapack", "reference")[0], reference)
        self.assertEqual(self.variables(TESSERA, program, "--lapack", REFERENCE_LAPACK)[0], reference)

    def test_lapack_under_its_own_name(self):
        lapack = first_existing("/usr/lib/*/openblas*/liblapack.so.3")
        self.need(lapack, REFERENCE_LAPACK)
        program = self.printer("prog", ["dgetrf_"], "-Wl,--no-as-needed", lapack, f"-Wl,-rpath-link,{lapack.parent}")
        preload, library_path, _ = self.variables(TESSERA, program, "--devices", "host:2", "--lapack", "reference", LD_LIBRARY_PATH=str(lapack.parent))
        self.assertEqual(preload, ["libtessera_blas.so", "libtessera_lapack.so"])
        self.assertEqual(library_path.split(":")[0], str(REFERENCE_LAPACK.parent))

    def test_another_error_exit_is_not_hidden(self):
        self.need(OPENBLAS, REFERENCE_LAPACK)
        self.library("libown.so", ["xerbla_"])
        program = self.printer("prog", ["xerbla_", "dgetrf_"], self.folder / "libown.so", OPENBLAS, f"-Wl,-rpath,{self.folder}")
        preload, _, told = self.variables(TESSERA, program, "--devices", "host:2", "--verbose")
        self.assertEqual(preload, ["libtessera_blas.so", "libtessera_lapack.so"])
        self.assertIn("factorizations and solves are taken", told)
        self.assertIn("liblapack.so.3", self.variables(TESSERA, program, "--devices", "host:2", "--lapack", "reference")[0])

    def test_mpi(self):
        mpirun = shutil.which("mpiexec.mpich")
        self.need(mpirun)
        for order in ((TESSERA, "run", "--tile", "77", "--", mpirun, "-n", "2"), (mpirun, "-n", "2", TESSERA, "run", "--tile", "77", "--")):
            for _ in range(5):
                result = run(*order, "printenv", "LD_PRELOAD", "TESSERA_TILE")
                # A failure of Hydra itself: 13 of 14000 runs of mpiexec without Tessera, on a busy machine.
                if result.returncode != -signal.SIGPIPE:
                    break
            self.assert_good(result)
            self.assertEqual(sorted(pathlib.Path(line).name for line in result.stdout.split()), ["77"] * 2 + ["libtessera_blas.so"] * 2)

    def test_folders_of_r(self):
        # R sets LD_LIBRARY_PATH itself, from another variable.
        r = shutil.which("R")
        self.need(r, REFERENCE_LAPACK, first_existing("/usr/lib/*/openblas*/liblapack.so.3"))
        prefix = self.prefix()
        if not (prefix / "lib" / "tessera" / "libblas.so.3").exists():
            (prefix / "lib" / "tessera").mkdir()
            (prefix / "lib" / "tessera" / "libblas.so.3").symlink_to(REFERENCE_BLAS)
        if "openblas" not in run(r, "CMD", "ldd", run(r, "RHOME").stdout.strip() + "/lib/libR.so").stdout:
            self.skipTest("this R does not use OpenBLAS")
        result = run(prefix / "bin" / "tessera", "run", "--devices", "host:2", "--lapack", "reference", "--", r, "CMD", "printenv", "LD_LIBRARY_PATH")
        self.assert_good(result)
        folders = result.stdout.strip().split(":")
        self.assertEqual(folders[:2], [str(prefix / "lib" / "tessera"), str(REFERENCE_LAPACK.parent)])
        self.assertIn(run(r, "RHOME").stdout.strip() + "/lib", folders)

    def test_wrong_use(self):
        self.assert_refused(tessera("run", "--lapack", "openblas", "--", "env"), "--lapack", '"openblas"')
        self.assert_refused(tessera("run", "--lapack-block", "-1", "--", "env"), "--lapack-block")
        self.assert_refused(tessera("run", "--integers", "16", "--", "env"), "--integers")


class Bench(ToolCase):
    def bench(self, *arguments):
        result = tessera("bench", "gemm", *arguments, "--json", "-")
        self.assert_good(result)
        return json.loads(result.stdout)  # nothing else may be on standard output

    def test_fields(self):
        document = self.bench("--n", "300,520", "--repeats", "3", "--peer", "cpu", "--check", *TWO_HOST_DEVICES)
        self.assertEqual(document["routine"], "dgemm")
        self.assertEqual(document["devices"], "host:0 host:1")
        self.assertEqual(document["host_memory"], "pageable")
        self.assertEqual([r["n"] for r in document["results"]], [300, 520])
        for result in document["results"]:
            n = result["n"]
            self.assertEqual(result["flops"], 2 * n**3)
            for who in ("tessera", "cpu"):
                self.assertTrue(result[who]["correct"])
                self.assertLessEqual(result[who]["worst_error_over_bound"], 1)
                self.assertEqual(len(result[who]["seconds"]), 3)
                self.assertEqual(result[who]["median_s"], sorted(result[who]["seconds"])[1])
                self.assertAlmostEqual(result[who]["tflops"], 2e-12 * n**3 / result[who]["median_s"])
            self.assertAlmostEqual(result["cpu"]["ratio"], result["cpu"]["median_s"] / result["tessera"]["median_s"])
            self.assertEqual(len(result["tessera"]["jobs"]), 3)
            self.assertEqual([d["device"] for d in result["tessera"]["jobs"][0]["devices"]], ["host:0", "host:1"])
            matrix = 8 * n * n
            self.assertEqual(result["bytes"]["compulsory_up"], 3 * matrix)
            self.assertEqual(result["bytes"]["compulsory_down"], matrix)
            self.assertGreaterEqual(result["bytes"]["up"], 3 * matrix)
            self.assertEqual(result["bytes"]["down"], matrix)
            # Two devices of 50 GFLOP/s and 8 GB/s each; the links carry as much the other way at the same time.
            bound = max(2 * n**3 / 100e9, 3 * matrix / 16e9, matrix / 16e9, 4 * matrix / 32e9)
            self.assertAlmostEqual(result["bound_s"], bound)
            self.assertAlmostEqual(result["fraction_of_bound"], bound / result["tessera"]["median_s"])

    def test_types_transposes_and_shapes(self):
        for kind, flops in (("s", 2), ("d", 2), ("c", 8), ("z", 8)):
            for transa, transb in (("N", "T"), ("C", "N"), ("T", "C")):
                with self.subTest(type=kind, transa=transa, transb=transb):
                    document = self.bench("--type", kind, "--n", "90", "--m", "140", "--k", "70", "--transa", transa,
                                          "--transb", transb, "--repeats", "1", "--tile", "32", "--check", *TWO_HOST_DEVICES)
                    result = document["results"][0]
                    self.assertEqual((result["m"], result["n"], result["k"]), (140, 90, 70))
                    self.assertEqual(result["flops"], flops * 140 * 90 * 70)
                    self.assertTrue(result["tessera"]["correct"])

    def test_table(self):
        result = tessera("bench", "gemm", "--n", "200", "--repeats", "1", "--check", *TWO_HOST_DEVICES)
        self.assert_good(result)
        self.assertEqual(result.stderr, "")  # no progress bar where there is no terminal
        for part in ("on host:0 host:1", "of bound", "up/compulsory", "rates (settings)", ": correct"):
            self.assertIn(part, result.stdout)

    def test_check_sees_a_wrong_result(self):
        result = tessera("bench", "gemm", "--n", "200", "--repeats", "1", "--check", "--devices", "host:2", "--host-device",
                         "memory=32MiB,speed=50GFLOP/s,compute=off")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("WRONG", result.stdout)

    def test_unmodelled_devices_have_no_bound(self):
        document = self.bench("--n", "100", "--repeats", "1", "--devices", "host:2")
        self.assertNotIn("fraction_of_bound", document["results"][0])

    def test_json_file(self):
        file = self.folder / "out.json"
        result = tessera("bench", "gemm", "--n", "100", "--repeats", "1", "--json", file, *TWO_HOST_DEVICES)
        self.assert_good(result)
        self.assertEqual(json.loads(file.read_text())["results"][0]["n"], 100)
        unwritable = tessera("bench", "gemm", "--n", "100", "--repeats", "1", "--json", self.folder / "no" / "x", *TWO_HOST_DEVICES)
        self.assertEqual(unwritable.returncode, 1)
        self.assertIn("cannot be written", unwritable.stderr)

    PROBLEMS = [{"routine": "dgemm", "m": 90, "n": 70, "k": 50, "transa": "T", "lda": 53, "ldb": 64, "ldc": 91, "beta": 0},
                {"routine": "ctrsm", "m": 60, "n": 40, "side": "R", "uplo": "U", "diag": "U", "lda": 41, "ldc": 77},
                {"routine": "ztrmm", "m": 60, "n": 40, "transa": "C", "lda": 61, "ldb": 999, "ldc": 77},
                {"routine": "ssyr2k", "n": 80, "k": 30, "lda": 81, "ldb": 90, "ldc": 85, "alpha": -1}]

    def problems(self, problems, *arguments):
        file = self.folder / "problems.jsonl"
        file.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
        return tessera("bench", "problems", file, "--repeats", "1", "--check", *TWO_HOST_DEVICES, *arguments)

    def test_problems_of_a_file(self):
        result = self.problems(self.PROBLEMS, "--tile", "32", "--json", "-")
        self.assert_good(result)
        runs = json.loads(result.stdout)["runs"]
        self.assertEqual([run["routine"] for run in runs], [problem["routine"] for problem in self.PROBLEMS])
        for run, problem in zip(runs, self.PROBLEMS):
            [measured] = run["results"]
            self.assertTrue(measured["tessera"]["correct"])
            for key in ("side", "uplo", "transa", "diag", "alpha", "beta"):
                self.assertEqual(run[key], problem[key]) if key in problem else None
            for key in ("m", "n", "k", "lda", "ldc"):
                self.assertEqual(measured[key], problem[key]) if key in problem else None
        self.assertEqual(runs[2]["results"][0]["ldb"], 77)  # B is C there

    def test_problems_that_are_none(self):
        for problem, word in (({"routine": "dgemm"}, "'n'"), ({"routine": "dhemm", "n": 10}, "exists for c and z"), ({"routine": "dgemv", "n": 10}, "dgemv"),
                              ({"routine": "dgemm", "n": 10, "lda": 9}, "lda"), ({"routine": "dgemm", "n": 0}, "sizes")):
            with self.subTest(problem=problem):
                self.assert_refused(self.problems([{"routine": "dgemm", "n": 10}, problem]), "line 2", word)
        self.assert_refused(self.problems([]), "no problems")
        self.assert_refused(tessera("bench", "problems", self.folder / "none"), "cannot be read")

    def test_wrong_use(self):
        self.assert_refused(tessera("bench", "gemm"), "--n")
        self.assert_refused(tessera("bench", "gemm", "--n", "0"), "--n")
        self.assert_refused(tessera("bench", "gemm", "--n", "10", "--type", "q"), "--type")
        self.assert_refused(tessera("bench", "gemm", "--n", "10", "--peer", "somebody"), "--peer")
        self.assert_refused(tessera("bench", "gemm", "--n", "10,20", "--m", "1,2,3"), "--m")
        self.assert_refused(tessera("bench", "gemm", "--n", "10", "--devices", "host:0"), "TESSERA_DEVICES")

    def test_peer_that_is_not_there(self):
        result = tessera("bench", "gemm", "--n", "10", "--devices", "host:1", "--peer", "cublasxt")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cublasxt needs GPUs", result.stderr)
        result = tessera("bench", "gemm", "--n", "10", "--devices", "host:1", "--in-core")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--in-core needs GPUs", result.stderr)


class Routines(ToolCase):
    """The other routines of `tessera bench`, and all of them in one table."""
    SIDED = {"symm": "sdcz", "hemm": "cz", "trmm": "sdcz", "trsm": "sdcz"}
    RANK = {"syrk": "sdcz", "herk": "cz", "syr2k": "sdcz", "her2k": "cz"}
    TRIANGULAR = ("trmm", "trsm")

    def bench(self, *arguments):
        result = tessera("bench", *arguments, "--repeats", "1", "--tile", "32", "--check", "--json", "-", *TWO_HOST_DEVICES)
        self.assert_good(result)
        return json.loads(result.stdout)

    def assert_correct(self, result, *who):
        for name in ("tessera",) + who:
            self.assertTrue(result[name]["correct"])
            self.assertGreater(result[name]["worst_error_over_bound"], 0)  # rounding: something was compared

    def test_sided(self):
        m, n = 70, 90
        for routine, types in self.SIDED.items():
            for index, (side, uplo) in enumerate((("L", "L"), ("L", "U"), ("R", "L"), ("R", "U"))):
                kind = types[index % len(types)]
                options = ["--side", side, "--uplo", uplo]
                expected = {"side": side, "uplo": uplo}
                if routine in self.TRIANGULAR:
                    transa, diag = "NTCT"[index], "NU"[index % 2]
                    options += ["--transa", transa, "--diag", diag]
                    expected |= {"transa": transa, "diag": diag}
                with self.subTest(routine=routine, type=kind, **expected):
                    document = self.bench(routine, "--type", kind, "--m", m, "--n", n, "--peer", "cpu", *options)
                    self.assertEqual(document["routine"], kind + routine)
                    self.assertEqual({name: document[name] for name in expected}, expected)
                    self.assertEqual("beta" in document, routine not in self.TRIANGULAR)
                    result = document["results"][0]
                    self.assertEqual((result["m"], result["n"]), (m, n))
                    self.assertNotIn("k", result)
                    real = (1 if routine in self.TRIANGULAR else 2) * m * n * (m if side == "L" else n)
                    self.assertEqual(result["flops"], real * (4 if kind in "cz" else 1))
                    self.assert_correct(result, "cpu")

    def test_rank_updates(self):
        n, k = 90, 70
        for routine, types in self.RANK.items():
            for index, (uplo, transa) in enumerate((("L", "N"), ("U", "N"), ("L", "T"), ("U", "T"))):
                kind = types[index % len(types)]
                if routine.startswith("her") and transa == "T":
                    transa = "C"
                with self.subTest(routine=routine, type=kind, uplo=uplo, transa=transa):
                    document = self.bench(routine, "--type", kind, "--n", n, "--k", k, "--uplo", uplo, "--transa", transa,
                                          "--peer", "cpu")
                    self.assertEqual((document["routine"], document["uplo"], document["transa"]), (kind + routine, uplo, transa))
                    result = document["results"][0]
                    self.assertEqual((result["n"], result["k"]), (n, k))
                    self.assertNotIn("m", result)
                    real = (2 if "2" in routine else 1) * n * n * k
                    self.assertEqual(result["flops"], real * (4 if kind in "cz" else 1))
                    self.assert_correct(result, "cpu")

    def test_gemmt(self):
        n, k = 90, 70
        for kind, uplo, transa, transb in (("s", "L", "N", "N"), ("d", "U", "N", "T"), ("c", "L", "C", "N"), ("z", "U", "T", "C")):
            with self.subTest(type=kind, uplo=uplo, transa=transa, transb=transb):
                document = self.bench("gemmt", "--type", kind, "--n", n, "--k", k, "--uplo", uplo, "--transa", transa, "--transb", transb,
                                      "--peer", "cpu")
                self.assertEqual([document[name] for name in ("routine", "uplo", "transa", "transb")], [kind + "gemmt", uplo, transa, transb])
                result = document["results"][0]
                self.assertEqual((result["n"], result["k"]), (n, k))
                self.assertNotIn("m", result)
                self.assertEqual(result["flops"], n * (n + 1) * k * (4 if kind in "cz" else 1))
                self.assert_correct(result, "cpu")

    def test_bound_and_bytes(self):
        for routine in ("symm", "syrk", "gemmt", "trsm"):
            with self.subTest(routine=routine):
                result = self.bench(routine, "--n", "200")["results"][0]
                up, down = result["bytes"]["compulsory_up"], result["bytes"]["compulsory_down"]
                self.assertGreater(up, 0)
                self.assertGreaterEqual(result["bytes"]["up"], up)
                self.assertEqual(result["bytes"]["down"], down)
                self.assertAlmostEqual(result["bound_s"],
                                       max(result["flops"] / 100e9, up / 16e9, down / 16e9, (up + down) / 32e9))

    def test_scalars(self):
        for routine in ("hemm", "herk", "her2k", "trmm", "trsm"):
            for alpha, beta in (("0", "0.5"), ("-2", "0"), ("0", "1"), ("0", "0")):
                with self.subTest(routine=routine, alpha=alpha, beta=beta):
                    options = ["--alpha", alpha] + ([] if routine in self.TRIANGULAR else ["--beta", beta])
                    document = self.bench(routine, "--type", "z", "--n", "60", "--peer", "cpu", *options)
                    for who in ("tessera", "cpu"):
                        self.assertTrue(document["results"][0][who]["correct"])

    def test_check_sees_wrong_results(self):
        for routine in ("symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm", "gemmt"):
            with self.subTest(routine=routine):
                result = tessera("bench", routine, "--type", "z", "--n", "100", "--repeats", "1", "--check", "--tile", "32",
                                 "--devices", "host:2", "--host-device", "memory=32MiB,speed=50GFLOP/s,compute=off")
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn("WRONG", result.stdout)

    def test_all(self):
        document = self.bench("all", "--type", "d,c", "--n", "64,100", "--peer", "cpu")
        real = ["gemm", "gemmt", "symm", "syrk", "syr2k", "trmm", "trsm"]
        ten = ["gemm", "gemmt", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm"]
        self.assertEqual([run["routine"] for run in document["runs"]], ["d" + r for r in real] + ["c" + r for r in ten])
        for run in document["runs"]:
            self.assertEqual([result["n"] for result in run["results"]], [64, 100])
            for result in run["results"]:
                self.assert_correct(result, "cpu")

    def test_all_as_a_table(self):
        result = tessera("bench", "all", "--n", "64", "--routines", "trsm,gemm", "--repeats", "1", "--check", *TWO_HOST_DEVICES)
        self.assert_good(result)
        self.assertRegex(result.stdout, r"(?m)^dtrsm LLNN +64 ")
        self.assertRegex(result.stdout, r"(?m)^dgemm NN +64 ")
        self.assertNotIn("dsymm", result.stdout)
        self.assertIn(": correct", result.stdout)

    def test_wrong_use(self):
        wrong = (
            (("hemm", "--n", "10"), "--type", "hemm exists for c and z"),
            (("herk", "--n", "10", "--type", "s"), "--type"),
            (("syrk", "--n", "10", "--type", "z", "--transa", "C"), "--transa", "zsyrk"),
            (("her2k", "--n", "10", "--type", "c", "--transa", "T"), "--transa", "cher2k"),
            (("gemmt", "--n", "10", "--m", "10"), "--m"),
            (("symm", "--n", "10", "--side", "M"), "--side"),
            (("trmm", "--n", "10", "--uplo", "X"), "--uplo"),
            (("trsm", "--n", "10", "--diag", "C"), "--diag"),
            (("trsm", "--n", "10", "--beta", "1"), "--beta"),
            (("symm", "--n", "10", "--k", "5"), "--k"),
            (("syrk", "--n", "10", "--m", "5"), "--m"),
            (("gemm", "--n", "10", "--side", "L"), "--side"),
            (("gemm", "--n", "10", "--type", "s,d"), "--type"),
            (("symm", "--n", "10", "--transa", "T"), "--transa"),
            (("all", "--n", "10", "--routines", "gemv"), "--routines"),
            (("all", "--n", "10", "--routines", "hemm", "--type", "d"), "--type"),
            (("getrf", "--n", "10"), "subcommand"),
        )
        for arguments, *parts in wrong:
            with self.subTest(arguments=arguments):
                self.assert_refused(tessera("bench", *arguments, "--devices", "host:1"), *parts)


class Chart(ToolCase):
    SVG = "{http://www.w3.org/2000/svg}"

    def chart(self, *documents, options=()):
        files = []
        for index, document in enumerate(documents):
            files.append(self.folder / f"{index}.json")
            files[-1].write_text(json.dumps(document))
        picture = self.folder / "chart.svg"
        result = run(sys.executable, SOURCE / "bench" / "chart.py", *files, "-o", picture, *options)
        return result, picture

    @staticmethod
    def document(routine="dgemm", n=64, tessera_rate=2.0, peer_rate=1.0):
        return {"routine": routine, "devices": "cuda:0",
                "results": [{"m": n, "n": n, "k": n, "flops": 4e12, "bound_s": 1.0, "tessera": {"tflops": tessera_rate},
                             "cublasxt": {"tflops": peer_rate}}]}

    def bars(self, root):
        """Heights of the bars by title."""
        return {bar.find(self.SVG + "title").text: float(bar.get("height"))
                for bar in root.iter(self.SVG + "rect") if bar.find(self.SVG + "title") is not None}

    def test_bars(self):
        result, picture = self.chart(self.document(), options=["--title", "A < B"])
        self.assert_good(result)
        root = xml.etree.ElementTree.parse(picture).getroot()
        bars = self.bars(root)
        self.assertEqual(set(bars), {"dgemm 64: tessera 2.00 TFLOP/s", "dgemm 64: cublasxt 1.00 TFLOP/s"})
        self.assertAlmostEqual(bars["dgemm 64: tessera 2.00 TFLOP/s"], 2 * bars["dgemm 64: cublasxt 1.00 TFLOP/s"], delta=0.2)
        texts = [text.text for text in root.iter(self.SVG + "text")]
        for words in ("A < B", "Tessera", "cublasXt", "TFLOP/s", "matrix size", "64", "2.00"):
            self.assertIn(words, texts)
        self.assertTrue(any(text.startswith("bound") for text in texts))
        # The bound of 4 TFLOP/s is drawn twice as high above the axis as Tessera's 2.
        axis = max(float(line.get("y1")) for line in root.iter(self.SVG + "line"))
        dashed = [float(line.get("y1")) for line in root.iter(self.SVG + "line") if line.get("stroke-dasharray")]
        self.assertAlmostEqual(axis - dashed[-1], 2 * bars["dgemm 64: tessera 2.00 TFLOP/s"], delta=0.2)

    def test_unit_follows_the_numbers(self):
        document = self.document(tessera_rate=0.5, peer_rate=0.25)
        del document["results"][0]["bound_s"]
        result, picture = self.chart(document)
        self.assert_good(result)
        self.assertEqual(set(self.bars(xml.etree.ElementTree.parse(picture).getroot())),
                         {"dgemm 64: tessera 500 GFLOP/s", "dgemm 64: cublasxt 250 GFLOP/s"})

    def test_several_routines_and_files(self):
        runs = {"runs": [self.document("dsymm"), self.document("dtrsm")]}
        result, picture = self.chart(runs, self.document("dgemm", n=128))
        self.assert_good(result)
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertEqual(len(self.bars(root)), 6)
        texts = [text.text for text in root.iter(self.SVG + "text")]
        for words in ("dsymm", "dtrsm", "dgemm", "64", "128"):
            self.assertIn(words, texts)

    def test_of_a_real_run(self):
        file = self.folder / "bench.json"
        self.assert_good(tessera("bench", "trsm", "--n", "64,96", "--repeats", "1", "--peer", "cpu", "--json", file, *TWO_HOST_DEVICES))
        result, picture = self.chart(json.loads(file.read_text()))
        self.assert_good(result)
        self.assertEqual(len(self.bars(xml.etree.ElementTree.parse(picture).getroot())), 4)

    def test_wrong_files(self):
        for document in ({"results": []}, {"no": "results"}, {"routine": "dgemm", "results": [{"n": 1, "flops": 1}]}):
            with self.subTest(document=document):
                result, picture = self.chart(document)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn("chart.py: ", result.stderr)
                self.assertNotIn("Traceback", result.stderr)
                self.assertFalse(picture.exists())


class Trace(ToolCase):
    # In the last call of the file. The devices share the work by timing, and in so short a call one may do it all.
    def devices_that_fetched(self, file):
        events = json.loads(file.read_text())
        begin = max(event["ts"] for event in events if event["ph"] == "X" and event["pid"] == 0)
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        up = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name" and event["args"]["name"] == "up"}
        fetched = {names[event["pid"]] for event in events if (event["pid"], event["tid"]) in up and event["ph"] == "X" and event["ts"] >= begin}
        self.assertTrue(fetched)
        return fetched

    def test_picture_of_a_run(self):
        file = self.folder / "trace.json"
        self.assert_good(tessera("bench", "gemm", "--n", "100", "--tile", "32", "--repeats", "1", "--trace", file, *TWO_HOST_DEVICES))
        picture = self.folder / "timeline.svg"
        result = tessera("trace", "draw", file, "-o", picture)
        self.assert_good(result)
        self.assertIn("dgemm 100 x 100 x 100", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^device +start-up +kernels +waiting +tail$")
        for device in ("host:0", "host:1"):
            self.assertRegex(result.stdout, rf"(?m)^{device} .* ms \(.* %\)$")
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        words = "".join(root.itertext())
        for device in self.devices_that_fetched(file):
            self.assertIn(f"{device} up", words)
        self.assertIn("gemm task", words)
        first = tessera("trace", "draw", file, "--call", "1")
        self.assert_good(first)

    def test_bad_files(self):
        missing = tessera("trace", "draw", self.folder / "none")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("cannot be read", missing.stderr)
        file = self.folder / "broken"
        for text, told in (("[]", "no call"), ("[{}]", "ph"), ("{", "parse error"), ("17", "")):
            file.write_text(text)
            broken = tessera("trace", "draw", file)
            self.assertEqual(broken.returncode, 1, text)
            self.assertIn(str(file), broken.stderr)
            self.assertIn(told, broken.stderr)
        self.assertEqual(tessera("trace", "draw").returncode, 2)
        self.assertEqual(tessera("trace").returncode, 2)


class Stats(ToolCase):
    def test_file_of_a_run(self):
        file = self.folder / 'my "stats" of \\ and\ttabs'
        self.assert_good(tessera("bench", "gemm", "--n", "100,150", "--repeats", "1", "--stats", file, *TWO_HOST_DEVICES))
        self.assertEqual(len(file.read_text().splitlines()), 4)  # a warm-up and a timed run for each size
        result = tessera("stats", file)
        self.assert_good(result)
        calls = [line for line in result.stdout.splitlines() if line.startswith("dgemm")]
        self.assertEqual(len(calls), 4)
        self.assertIn("host:0 host:1", calls[0])
        self.assertIn("\nall ", result.stdout)
        last = tessera("stats", file, "--last", "1")
        self.assertEqual(len([line for line in last.stdout.splitlines() if line.startswith("dgemm")]), 1)

    def test_sums(self):
        file = self.folder / "stats.jsonl"
        device = {"kernel_s": 1, "l1_hits": 2, "l2_hits": 1, "misses": 1, "bytes_up": 1024, "tasks": 3, "stolen": 1}
        job = {"routine": "sgemm", "m": 8, "n": 8, "k": 8, "seconds": 2, "flops": 4e9, "compulsory_up": 1024,
               "devices": [{"device": "host:0", **device}, {"device": "host:1", **device}]}
        file.write_text(json.dumps(job) + "\n")
        out = tessera("stats", file).stdout
        self.assertRegex(out, r"(?m)^sgemm +8 +8 +8 .* 2\.00 +2\.00 +2\.00 +-$")
        self.assertRegex(out, r"(?m)^all +6 +2 +50\.0 % +25\.0 % +25\.0 % +2\.00 KiB")

    def test_bad_files(self):
        missing = tessera("stats", self.folder / "none")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("cannot be read", missing.stderr)
        file = self.folder / "broken"
        file.write_text('{"routine": "dgemm"}\n{"routine": \n')
        broken = tessera("stats", file)
        self.assertEqual(broken.returncode, 1)
        self.assertIn(f"{file}:2:", broken.stderr)


class Demo(ToolCase):
    GEMM = BUILD / "bin" / "cblas_gemm"
    COMPARE = BUILD / "bin" / "compare_results"

    def test_demo(self):
        # Host devices also where there are GPUs, so that this test means the same everywhere.
        result = run(SOURCE / "tools" / "demo.sh", BUILD, self.folder, TESSERA_CUDA_PLUGIN="/nonexistent/plugin.so")
        self.assert_good(result)
        for part in ("correct: ||C - C_ref||", "host:0 host:1 host:2", "up/compulsory", "ui.perfetto.dev"):
            self.assertIn(part, result.stdout)
        self.assertIsInstance(json.loads((self.folder / "trace.json").read_text()), list)

    def test_library_writes_nothing_to_standard_output(self):
        result = tessera("run", "--devices", "host:2", "--offload", "always", "--verbose", "--", self.GEMM, "500")
        self.assert_good(result)
        self.assertRegex(result.stdout, r"^dgemm 500 x 500 x 500: [^\n]*\n$")
        self.assertRegex(result.stderr, r"(?m)^tessera: dgemm NN m=500 n=500 k=500 on host:0,host:1")

    def test_comparison_sees_a_wrong_entry(self):
        good, bad = self.folder / "good", self.folder / "bad"
        self.assert_good(run(self.GEMM, "60", good))
        self.assert_good(run(self.COMPARE, good, good))
        data = bytearray(good.read_bytes())
        struct.pack_into("=d", data, 8 * (8 + 1234), struct.unpack_from("=d", data, 8 * (8 + 1234))[0] + 1e-6)
        bad.write_bytes(data)
        wrong = run(self.COMPARE, good, bad)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("WRONG", wrong.stdout)
        struct.pack_into("=d", data, 8 * (8 + 1234), float("nan"))
        bad.write_bytes(data)
        self.assertEqual(run(self.COMPARE, good, bad).returncode, 1)
        bad.write_bytes(data[:-8])
        self.assertEqual(run(self.COMPARE, good, bad).returncode, 2)


if __name__ == "__main__":
    unittest.main()
