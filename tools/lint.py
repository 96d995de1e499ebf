#!/usr/bin/env python3
"""lint.py <clang-tidy> <build folder> <jobs>: clang-tidy over all files of src/ and tools/ that the build compiles.

Most of clang-tidy's time goes into headers, which it reads and checks again for every source. So sources that are
compiled alike go through it together, as one file that includes them. If that reports anything, or does not compile
because two sources use a name for different things, the halves are checked, and so on. In the end each faulty source is
checked and reported alone.

A source that is good is recorded under a hash: of its content, of all files that the compiler read for it, of
.clang-tidy, the compiler's flags, this script and the version of clang-tidy. It is not checked again until one of these
changes. A faulty source is never recorded. The build must be up to date: the headers are taken from its list.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOGETHER = 12  # sources at most; more would leave a core idle at the end
# This check took half of the time, most of it in templates of CLI11 and the JSON library, which tools/ uses much.
# It finds needless copies of arguments, which cost nothing on a command line. For src/ it is on.
NOT_IN_TOOLS = "performance-unnecessary-value-param"
MONTH_S = 30 * 24 * 3600


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "tessera" / "lint"


def flags_of(command):
    """The flags that decide how the compiler reads a source: without the names of the source and of outputs."""
    words = shlex.split(command)
    for tool in ("c++", "g++", "clang++", "CC"):  # a launcher's words come before the compiler
        names = [i for i, word in enumerate(words) if re.fullmatch(rf"{re.escape(tool)}(-[0-9.]+)?", os.path.basename(word))]
        if names:
            words = words[names[0] + 1:]
            break
    flags = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-MF", "-MT"):
            skip = True
        elif word != "-MD":
            flags.append(word)
    return flags


def headers_by_object(build):
    """The files that went into each object, as the compiler reported to ninja; paths relative to the build folder."""
    listing = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listing.splitlines():
        if line.startswith("    "):
            found[object_].append(line.strip())
        elif ": #deps" in line:
            object_ = line.split(": #deps")[0]
            found[object_] = []
    return found


def sources(build):
    """source -> (flags, files that the compiler read). Sources that are compiled as one file share its list."""
    headers = headers_by_object(build)
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        members = [file]
        if re.fullmatch(r"unity_.*\.cxx", file.name):
            members = [pathlib.Path(name) for name in re.findall(r'#include "(.*\.cpp)"', file.read_text())]
        for member in members:
            if member.suffix == ".cpp" and any(folder in member.parents for folder in (ROOT / "src", ROOT / "tools")):
                output = shlex.split(entry["command"])
                object_ = output[output.index("-o") + 1]
                found.setdefault(member, (flags_of(entry["command"]), headers.get(object_)))
    return found


class Contents:
    def __init__(self, build, tidy):
        self.build = build
        self.hashes = {}
        version = subprocess.run([tidy, "--version"], capture_output=True, text=True, check=True).stdout
        self.common = "\n".join([version, (ROOT / ".clang-tidy").read_text(), pathlib.Path(__file__).read_text()])

    def of_file(self, name):
        path = os.path.normpath(self.build / name)
        if path not in self.hashes:
            with open(path, "rb") as file:
                self.hashes[path] = hashlib.sha256(file.read()).hexdigest()
        return self.hashes[path]

    def of_source(self, source, flags, headers):
        # The checkout may lie anywhere.
        parts = [self.common, *(flag.replace(str(ROOT), "") for flag in flags), str(source.relative_to(ROOT)), self.of_file(source)]
        parts += sorted(self.of_file(header) for header in headers)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_of_tools(source):
    return source.parent == ROOT / "tools"


def check(tidy, file, flags, of_tools):
    rules = [f"--config-file={ROOT / '.clang-tidy'}", "--header-filter=/(src|tools)/.*pp$"]  # sources, too
    if of_tools:
        rules.append(f"--checks=-{NOT_IN_TOOLS}")
    return subprocess.run([tidy, "--quiet", *rules, file, "--", *flags], cwd=ROOT, capture_output=True, text=True)


def main():
    tidy, build, jobs = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), int(sys.argv[3])
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    for verdict in cache.iterdir():
        if time.time() - verdict.stat().st_mtime > MONTH_S:
            verdict.unlink(missing_ok=True)

    contents = Contents(build, tidy)
    found = sources(build)
    if not found:
        sys.exit(f"{build} compiles nothing of src/ and tools/")
    verdicts = {}  # source to check -> the file that records a good one
    groups = {}
    for source, (flags, headers) in sorted(found.items()):
        verdict = None
        if headers is not None:  # else its target was not built, and its headers are unknown
            verdict = cache / contents.of_source(source, flags, headers)
            if verdict.exists():
                verdict.touch()
                continue
        verdicts[source] = verdict
        groups.setdefault((is_of_tools(source), tuple(flags)), []).append(source)

    together = build / "lint"
    together.mkdir(exist_ok=True)
    parts = []
    for (_, flags), members in groups.items():
        count = -(-len(members) // TOGETHER)
        size = -(-len(members) // count)  # neighbours stay together: they share headers and no names
        parts += [(members[i:i + size], flags) for i in range(0, len(members), size)]
    parts.sort(key=lambda part: -sum(source.stat().st_size for source in part[0]))

    def check_part(members, flags):
        """@return the messages, source by source"""
        file = members[0]
        if len(members) > 1:
            file = together / (hashlib.sha256("\n".join(map(str, members)).encode()).hexdigest()[:16] + ".cpp")
            file.write_text("".join(f'#include "{source}"  // NOLINT\n' for source in members))
        result = check(tidy, file, flags, is_of_tools(members[0]))
        if result.returncode == 0:
            for source in members:
                if verdicts[source] is not None:
                    verdicts[source].touch()
            return []
        if len(members) == 1:
            return [result.stdout + result.stderr]
        half = len(members) // 2
        return check_part(members[:half], flags) + check_part(members[half:], flags)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        wrong = [text for texts in pool.map(lambda part: check_part(*part), parts) for text in texts]
    print("".join(wrong), end="")
    print(f"{len(found)} sources: {len(found) - len(verdicts)} as they were when they were good, {len(verdicts)} checked, {len(wrong)} not good")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
