"""check_outcomes.py <ctest> <suites file of the binary> <scratch folder>: checks ctest's results for the suites of
outcomes.cpp."""
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as tree

EXPECTED = {
    "Passes": "passed",
    "Fails": "failed",
    "Skips": "skipped",
    "SkipsAndPasses": "passed",
    "SkipsAndFails": "failed",
    "OfDevices": "passed",
    "OfDevices.cuda": "failed",
    "SkipsAndLeaves": "failed",
    "SkipsAndCrashes": "failed",
    "RunsNothing": "failed",
}


def outcome(case):
    if case.find("failure") is not None:
        return "failed"
    if case.find("skipped") is not None:
        return "skipped"
    return "passed" if case.get("status") == "run" else case.get("status")


def main():
    ctest, suites, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CTestTestfile.cmake").write_text(f'include("{suites}")\n')
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    ran = subprocess.run([ctest, "--test-dir", folder, "--output-junit", report], stdout=subprocess.PIPE, text=True)
    found = {case.get("name").split(".", 1)[1]: outcome(case) for case in tree.parse(report).getroot().iter("testcase")}
    if found == EXPECTED and ran.returncode != 0:
        return
    print(ran.stdout)
    for name in sorted(EXPECTED.keys() | found.keys()):
        print(f"{name}: {found.get(name)}, expected {EXPECTED.get(name)}")
    sys.exit(f"status of ctest: {ran.returncode}")


main()
