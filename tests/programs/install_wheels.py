"""Makes a Python environment with wheels from PyPI, for the tests that run in it. usage:
  install_wheels.py FOLDER REQUIREMENT...
Does nothing if FOLDER holds them already. Exit status 77: not possible on this machine."""
import importlib.util
import os
import subprocess
import sys
import venv

NOT_AVAILABLE = 77
# pip's messages without a network; every other error is a failure.
UNREACHABLE = ("Failed to establish a new connection", "Temporary failure in name resolution", "Network is unreachable",
               "Connection refused", "timed out", "ProxyError", "SSLError")


def main():
    folder, *requirements = sys.argv[1:]
    complete = os.path.join(folder, "installed.txt")
    if os.path.exists(complete) and open(complete, encoding="utf-8").read().split() == requirements:
        print("nothing to install")
        return 0
    if importlib.util.find_spec("ensurepip") is None:
        print("skipped: Python cannot make environments here (Debian: python3-venv)")
        return NOT_AVAILABLE
    venv.create(folder, with_pip=True, clear=True)
    # Without pip's settings: those of a surrounding environment could install elsewhere.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_USER")}
    result = subprocess.run([os.path.join(folder, "bin", "python3"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                             "--only-binary=:all:", *requirements], env=environment, text=True, capture_output=True)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
        if any(text in result.stderr for text in UNREACHABLE):
            print("skipped: PyPI is out of reach")
            return NOT_AVAILABLE
        return 1
    with open(complete, "w", encoding="utf-8") as file:
        file.write("\n".join(requirements))
    return 0


if __name__ == "__main__":
    sys.exit(main())
