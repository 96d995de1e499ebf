"""A machine that shows a GPU (the driver's device file) which cannot be used: programs compute correctly on the CPU,
with one message on standard error. Without any sign of a GPU there is no message. usage: run_unusable_gpu.py LIBRARY
PROGRAM
The device file is an empty file in a private /dev, which needs root and mount namespaces; else the test is skipped
(exit 77)."""
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
# Makes a /dev with the files that every program needs and the file $shown, if any; then starts the program.
OWN_DEVICES = """
set -e
mount --make-rprivate /
mount -t tmpfs none "$folder"
for name in null zero full random urandom tty; do
  [ -e /dev/$name ] || continue
  touch "$folder/$name"
  mount --bind /dev/$name "$folder/$name"
done
mkdir "$folder/shm"
[ -z "$shown" ] || touch "$folder/$shown"
mount --rbind "$folder" /dev
exec "$@"
"""


def run(shown, *command, **variables):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **variables, "folder": folder, "shown": shown}
        for name in [name for name in environment if name.startswith("TESSERA_") and name not in variables]:
            del environment[name]
        return subprocess.run(["unshare", "--mount", "sh", "-c", OWN_DEVICES, "sh", *command], env=environment, capture_output=True, text=True,
                              timeout=300)


def main():
    library, program = sys.argv[1:]
    if os.path.exists("/dev/nvidiactl"):
        print("skipped: this machine has a GPU")
        return SKIPPED
    if os.geteuid() != 0 or run("", "true").returncode != 0:
        print("skipped: no mount namespace of its own to be had")
        return SKIPPED
    failed = False
    for shown, offload, lines in (("", "always", 0), ("nvidiactl", "always", 1), ("nvidiactl", "auto", 0)):
        # The program's small products do not justify a start of devices, so `auto` tries none.
        result = run(shown, program, "40", LD_PRELOAD=library, TESSERA_OFFLOAD=offload)
        told = [line for line in result.stderr.splitlines() if "devices cannot be used, the CPU BLAS answers" in line]
        good = result.returncode == 0 and len(told) == lines and len(result.stderr.splitlines()) == lines
        print(f"{'passed' if good else 'FAILED'}: {shown or 'no device file'}, {offload}")
        if not good:
            print(f"exit {result.returncode}\n{result.stdout}{result.stderr}")
        failed = failed or not good
    return int(failed)


sys.exit(main())
