#!/usr/bin/env python3
"""guards.py [--fix] - holds every header's guard against its path, from which it follows; --fix writes them:

      shim/core/log.h, analyzer/read/sql.h     VS_CORE_LOG_H, VS_READ_SQL_H: as they are included
      kernels/cuda/args.h                      LCE_CUDA_ARGS_H
      tests/fuzz/kit.h                         TESTS_FUZZ_KIT_H, like everything elsewhere

The two headers that are installed have the name that users know.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED = {"shim/vramscope.h": "VRAMSCOPE_H", "kernels/linear_cross_entropy.h": "LINEAR_CROSS_ENTROPY_H"}
PREFIXES = {"shim": "VS", "analyzer": "VS", "kernels": "LCE"}
GUARD = re.compile(r"^#ifndef (\w+)\n#define (\w+)$", re.M)
SKIPPED = ("build", "shared")  # no sources of ours


def headers():
    for folder, inside, files in os.walk(TOP):
        here = os.path.relpath(folder, TOP)
        inside[:] = [d for d in inside if not d.startswith(".") and not (here == "." and d in SKIPPED)]
        for file in files:
            path = os.path.normpath(os.path.join(here, file))
            if path.endswith((".h", ".cuh")):
                yield path


def wanted(path):
    first, rest = path.split("/", 1)
    name = f"{PREFIXES[first]}/{rest}" if first in PREFIXES else path
    return INSTALLED.get(path, re.sub(r"\W", "_", name).upper())


def main():
    wrong, owners = [], {}
    for path in sorted(headers()):
        with open(os.path.join(TOP, path)) as f:
            text = f.read()
        want, found = wanted(path), GUARD.search(text)
        if want in owners:
            wrong.append(f"{path}: {owners[want]} has the same guard, {want}")
        owners[want] = path
        if found is None:
            wrong.append(f"{path}: has no guard; it should be {want}")
        elif found[1] != want or found[2] != want:
            if "--fix" in sys.argv[1:]:
                with open(os.path.join(TOP, path), "w") as f:
                    f.write(re.sub(rf"\b{found[1]}\b", want, text))
            else:
                wrong.append(f"{path}: its guard is {found[1]} and should be {want}: run scripts/guards.py --fix")
    print("\n".join(wrong) if wrong else f"{len(owners)} headers have the guards that their paths say")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
