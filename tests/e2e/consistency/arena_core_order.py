#!/usr/bin/env python3
"""No file of the arena's core can be reached from itself by calls, as nm reads them from the objects of the build."""
import collections
import os
import pathlib
import shutil
import subprocess
import sys

objects = sorted(pathlib.Path(os.environ["BUILD"], "shim/CMakeFiles/room_arena_core.dir/arena/core").glob("*.o"))
if not shutil.which("nm") or not objects:
    print("skipped: no nm, or no objects of the arena's core in the build directory")
    sys.exit(77)

defines, asks = {}, {}
for path in objects:
    file = path.name[: -len(".o")]
    asks[file] = set()
    for line in subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout.splitlines():
        kind, name = line.split()[-2:]
        if kind == "U":
            asks[file].add(name)
        elif kind.isupper():
            defines[name] = file

calls = collections.defaultdict(dict)
for file, names in asks.items():
    for name in names:
        if defines.get(name, file) != file:
            calls[file].setdefault(defines[name], []).append(name)


def way(start, end):
    """The files from START to END, by calls; None where there is no way."""
    came, todo = {start: None}, [start]
    while todo:
        file = todo.pop(0)
        for called in calls[file]:
            if called == end:
                path = [end, file]
                while came[path[-1]]:
                    path.append(came[path[-1]])
                return path[::-1]
            if called not in came:
                came[called] = file
                todo.append(called)
    return None


if sum(len(called) for called in calls.values()) < 20:
    sys.exit("FAIL: hardly any calls were found: this test looks at the wrong place")
bad = 0
for file in sorted(asks):
    circle = way(file, file)
    if circle and file == min(circle):
        bad = 1
        print("a circle:", " -> ".join(circle))
        for caller, called in zip(circle, circle[1:]):
            print(f"    {caller} calls {', '.join(sorted(calls[caller][called]))} of {called}")
print(f"{len(asks)} files" + ("" if bad else ", and no circle"))
sys.exit(bad)
