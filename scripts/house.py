#!/usr/bin/env python3
"""house.py COMMIT... - files and lines of each folder with sources, at each of the commits; how long functions and files are.

For docs/measurements/house.md.  Counted are C, CUDA, assembly, headers and lists (.def), comments and empty lines included.
"""
import collections
import os
import re
import statistics
import subprocess
import sys

SOURCES = (".c", ".h", ".S", ".def", ".cu", ".cuh")
TOPS = ("shim", "analyzer", "kernels", "tests")
FUNCTION = re.compile(r"^\{\n(.*?)^\}\n", re.M | re.S)  # by the repository's style only a function has a brace of its own in column 0


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def tree(commit):
    """path -> text"""
    paths = [p for p in git("ls-tree", "-r", "--name-only", commit).splitlines() if p.endswith(SOURCES) and p.split("/")[0] in TOPS]
    return {p: git("show", f"{commit}:{p}") for p in paths}


def folder(path):
    here = os.path.dirname(path)
    return "/".join(here.split("/")[:2]) if here.startswith("tests/") else here


def functions(files):
    lengths = sorted(m[1].count("\n") for p, text in files.items() if p.endswith(".c") and not p.startswith("tests")
                     for m in FUNCTION.finditer(text))
    return lengths


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    commits = sys.argv[1:]
    trees = [tree(c) for c in commits]
    sums = []
    for files in trees:
        by = collections.defaultdict(lambda: [0, 0])
        for path, text in files.items():
            for name in (folder(path), path.split("/")[0] + " in all"):
                by[name][0] += 1
                by[name][1] += text.count("\n")
        sums.append(by)
    print("| folder | " + " | ".join(f"files, {c} | lines, {c}" for c in commits) + " |")
    print("| --- |" + " ---: | ---: |" * len(commits))
    for name in sorted(set().union(*sums), key=lambda n: (TOPS.index(re.split("[ /]", n)[0]), n.endswith(" in all"), n)):
        cells = [f"{by[name][0]} | {by[name][1]:,}" if name in by else "- | -" for by in sums]
        print(f"| {'**' + name + '**' if name.endswith(' in all') else name} | " + " | ".join(cells) + " |")
    print("\n| shim, analyzer, kernels | " + " | ".join(commits) + " |\n| --- |" + " ---: |" * len(commits))
    lengths = [functions(files) for files in trees]
    sizes = [sorted(t.count("\n") for p, t in files.items() if not p.startswith("tests")) for files in trees]
    rows = [("functions", [f"{len(x):,}" for x in lengths]),
            ("lines of a function: median, nine of ten", [f"{statistics.median(x):.0f}, {x[len(x) * 9 // 10]}" for x in lengths]),
            ("lines of a file: median, largest", [f"{statistics.median(x):.0f}, {x[-1]}" for x in sizes])]
    for what, cells in rows:
        print(f"| {what} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
