"""Makes the Debian package, installs it into an empty root, uses it, and removes it. Nothing outside the root is
changed.
usage: package_test.py BUILD_FOLDER CPACK ARCHITECTURE (as in /usr/lib/ARCHITECTURE)"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(*command, check=True, **extra):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_") and k != "LD_PRELOAD"}
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**environment, **extra}, timeout=280)
    if check and result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def expect(condition, what):
    if not condition:
        sys.exit(what)


def system_alternatives():
    return {name: run("update-alternatives", "--query", name, check=False).stdout for name in ALTERNATIVES}


def tree(root):
    """Every file except the package manager's own records."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*")
                  if not path.is_dir() and not str(path.relative_to(root)).startswith(("var/lib/dpkg", "var/log")))


build, cpack, architecture = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
ALTERNATIVES = [f"{name}-{architecture}" for name in ("libblas.so.3", "libblas64.so.3")]
FACES = ("libblas.so.3", "libblas64.so.3")


def check(folder):
    run(cpack, "--config", build / "CPackConfig.cmake", "-G", "DEB", "-B", folder / "packages", "-D",
        f"CPACK_OUTPUT_FILE_PREFIX={folder / 'packages'}")
    package = next((folder / "packages").glob("tessera_*.deb"))

    fields = run("dpkg-deb", "-f", package).stdout
    expect(re.search(r"^Package: tessera$", fields, re.M), fields)
    depends = re.search(r"^Depends: (.*)$", fields, re.M).group(1)
    expect(not re.search("cuda|cublas|nvidia|blas|lapack|hwloc", depends), "depends on what only GPUs need, or on a BLAS: " + depends)
    plugins = list((folder / "packages").glob("tessera-cuda_*.deb"))
    for plugin in plugins:
        wanted = run("dpkg-deb", "-f", plugin, "Depends").stdout
        expect(re.search(r"\blibhwloc\d+\b", wanted) and "stdc++" not in wanted, "not what the plugin needs: " + wanted)
        contents = run("dpkg-deb", "-c", plugin).stdout
        for file in ("libtessera_cuda.so", "libtessera_device.so.0", "pkgconfig/tessera-device.pc", "cmake/Tessera/TesseraDeviceTargets.cmake"):
            expect(f"/usr/lib/{file}" in contents, f"{file} is not in {plugin.name}: {contents}")
    if shutil.which("lintian"):
        complaints = run("lintian", "--allow-root", "--fail-on", "error", package, check=False)
        expect(complaints.returncode == 0, complaints.stdout + complaints.stderr)

    # The root of a minimal system, with another BLAS in use.
    root = folder / "root"
    for part in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/alternatives", "etc/alternatives", "var/log",
                 f"usr/lib/{architecture}/other"):
        (root / part).mkdir(parents=True)
    for record in ("status", "available"):
        (root / "var/lib/dpkg" / record).touch()
    alternatives = ("fakeroot", "update-alternatives", "--root", root)
    for face in FACES:
        (root / f"usr/lib/{architecture}/other/{face}").touch()
        run(*alternatives, "--install", f"/usr/lib/{architecture}/{face}", f"{face}-{architecture}",
            f"/usr/lib/{architecture}/other/{face}", "10")
    before = tree(root)
    system_before = system_alternatives()

    dpkg = ("fakeroot", "dpkg", f"--root={root}", f"--log={folder}/dpkg.log", "--force-depends", "--force-not-root",
            "--force-script-chrootless", "--no-triggers")
    run(*dpkg, "--install", package)
    for file in ("usr/bin/tessera", "usr/lib/libtessera.so.0", "usr/lib/libtessera_blas.so", "usr/lib/libtessera_device_host.so.0",
                 "usr/include/tessera/device_blas.h", "usr/include/tessera/device_lapack.h", "usr/include/tessera/device_half.h",
                 "usr/include/tessera/lapack.h", "usr/include/tessera/lapack_batch.h", "usr/include/tessera/matrix.h", "usr/lib/pkgconfig/tessera-device-host.pc", "usr/share/doc/tessera/copyright"):
        expect((root / file).exists(), f"{file} was not installed")
    if shutil.which("help2man"):
        expect((root / "usr/share/man/man1/tessera-run.1.gz").exists(), "no man page")

    libraries = {"LD_LIBRARY_PATH": f"{root}/usr/lib"}
    version = run(root / "usr/bin/tessera", "--version", **libraries)
    expect(version.stdout.startswith("tessera "), version.stdout)
    seen = run(root / "usr/bin/tessera", "run", "--", "env", **libraries).stdout
    expect(f"LD_PRELOAD={root}/usr/lib/libtessera_blas.so\n" in seen, seen)

    offered = [face for face in FACES if (root / "usr/lib/tessera" / face).exists()]
    for face in FACES:
        query = run(*alternatives, "--query", f"{face}-{architecture}").stdout
        ours = f"Alternative: /usr/lib/tessera/{face}\nPriority: 5\n"
        expect((ours in query) == (face in offered), query)
        expect(f"Value: /usr/lib/{architecture}/other/{face}\n" in query, "installing changed the system's BLAS: " + query)
        if face in offered:
            run(*alternatives, "--set", f"{face}-{architecture}", f"/usr/lib/tessera/{face}")
            expect(os.readlink(root / "etc/alternatives" / f"{face}-{architecture}") == f"/usr/lib/tessera/{face}", "not chosen")
    program = build / "bin/cblas_gemm"
    if "libblas.so.3" in offered and program.exists():
        through = run(program, "300", LD_LIBRARY_PATH=f"{root}/usr/lib/tessera:{root}/usr/lib", TESSERA_DEVICES="host:2",
                      TESSERA_OFFLOAD="always", TESSERA_VERBOSE="1")
        expect("dgemm NN m=300 n=300 k=300 on host:0" in through.stderr, through.stderr)

    run(*dpkg, "--purge", "tessera")
    for face in FACES:
        query = run(*alternatives, "--query", f"{face}-{architecture}").stdout
        expect("tessera" not in query and f"Value: /usr/lib/{architecture}/other/{face}\n" in query, query)
    expect(tree(root) == before, f"left behind: {sorted(set(tree(root)) - set(before))}, gone: {sorted(set(before) - set(tree(root)))}")
    expect(system_alternatives() == system_before, "the alternatives of this system have changed")
    print(f"installed, offered {' '.join(offered) or 'no face'}, removed")


missing = [tool for tool in ("dpkg", "dpkg-deb", "dpkg-shlibdeps", "fakeroot", "update-alternatives", "file") if not shutil.which(tool)]
if missing:
    print(f"skipped: no {' '.join(missing)}")
    sys.exit(SKIPPED)
with tempfile.TemporaryDirectory() as temporary:
    check(pathlib.Path(temporary))
