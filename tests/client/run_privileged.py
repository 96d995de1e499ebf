"""A program that is linked with our libblas.so.3 and runs with its owner's privileges. A user without
privileges starts it with settings that name libraries and files. usage: run_privileged.py PROGRAM HOSTILE_LIBRARY
No file that the settings name may be loaded or written. A second run without the privileges shows that the settings do
have this effect otherwise. Needs root, to make such a program; else the test is skipped (exit 77)."""
import os
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def fail(text, result=None):
    print(text)
    if result is not None:
        print(f"exit {result.returncode}\nstdout: {result.stdout}\nstderr: {result.stderr}")
    sys.exit(1)


def settings_in(folder, devices):
    return {
        "TESSERA_CPU_BLAS": f"{folder}/cpu.so", "TESSERA_CUDA_PLUGIN": f"{folder}/plugin.so", "TESSERA_DEVICES": devices,
        "TESSERA_OFFLOAD": "always", "TESSERA_TILE": "32", "TESSERA_VERBOSE": "1",
        "TESSERA_SUMMARY": f"{folder}/summary", "TESSERA_STATS": f"{folder}/stats", "TESSERA_TRACE": f"{folder}/trace",
        "TESSERA_CALIBRATION": f"{folder}/calibration", "HOME": folder, "XDG_CACHE_HOME": f"{folder}/cache",
        "OPENBLAS_NUM_THREADS": "1",
    }


def run(program, folder, devices, **more):
    return subprocess.run([program, "100"], env=settings_in(folder, devices), capture_output=True, text=True, timeout=300, **more)


def main():
    program, hostile = sys.argv[1:]
    if os.geteuid() != 0:
        skip("only root can make a program with privileges that others can run")
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        if os.statvfs(top).f_flag & os.ST_NOSUID:
            skip(f"{top} is mounted with nosuid")
        copy = os.path.join(top, "program")
        shutil.copy(program, copy)
        os.chown(copy, 0, 0)
        for privileged in (False, True):
            os.chmod(copy, 0o4755 if privileged else 0o755)
            for devices in ("host:2", "cuda"):
                folder = os.path.join(top, f"{devices}-{privileged}".replace(":", ""))
                os.mkdir(folder)
                libraries = {os.path.join(folder, name) for name in ("cpu.so", "plugin.so")}
                for library in libraries:
                    shutil.copy(hostile, library)
                for path in (folder, *libraries):
                    os.chown(path, NOBODY, NOBODY)
                result = run(copy, folder, devices, user=NOBODY, group=NOBODY, extra_groups=[])
                expected = f"user {NOBODY}, effective {0 if privileged else NOBODY}, secure {int(privileged)}\n"
                if result.returncode != 0 or result.stdout != expected:
                    if privileged and f"effective {NOBODY}" in result.stdout:
                        skip("the system gives no privileges to programs here")
                    fail(f"expected: {expected}", result)
                left = {os.path.join(folder, name) for name in os.listdir(folder)} - libraries
                names = sorted(os.path.basename(name) for name in left)
                if privileged and (left or result.stderr):
                    fail(f"{devices}: settings were obeyed: {names}", result)
                wanted = {"cpu.so.was_loaded", "summary"} | ({"stats", "trace"} if devices != "cuda" else {"plugin.so.was_loaded"})
                if not privileged and not wanted <= set(names):
                    fail(f"{devices}: without privileges the settings should have had their effect: {names}", result)
                print(f"{devices}, {'with' if privileged else 'without'} privileges: {names}")


if __name__ == "__main__":
    main()
