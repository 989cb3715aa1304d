#!/usr/bin/env python3
"""sanitizer_verdict.py LOG [--planted]: what a racecheck or synccheck of kernels_check.py says of our kernels.

The sanitizer looks at every kernel: a filter by name made it die. A report that names a kernel of ours (lce_), or no known one,
fails; those in cuBLAS's alone are counted. --planted: lce_planted_race must have been reported. A run or sanitizer that did not
end, or reports that were not shown, fail too.
"""
import collections
import re
import sys

OURS, PLANTED = "lce_", "lce_planted_race"
THEIRS = "nvjet_", "cublas", "cutlass", "sm80_", "sm90_"
KERNEL = re.compile(r"\b(?:at|in|by) (?:0x[0-9a-f]+ in )?(?:void )?([A-Za-z_][\w:]*)(?=[+(<]|$)")
SUMMARY = re.compile(r"(?:RACECHECK SUMMARY: (?P<shown>\d+) hazards? displayed \((?P<errors>\d+) errors?, (?P<warnings>\d+) warnings?\)"
                     r"|ERROR SUMMARY: (?P<all>\d+) errors?)")
NO_REPORT = re.compile(r"COMPUTE-SANITIZER|SUMMARY|process didn't terminate|Target application|Internal Sanitizer Error|LEAK")
KIND = re.compile(r"(Error|Warning|Info): |(Barrier|Invalid|Divergent|Uninitialized)\b")


def reports(lines):
    """The kernels that each report names, a set a report."""
    begun, found = False, []
    for line in lines:
        text = line[9:].strip() if line.startswith("=========") else None
        if text is None or not text or NO_REPORT.search(text):
            begun = False
            continue
        if KIND.match(text) and not begun:
            begun = True
            found.append(set())
        if begun:
            found[-1].update(KERNEL.findall(text))
    return found


def shown_all(match, count):
    if match["all"] is not None:
        return int(match["all"]) == count
    return int(match["shown"]) == count == int(match["errors"]) + int(match["warnings"])


def problems(text, found, planted):
    """Why this is a failure, a line each."""
    if "Internal Sanitizer Error" in text:
        yield "the sanitizer itself failed"
    ends = list(SUMMARY.finditer(text))
    if not ends:
        yield "no summary: it was stopped, or crashed"
    elif not shown_all(ends[-1], len(found)):
        yield f"{ends[-1][0]}, and {len(found)} reports are in the log"
    if not re.search(r"^\d+ passed, 0 failed$", text, re.M):
        yield "the checks did not all pass, or did not end"
    bad = collections.Counter(name for names in found for name in names if name.startswith(OURS) and name != PLANTED)
    for name, count in bad.items():
        yield f"{count} reports in {name}"
    strange = sum(not names or any(not name.startswith((OURS, *THEIRS)) for name in names) for names in found)
    if strange:
        yield f"{strange} reports in no kernel that is known to be ours or cuBLAS's"
    if planted and not any(names == {PLANTED} for names in found):
        yield "the planted race was not seen"


def main():
    with open(sys.argv[1], errors="replace") as file:
        text = file.read()
    planted = "--planted" in sys.argv
    found = reports(text.splitlines())
    theirs = collections.Counter(name for names in found for name in names if name.startswith(THEIRS))
    for name, count in theirs.most_common():
        print(f"      cuBLAS's own: {count} reports in {name}")
    why = list(problems(text, found, planted))
    for line in why:
        print(f"FAIL  {line}")
    mine = sum(any(name.startswith(OURS) for name in names) for names in found)
    passed = re.search(r"^\d+ passed, \d+ failed$", text, re.M)
    seen = f", {sum(names == {PLANTED} for names in found)} of them planted" if planted else ""
    print(f"{passed[0] if passed else 'checks not ended'}; {mine} reports in our kernels{seen}, "
          f"{sum(not any(n.startswith(OURS) for n in names) for names in found)} in others")
    return bool(why)


if __name__ == "__main__":
    sys.exit(main())
